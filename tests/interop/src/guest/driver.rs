//! The RDMA driver of a guest: rdma_rxe from Debian's kernel package, or siw, which `cargo xtask vm siw` builds for it.

use super::kernel::Kernel;
use super::siw::{self, Build};
use anyhow::Result;
use std::path::PathBuf;

/// The driver, and with it the type of the guest's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// RoCE v2.
    Rxe,
    /// iWARP.
    Siw(Build),
}

impl Driver {
    /// Returns the type, as `rdma link add` names it.
    pub fn kind(self) -> &'static str {
        match self {
            Driver::Rxe => "rxe",
            Driver::Siw(_) => "siw",
        }
    }

    /// Returns the name of the guest's device.
    pub fn device(self) -> &'static str {
        match self {
            Driver::Rxe => "rxe0",
            Driver::Siw(_) => "siw0",
        }
    }

    /// Returns the modules that it needs and does not name as dependencies: rxe and siw ask the crypto API for their
    /// checksums by name (until those became libraries).
    pub(super) fn modules(self) -> [&'static str; 2] {
        match self {
            Driver::Rxe => ["crc32_generic", "rdma_rxe"],
            Driver::Siw(_) => ["crc32c_generic", "siw"],
        }
    }

    /// Returns the module that is not among the kernel's own, if any.
    pub(super) fn module_file(self, kernel: &Kernel) -> Result<Option<PathBuf>> {
        match self {
            Driver::Rxe => Ok(None),
            Driver::Siw(build) => siw::find(kernel, build).map(Some),
        }
    }
}
