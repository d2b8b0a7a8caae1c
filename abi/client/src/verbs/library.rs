//! Loading of the `libibverbs` that the tools use.

use std::fmt;

use anyhow::{Context as _, Result};
use weft_abi_types::api::Verbs;

use crate::Which;

/// A loaded library. It is never unloaded, hence freely copied.
#[derive(Clone, Copy)]
pub struct Library {
    pub(super) verbs: &'static Verbs,
}

impl Library {
    /// Loads a library.
    ///
    /// # Errors
    /// The library is missing, or is no libibverbs.
    pub fn load(which: Which) -> Result<Library> {
        let path = which.path("libibverbs.so.1")?;
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
