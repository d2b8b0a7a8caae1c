//! Putting libraries, sysfs and device nodes in place inside a private mount namespace.
//!
//! Everything is built in a memory file system that is mounted for a moment over some directory, bound or stacked from
//! there to where programs look, and taken away again: what was bound stays, and nothing is left behind on disk.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use weft_sys::{fifo, namespace, node};

use super::issm::IssmPipe;
use super::libraries::Replacement;
use super::live::LiveFile;
use super::view::{Shown, View, ZERO_GID};

/// Bounds the memory of one view.
const STAGING_BYTES_MAX: usize = 64 << 20;

/// Directories that the memory file system may cover for a moment: some of them exists everywhere.
const STAGING_PLACES: [&str; 4] = ["/mnt", "/tmp", "/run", "/var/tmp"];

/// Directories of /dev that a program may need and that are mounts or hold nodes of their own.
const DEV_DIRECTORIES: [&str; 6] = ["shm", "pts", "mqueue", "hugepages", "net", "fd"];

/// Device nodes that are bound one by one, because programs check what they are without following links.
const DEV_NODES: [&str; 10] = ["null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "fuse", "kvm"];

/// The classes that are ours alone; the last one only if the view has something in it.
const CLASSES: [&str; 3] = ["infiniband", "infiniband_verbs", "infiniband_mad"];
const CLASSES_ALWAYS: usize = 2;

/// Where the original /dev stays reachable for everything else.
const DEV_ORIGINAL: &str = ".original";

/// Whose view it is, and what that one may do with the fabric.
pub struct Manager<'a> {
    /// The virtual host; empty for the machine itself.
    pub host: &'a str,
    /// Whether the daemon lets the user send management datagrams.
    pub may_manage: bool,
}

/// Mounts our libraries over the system's. Gives back those that could not be, with the reason.
pub fn replace_libraries(replacements: &[Replacement]) -> Vec<(PathBuf, io::Error)> {
    let try_one = |r: &Replacement| namespace::bind(&r.ours, &r.system).err().map(|e| (r.system.clone(), e));
    replacements.iter().filter_map(try_one).collect()
}

/// Shows the view. What failed comes back as sentences; the rest is in place. Files that show what changes are added to
/// `live`, open for writing, and the pipes of subnet managers to `issm`.
pub fn show(view: &View, manager: &Manager<'_>, live: &mut Vec<LiveFile>, issm: &mut Vec<IssmPipe>) -> Vec<String> {
    let Some(staging) = STAGING_PLACES.iter().map(Path::new).find(|p| p.is_dir()) else {
        return vec!["no directory to build the view of /sys in (tried /mnt, /tmp, /run, /var/tmp)".to_owned()];
    };
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

fn build_classes(view: &View, root: &Path, live: &mut Vec<LiveFile>) -> io::Result<()> {
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

/// A path below `root`. Names come from the daemon, which may be another user's: none leads out of it.
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

/// Puts the directories below `built` into /sys/class. A class that the kernel has too (a machine with real adapters)
/// is covered: what our libraries do not serve would only mislead.
fn show_classes(built: &Path) -> io::Result<()> {
    let target = Path::new("/sys/class");
    let classes: Vec<&str> = CLASSES.into_iter().filter(|class| built.join(class).is_dir()).collect();
    let missing = classes.iter().any(|class| !target.join(class).is_dir());
    if missing {
        stack_classes(built, target)?;
    }
    for class in classes {
        // Where the union was made just now and the kernel has no such class, ours is there already.
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

/// Makes `target` show what it shows and what is in `built`: by a union where the kernel has overlayfs and allows it,
/// or else by a memory file system with every class bound into it.
fn stack_classes(built: &Path, target: &Path) -> io::Result<()> {
    if namespace::mount_overlay(built, target, target).is_ok() {
        return Ok(());
    }
    let original = namespace::hold(target)?;
    let names: Vec<_> = fs::read_dir(target)?.flatten().collect();
    for entry in names {
        let place = built.join(entry.file_name());
        if entry.file_type()?.is_dir() && !CLASSES.iter().any(|class| entry.file_name() == *class) {
            // Of a class that we only add to, the original is worth more.
            if place.exists() {
                fs::remove_dir_all(&place)?;
            }
            fs::create_dir(&place)?;
            namespace::bind(&namespace::held_path(&original).join(entry.file_name()), &place)?;
        }
    }
    namespace::bind_tree(built, target)
}

/// Permissions of nodes as rdma-core's rules for udev have them: those of verbs are everybody's, management datagrams
/// and subnet managers their owner's.
fn mode_of(node: &str, manager: &Manager<'_>) -> u32 {
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
        let path = nodes.join(&node.name);
        fifo::make(&path, mode_of(&node.name, manager))?;
        issm.push(IssmPipe { pipe: fifo::hold(&path)?, device: node.device, port: node.port });
    }
    let target = Path::new("/dev/infiniband");
    if target.is_dir() {
        return namespace::bind_tree(&nodes, target);
    }
    // /dev has no such directory, and making one would show it to everybody: cover /dev as a whole.
    fill_dev(built)?;
    namespace::bind_tree(built, Path::new("/dev"))
}

/// Makes `built` hold everything that /dev holds.
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
