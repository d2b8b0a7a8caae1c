//! The findings of `weft run` from which it arranges the program's surroundings.

use std::path::Path;

use weft_ipc::DeviceInfo;

use super::args::RunArgs;
use super::built::Built;
use super::cpus::Cpus;
use super::following::Followed;
use super::live::Kept;
use super::modules::ShownModules;
use super::nodes::Manager;
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
    /// The machine's processors.
    pub cpus: &'a Cpus,
    /// Whether its devices have RoCE v1 GIDs.
    pub roce_v1: bool,
    /// Whether the user wants no warnings.
    pub is_quiet: bool,
    /// Whether the program is in the network of a fabric's host.
    pub has_network: bool,
    /// The kernel modules that it sees.
    pub modules: &'a ShownModules,
    /// The devices that it sees.
    pub devices: &'a [DeviceInfo],
}

impl Task<'_> {
    /// Returns whether the program runs as a host of a fabric.
    pub fn is_on_fabric(&self) -> bool {
        !self.manager.host.is_empty()
    }

    /// The view with what its keeper does. A host of a fabric keeps its nodes: its adapters can be renamed, but come and
    /// go only with the fabric.
    pub fn kept(&self, built: Built) -> Kept {
        let Built { sys, nodes, live, pipes, srp_logins } = built;
        let nodes = self.manager.host.is_empty().then_some(nodes);
        let followed = Followed { sys, nodes, cpus: self.cpus.clone(), roce_v1: self.roce_v1 };
        Kept {
            files: live,
            pipes,
            srp_logins,
            followed,
            host: self.manager.host.to_owned(),
            interfaces: None,
            modules: None,
            config: None,
        }
    }

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
