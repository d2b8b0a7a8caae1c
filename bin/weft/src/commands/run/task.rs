//! The findings of `weft run` from which it arranges the program's surroundings.

use std::path::Path;

use super::args::RunArgs;
use super::mounts::Manager;
use super::program::Program;
use super::view::View;

/// The program to run, and what it is to see.
pub struct Task<'a> {
    /// The user's options.
    pub args: &'a RunArgs,
    /// The directory of Weft's libraries.
    pub dir: &'a Path,
    /// The program, if it is an ELF file.
    pub program: Option<&'a Program>,
    /// The devices as the program is to see them.
    pub view: &'a View,
    /// For whom.
    pub manager: Manager<'a>,
    /// Whether the user wants no warnings.
    pub is_quiet: bool,
}

impl Task<'_> {
    /// Prints a line about the setup, if the user asked for them.
    pub fn say(&self, text: &str) {
        say(self.args, text);
    }
}

/// As [`Task::say`].
pub fn say(args: &RunArgs, text: &str) {
    if args.verbose {
        crate::errln!("weft run: {text}");
    }
}
