//! Limits of the connection manager: the memory that one process, one user or one hostile peer can use.

/// Ids of one process; root may have as many. Enough for ten thousand connections and their listener.
pub const IDS_PER_CLIENT_MAX: usize = 32 << 10;

/// Ids of one user.
pub const IDS_PER_USER_MAX: usize = 64 << 10;

/// Ids of all users.
pub const IDS_MAX: usize = 256 << 10;

/// Event channels of one process.
pub const CHANNELS_PER_CLIENT_MAX: usize = 16 << 10;

/// Requests for connections that may wait on one listener. Linux's default (`rdma_ucm.max_backlog`) is 1024, beyond
/// which Linux drops requests and waits for repeats; Weft rejects them, so the limit leaves room for a burst of ten
/// thousand.
pub const BACKLOG_MAX: u32 = 16 << 10;

/// Events that may wait on one channel before a new request for a connection is rejected. Other events are bounded by
/// the ids and groups of the channel: each passes through a few states, and reports each of them once.
pub const EVENTS_PER_CHANNEL_MAX: usize = 4 * IDS_PER_CLIENT_MAX;

/// Events that a program may have written to an id and not yet read (`rdma_write_cm_event`): as many as programs use,
/// and few enough to bound the memory of all ids of a user.
pub const WRITTEN_EVENTS_PER_ID_MAX: usize = 64;

/// Groups that one id may have joined.
pub const GROUPS_PER_ID_MAX: usize = 64;

/// Longest private data that a program can pass, limited by a length of one byte.
pub const PRIVATE_DATA_BYTES_MAX: usize = 255;

/// Pending requests to the host; one more fails with `EAGAIN`.
pub const QUESTIONS_MAX: usize = IDS_MAX;

/// Ids on one page of a list.
pub const IDS_PER_PAGE: usize = 64;

/// Devices.
pub const DEVICES_MAX: usize = 1024;

/// GIDs of one device.
pub const GIDS_PER_DEVICE_MAX: usize = 256;

/// Longest process name kept.
pub const COMM_BYTES_MAX: usize = 64;

/// Paths that `RDMA_OPTION_IB_PATH` may give.
pub const PATHS_MAX: usize = 6;
