//! Selection and loading of the `libibverbs` that the tools use.

use std::fmt;

use anyhow::{Context as _, Result};
use weft_abi_types::api::Verbs;

use crate::rdma_dir;

/// The origin of a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// The library built together with this command.
    #[default]
    Ours,
    /// The library that the loader finds: the machine's own, for real adapters.
    System,
}

/// A loaded library. It is never unloaded, hence freely copied.
#[derive(Clone, Copy)]
pub struct Library {
    pub(super) verbs: &'static Verbs,
}

impl Library {
    /// Path of one of the libraries, or the name by which the loader finds it.
    ///
    /// # Errors
    /// Weft's libraries cannot be found.
    pub(crate) fn path(which: Which, soname: &str) -> Result<String> {
        match which {
            Which::System => Ok(soname.to_owned()),
            Which::Ours => {
                let dir = rdma_dir::find()?;
                rdma_dir::announce_daemon();
                Ok(dir.join(soname).to_string_lossy().into_owned())
            }
        }
    }

    /// Loads a library.
    ///
    /// # Errors
    /// The library is missing, or is no libibverbs.
    pub fn load(which: Which) -> Result<Library> {
        let path = Library::path(which, "libibverbs.so.1")?;
        let verbs = Verbs::load(&path).context(match which {
            Which::Ours => "without it no device of Weft can be used; rebuild with `cargo build`",
            Which::System => "install the package libibverbs1, or leave --system out",
        })?;
        Ok(Library { verbs: Box::leak(Box::new(verbs)) })
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}
