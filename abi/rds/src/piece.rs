//! Memory of a program.

use std::ffi::c_void;

/// Piece of a program's data.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address of the bytes.
    pub address: *const c_void,
    /// Number of bytes.
    pub length: usize,
}
