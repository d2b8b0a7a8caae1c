//! Limits of the service.

use std::time::Duration;

/// Programs' sockets that wait until the service accepts them.
pub const BACKLOG: i32 = 128;
/// Messages of one socket that are read in a turn, so that one program does not keep the others waiting.
pub const MESSAGES_PER_TURN: usize = 64;
/// RDMA READs in progress on one connection, in each direction: every adapter allows as many.
pub const READS_MAX: u8 = 4;
/// Batches of completions of one connection in a turn.
pub const POLLS_PER_TURN: usize = 8;
/// Time without programs and messages after which a service ends that was started on demand.
pub const IDLE: Duration = Duration::from_secs(60);
/// Time limit of one step of the connection manager, in milliseconds.
pub const STEP_MS: i32 = 2000;
