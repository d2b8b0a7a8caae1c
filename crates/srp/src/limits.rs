//! Limits of a target, its channels and its requests. The SCSI device has its own: `scsi::limits`.

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
