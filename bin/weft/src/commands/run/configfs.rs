//! The connection manager's configfs: a directory that a user makes in `/sys/kernel/config/rdma_cm` with a device's name
//! gets the files `ports/N/default_roce_mode` and `default_roce_tos`. They have the defaults that `weft cm` shows and
//! sets. The view's keeper fills the directory, and reads what a user writes after the write: a refused value makes way
//! for the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use weft_ipc::{Client, ConnectOptions, DeviceInfo};
use weft_sys::namespace;
use weft_sys::write_watch::WriteWatch;

use super::live_file::LiveFile;
use super::union;
use super::view::{CmDefault, Shown};
use crate::commands::cm::{self, Setting};

/// Directory for configfs below the directory of classes.
const BUILT: &str = "infiniband_verbs/.kernel";
/// The subsystem's directory below `/sys/kernel`.
const SUBSYSTEM: &str = "config/rdma_cm";
const KERNEL: &str = "/sys/kernel";

/// A device's directory of ports.
const PORTS: &str = "ports";

/// Devices whose files stand ready at most; each has two open files a port.
const READY_MAX: usize = 8;

/// Longest text of a file.
const TEXT_BYTES_MAX: usize = 64;

/// Permissions of the files, as in configfs.
const MODE: u32 = 0o644;

/// Builds the subsystem's directory in a view that mounts will show.
pub fn build(classes: &Path) -> io::Result<()> {
    fs::create_dir_all(classes.join(BUILT).join(SUBSYSTEM))
}

/// Shows the directory at its place in /sys. On a kernel without configfs, a union provides the place.
pub fn mount(classes: &Path, may_cover: bool) -> io::Result<()> {
    let cover = if may_cover { union::cover } else { union::cover_writable };
    let (built, kernel) = (classes.join(BUILT), Path::new(KERNEL));
    let target = kernel.join(SUBSYSTEM);
    if !target.is_dir() {
        match kernel.join("config") {
            config if config.is_dir() => cover(&built.join("config"), &config)?,
            _ => cover(&built, kernel)?,
        }
    }
    namespace::bind(&built.join(SUBSYSTEM), &target)
}

/// A device for which a directory can be made.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    index: u32,
    ports: Vec<u8>,
}

impl From<&DeviceInfo> for Named {
    fn from(device: &DeviceInfo) -> Named {
        let ports = match &device.infiniband {
            Some(infiniband) => infiniband.ports.iter().map(|port| port.number).collect(),
            None => vec![1],
        };
        Named { name: device.name.clone(), index: device.index, ports }
    }
}

/// The subsystem's directory in use. The files of each device stand ready beside it, leased: a program that makes a
/// directory finds them there when it next looks, and waits for their contents when it opens them.
pub struct KeptConfig {
    root: PathBuf,
    ready: PathBuf,
    devices: Vec<Named>,
    /// Names of the directories that have their files.
    filled: BTreeSet<String>,
    /// Files that stand ready, by device, and what they will show.
    files: BTreeMap<String, BTreeMap<PathBuf, Shown>>,
}

impl KeptConfig {
    /// Keeps the directory of a mounted view, which has these devices now.
    pub fn mounted(devices: &[DeviceInfo]) -> KeptConfig {
        let built = Path::new("/sys/class").join(BUILT);
        KeptConfig {
            root: built.join(SUBSYSTEM),
            ready: built.join("ready"),
            devices: devices.iter().take(READY_MAX).map(Named::from).collect(),
            filled: BTreeSet::new(),
            files: BTreeMap::new(),
        }
    }

    /// Watches the directory from now on, if there is a watch, and makes files for it.
    pub fn register(&mut self, watch: Option<&WriteWatch>, files: &mut Vec<LiveFile>) {
        if watch.is_some_and(|watch| watch.add_directory(&self.root).is_err()) {
            return;
        }
        for device in std::mem::take(&mut self.devices) {
            let dir = self.ready.join(&device.name);
            let mut made = self.fill(watch, &dir, &device, |_| String::new()).unwrap_or_default();
            // Without leases, their contents would come too late.
            if made.iter().any(|file| file.try_lease().is_err()) {
                return;
            }
            // A reader finds them empty here.
            let hold = |file: &mut LiveFile| (file.path.clone(), std::mem::replace(&mut file.from, Shown::Fixed));
            self.files.insert(device.name, made.iter_mut().map(hold).collect());
            files.extend(made);
        }
    }

    /// Fills new directories, forgets those that are gone, and does what users wrote.
    pub fn handle_change(&mut self, watch: Option<&WriteWatch>, files: &mut Vec<LiveFile>, options: &ConnectOptions) {
        let names = names(&self.root);
        for gone in self.filled.difference(&names) {
            files.retain(|file| !file.path.starts_with(self.root.join(gone)));
        }
        self.filled.retain(|name| names.contains(name));
        let new: Vec<String> = names.difference(&self.filled).cloned().collect();
        for name in &new {
            self.move_in(name, files);
        }
        let is_written = |file: &LiveFile| matches!(file.from, Shown::Default(_)) && content(file) != file.shown;
        let written: Vec<&mut LiveFile> = files.iter_mut().filter(|file| is_written(file)).collect();
        if new.is_empty() && written.is_empty() {
            return;
        }
        let Ok(mut client) = Client::connect(options) else { return };
        written.into_iter().for_each(|file| apply(&mut client, file));
        if !new.is_empty() {
            self.complete(&mut client, watch, &new, files);
        }
    }

