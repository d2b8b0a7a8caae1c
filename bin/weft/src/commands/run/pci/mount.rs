//! Mounts the functions of adapters beside the machine's own in /sys.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::super::union;

/// Directories below /sys that the view adds entries to, or makes.
const DEVICES: &str = "devices";
/// The functions by address.
pub const FUNCTIONS: &str = "bus/pci/devices";
/// The class with the buses by number, which is shown with the other classes.
pub const BUS_CLASS: &str = "pci_bus";

/// Shows the functions in the directory `built`, which stands for /sys, if there are any.
pub fn show(built: &Path) -> io::Result<()> {
    if !built.join(DEVICES).is_dir() {
        return Ok(());
    }
    show_in(built, Path::new("/sys"), DEVICES)?;
    show_in(built, Path::new("/sys"), FUNCTIONS)
}

/// Shows a directory of `built` in the same one of `sys`. On a machine without PCI, the nearest directory above it that
/// the machine has shows it.
fn show_in(built: &Path, sys: &Path, dir: &str) -> io::Result<()> {
    let known = Path::new(dir).ancestors().find(|dir| sys.join(dir).is_dir()).unwrap_or(Path::new(""));
    union::cover_live(&built.join(known), &sys.join(known), is_ours)
}

/// Adds the machine's buses to those in `built`, which stands for /sys/class, if there are any.
pub fn adopt_buses(built: &Path, classes: &Path) -> io::Result<()> {
    let (ours, machine) = (built.join(BUS_CLASS), classes.join(BUS_CLASS));
    match ours.is_dir() && machine.is_dir() {
        true => union::adopt(&ours, &machine, is_ours).map(drop),
        false => Ok(()),
    }
}

/// Whether an entry is that of a function or root of a surrounding view.
fn is_ours(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"fab0:") || name.starts_with(b"pcifab0:")
}
