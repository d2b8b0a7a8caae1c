//! The kernel modules of a view: their files are built with the view, mounted over /proc/modules, /sys/module and
//! /lib/modules, and kept up to date while programs see them.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use weft_ipc::{Client, ConnectOptions};
use weft_sys::namespace;
use weft_sys::write_watch::WriteWatch;

use super::union;
use crate::commands::kmod;
use crate::commands::modules::{self, Module, ModuleFiles};

/// An address that the kernel does not show.
const HIDDEN: &str = "0x0000000000000000";

const PROC_MODULES: &str = "/proc/modules";
const SYS_MODULE: &str = "/sys/module";
const LIB_MODULES: &str = "/lib/modules";

/// The loaded modules of a view, and where they may be shown.
#[derive(Clone, Debug)]
pub struct ShownModules {
    /// The modules.
    pub loaded: Vec<&'static Module>,
    /// Whether unions may cover directories of the system. They take no new files, and root outside a fabric's host may
    /// install some.
    pub may_cover: bool,
}

/// Builds and mounts the files. Returns messages about the failed parts.
pub fn show(files: &ModuleFiles, shown: &ShownModules) -> Vec<String> {
    match build(files, &shown.loaded) {
        Ok(()) => mount(files, shown),
        Err(error) => vec![format!("the files of kernel modules cannot be built: {error}")],
    }
}

/// Builds the files.
pub fn build(files: &ModuleFiles, loaded: &[&Module]) -> io::Result<()> {
    // A surrounding view has merged its own modules into what the machine shows.
    let outer = ModuleFiles::own().map(|files| files.machine());
    let machine = fs::read_to_string(outer.as_deref().unwrap_or(Path::new(PROC_MODULES))).unwrap_or_default();
    fs::create_dir_all(files.lib())?;
    let machine = without_addresses(&machine);
    fs::write(files.machine(), &machine)?;
    fs::write(files.list(), modules::merged(&modules::list(loaded), &machine))?;
    fs::write(files.changed(), "")?;
    modules::write_directories(&files.directories(), loaded)
}

/// Replaces the modules' addresses, which the kernel shows to root alone, as the files are for all users.
fn without_addresses(list: &str) -> String {
    let line = |line: &str| {
        line.split(' ').map(|word| if word.starts_with("0x") { HIDDEN } else { word }).collect::<Vec<_>>().join(" ")
            + "\n"
    };
    list.lines().map(line).collect()
}

/// Lets the program find Weft's commands of kmod's names before the system's.
pub fn prepend_commands(files: &ModuleFiles, command: &mut Command) -> io::Result<()> {
    let ours = env::current_exe()?;
    fs::create_dir_all(files.commands())?;
    kmod::COMMANDS.iter().try_for_each(|name| symlink(&ours, files.commands().join(name)))?;
    let given = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = given.map(OsStr::to_owned).or_else(|| env::var_os("PATH")).unwrap_or_default();
    let all = env::join_paths([files.commands()].into_iter().chain(env::split_paths(&path)));
    command.env("PATH", all.map_err(io::Error::other)?);
    Ok(())
}

/// Mounts the files where programs look.
fn mount(files: &ModuleFiles, shown: &ShownModules) -> Vec<String> {
    let list = || match Path::new(PROC_MODULES).exists() {
        true => namespace::bind(&files.list(), Path::new(PROC_MODULES)),
        false => Ok(()),
    };
    let mut failures = Vec::new();
    for (place, mounted) in [
        (PROC_MODULES, list()),
        (SYS_MODULE, mount_directories(files, shown.may_cover)),
        (LIB_MODULES, mount_tree(files, shown.may_cover)),
    ] {
        if let Err(error) = mounted {
            failures.push(format!("{place} does not show Weft's modules: {error}"));
        }
    }
    failures
}

fn mount_directories(files: &ModuleFiles, may_cover: bool) -> io::Result<()> {
    let target = Path::new(SYS_MODULE);
    match may_cover {
        true => namespace::mount_overlay(&files.directories(), target, target),
        false => union::cover_writable(&files.directories(), target),
    }
}

/// Shows the tree of modules at /lib/modules/RELEASE.
fn mount_tree(files: &ModuleFiles, may_cover: bool) -> io::Result<()> {
    let (tree, all) = (files.tree(), Path::new(LIB_MODULES));
    let machine = all.join(modules::release());
    if machine.join(modules::RELEASE_MARK).exists() {
        // A surrounding view shows it.
        return Ok(());
    }
    if may_cover && machine.join("modules.dep").exists() {
        fs::create_dir_all(&tree)?;
        return match modules::merge_dependencies(&tree, &machine)? {
            true => namespace::mount_overlay(&tree, &machine, &machine),
            false => Ok(()),
        };
    }
    modules::write_tree(&tree)?;
    if !may_cover {
        return Err(io::Error::other("the directory stays writable for root"));
    }
    if all.is_dir() {
        return namespace::mount_overlay(&files.lib().join("modules"), all, all);
    }
    union::cover(&files.lib(), &Path::new("/lib").canonicalize()?)
}

/// The modules of a view that programs see.
pub struct KeptModules {
    files: ModuleFiles,
    machine: String,
    loaded: BTreeSet<&'static str>,
    /// Whether the view is mounted; otherwise it is a directory.
    mounted: bool,
    /// As in [`ShownModules`].
    may_cover: bool,
}

impl KeptModules {
    /// Keeps these files, which show these modules.
    pub fn new(files: ModuleFiles, shown: &ShownModules, mounted: bool) -> KeptModules {
        let machine = fs::read_to_string(files.machine()).unwrap_or_default();
        let loaded = shown.loaded.iter().map(|module| module.name).collect();
        KeptModules { files, machine, loaded, mounted, may_cover: shown.may_cover }
    }

    /// Watches for `modprobe` from now on.
    pub fn register(&self, watch: &WriteWatch) {
        // Without the watch, modules change with links and devices alone.
        let _ = watch.add(&self.files.changed());
    }

    /// Handles `modprobe`'s sign, if there is one.
    pub fn handle_change(&mut self, options: &ConnectOptions) {
        let sign = self.files.changed();
        if fs::metadata(&sign).is_ok_and(|found| found.len() > 0) {
            let _ = fs::write(&sign, "");
            let _ = self.refresh(options);
        }
    }

    /// Asks the daemon for the modules and shows them. Without a daemon, all stays as it is.
    pub fn refresh(&mut self, options: &ConnectOptions) -> io::Result<()> {
        let query = || {
            let mut client = Client::connect(options).ok()?;
            let devices = client.list_devices().ok()?;
            modules::loaded_with(&mut client, &devices).ok()
        };
        let Some(loaded) = query() else { return Ok(()) };
        let names = loaded.iter().map(|module| module.name).collect();
        if names == self.loaded {
            return Ok(());
        }
        self.loaded = names;
        // A union remembers the names that it has seen.
        if self.mounted {
            let _ = namespace::detach(Path::new(SYS_MODULE));
        }
        modules::write_directories(&self.files.directories(), &loaded)?;
        if self.mounted {
            mount_directories(&self.files, self.may_cover)?;
        }
        // Last, because `modprobe` waits for it.
        rewrite(&self.files.list(), &modules::merged(&modules::list(&loaded), &self.machine))
    }
}

/// Writes a file in place, since a mount shows this one.
fn rewrite(file: &Path, text: &str) -> io::Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
    fs::write(file, text)
}
