//! The file of Weft's own program, which stand-ins are mounted from: a stand-in that started it in place of the system's
//! command would start itself without end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const OWN: &str = "/proc/self/exe";

/// Returns whether two paths lead to one file; `false` if either leads to none.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(a).is_some_and(|one| identity(b) == Some(one))
}

/// Returns whether a path, whatever its name, leads to the program of this process.
pub fn is_own(path: &Path) -> bool {
    is_same(path, Path::new(OWN))
}

/// Returns the first place with a file that is not this program.
pub fn find_original(places: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    places.into_iter().find(|place| place.exists() && !is_own(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_program_is_never_the_original() {
        let dir = std::env::temp_dir().join(format!("weft-own-file-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let [absent, own, original] = ["absent", "own", "original"].map(|name| dir.join(name));
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &own).unwrap();
        fs::write(&original, "").unwrap();
        assert!(is_own(&own) && !is_own(&original) && !is_own(&absent) && !is_same(&absent, &absent));
        assert_eq!(find_original([absent.clone(), own.clone(), original.clone()]), Some(original));
        assert_eq!(find_original([absent, own]), None);
        fs::remove_dir_all(dir).unwrap();
    }
}
