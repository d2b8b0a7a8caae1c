//! Mounts libraries, sysfs and device nodes in a private mount namespace.
//!
//! The view is built in a tmpfs that temporarily covers some directory, then bound or stacked to where programs look,
//! and unmounted: bound files stay, and nothing is left on disk.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use weft_sys::namespace::Entered;
use weft_sys::{namespace, node};

use super::built::Built;
use super::configfs;
use super::libraries::Replacement;
use super::modules::{self, ShownModules};
use super::node_rules;
use super::nodes::{Manager, Nodes};
use super::pci;
use super::sys_files::{CLASSES, Changes, SysFiles};
use super::view::View;
use crate::commands::modules::ModuleFiles;

/// Memory limit of one view.
const STAGING_BYTES_MAX: usize = 64 << 20;

/// Directories that the tmpfs may temporarily cover; at least one of them exists on any system.
const STAGING_PLACES: [&str; 4] = ["/mnt", "/tmp", "/run", "/var/tmp"];

/// Directories of /dev that programs may need and that are mounts or hold device nodes of their own.
const DEV_DIRECTORIES: [&str; 6] = ["shm", "pts", "mqueue", "hugepages", "net", "fd"];

/// Device nodes that are bound one by one, because programs check their type without following links. `ptmx` must be a
/// link: when it is opened, the kernel looks for the mount `pts` beside the node itself, and a bound file has nothing
/// beside it.
const DEV_NODES: [&str; 9] = ["null", "zero", "full", "random", "urandom", "tty", "console", "fuse", "kvm"];

/// Where the original /dev stays reachable, for all other nodes.
const DEV_ORIGINAL: &str = ".original";

/// Mounts Weft's libraries over the system's. Returns those that failed, with the error.
pub fn replace_libraries(replacements: &[Replacement]) -> Vec<(PathBuf, io::Error)> {
    let try_one = |r: &Replacement| namespace::bind(&r.ours, &r.system).err().map(|e| (r.system.clone(), e));
    replacements.iter().filter_map(try_one).collect()
}

/// A private mount namespace, and the directory that a memory file system may cover for a while.
pub struct Staging {
    place: &'static Path,
    /// The way into the namespace.
    pub entered: Entered,
}

impl Staging {
    /// Enters the namespace. Some systems let a process make one, and refuse the first mount.
    pub fn enter() -> io::Result<Staging> {
        let missing = || io::Error::other("none of /mnt, /tmp, /run, /var/tmp is a directory");
        let place = STAGING_PLACES.iter().map(Path::new).find(|p| p.is_dir()).ok_or_else(missing)?;
        let entered = namespace::enter_mount_namespace()?;
        namespace::mount_tmpfs(place, STAGING_BYTES_MAX)?;
        // Until the view is built, the directory stays as it is: Weft's libraries may be below it.
        namespace::detach(place)?;
        Ok(Staging { place, entered })
    }
}

/// Mounts the view. Returns it with messages about the failed parts; the rest is in place.
///
/// # Errors
/// The message if nothing can be shown.
pub fn show(
    staging: &Staging,
    view: &View,
    manager: Manager<'_>,
    loaded: &ShownModules,
) -> Result<(Built, Vec<String>), String> {
    let staging = staging.place;
    namespace::mount_tmpfs(staging, STAGING_BYTES_MAX)
        .map_err(|e| format!("cannot mount a memory file system: {e}; /sys and /dev show no devices"))?;
    let mut failures = Vec::new();
    let built = build(staging, view, manager)
        .map_err(|e| format!("the view cannot be built: {e}; /sys and /dev show no devices"))
        .map(|built| {
            // First, because the classes have links to functions.
            if let Err(e) = pci::mount::show(&staging.join("sys")) {
                failures.push(format!("/sys/bus/pci/devices does not show the adapters: {e}"));
            }
            if let Err(e) = show_classes(&staging.join("sys/class")) {
                failures.push(format!("/sys/class/infiniband cannot be shown: {e}"));
            }
            if let Err(e) = show_nodes(&staging.join("dev")) {
                failures.push(format!("/dev/infiniband cannot be shown: {e}"));
            }
            failures.extend(modules::show(&ModuleFiles::below(&staging.join("sys/class")), loaded));
            if let Err(e) = configfs::build(&staging.join("sys/class"))
                .and_then(|()| configfs::mount(&staging.join("sys/class"), loaded.may_cover))
            {
                failures.push(format!("/sys/kernel/config has no rdma_cm: {e}"));
            }
            if let Some(text) = &view.hosts_file {
                if let Err(e) = show_file(&staging.join("hosts"), text, "/etc/hosts") {
                    failures.push(format!("/etc/hosts does not have the fabric's hosts: {e}"));
                }
                if let Err(e) = show_file(&staging.join("resolv.conf"), NO_NAME_SERVER, RESOLV_CONF) {
                    failures.push(format!("programs may wait for name servers that they cannot reach: {e}"));
                }
            }
            Built { sys: built.sys.at(Path::new("/sys")), nodes: built.nodes.at(Path::new("/dev/infiniband")), ..built }
        });
    if let Err(e) = namespace::detach(staging) {
        failures.push(format!("{} stays covered: {e}", staging.display()));
    }
    Ok((built?, failures))
}

