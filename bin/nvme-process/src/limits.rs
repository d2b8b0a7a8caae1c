//! Bounds on everything that a peer may ask for, besides those of `weft-nvme`.

use std::time::Duration;

/// Connections at a time, unless an option says otherwise: each is a queue, and has about half a mebibyte of receives.
pub const CONNECTIONS: usize = 128;
/// Highest number of connections that the option takes.
pub const CONNECTIONS_MAX: usize = 4096;
/// I/O queues of a controller, unless an option or a configuration says otherwise.
pub const IO_QUEUES: u16 = 16;
/// RDMA READs in progress on one connection.
pub const READS_IN_PROGRESS: u8 = 16;
/// Memory of one connection for data, in bytes. Later commands wait; one always fits.
pub const DATA_MEMORY_MAX: usize = 16 << 20;
/// Longest configuration file, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Time for a query of a discovery controller.
pub const DISCOVERS_WITHIN: Duration = Duration::from_secs(20);
/// Time between two looks whether a controller is ready.
pub const READY_POLLS_EVERY: Duration = Duration::from_millis(20);
/// Memory that commands of one controller lend to its target at a time, in bytes. Later commands wait; one always fits.
pub const LENT_MEMORY_MAX: usize = 64 << 20;
/// Data of `weft nvme read`, `write` and `compare`, in bytes.
pub const COMMAND_BYTES_MAX: u64 = 256 << 20;
