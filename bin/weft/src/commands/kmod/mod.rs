//! Stand-in for kmod's commands under `weft run`: `modprobe`, `rmmod` and `insmod` of modules that Weft stands in for
//! load and remove them in the daemon's list. For everything else it runs the system's kmod, which reads the view's
//! files. Where no kmod is installed, or the kernel has no /proc/modules, it prints the files itself.

mod modprobe;
mod original;
mod show;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use super::modules::ModuleFiles;
pub use modprobe::{LoadError, load};
use original::pass;

/// The commands that kmod has under names of their own.
pub const COMMANDS: [&str; 6] = ["lsmod", "modinfo", "modprobe", "rmmod", "insmod", "depmod"];

/// Returns whether kmod, or one of its commands, has this name.
pub fn is_name(name: &str) -> bool {
    name == "kmod" || COMMANDS.contains(&name)
}

/// Runs the command of this name.
pub fn run(name: &str, args: &[OsString]) -> ExitCode {
    let Some(files) = ModuleFiles::own() else { return pass(None, name, args) };
    let ours = match name {
        "lsmod" => show::lsmod(&files),
        "modinfo" => show::modinfo(&files, args),
        "modprobe" | "rmmod" | "insmod" => modprobe::run(&files, name, args),
        _ => None,
    };
    ours.unwrap_or_else(|| pass(Some(&files), name, args))
}
