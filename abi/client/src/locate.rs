//! The origin of the libraries.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// The origin of a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// The library built together with this command.
    #[default]
    Ours,
    /// The library that the loader finds: the machine's own, for real adapters.
    System,
}

/// Finds the directory of Weft's libraries.
type Locator = fn() -> Result<PathBuf>;

static LOCATOR: OnceLock<Locator> = OnceLock::new();

/// Sets the function that finds the directory of Weft's libraries. The first call counts.
pub fn locate_by(locator: Locator) {
    LOCATOR.get_or_init(|| locator);
}

impl Which {
    /// Path of one of the libraries, or the name by which the loader finds it.
    ///
    /// # Errors
    /// Weft's libraries cannot be found.
    pub(crate) fn path(self, soname: &str) -> Result<String> {
        match self {
            Which::System => Ok(soname.to_owned()),
            Which::Ours => {
                let locator = LOCATOR.get().context("the program did not say where Weft's libraries are")?;
                Ok(locator()?.join(soname).to_string_lossy().into_owned())
            }
        }
    }
}
