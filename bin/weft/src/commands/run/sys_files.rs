//! The files and links of a view below /sys. They are written when the view is made, and follow the devices after that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use weft_sys::fifo;

use super::live_file::LiveFile;
use super::view::{Shown, View, ZERO_GID};

/// Classes that belong to Weft alone; the last ones are shown only if the view has entries for them.
pub const CLASSES: [&str; 4] = ["infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_srp"];
const CLASSES_ALWAYS: usize = 2;

/// `srp_daemon` looks here for logins that it need not repeat, and gives up without the directory.
const SCSI_HOSTS: &str = "class/scsi_host";

/// Directories that stay when they are empty: mounts show them.
const KEPT: [&str; 8] = [
    "class/infiniband",
    "class/infiniband_verbs",
    "class/infiniband_mad",
    "class/infiniband_srp",
    "class/misc",
    "class/pci_bus",
    "bus/pci/devices",
    "devices",
];

/// Permissions of the files, as in sysfs.
const READ_ONLY: u32 = 0o444;
const WRITABLE: u32 = 0o644;
/// The owner alone logs in to targets.
const LOGIN: u32 = 0o600;

/// A file's content.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Content {
    /// Bytes that stay until a device changes.
    Fixed(Vec<u8>),
    /// Text that the file's keeper refreshes.
    Live(String, Shown),
    /// A row of a GID table without an address. All of a directory are links to one file.
    NoGid,
    /// A symbolic link to this path.
    Link(PathBuf),
    /// A named pipe for SRP logins.
    SrpLogin,
}

impl Content {
    /// Whether a file with this content can stay where `new` is wanted, perhaps with other bytes.
    fn can_become(&self, new: &Content) -> bool {
        match (self, new) {
            (Content::Live(_, old), Content::Live(_, new)) => old == new,
            (Content::Link(old), Content::Link(new)) => old == new,
            (Content::Fixed(_), Content::Fixed(_))
            | (Content::NoGid, Content::NoGid)
            | (Content::SrpLogin, Content::SrpLogin) => true,
            _ => false,
        }
    }
}

/// Files with changing content that came, and paths of files that went.
#[derive(Debug, Default)]
pub struct Changes {
    /// New ones, open for writing.
    pub live: Vec<LiveFile>,
    /// New pipes for SRP logins, open for reading.
    pub srp_logins: Vec<OwnedFd>,
    /// Paths of those that are gone, with and without changing content.
    pub gone: BTreeSet<PathBuf>,
}

/// The files below a directory that stands for /sys.
#[derive(Debug)]
pub struct SysFiles {
    root: PathBuf,
    files: BTreeMap<PathBuf, Content>,
}

impl SysFiles {
    /// Makes the directories of the classes that are always there.
    pub fn new(root: &Path) -> io::Result<SysFiles> {
        for class in &CLASSES[..CLASSES_ALWAYS] {
            fs::create_dir_all(root.join("class").join(class))?;
        }
        Ok(SysFiles { root: root.to_owned(), files: BTreeMap::new() })
    }

    /// The same files, reached by another path.
    pub fn at(self, root: &Path) -> SysFiles {
        SysFiles { root: root.to_owned(), ..self }
    }

