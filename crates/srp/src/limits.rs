//! Limits of a target, its channels and its requests, and of an initiator. The SCSI device has its own: `scsi::limits`.

use std::time::Duration;

/// RDMA CM port of SRP, as Linux's documentation has it; no registry names one.
pub const SRP_PORT: u16 = 5555;

/// Requests that an initiator may have in progress on one channel (the request limit of its login).
/// Linux's initiator uses 63 of them unless `queue_size` says otherwise.
pub const REQUEST_LIMIT: u16 = 128;
/// Information units of an initiator on one channel that are no requests: the response to the one SRP_CRED_REQ in progress.
pub const RESPONSES_MAX: u16 = 1;
/// Longest information unit of an initiator in bytes: 8 KiB of immediate data, or 255 descriptors, with some room.
pub const INITIATOR_IU_MAX: u32 = 8704;
/// Shortest information unit that an initiator may ask for in bytes (SRP §6.2: 64).
pub const INITIATOR_IU_MIN: u32 = 64;
/// Longest information unit of the target in bytes: a response with sense data.
pub const TARGET_IU_MAX: u32 = 128;
/// Channels of one initiator at a time. Linux's initiator asks for one for each processor.
pub const CHANNELS_PER_INITIATOR_MAX: usize = 64;
/// Descriptors of one data buffer. Linux's initiator sends at most 2048 (`sg_tablesize`).
pub const DESCRIPTORS_MAX: usize = 2048;

/// Commands of an initiator in progress; a task management function may come on top. With the longest transfer they lend
/// 64 MiB.
pub const QUEUE_SIZE_MAX: u16 = 64;
/// Receives that an initiator posts beyond its commands: for a task management function, SRP_CRED_REQ, SRP_AER_REQ and
/// SRP_T_LOGOUT.
pub const FURTHER_RECEIVES: u16 = 4;
/// Longest information unit of a target that an initiator takes, in bytes: a response with 252 bytes of sense data has 292.
pub const TARGET_IU_TAKEN_MAX: u32 = 512;
/// Longest information unit that an initiator sends, in bytes: a command with one direct descriptor.
pub const INITIATOR_IU_SENT: u32 = 64;
/// Most bytes that one command of an initiator transfers.
pub const INITIATOR_TRANSFER_MAX: u32 = 1 << 20;
/// Most bytes that one WRITE SAME of an initiator sets, if the disk names no limit.
pub const INITIATOR_SAME_MAX: u64 = 32 << 20;
/// Logical units that an initiator uses, and those that one REPORT LUNS returns.
pub const INITIATOR_UNITS_MAX: u32 = 256;
/// Longest page of INQUIRY and MODE SENSE that an initiator reads, in bytes.
pub const PAGE_BYTES_MAX: u32 = 1024;
/// Times that a command is sent again after a loss of the connection, a unit attention or an abort. Linux's disks do as many.
pub const RETRIES_MAX: u32 = 5;
/// Times that a command is sent again while the target or the disk is busy.
pub const BUSY_RETRIES_MAX: u32 = 300;
/// Time before a command is sent again while the target or the disk is busy.
pub const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time for a command, and for a step of the setup, unless the configuration says otherwise. Linux's disks have as long.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a task management function. Linux's initiator waits as long.
pub const TASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two looks for commands that take too long.
pub const TIMEOUT_CHECKS_EVERY: Duration = Duration::from_millis(250);
/// Time for commands in progress before a logout.
pub const LOGOUT_WITHIN: Duration = Duration::from_secs(5);
/// Failed attempts to log in again after which the time between them grows, and the most that it grows by. Linux's
/// initiator has the same numbers.
pub const QUICK_RECONNECTS: u32 = 10;
/// Most reconnect delays between two attempts.
pub const RECONNECT_DELAYS_MAX: u32 = 100;
