//! `weft sm --create-config FILE`: a commented opensm.conf with every option, for this manager and for OpenSM alike.

use std::path::Path;

use anyhow::{Context, Result};

use super::args::RunArgs;
use super::files::Files;
use crate::output;

/// Writes the options that are in force to a file; `-` is standard output.
///
/// # Errors
/// The configuration cannot be read, or the file not written.
pub fn run(args: &RunArgs, path: &Path) -> Result<()> {
    let files = Files::load(args)?;
    for remark in files.remarks() {
        crate::errln!("weft sm: {remark}");
    }
    if path == Path::new("-") {
        output::print(&files.shown());
        return Ok(());
    }
    std::fs::write(path, files.shown()).with_context(|| format!("cannot write {}", path.display()))
}