    /// Makes the files those of `view`. Files with changing content that are there already keep theirs.
    ///
    /// # Errors
    /// Some files differ from the view; the next call tries again.
    pub fn show(&mut self, view: &View) -> io::Result<Changes> {
        let wanted = contents(view)?;
        if !view.srp_logins.is_empty() {
            fs::create_dir_all(self.root.join(SCSI_HOSTS))?;
        }
        let mut changes = Changes::default();
        let stays = |(path, old): (&PathBuf, &Content)| wanted.get(path).is_some_and(|new| old.can_become(new));
        let stale: Vec<PathBuf> =
            self.files.iter().filter(|entry| !stays(*entry)).map(|(path, _)| path.clone()).collect();
        for path in stale {
            self.remove(&path)?;
            changes.gone.insert(path);
        }
        let (mut last_dir, mut no_gid) = (PathBuf::new(), None);
        // A link to a device comes after the device's files, so that a program sees none or all of them.
        let is_link = |entry: &(PathBuf, Content)| matches!(entry.1, Content::Link(_));
        let (links, files): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_link);
        for (path, content) in files.into_iter().chain(links) {
            let dir = path.parent().unwrap_or(Path::new(""));
            if dir != last_dir {
                fs::create_dir_all(self.root.join(dir))?;
                last_dir = dir.to_owned();
                no_gid = None;
            }
            self.put(path, content, &mut no_gid, &mut changes)?;
        }
        Ok(changes)
    }

    /// `no_gid`: a file without a GID in the same directory, if one has been met.
    fn put(
        &mut self,
        path: PathBuf,
        content: Content,
        no_gid: &mut Option<PathBuf>,
        changes: &mut Changes,
    ) -> io::Result<()> {
        let file = self.root.join(&path);
        match (self.files.get(&path), &content) {
            (Some(Content::Fixed(old)), Content::Fixed(new)) if old != new => rewrite(&file, new)?,
            (Some(_), _) => {}
            (None, Content::NoGid) => match &no_gid {
                Some(first) => fs::hard_link(first, &file)?,
                None => drop(create(&file, ZERO_GID.as_bytes())?),
            },
            (None, Content::Link(to)) => symlink(to, &file)?,
            (None, Content::Fixed(bytes)) => drop(create(&file, bytes)?),
            (None, Content::SrpLogin) => {
                fifo::make(&file, LOGIN)?;
                changes.srp_logins.push(fifo::reader(&file)?);
            }
            (None, Content::Live(text, shown)) => {
                changes.live.push(LiveFile::new(create(&file, text.as_bytes())?, path.clone(), shown.clone(), text));
            }
        }
        if content == Content::NoGid && no_gid.is_none() {
            *no_gid = Some(file);
        }
        self.files.insert(path, content);
        Ok(())
    }

    /// Removes a file or link, and the directories that are empty without it.
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_file(self.root.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => drop(self.files.remove(path)),
        }
        let is_kept = |dir: &Path| KEPT.iter().any(|kept| dir == Path::new(kept));
        for dir in path.ancestors().skip(1).take_while(|dir| !is_kept(dir)) {
            if fs::remove_dir(self.root.join(dir)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The files of a view by path.
fn contents(view: &View) -> io::Result<BTreeMap<PathBuf, Content>> {
    let mut contents = BTreeMap::new();
    for entry in &view.entries {
        let content = match &entry.shown {
            Shown::Fixed => Content::Fixed(entry.text.clone().into_bytes()),
            shown => Content::Live(entry.text.clone(), shown.clone()),
        };
        contents.insert(inside(&entry.path)?.to_owned(), content);
    }
    for (path, bytes) in &view.binaries {
        contents.insert(inside(path)?.to_owned(), Content::Fixed(bytes.clone()));
    }
    for path in &view.srp_logins {
        contents.insert(inside(path)?.to_owned(), Content::SrpLogin);
    }
    for link in &view.links {
        let path = inside(&link.path)?;
        contents.insert(path.to_owned(), Content::Link(target(path, inside(&link.to)?)));
    }
    for empty in &view.empty_gids {
        let dir = inside(&empty.dir)?;
        contents.extend(empty.rows.iter().map(|row| (dir.join(row.to_string()), Content::NoGid)));
    }
    Ok(contents)
}

/// Checks a path. Names come from the daemon, which may belong to another user, so none may lead out of the root.
fn inside(path: &Path) -> io::Result<&Path> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} leads elsewhere", path.display())))
}

