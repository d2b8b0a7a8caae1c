//! Parts that the commands and tools of `weft` share.
//!
//! - [`Tool`] is an entry in a table of tools, [`getopt`] parses a tool's options;
//! - [`output`] prints, [`errno`] has the texts of errors, [`named_file`] reads files;
//! - [`fabric`] is a session with the daemon about the running fabric, [`topology_source`] a fabric's description;
//! - [`queue_pair`] has the names of a queue pair's attributes;
//! - [`spin`] is for loops that poll.

pub mod announce;
pub mod errno;
pub mod fabric;
pub mod getopt;
pub mod named_file;
pub mod output;
pub mod queue_pair;
pub mod spin;
pub mod topology_source;

use std::ffi::OsString;
use std::process::ExitCode;

/// A tool, started as `weft NAME …` or through a link called NAME.
#[derive(Clone, Copy)]
pub struct Tool {
    /// Its command name.
    pub name: &'static str,
    /// Its one-line description.
    pub about: &'static str,
    /// Runs it with its arguments.
    pub run: fn(&[OsString]) -> ExitCode,
}
