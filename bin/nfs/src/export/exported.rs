//! Exported directory, with what is kept between calls.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::Mode;

use super::identity::Users;
use super::open_files::OpenFiles;
use super::replies::Replies;
use super::tree::Tree;

/// Properties of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// Nothing may be changed.
    pub read_only: bool,
    /// The clients' root is the anonymous user.
    pub root_squash: bool,
}

/// Exported directory.
#[derive(Debug)]
pub struct Export {
    pub(super) tree: Tree,
    pub(super) users: Users,
    pub(super) read_only: bool,
    pub(super) open_files: OpenFiles,
    pub(super) replies: Replies,
    /// Number of this run: clients send unstable data again when it changes.
    pub(super) verifier: u64,
}

impl Export {
    /// Opens a directory for export.
    ///
    /// # Errors
    /// It cannot be opened, or the system lacks a call that the server needs.
    pub fn open(path: &Path, options: ExportOptions) -> Result<Export> {
        std::fs::metadata("/proc/self/fd").context("/proc/self/fd: the server needs a mounted /proc")?;
        // Clients apply their own masks.
        rustix::process::umask(Mode::empty());
        Ok(Export {
            tree: Tree::open(path)?,
            users: Users::of_this_process(options.root_squash),
            read_only: options.read_only,
            open_files: OpenFiles::default(),
            replies: Replies::default(),
            verifier: weft_sys::random::u64(),
        })
    }
}
