//! Limits of a SCSI device.

/// Most bytes that one command transfers (VPD page B0h: MAXIMUM TRANSFER LENGTH).
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Most descriptors of one UNMAP (VPD page B0h).
pub const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Most bytes that one UNMAP frees (VPD page B0h).
pub const UNMAP_BYTES_MAX: u64 = 1 << 30;
/// Most bytes that one WRITE SAME sets (VPD page B0h): where a file system cannot set ranges, they are written.
pub const WRITE_SAME_BYTES_MAX: u64 = 64 << 20;
/// Logical units of a device: as many have addresses of the simplest form.
pub const UNITS_MAX: usize = 256;
/// Longest parameter list that a command fetches, in bytes: UNMAP's.
pub const PARAMETERS_MAX: u32 = 8 + 16 * UNMAP_DESCRIPTORS_MAX;
