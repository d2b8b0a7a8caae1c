//! Directory of this user, for what lives as long as the machine runs.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Returns this user's directory of this name, which other users cannot enter.
///
/// # Errors
/// There is no place for it.
pub fn own(name: &str) -> Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let places = places(name, uid, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), &std::env::temp_dir());
    let mut refused = Vec::new();
    for place in places {
        match make(&place, uid) {
            Ok(()) => return Ok(place),
            Err(error) => refused.push(format!("{}: {error:#}", place.display())),
        }
    }
    bail!("no directory for connections; set XDG_RUNTIME_DIR ({})", refused.join("; "))
}

/// Returns the places to try.
fn places(name: &str, uid: u32, runtime: Option<PathBuf>, temporary: &Path) -> Vec<PathBuf> {
    let of_root = (uid == 0).then(|| PathBuf::from("/run"));
    let runtime = runtime.filter(|directory| directory.is_absolute());
    let mut places: Vec<PathBuf> = runtime.into_iter().chain(of_root).map(|directory| directory.join(name)).collect();
    places.push(temporary.join(format!("{name}-{uid}")));
    places
}

/// Makes a directory, unless it is there.
fn make(directory: &Path, uid: u32) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let found = fs::symlink_metadata(directory).context("the directory")?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o022 != 0 {
        bail!("it is not a directory of this user that only this user may change");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_runtime_directory_comes_first() {
        let temporary = Path::new("/tmp");
        let own = Some(PathBuf::from("/run/user/5"));
        assert_eq!(places("weft-nvme", 0, None, temporary)[0], Path::new("/run/weft-nvme"));
        assert_eq!(places("weft-nvme", 0, own, temporary)[0], Path::new("/run/user/5/weft-nvme"));
        assert_eq!(places("weft-nvme", 5, Some("relative".into()), temporary), [Path::new("/tmp/weft-nvme-5")]);
    }

    #[test]
    fn a_directory_that_others_may_change_is_refused() {
        let uid = rustix::process::geteuid().as_raw();
        let directory = std::env::temp_dir().join(format!("weft-directory-{}", std::process::id()));
        make(&directory, uid).expect("made");
        make(&directory, uid).expect("there");
        assert!(make(&directory, uid + 1).is_err());
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("changed");
        assert!(make(&directory, uid).is_err());
        fs::remove_dir(&directory).expect("removed");
    }
}
