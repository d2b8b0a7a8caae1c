//! Location of the program `weft`, as seen from a library that another program loaded.

use std::path::{Path, PathBuf};

/// Finds the program; the error lists the places searched.
///
/// Ignores the environment in a program that gained privilege by being executed (set-user-ID).
pub(crate) fn find(library_dir: Option<&Path>) -> Result<PathBuf, String> {
    let mut looked = Vec::new();
    for candidate in candidates(library_dir, weft_sys::process::gained_privilege()) {
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        looked.push(candidate.display().to_string());
    }
    Err(looked.join(", "))
}

fn candidates(library_dir: Option<&Path>, distrust_environment: bool) -> Vec<PathBuf> {
    let mut list = Vec::new();
    if !distrust_environment {
        list.extend(std::env::var_os("WEFT_BIN").filter(|value| !value.is_empty()).map(PathBuf::from));
    }
    if let Some(dir) = library_dir.and_then(|dir| dir.canonicalize().ok()) {
        // Beside the library (cargo's target directory), or PREFIX/bin for PREFIX/lib, PREFIX/lib/weft,
        // PREFIX/lib/TRIPLET/weft and a wheel's PREFIX/lib/pythonX.Y/site-packages/weft_rdma.
        list.push(dir.join("weft"));
        for up in dir.ancestors().skip(1).take(4) {
            list.push(up.join("bin/weft"));
            list.push(up.join("weft"));
        }
    }
    if let Ok(exe) = std::env::current_exe()
        && exe.file_name().is_some_and(|name| name == "weft")
    {
        list.push(exe);
    }
    if !distrust_environment && let Some(path) = std::env::var_os("PATH") {
        list.extend(std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("weft")));
    }
    list
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_program_ignores_its_environment() {
        let all = candidates(None, true);
        assert!(all.is_empty(), "{all:?}");
        assert!(!candidates(None, false).is_empty());
    }

    #[test]
    fn places_around_the_library_are_tried() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let list = candidates(Some(&dir), true);
        assert_eq!(list.first(), Some(&dir.join("weft")));
        assert!(list.contains(&dir.parent().unwrap().join("bin/weft")));
    }

    #[test]
    fn the_command_of_a_wheel_is_found_from_its_libraries() {
        let prefix = std::env::temp_dir().canonicalize().unwrap().join(format!("weft-wheel-{}", std::process::id()));
        let package = prefix.join("lib/python3.11/site-packages/weft_rdma");
        std::fs::create_dir_all(&package).unwrap();
        assert!(candidates(Some(&package), true).contains(&prefix.join("bin/weft")));
        std::fs::remove_dir_all(&prefix).unwrap();
    }
}
