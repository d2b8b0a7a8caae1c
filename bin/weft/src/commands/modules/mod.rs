//! The kernel modules that Weft stands in for: one table, and the files in which Linux describes modules. `weft run`
//! shows the files ([`super::run`]); `modprobe` and its kind ([`super::kmod`]) read and change them.
//!
//! A view has them below `/sys/class/infiniband_verbs/.modules`: the text of /proc/modules, the directories of
//! /sys/module, and the tree of /lib/modules. Mounts show each at its own place as well, where the machine allows it.

mod index;
mod listing;
mod object;
mod table;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

pub use listing::{list, merged, write_directories};
pub use table::{Module, find, loaded};
pub use tree::{RELEASE_MARK, info, merge_dependencies, write_tree};

use weft_ipc::{Client, DeviceInfo, RequestError};

use super::own_view;

/// The directory of a view's modules, below the directory of classes.
const DIRECTORY: &str = "infiniband_verbs/.modules";

/// The files of a view's modules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFiles(PathBuf);

impl ModuleFiles {
    /// The files of the view that has its classes in this directory.
    pub fn below(classes: &Path) -> ModuleFiles {
        ModuleFiles(classes.join(DIRECTORY))
    }

    /// The files of the view that this process has.
    pub fn own() -> Option<ModuleFiles> {
        own_view::directory().map(|classes| ModuleFiles::below(&classes)).filter(|files| files.list().exists())
    }

    /// The directory of all of them.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The text of /proc/modules.
    pub fn list(&self) -> PathBuf {
        self.0.join("list")
    }

    /// The machine's own text of /proc/modules.
    pub fn machine(&self) -> PathBuf {
        self.0.join("machine")
    }

    /// The directories of Weft's modules in /sys/module.
    pub fn directories(&self) -> PathBuf {
        self.0.join("sys")
    }

    /// A directory with nothing but `modules/RELEASE`, as /lib has it.
    pub fn lib(&self) -> PathBuf {
        self.0.join("lib")
    }

    /// The tree of a kernel's release.
    pub fn tree(&self) -> PathBuf {
        self.lib().join("modules").join(release())
    }

    /// A file that `modprobe` writes when it has changed the modules.
    pub fn changed(&self) -> PathBuf {
        self.0.join("changed")
    }

    /// The directory of Weft's commands, for programs that find none of the system's.
    pub fn commands(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// The system's `kmod`, where Weft's command covers it.
    pub fn original(&self) -> PathBuf {
        self.0.join("kmod")
    }

    /// Returns the line of /proc/modules about a module of Weft's; `None` if Weft has not loaded it. The machine may have
    /// loaded a module of that name nevertheless.
    pub fn line(&self, name: &str) -> Option<String> {
        self.directories().join(name).exists().then(|| line_of(&self.list(), name)).flatten()
    }

    /// Returns whether all files show a module of Weft's as loaded, or as not loaded.
    pub fn shows(&self, name: &str, loaded: bool) -> bool {
        match loaded {
            true => self.line(name).is_some(),
            false => self.line(name).is_none() && line_of(&self.list(), name) == line_of(&self.machine(), name),
        }
    }

    /// Returns whether a module belongs to the machine alone: a driver of adapters, loaded for real ones and not by Weft.
    pub fn is_machines(&self, module: &Module) -> bool {
        let is_loaded = || line_of(&self.machine(), module.name).is_some();
        module.drives_hardware() && !self.directories().join(module.name).exists() && is_loaded()
    }
}

/// Returns the line about a module in a text of /proc/modules.
fn line_of(list: &Path, name: &str) -> Option<String> {
    let list = fs::read_to_string(list).ok()?;
    list.lines().find(|line| line.split(' ').next() == Some(name)).map(str::to_owned)
}

/// Asks the daemon for the modules that are loaded with these devices.
pub fn loaded_with(client: &mut Client, devices: &[DeviceInfo]) -> Result<Vec<&'static Module>, RequestError> {
    let by_modprobe = client.modules()?;
    // The daemon refuses the question where there are no interfaces.
    let has_ipoib = client.ipoib_interfaces().is_ok_and(|all| !all.is_empty());
    Ok(loaded(devices, has_ipoib, &by_modprobe))
}

/// The running kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_the_machine_loaded_is_not_weft_s() {
        let dir = std::env::temp_dir().join(format!("weft-module-files-{}", std::process::id()));
        let files = ModuleFiles(dir.clone());
        let machine = "mlx5_core 1 1 mlx5_ib, Live 0x0\nib_umad 1 0 - Live 0x0\n";
        write_directories(&files.directories(), &[]).unwrap();
        fs::write(files.machine(), machine).unwrap();
        fs::write(files.list(), merged("", machine)).unwrap();
        let [driver, other, umad] = ["mlx5_core", "mlx4_core", "ib_umad"].map(|name| find(name).unwrap());
        assert!(files.is_machines(driver) && !files.is_machines(other));
        assert!(!files.is_machines(umad), "programs use Weft's, whatever the machine has loaded");
        assert_eq!((files.line("mlx5_core"), files.line("ib_umad")), (None, None));
        write_directories(&files.directories(), &[driver]).unwrap();
        fs::write(files.list(), merged(&list(&[driver]), machine)).unwrap();
        assert!(!files.is_machines(driver) && files.line("mlx5_core").is_some());
        assert!(files.shows("mlx5_core", true) && files.shows("ib_umad", false) && !files.shows("mlx5_core", false));
        fs::remove_dir_all(dir).unwrap();
    }
}
