//! The limits of the connection manager: what one process, one user or one hostile peer can make it keep.

/// Ids of one process; root may have as many. Enough for ten thousand connections and their listener.
pub const IDS_PER_CLIENT_MAX: usize = 32 << 10;

/// Ids of one user.
pub const IDS_PER_USER_MAX: usize = 64 << 10;

/// Ids of all.
pub const IDS_MAX: usize = 256 << 10;

/// Event channels of one process.
pub const CHANNELS_PER_CLIENT_MAX: usize = 16 << 10;

/// Requests for connections that may wait on one listener. Linux's default (`rdma_ucm.max_backlog`) is 1024, past which it
/// is silent and waits for repetitions; we reject, so that there is room for a burst of ten thousand.
pub const BACKLOG_MAX: u32 = 16 << 10;

/// Events that may wait on one channel before a new request for a connection is rejected. Other events are bounded by
/// the ids and groups of the channel: each has a life of a few states, and tells each of them once.
pub const EVENTS_PER_CHANNEL_MAX: usize = 4 * IDS_PER_CLIENT_MAX;

/// Events that a program wrote to an id and that wait before it can write no more (`rdma_write_cm_event`): as many as
/// programs use, and few enough that all ids of a user keep within memory.
pub const WRITTEN_EVENTS_PER_ID_MAX: usize = 64;

/// Groups that one id may have joined.
pub const GROUPS_PER_ID_MAX: usize = 64;

/// Longest private data that a program can hand over, a length of one byte.
pub const PRIVATE_DATA_BYTES_MAX: usize = 255;

/// Questions to the host that may be under way; one more is answered `EAGAIN`.
pub const QUESTIONS_MAX: usize = IDS_MAX;

/// Ids that one page of a list holds.
pub const IDS_PER_PAGE: usize = 64;

/// Devices.
pub const DEVICES_MAX: usize = 1024;

/// GIDs of one device.
pub const GIDS_PER_DEVICE_MAX: usize = 256;

/// Longest name of a process kept.
pub const COMM_BYTES_MAX: usize = 64;

/// Paths that `RDMA_OPTION_IB_PATH` may give.
pub const PATHS_MAX: usize = 6;
