//! Limits of the model. Beyond them objects and requests pass unchecked, and are counted.

/// Live objects of one kind.
pub const OBJECTS_MAX: usize = 1 << 18;
/// Destroyed objects that are remembered.
pub const TOMBSTONES_MAX: usize = 4096;
/// Requests of one queue.
pub const QUEUE_MAX: usize = 1 << 17;
/// Completed receives, READs and atomics whose buffers are remembered.
pub const SINKS_MAX: usize = 4096;
/// Breaches that wait to be written.
pub const FINDINGS_MAX: usize = 256;
/// Entries of a report's history.
pub const HISTORY_MAX: usize = 4;
/// Leaks of one kind that are reported one by one.
pub const LEAKS_MAX: usize = 8;
/// Bytes that are compared at completion, unless configured.
pub const SNAPSHOT_BYTES_MAX: u64 = 64 << 10;