/// The text of a link at `path` that leads to `to`, as sysfs writes it: from the nearest directory that is above both.
fn target(path: &Path, to: &Path) -> PathBuf {
    let (from, above) = (path.parent().unwrap_or(Path::new("")), to.parent().unwrap_or(Path::new("")));
    let common = from.components().zip(above.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// A view has hundreds of files: each gets its permissions when it is made, under [`super::viewer::UMASK`].
fn create(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::options().read(true).write(true).create(true).truncate(true).mode(READ_ONLY).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Only the owner can write to its file, and an ordinary user only while the permissions say so.
fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    set_mode(path, WRITABLE)?;
    let written = fs::write(path, bytes);
    set_mode(path, READ_ONLY)?;
    written
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::counters::PortCounters;
    use crate::commands::run::cpus::Cpus;
    use crate::commands::run::pci::tests::adapter;
    use crate::commands::run::view::tests::rxe0;
    use weft_ipc::stat::StatReport;
    use weft_ipc::{DeviceInfo, GidEntry, GidType};

    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let root = std::env::temp_dir().join(format!("weft-sys-{name}-{}", std::process::id()));
            fs::create_dir(&root).unwrap();
            Root(root)
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.0.join("class/infiniband").join(path)).ok()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn view(devices: &[DeviceInfo]) -> View {
        View::of(devices, &StatReport::default(), &PortCounters::new(), &Cpus::of_count(2))
    }

    #[test]
    fn nothing_is_made_outside() {
        assert!(inside(Path::new("infiniband/rxe0/uevent")).is_ok());
        for bad in ["/etc/passwd", "infiniband/../../x", "..", "./x/.."] {
            assert!(inside(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_follow_a_device_that_comes_changes_and_goes() {
        let root = Root::new("follow");
        let mut files = SysFiles::new(&root.0).unwrap();
        assert!(files.show(&view(&[])).unwrap().live.is_empty());
        assert_eq!(root.read("rxe0/ports/1/state"), None);

        let first = files.show(&view(&[rxe0()])).unwrap();
        assert!(!first.live.is_empty() && first.gone.is_empty());
        assert_eq!(root.read("rxe0/ports/1/gids/3").as_deref(), Some(ZERO_GID));

        // An address more, one less, and the port down.
        let mut changed = rxe0();
        changed.state = weft_ipc::PortState::Down;
        changed.gids.remove(1);
        changed.gids.push(GidEntry { index: 3, gid: [0xfd; 16], gid_type: GidType::RoceV2, ifindex: 2 });
        let second = files.show(&view(&[changed.clone()])).unwrap();
        assert!(second.live.is_empty(), "{:?}", second.live);
        assert_eq!(root.read("rxe0/ports/1/state").as_deref(), Some("1: DOWN\n"));
        assert_eq!(root.read("rxe0/ports/1/gids/1").as_deref(), Some(ZERO_GID));
        assert_eq!(root.read("rxe0/ports/1/gids/3").as_deref(), Some("fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd\n"));
        assert_eq!(root.read("rxe0/ports/1/gids/4").as_deref(), Some(ZERO_GID));
        assert_eq!(
            (root.read("rxe0/ports/1/gid_attrs/types/1"), root.read("rxe0/ports/1/gid_attrs/types/0").is_some()),
            (None, true)
        );

        // Another name: counters are files of another path.
        let renamed = DeviceInfo { name: "mlx5_0".to_owned(), ..changed };
        let third = files.show(&view(&[renamed])).unwrap();
        assert_eq!(third.live.len(), first.live.len());
        assert!(first.live.iter().all(|file| third.gone.contains(&file.path)));
        assert!(!root.0.join("class/infiniband/rxe0").exists() && root.read("mlx5_0/node_type").is_some());

        files.show(&view(&[])).unwrap();
        assert_eq!(fs::read_dir(root.0.join("class/infiniband")).unwrap().count(), 0);
        assert_eq!(files.show(&view(&[rxe0()])).unwrap().live.len(), first.live.len());
    }

    #[test]
    fn links_are_written_as_sysfs_writes_them() {
        let function = "devices/pcifab0:00/fab0:00:01.0";
        for (path, to, wanted) in [
            ("class/infiniband/a", "infiniband/a", "../../devices/pcifab0:00/fab0:00:01.0/infiniband/a"),
            ("devices/pcifab0:00/fab0:00:01.0/infiniband/a/device", "", "../../../fab0:00:01.0"),
        ] {
            assert_eq!(target(Path::new(path), &Path::new(function).join(to)), Path::new(wanted), "{path}");
        }
        assert_eq!(target(&Path::new(function).join("subsystem"), Path::new("bus/pci")), Path::new("../../../bus/pci"));
    }

    #[test]
    fn links_follow_an_adapter_with_another_name() {
        let root = Root::new("links");
        let mut files = SysFiles::new(&root.0).unwrap();
        files.show(&view(&[adapter("weft0", 0), adapter("weft1", 1)])).unwrap();
        let real = |path: &str| root.0.join(path).canonicalize().ok();
        let function = root.0.canonicalize().unwrap().join("devices/pcifab0:00/fab0:00:01.0");
        assert_eq!(real("class/infiniband/weft0/device"), Some(function.clone()));
        assert_eq!(real("class/infiniband/weft0/../.."), Some(function.clone()));
        assert_eq!(real("bus/pci/devices/fab0:00:01.0"), Some(function.clone()));
        assert_eq!(real("class/pci_bus/fab0:00/../../fab0:00:01.0"), Some(function.clone()));
        assert_eq!(fs::read(function.join("config")).unwrap()[..2], [0xb0, 0xfa]);

        // Files of interfaces are others' to remove.
        fs::create_dir_all(function.join("net/ib0")).unwrap();
        files.show(&view(&[adapter("mlx5_0", 0)])).unwrap();
        assert_eq!(real("class/infiniband/mlx5_0/device"), Some(function.clone()));
        assert_eq!(root.read("mlx5_0/device/vendor").as_deref(), Some("0x15b3\n"));
        assert_eq!(fs::read(function.join("config")).unwrap()[..2], [0xb3, 0x15]);
        for gone in ["class/infiniband/weft0", "class/infiniband/weft1", "bus/pci/devices/fab0:00:02.0"] {
            assert!(root.0.join(gone).symlink_metadata().is_err(), "{gone}");
        }
        assert!(!function.join("infiniband/weft0").exists() && !function.with_file_name("fab0:00:02.0").exists());

        files.show(&view(&[])).unwrap();
        assert_eq!(fs::read_dir(&function).unwrap().count(), 1);
        for kept in ["class/infiniband", "class/pci_bus", "bus/pci/devices"] {
            assert_eq!(fs::read_dir(root.0.join(kept)).unwrap().count(), 0, "{kept}");
        }
    }

    #[test]
    fn no_name_leads_a_link_outside() {
        let root = Root::new("outside");
        let mut files = SysFiles::new(&root.0).unwrap();
        for name in ["..", "../../x"] {
            assert!(files.show(&view(&[adapter(name, 0)])).is_err(), "{name}");
        }
        assert!(!root.0.join("devices").exists());
    }
}
