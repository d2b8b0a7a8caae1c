//! Unions that cover a directory of the system and leave the mounts below it in place.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use weft_sys::namespace;

/// Shows the entries of `ours` in the directory `target` as well. The union takes no new files.
pub fn cover(ours: &Path, target: &Path) -> io::Result<()> {
    let held: Vec<_> =
        mounts_below(target).into_iter().filter_map(|at| Some((namespace::hold(&at).ok()?, at))).collect();
    namespace::mount_overlay(ours, target, target)?;
    held.iter().try_for_each(|(mount, at)| namespace::bind_tree(&namespace::held_path(mount), at))
}

/// The same for a directory that root must be able to change as before: all but its own list of entries stays writable.
pub fn cover_writable(ours: &Path, target: &Path) -> io::Result<()> {
    let original = namespace::hold(target)?;
    let names: Vec<_> = fs::read_dir(target)?.flatten().map(|entry| entry.file_name()).collect();
    namespace::mount_overlay(ours, target, target)?;
    let kept = names.iter().filter(|name| !ours.join(name).exists());
    // One that cannot be bound is in the union, where it is read-only.
    kept.for_each(|name| drop(namespace::bind_tree(&namespace::held_path(&original).join(name), &target.join(name))));
    Ok(())
}

/// Shows the entries of `target` in `ours`, and `ours` in place of `target`. The files below `target` stay writable and
/// change with the system; the list of its own entries, and its links, are those of this moment. `ours` takes new files.
/// Entries of `target` that are `hidden`, or also in `ours`, are left out.
pub fn cover_live(ours: &Path, target: &Path, hidden: fn(&OsStr) -> bool) -> io::Result<()> {
    let original = namespace::hold(target)?;
    let places = adopt(ours, target, hidden)?;
    namespace::bind(ours, target)?;
    let bind = |name: &OsString| namespace::bind_tree(&namespace::held_path(&original).join(name), &target.join(name));
    // One that cannot be bound leaves the others in place.
    places.iter().map(bind).fold(Ok(()), io::Result::and)
}

/// Copies the links of `target` to `ours`, and makes places there for its other entries. Returns the names of the places.
pub fn adopt(ours: &Path, target: &Path, hidden: fn(&OsStr) -> bool) -> io::Result<Vec<OsString>> {
    let mut places = Vec::new();
    for entry in fs::read_dir(target)?.flatten() {
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let place = ours.join(&name);
        if hidden(&name) || place.symlink_metadata().is_ok() {
            continue;
        }
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, place)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&place)?
        } else {
            fs::write(&place, "")?
        }
        places.push(name);
    }
    Ok(places)
}

/// The mount points below a directory, in the order in which they were mounted.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    below(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(), dir)
}

/// Reads the mount points from the text of mountinfo. A later mount at one place covers the earlier ones.
fn below(mountinfo: &str, dir: &Path) -> Vec<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut all: Vec<PathBuf> = Vec::new();
    for point in points.filter(|point| point.starts_with(dir) && point != dir) {
        // A recursive bind of one mount brings those below it.
        if !all.iter().any(|known| point.starts_with(known)) {
            all.push(point);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_found_once() {
        let text = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /usr/lib/a rw - tmpfs t rw\n\
                    3 2 0:6 / /usr/lib/a/b rw - tmpfs t rw\n4 1 0:7 / /usr/lib rw - tmpfs t rw\n\
                    5 1 0:8 / /usr/lib/a rw - tmpfs t rw\n6 1 0:9 / /usr/libexec rw - tmpfs t rw\n";
        assert_eq!(below(text, Path::new("/usr/lib")), [PathBuf::from("/usr/lib/a")]);
        assert!(below(text, Path::new("/opt")).is_empty());
    }

    #[test]
    fn entries_are_adopted_unless_hidden_or_known() {
        let base = std::env::temp_dir().join(format!("weft-union-{}", std::process::id()));
        let (ours, target) = (base.join("ours"), base.join("target"));
        for dir in [ours.join("known"), target.join("known"), target.join("dir"), target.join("fab0:00")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(target.join("file"), "text").unwrap();
        symlink("../elsewhere", target.join("link")).unwrap();
        let mut places = adopt(&ours, &target, |name| name == "fab0:00").unwrap();
        places.sort();
        assert_eq!(places, ["dir", "file"]);
        assert_eq!(fs::read_link(ours.join("link")).unwrap(), Path::new("../elsewhere"));
        assert!(!ours.join("fab0:00").exists() && ours.join("dir").is_dir() && ours.join("file").is_file());
        fs::remove_dir_all(&base).unwrap();
    }
}
