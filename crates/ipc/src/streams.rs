//! Streams of iWARP queue pairs: the daemon connects and negotiates them, and the process that has the queue pair carries
//! its data.

use serde::{Deserialize, Serialize};
use weft_iwarp::StreamParams;

/// A negotiated stream for a queue pair of the receiving process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StreamGrant {
    /// Number of the queue pair.
    pub qp_num: u32,
    /// Agreement of both ends.
    pub params: StreamParams,
}
