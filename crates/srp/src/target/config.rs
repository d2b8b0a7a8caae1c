//! Configuration of a target.

use std::collections::BTreeSet;

use crate::scsi::{Identity, LogicalUnit};
use crate::wire::PortId;

/// Target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetConfig {
    /// Identifier of the target port, which logins name.
    pub port: PortId,
    /// Initiators that may log in; `None`: all.
    pub allowed: Option<BTreeSet<PortId>>,
    /// Names for INQUIRY.
    pub identity: Identity,
    /// Logical units 0, 1, 2, ...
    pub units: Vec<LogicalUnit>,
}
