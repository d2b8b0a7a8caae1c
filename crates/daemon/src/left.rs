//! Counters of ended processes: the daemon adds them to those of the living.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_ipc::stat::{DeviceCounters, ProcessCounters};

/// Counters of ended processes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Left {
    pub(crate) devices: BTreeMap<u32, DeviceCounters>,
    pub(crate) process: ProcessCounters,
}
