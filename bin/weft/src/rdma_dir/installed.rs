//! Installed libraries: the directories where packages put them, and whether a set belongs to this command.
//!
//! `cargo xtask dist` writes a file beside installed libraries that names the release and the architecture. A build's
//! own directory has no such file.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use super::names::all_names;

/// File beside installed libraries: the release and the architecture, such as `0.1.0 x86_64`.
const RELEASE_FILE: &str = "RELEASE";

/// The Python package of the wheel; its libraries are package data.
const PYTHON_PACKAGE: &str = "weft_rdma";

/// Directories of libraries that belong to a command in `prefix/bin`: of the tarball, the Debian package and the wheel.
pub fn directories(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let mut found = vec![lib.join("weft"), lib.join(format!("{ARCH}-linux-gnu/weft"))];
    // Fedora's Python keeps binary packages in lib64, Debian's own keeps what root installs in local/lib.
    for dir in [lib, prefix.join("lib64"), prefix.join("local/lib")] {
        found.extend(python_packages(&dir));
    }
    found
}

/// The wheel's package of every Python below `lib`.
fn python_packages(lib: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let pythons = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    let packages = pythons.flat_map(|python| {
        ["site-packages", "dist-packages"].map(|kind| python.path().join(kind).join(PYTHON_PACKAGE))
    });
    let mut packages: Vec<_> = packages.filter(|dir| dir.is_dir()).collect();
    packages.sort();
    packages
}

/// Why an installed set of libraries does not fit this command. Returns `None` if it fits, and for a build's set.
pub fn fault(dir: &Path) -> Option<String> {
    let release = std::fs::read_to_string(dir.join(RELEASE_FILE)).ok()?;
    let (release, ours) = (release.trim(), concat!(env!("CARGO_PKG_VERSION"), " "));
    let ours = format!("{ours}{ARCH}");
    if release != ours {
        return Some(format!("they belong to weft {release}, and this command is weft {ours}"));
    }
    let missing = all_names().filter(|name| !dir.join(name).exists());
    let missing = missing.collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then(|| format!("there is no {missing}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with an installed set of `release`, without the library `missing`.
    fn set(name: &str, release: &str, missing: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("weft-installed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(RELEASE_FILE), format!("{release}\n")).unwrap();
        for name in all_names().filter(|name| *name != missing) {
            std::fs::write(dir.join(name), "").unwrap();
        }
        dir
    }

    fn fault_of(name: &str, release: &str, missing: &str) -> Option<String> {
        let dir = set(name, release, missing);
        let found = fault(&dir);
        std::fs::remove_dir_all(dir).unwrap();
        found
    }

    #[test]
    fn a_set_of_another_release_or_without_a_library_is_a_fault() {
        let ours = format!("{} {ARCH}", env!("CARGO_PKG_VERSION"));
        assert_eq!(fault_of("whole", &ours, ""), None);
        let other = fault_of("old", &format!("0.0.1 {ARCH}"), "").unwrap();
        assert!(other.starts_with("they belong to weft 0.0.1 "), "{other}");
        assert_eq!(fault_of("part", &ours, "libibumad.so.3").unwrap(), "there is no libibumad.so.3");
        assert_eq!(fault_of("helper", &ours, "libweft_audit.so").unwrap(), "there is no libweft_audit.so");
    }

    #[test]
    fn a_build_has_no_release() {
        assert_eq!(fault(Path::new("/nonexistent")), None);
    }

    #[test]
    fn every_package_has_its_directory() {
        let found = directories(Path::new("/usr"));
        assert!(found.contains(&"/usr/lib/weft".into()));
        assert!(found.contains(&format!("/usr/lib/{ARCH}-linux-gnu/weft").into()));
        let prefix = std::env::temp_dir().join(format!("weft-venv-{}", std::process::id()));
        let package = prefix.join("lib/python3.11/site-packages/weft_rdma");
        std::fs::create_dir_all(&package).unwrap();
        assert!(directories(&prefix).contains(&package));
        std::fs::remove_dir_all(prefix).unwrap();
    }
}
