//! Slots of a ring and their sizes.

use crate::umad::UMAD_HEAD_BYTES;

/// Bytes of a datagram that fits a slot, exactly. Models have small slots and rings, because every word costs time in
/// each of their runs.
pub const UMAD_RING_MAD_BYTES: usize = if cfg!(loom) { 8 } else { 256 };

/// Bytes of a slot.
pub const UMAD_SLOT_BYTES: usize = UMAD_HEAD_BYTES + UMAD_RING_MAD_BYTES;

/// Slots of a ring.
pub const UMAD_RING_SLOTS: u64 = if cfg!(loom) { 2 } else { 256 };

/// A head and its datagram.
pub type Slot = [u8; UMAD_SLOT_BYTES];
