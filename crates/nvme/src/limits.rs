//! Limits of a target, its controllers and its queues.

use std::time::Duration;

/// RDMA CM and TCP port of NVMe over RDMA (RDMA Transport 1.0 §7.4).
pub const NVME_RDMA_PORT: u16 = 4420;

/// Entries of a queue: an admin queue has at least 32 (NVMe-oF 1.1 §2.2); Linux's host asks for 128 on I/O queues.
pub const QUEUE_ENTRIES_MAX: u16 = 128;
/// Fewest entries of a queue (NVM Express 1.4 §4.1.3).
pub const QUEUE_ENTRIES_MIN: u16 = 2;
/// I/O queues of a controller. Linux's host asks for one for each processor.
pub const IO_QUEUES_MAX: u16 = 64;
/// Controllers of a target at a time.
pub const CONTROLLERS_MAX: usize = 256;
/// Highest controller identifier that the dynamic controller model hands out (NVMe-oF 1.1 §4.2).
pub const CONTROLLER_ID_MAX: u16 = 0xffef;
/// Highest namespace identifier: as many fit into one active namespace list.
pub const NAMESPACE_ID_MAX: u32 = 1024;

/// Data in a capsule, in bytes, unless the configuration says otherwise. Linux's target takes a page, too.
pub const IN_CAPSULE_BYTES: u32 = 4096;
/// Most data in a capsule that a configuration may ask for, in bytes.
pub const IN_CAPSULE_BYTES_MAX: u32 = 16 << 10;
/// Maximum data transfer size as a power of two of 4 KiB pages (Identify's MDTS).
pub const TRANSFER_SHIFT: u8 = 8;
/// Maximum data transfer size in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 4096 << TRANSFER_SHIFT;
/// Ranges of one Dataset Management command (a field of eight bits, 0's based).
pub const RANGES_MAX: usize = 256;

/// Asynchronous Event Requests that one controller holds.
pub const ASYNC_EVENTS_MAX: usize = 4;
/// Granularity of the keep-alive timer (Identify's KAS).
pub const KEEP_ALIVE_GRANULARITY: Duration = Duration::from_secs(1);
/// Time without a command after which a discovery controller without a keep-alive timer ends. Linux's target waits as long.
pub const DISCOVERY_IDLE: Duration = Duration::from_secs(120);
/// Time for Connect on a new connection.
pub const CONNECTS_WITHIN: Duration = Duration::from_secs(30);

/// Records of a discovery log that a host reads: with their header they fill a mebibyte.
pub const DISCOVERY_RECORDS_MAX: usize = 1023;

/// Entries of a host's admin queue: the fewest that one has (NVMe-oF 1.1 §2.2), and as many as Linux's host asks for.
pub const ADMIN_QUEUE_ENTRIES: u16 = 32;
/// Namespaces that a host takes: one list of Identify, unless it is full and more may follow.
pub const NAMESPACES_OF_HOST_MAX: usize = 1023;
/// Blocks of one command (a field of 16 bits, 0's based).
pub const BLOCKS_MAX: u32 = 1 << 16;
/// Times that a command is sent again after a loss of the connection, or an error that may pass. Linux's host does as many.
pub const RETRIES_MAX: u32 = 5;
/// Time before a command is sent again after an error that may pass.
pub const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time between two looks whether a controller is ready, or shut down.
pub const READY_POLLS_EVERY: Duration = Duration::from_millis(20);
/// Time for a command, and for a step of the setup. A target that needs longer has lost it: the host connects again, as
/// Linux's does.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks for commands that take too long.
pub const TIMEOUT_CHECKS_EVERY: Duration = Duration::from_secs(1);
/// Time for commands in progress before a shutdown, and then for the controller to shut down.
pub const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// Longest NVMe Qualified Name in bytes (NVM Express 1.4 §7.9).
pub const NQN_LEN_MAX: usize = 223;
