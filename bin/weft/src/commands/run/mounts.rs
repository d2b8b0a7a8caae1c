//! Mounts libraries, sysfs and device nodes in a private mount namespace.
//!
//! The view is built in a tmpfs that temporarily covers some directory, then bound or stacked to where programs look,
//! and unmounted: bound files stay, and nothing is left on disk.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use weft_sys::namespace::Entered;
use weft_sys::{namespace, node};

use super::issm::IssmPipe;
use super::libraries::Replacement;
use super::live_file::LiveFile;
use super::view::{Shown, View, ZERO_GID};

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

/// Classes that belong to Weft alone; the last one is shown only if the view has entries for it.
const CLASSES: [&str; 3] = ["infiniband", "infiniband_verbs", "infiniband_mad"];
const CLASSES_ALWAYS: usize = 2;

/// Where the original /dev stays reachable, for all other nodes.
const DEV_ORIGINAL: &str = ".original";

/// The host that the view is for, and its user's right to manage the fabric.
pub struct Manager<'a> {
    /// Name of the virtual host; empty for the machine itself.
    pub host: &'a str,
    /// Whether the daemon lets the user send management datagrams.
    pub may_manage: bool,
}

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

/// Mounts the view. Returns messages about the failed parts; the rest is in place. Adds files with changing content to
/// `live`, open for writing, and the issm pipes to `issm`.
pub fn show(
    staging: &Staging,
    view: &View,
    manager: &Manager<'_>,
    live: &mut Vec<LiveFile>,
    issm: &mut Vec<IssmPipe>,
) -> Vec<String> {
    let staging = staging.place;
    if let Err(e) = namespace::mount_tmpfs(staging, STAGING_BYTES_MAX) {
        return vec![format!("cannot mount a memory file system: {e}; /sys and /dev show no devices")];
    }
    let mut failures = Vec::new();
    if let Err(e) =
        build_classes(view, &staging.join("class"), live).and_then(|()| show_classes(&staging.join("class")))
    {
        failures.push(format!("/sys/class/infiniband cannot be shown: {e}"));
    }
    if let Err(e) = show_nodes(view, manager, &staging.join("dev"), issm) {
        failures.push(format!("/dev/infiniband cannot be shown: {e}"));
    }
    if let Err(e) = namespace::detach(staging) {
        failures.push(format!("{} stays covered: {e}", staging.display()));
    }
    failures
}

/// Writes the view of /sys/class below `root`.
pub fn build_classes(view: &View, root: &Path, live: &mut Vec<LiveFile>) -> io::Result<()> {
    for class in &CLASSES[..CLASSES_ALWAYS] {
        fs::create_dir_all(root.join(class))?;
    }
    let mut last_dir = PathBuf::new();
    for entry in &view.entries {
        let path = below(root, &entry.path)?;
        if let Some(dir) = path.parent()
            && dir != last_dir
        {
            fs::create_dir_all(dir)?;
            last_dir = dir.to_owned();
        }
        let file = put(&path, &entry.text)?;
        if entry.shown != Shown::Fixed {
            live.push(LiveFile::new(file, entry.shown.clone(), &entry.text));
        }
    }
    for empty in &view.empty_gids {
        let dir = below(root, &empty.dir)?;
        fs::create_dir_all(&dir)?;
        let mut first: Option<PathBuf> = None;
        for row in &empty.rows {
            let path = dir.join(row.to_string());
            match &first {
                Some(first) => fs::hard_link(first, &path)?,
                None => {
                    put(&path, ZERO_GID)?;
                    first = Some(path);
                }
            }
        }
    }
    Ok(())
}

/// Joins a path to `root`. Names come from the daemon, which may belong to another user, so none may leave `root`.
fn below(root: &Path, path: &Path) -> io::Result<PathBuf> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(root.join(path));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} leads elsewhere", path.display())))
}

fn put(path: &Path, text: &str) -> io::Result<fs::File> {
    let mut file = fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    Ok(file)
}

/// Puts the directories below `built` into /sys/class. A class that the kernel also has (on a machine with real
/// adapters) is covered, because Weft's libraries cannot serve the real adapters.
fn show_classes(built: &Path) -> io::Result<()> {
    let target = Path::new("/sys/class");
    let classes: Vec<&str> = CLASSES.into_iter().filter(|class| built.join(class).is_dir()).collect();
    let missing = classes.iter().any(|class| !target.join(class).is_dir());
    if missing {
        stack_classes(built, target)?;
    }
    for class in classes {
        // A class that the kernel lacks is already in place if the union was just made.
        if !missing || has_foreign(&target.join(class), &built.join(class)) {
            namespace::bind(&built.join(class), &target.join(class))?;
        }
    }
    Ok(())
}

/// Whether `shown` holds a name that `built` does not.
fn has_foreign(shown: &Path, built: &Path) -> bool {
    let Ok(names) = fs::read_dir(shown) else { return false };
    names.flatten().any(|entry| !built.join(entry.file_name()).exists())
}

/// Makes `target` show both its own entries and those of `built`: with overlayfs if the kernel has and allows it, or
/// else with a tmpfs into which every class is bound.
fn stack_classes(built: &Path, target: &Path) -> io::Result<()> {
    if namespace::mount_overlay(built, target, target).is_ok() {
        return Ok(());
    }
    let original = namespace::hold(target)?;
    let names: Vec<_> = fs::read_dir(target)?.flatten().collect();
    for entry in names {
        let place = built.join(entry.file_name());
        if entry.file_type()?.is_dir() && !CLASSES.iter().any(|class| entry.file_name() == *class) {
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

/// Permissions of device nodes, as in rdma-core's udev rules: every user may use uverbs nodes, only the owner umad and
/// issm nodes.
pub fn mode_of(node: &str, manager: &Manager<'_>) -> u32 {
    match node.starts_with("umad") || node.starts_with("issm") {
        false => 0o666,
        true if manager.may_manage => 0o600,
        true => 0,
    }
}

fn show_nodes(view: &View, manager: &Manager<'_>, built: &Path, issm: &mut Vec<IssmPipe>) -> io::Result<()> {
    let nodes = built.join("infiniband");
    fs::create_dir_all(&nodes)?;
    for name in &view.nodes {
        let label = if name.starts_with("umad") { format!("{}/{name}", manager.host) } else { String::new() };
        node::make(&nodes.join(name), mode_of(name, manager), &label)?;
    }
    for node in &view.issm {
        issm.push(IssmPipe::make(&nodes, node, mode_of(&node.name, manager))?);
    }
    let target = Path::new("/dev/infiniband");
    if target.is_dir() {
        return namespace::bind_tree(&nodes, target);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_permissions_of_udev_s_rules() {
        let manager = |may_manage| Manager { host: "node1", may_manage };
        for (node, mode, without) in
            [("uverbs0", 0o666, 0o666), ("rdma_cm", 0o666, 0o666), ("umad3", 0o600, 0), ("issm3", 0o600, 0)]
        {
            assert_eq!((mode_of(node, &manager(true)), mode_of(node, &manager(false))), (mode, without), "{node}");
        }
    }

    #[test]
    fn nothing_is_made_outside() {
        let root = Path::new("/r");
        assert_eq!(below(root, Path::new("infiniband/rxe0/uevent")).unwrap(), Path::new("/r/infiniband/rxe0/uevent"));
        for bad in ["/etc/passwd", "infiniband/../../x", "..", "./x/.."] {
            assert!(below(root, Path::new(bad)).is_err(), "{bad}");
        }
    }
}
