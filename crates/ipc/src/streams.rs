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
    /// Number of the peer's queue pair, if the data goes through the rings and memory that the two processes share. The
    /// stream then tells only the end of the connection.
    pub peer_qp: Option<u32>,
}
