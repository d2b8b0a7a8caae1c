//! The IPoIB interfaces of a fabric's host in /sys/class/net: beside and in front of the attributes that the kernel has,
//! those of an IPoIB interface, which a TUN lacks.
//!
//! The files of an interface are in `/sys/class/infiniband/DEV/device/net/NAME`, where Linux has them, too: below the
//! adapter's PCI function. A union with the kernel's directory covers the latter. Files that a user may write are bound
//! over the union, which is read-only.

mod attributes;
mod kept;
mod writes;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use weft_ipc::{Client, ConnectOptions, IpoibInterface};
use weft_sys::namespace;
use weft_sys::write_watch::WriteWatch;

pub use attributes::address_text;
use attributes::{Attribute, attributes};
pub use kept::KeptInterfaces;
pub use writes::{number, set_mode};

/// The kernel's directory of virtual interfaces.
const KERNEL: &str = "/sys/devices/virtual/net";
/// The adapters of the view.
const ADAPTERS: &str = "/sys/class/infiniband";

/// An interface in the view.
#[derive(Clone, Debug)]
struct ShownInterface {
    interface: IpoibInterface,
    dir: PathBuf,
    files: BTreeMap<&'static str, Attribute>,
}

/// The interfaces in the view, by index.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    of: BTreeMap<u32, ShownInterface>,
}

impl Interfaces {
    /// Shows these interfaces and no others.
    ///
    /// # Errors
    /// The first failure; the rest is in place.
    pub fn show(&mut self, all: Vec<IpoibInterface>) -> io::Result<()> {
        let stays = |old: &ShownInterface| all.iter().any(|new| is_same(&old.interface, new));
        let gone: Vec<u32> = self.of.iter().filter(|(_, old)| !stays(old)).map(|(index, _)| *index).collect();
        for index in gone {
            // With an interface the kernel removes the union, too; with another name, the union has that as well.
            let renamed = all.iter().find(|new| new.ifindex == index);
            let _ = renamed.map(|new| namespace::detach(&Path::new(KERNEL).join(&new.name)));
            if let Some(old) = self.of.remove(&index) {
                old.remove();
            }
        }
        let names: BTreeMap<u32, String> = all.iter().map(|one| (one.ifindex, one.name.clone())).collect();
        let mut result = Ok(());
        for interface in all {
            let parent = interface.parent.and_then(|parent| names.get(&parent));
            let files = attributes(&interface, parent.map(String::as_str));
            let shown = match self.of.get_mut(&interface.ifindex) {
                Some(shown) => shown.update(files),
                None => ShownInterface::new(interface, files).map(|shown| {
                    self.of.insert(shown.interface.ifindex, shown);
                }),
            };
            result = result.and(shown);
        }
        result
    }

    /// Queries the daemon for the interfaces and shows them. Without a daemon, those that the kernel has stay as they are:
    /// none is left after the fabric of the host's network.
    pub fn refresh(&mut self, options: &ConnectOptions) -> io::Result<()> {
        let all = Client::connect(options).ok().and_then(|mut client| client.ipoib_interfaces().ok());
        if let Some(all) = all {
            return self.show(all);
        }
        let is_gone = |shown: &ShownInterface| !Path::new(KERNEL).join(&shown.interface.name).exists();
        let gone: Vec<u32> = self.of.iter().filter(|(_, shown)| is_gone(shown)).map(|(index, _)| *index).collect();
        gone.iter().filter_map(|index| self.of.remove(index)).for_each(ShownInterface::remove);
        Ok(())
    }

    /// Watches the files that a user may write. Files that are watched already stay so.
    pub fn watch(&self, watch: &WriteWatch) {
        for shown in self.of.values() {
            for (name, _) in shown.writable() {
                // A file that cannot be watched keeps its content; its writer hears nothing.
                let _ = watch.add(&shown.dir.join(name));
            }
        }
    }