    /// Moves the files that stand ready into a directory that a user made.
    fn move_in(&mut self, name: &str, files: &mut [LiveFile]) {
        let Some(mut moved) = self.files.remove(name) else { return };
        let (from, to) = (self.ready.join(name), self.root.join(name));
        for file in files {
            if let Some(shown) = moved.remove(&file.path)
                && let Ok(rest) = file.path.strip_prefix(&from)
            {
                (file.path, file.from) = (to.join(rest), shown);
            }
        }
        if fs::rename(from.join(PORTS), to.join(PORTS)).is_ok() {
            self.filled.insert(name.to_owned());
        }
    }

    /// Fills the directories of further devices, and removes those of unknown ones, which Linux refuses to make.
    fn complete(&mut self, client: &mut Client, watch: Option<&WriteWatch>, new: &[String], files: &mut Vec<LiveFile>) {
        let Ok(devices) = client.list_devices() else { return };
        for name in new {
            let dir = self.root.join(name);
            let Some(device) = devices.iter().find(|device| device.name == *name).map(Named::from) else {
                files.retain(|file| !file.path.starts_with(&dir));
                self.filled.remove(name);
                let _ = fs::remove_dir_all(dir);
                continue;
            };
            if !self.filled.contains(name)
                && let Ok(more) =
                    self.fill(watch, &dir, &device, |default| text_of(client, default).unwrap_or_default())
            {
                files.extend(more);
                self.filled.insert(name.clone());
            }
        }
    }

    /// Makes the files of a device.
    fn fill(
        &self,
        watch: Option<&WriteWatch>,
        dir: &Path,
        device: &Named,
        mut text: impl FnMut(CmDefault) -> String,
    ) -> io::Result<Vec<LiveFile>> {
        let mut files = Vec::new();
        for port in &device.ports {
            let dir = dir.join(PORTS).join(port.to_string());
            fs::create_dir_all(&dir)?;
            for setting in Setting::ALL {
                let default = CmDefault { device: device.index, setting };
                let (path, text) = (dir.join(setting.name()), text(default));
                let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
                file.write_all(text.as_bytes())?;
                fs::set_permissions(&path, fs::Permissions::from_mode(MODE))?;
                // A file that cannot be watched keeps its content; its writer hears nothing.
                watch.into_iter().for_each(|watch| drop(watch.add(&path)));
                files.push(LiveFile::new(file, path, Shown::Default(default), &text));
            }
        }
        Ok(files)
    }
}

/// Names of the directories in `root`.
fn names(root: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the text of a file.
pub fn text_of(client: &mut Client, CmDefault { device, setting }: CmDefault) -> Option<String> {
    Some(cm::text_of(client, device, setting).ok()? + "\n")
}

fn content(file: &LiveFile) -> String {
    let mut bytes = [0; TEXT_BYTES_MAX];
    let length = file.file.read_at(&mut bytes, 0).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Sets what a user wrote, and writes what holds now.
fn apply(client: &mut Client, file: &mut LiveFile) {
    let Shown::Default(default) = file.from else { return };
    let text = content(file);
    // An empty file is one that a user is about to write.
    if !text.is_empty() {
        let _ = cm::set(client, default.device, default.setting, text.trim_end());
        let now = text_of(client, default).unwrap_or_else(|| file.shown.clone());
        file.shown.clear();
        file.show(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_stand_ready_move_into_a_new_directory() {
        let base = std::env::temp_dir().join(format!("weft-configfs-{}", std::process::id()));
        let root = base.join(SUBSYSTEM);
        fs::create_dir_all(root.join("rxe0")).unwrap();
        let mut kept = KeptConfig {
            root: root.clone(),
            ready: base.join("ready"),
            devices: vec![Named { name: "rxe0".to_owned(), index: 7, ports: vec![1] }],
            filled: BTreeSet::new(),
            files: BTreeMap::new(),
        };
        let mut files = Vec::new();
        kept.register(None, &mut files);
        // The file system of temporary files may have no leases.
        if !files.is_empty() {
            assert!(files.iter().all(|file| file.from == Shown::Fixed && !file.path.starts_with(&root)));
            kept.move_in("rxe0", &mut files);
            assert!(root.join("rxe0/ports/1/default_roce_mode").exists());
            for (file, setting) in files.iter().zip(Setting::ALL) {
                assert_eq!(file.from, Shown::Default(CmDefault { device: 7, setting }));
                assert!(file.path.starts_with(&root));
            }
            assert_eq!(kept.filled.len(), 1);
        }
        fs::remove_dir_all(base).unwrap();
    }
}