fn build(staging: &Path, view: &View, manager: Manager<'_>) -> io::Result<Built> {
    let mut sys = SysFiles::new(&staging.join("sys"))?;
    let Changes { live, srp_logins, .. } = sys.show(view)?;
    let mut nodes = Nodes::new(&staging.join("dev/infiniband"), node::make)?;
    let pipes = nodes.show(view, manager)?;
    if weft_sys::process::euid() == 0 && !manager.host.is_empty() {
        node_rules::apply(&staging.join("dev/infiniband"))?;
    }
    Ok(Built { sys, nodes, live, pipes, srp_logins })
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The machine's name servers may have addresses that the fabric's network has, too: programs would wait for each answer.
const NO_NAME_SERVER: &str = "# This host's network has no name server; /etc/hosts has the names.\n";

/// Shows a text in place of a file, if that exists.
fn show_file(built: &Path, text: &str, target: &str) -> io::Result<()> {
    if !Path::new(target).exists() {
        return Ok(());
    }
    fs::write(built, text)?;
    namespace::bind(built, Path::new(target))
}

/// Puts the directories below `built` into /sys/class. A class that the kernel also has (on a machine with real
/// adapters) is covered, because Weft's libraries cannot serve the real adapters.
fn show_classes(built: &Path) -> io::Result<()> {
    let target = Path::new("/sys/class");
    let all = CLASSES.into_iter().chain([pci::mount::BUS_CLASS]);
    let classes: Vec<&str> = all.filter(|class| built.join(class).is_dir()).collect();
    pci::mount::adopt_buses(built, target)?;
    if classes.iter().any(|class| !target.join(class).is_dir()) {
        stack_classes(built, target, &classes)?;
    }
    // Also over a union that shows them already: its own directories take no new files.
    classes.iter().try_for_each(|class| namespace::bind(&built.join(class), &target.join(class)))
}

/// Makes `target` show both its own entries and those of `built`: with overlayfs if the kernel has and allows it, or
/// else with a tmpfs into which every class is bound.
fn stack_classes(built: &Path, target: &Path, classes: &[&str]) -> io::Result<()> {
    // A union remembers names: one of an interface that the kernel gave another name would be stale (ESTALE).
    let interfaces = target.join("net");
    let held = namespace::hold(&interfaces);
    if namespace::mount_overlay(built, target, target).is_ok() {
        return held.map_or(Ok(()), |held| namespace::bind(&namespace::held_path(&held), &interfaces));
    }
    let original = namespace::hold(target)?;
    let names: Vec<_> = fs::read_dir(target)?.flatten().collect();
    for entry in names {
        let place = built.join(entry.file_name());
        if entry.file_type()?.is_dir() && !classes.iter().any(|class| entry.file_name() == *class) {
            // For a class that Weft only adds to, the original takes precedence.
            if place.exists() {
                fs::remove_dir_all(&place)?;
            }
            fs::create_dir(&place)?;
            namespace::bind(&namespace::held_path(&original).join(entry.file_name()), &place)?;
        }
    }
    namespace::bind_tree(built, target)
}

/// Shows the nodes in `built`/infiniband.
fn show_nodes(built: &Path) -> io::Result<()> {
    let target = Path::new("/dev/infiniband");
    if target.is_dir() {
        return namespace::bind_tree(&built.join("infiniband"), target);
    }
    // /dev has no such directory, and creating one would show it to the whole machine, so the view covers all of /dev.
    fill_dev(built)?;
    namespace::bind_tree(built, Path::new("/dev"))
}

/// Makes `built` show everything in /dev.
fn fill_dev(built: &Path) -> io::Result<()> {
    let dev = Path::new("/dev");
    let original = built.join(DEV_ORIGINAL);
    fs::create_dir(&original)?;
    namespace::bind_tree(dev, &original)?;
    for entry in fs::read_dir(dev)?.flatten() {
        let name = entry.file_name();
        let (from, to) = (dev.join(&name), built.join(&name));
        if to.symlink_metadata().is_ok() {
            continue;
        }
        let kind = entry.file_type()?;
        let named = |list: &[&str]| list.iter().any(|n| name == *n);
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() && named(&DEV_DIRECTORIES) {
            fs::create_dir(&to)?;
            namespace::bind_tree(&from, &to)?;
        } else if named(&DEV_NODES) {
            fs::write(&to, "")?;
            namespace::bind(&from, &to)?;
        } else {
            symlink(Path::new(DEV_ORIGINAL).join(&name), &to)?;
        }
    }
    Ok(())
}
