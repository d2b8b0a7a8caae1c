//! The view of /sys that this command itself has, if it runs under `weft run`. A kernel shows a device in /sys before
//! `rdma link add` returns; scripts rely on it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The variable that tells a program's processes the directory of their view, if it is one.
pub const VIEW_VARIABLE: &str = "WEFT_VIEW";

/// The keeper of the view may have ended, or be unable to write.
const SHOWS_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// File system type of a view that is mounted over sysfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Waits until this command's view, if it has one, shows the first device and no longer the second.
pub fn await_device(shown: Option<&str>, gone: Option<&str>) {
    if let Some(dir) = directory() {
        await_in(&dir, shown, gone, SHOWS_WITHIN);
    }
}

/// The directory with the view's classes.
pub fn directory() -> Option<PathBuf> {
    if let Some(tree) = env::var_os(VIEW_VARIABLE) {
        return Some(Path::new(&tree).join("sys/class"));
    }
    let is_view = |found: rustix::fs::StatFs| found.f_type as u64 == TMPFS_MAGIC;
    let is_shown = rustix::fs::statfs("/sys/class/infiniband").is_ok_and(is_view);
    is_shown.then(|| PathBuf::from("/sys/class"))
}

/// Returns whether the directory came to show it in time.
fn await_in(dir: &Path, shown: Option<&str>, gone: Option<&str>, within: Duration) -> bool {
    let until = Instant::now() + within;
    let is_there = |name: &str| dir.join("infiniband").join(name).exists();
    // The keeper writes one or the other of these last: the attribute, or the link to a fabric's adapter.
    let is_shown =
        |name: &str| names(&dir.join("infiniband_verbs")).any(|known| known.trim_end() == name) && is_there(name);
    let agrees = || shown.is_none_or(is_shown) && !gone.is_some_and(is_there);
    while !agrees() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Names of the devices in the class of verbs devices.
fn names(class: &Path) -> impl Iterator<Item = String> {
    let devices = fs::read_dir(class).into_iter().flatten().flatten();
    devices.filter_map(|device| fs::read_to_string(device.path().join("ibdev")).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_waited_for_until_it_shows_the_change() {
        let dir = env::temp_dir().join(format!("weft-own-view-{}", std::process::id()));
        let (verbs, old) = (dir.join("infiniband_verbs/uverbs0"), dir.join("infiniband/old"));
        fs::create_dir_all(&verbs).unwrap();
        fs::create_dir_all(&old).unwrap();
        fs::write(verbs.join("ibdev"), "old\n").unwrap();
        assert!(!await_in(&dir, Some("rxe0"), None, Duration::from_millis(20)));
        let keeper = std::thread::spawn(move || {
            fs::write(verbs.join("ibdev"), "rxe0\n").unwrap();
            fs::rename(&old, old.with_file_name("rxe0")).unwrap();
        });
        assert!(await_in(&dir, Some("rxe0"), Some("old"), Duration::from_secs(60)));
        keeper.join().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
}