    /// Does what users wrote, and restores the files' contents. Unless all of them are `closed`, an empty file is one that
    /// a user is about to write.
    pub fn handle_writes(&mut self, options: &ConnectOptions, closed: bool) {
        let mut written = Vec::new();
        for shown in self.of.values() {
            for (name, attribute) in shown.writable() {
                let file = shown.dir.join(name);
                let text = fs::read_to_string(&file).unwrap_or_default();
                if text != attribute.text && (closed || !text.is_empty()) {
                    written.push((shown.interface.clone(), name, text, file, attribute.clone()));
                }
            }
        }
        if written.is_empty() {
            return;
        }
        for (interface, name, text, file, attribute) in written {
            // The program that wrote it has closed the file: it hears of a refusal by the old content.
            let _ = Client::connect(options).map(|mut client| writes::apply(&mut client, &interface, name, &text));
            let _ = write(&file, &attribute);
        }
        let _ = self.refresh(options);
    }
}

/// Whether the files of an interface can stay where they are.
fn is_same(old: &IpoibInterface, new: &IpoibInterface) -> bool {
    let key = |one: &IpoibInterface| (one.ifindex, one.name.clone(), one.device.clone(), one.parent);
    key(old) == key(new)
}

impl ShownInterface {
    fn new(interface: IpoibInterface, files: BTreeMap<&'static str, Attribute>) -> io::Result<ShownInterface> {
        // The function keeps its path when the adapter gets another name.
        let adapter = Path::new(ADAPTERS).join(&interface.device).join("device").canonicalize()?;
        let dir = adapter.join("net").join(&interface.name);
        fs::create_dir_all(&dir)?;
        for (name, attribute) in &files {
            write(&dir.join(name), attribute)?;
        }
        link(&adapter, &dir.join("device"))?;
        let shown = ShownInterface { interface, dir, files };
        shown.cover()?;
        Ok(shown)
    }

    /// Removes its files, and the directories that only those kept of an adapter that has gone.
    fn remove(self) {
        // A file that stays is seen, and does no harm.
        let _ = fs::remove_dir_all(&self.dir);
        for dir in self.dir.ancestors().skip(1) {
            // The last one is the place of a mount.
            if fs::remove_dir(dir).is_err() {
                break;
            }
        }
    }

    fn writable(&self) -> impl Iterator<Item = (&'static str, &Attribute)> {
        self.files.iter().filter(|(_, file)| file.mode & 0o222 != 0).map(|(name, file)| (*name, file))
    }

    /// Covers the kernel's directory.
    fn cover(&self) -> io::Result<()> {
        let kernel = Path::new(KERNEL).join(&self.interface.name);
        if namespace::mount_overlay(&self.dir, &kernel, &kernel).is_err() {
            // Without unions, files that the kernel has, too, can be covered.
            let both = self.files.keys().filter(|name| kernel.join(name).exists());
            return both.into_iter().try_for_each(|name| namespace::bind(&self.dir.join(name), &kernel.join(name)));
        }
        let mut writable = self.writable();
        writable.try_for_each(|(name, _)| namespace::bind(&self.dir.join(name), &kernel.join(name)))
    }

    fn update(&mut self, files: BTreeMap<&'static str, Attribute>) -> io::Result<()> {
        for (name, attribute) in files {
            if self.files.get(name) != Some(&attribute) {
                write(&self.dir.join(name), &attribute)?;
                self.files.insert(name, attribute);
            }
        }
        Ok(())
    }
}

fn link(to: &Path, at: &Path) -> io::Result<()> {
    match symlink(to, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Writes a file in place, since unions and mounts show this one.
fn write(file: &Path, attribute: &Attribute) -> io::Result<()> {
    let set_mode = |mode| fs::set_permissions(file, fs::Permissions::from_mode(mode));
    if file.exists() {
        set_mode(0o600)?;
    }
    fs::write(file, &attribute.text)?;
    set_mode(attribute.mode)
}
