//! Finds Weft's shared libraries: next to the command, in an installation, in the sources that `cargo install` built the
//! command from, or in `WEFT_LIB_DIR`.

mod build;
mod installed;
mod names;
mod origin;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
pub use names::{AUDIT, CHECK, RDS, SONAMES, VIEW, all_names, soname_of};
pub use weft_tool::announce::announce_daemon;

/// Finds the directory of Weft's libraries, as an absolute path.
///
/// # Errors
/// There is no such directory; the text lists the searched places and a remedy.
pub fn find() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("WEFT_LIB_DIR") {
        let dir = PathBuf::from(dir);
        if !dir.join(SONAMES[0]).exists() {
            bail!(
                "WEFT_LIB_DIR={}: there is no libibverbs.so.1; unset it or point it to Weft's libraries",
                dir.display()
            );
        }
        if let Some(fault) = installed::fault(&dir) {
            bail!("WEFT_LIB_DIR={}: {fault}; unset it or point it to this command's libraries", dir.display());
        }
        return Ok(std::path::absolute(dir)?);
    }
    let exe = env::current_exe()?.canonicalize()?;
    let origin = origin::of(&exe);
    let mut candidates = candidates(&exe);
    // `weft run` mounts the command over `rdma`, too; WEFT_BIN is its installed path.
    candidates.extend(env::var_os("WEFT_BIN").into_iter().flat_map(|bin| self::candidates(Path::new(&bin))));
    candidates.extend(origin.as_ref().map(|origin| origin.target().join("release/rdma")));
    deduplicate(&mut candidates);
    let held = || candidates.iter().find(|dir| holds_all(dir) && installed::fault(dir).is_none()).cloned();
    build::build_if_needed(&exe, origin.as_ref(), &held);
    if let Some(dir) = held() {
        return Ok(dir);
    }
    if let Some((dir, fault)) = candidates.iter().find_map(|dir| Some((dir, installed::fault(dir)?))) {
        bail!("Weft's libraries in {} cannot be used: {fault}; {REINSTALL}", dir.display());
    }
    // A build may lack a library; programs that need it report that.
    let found = candidates.iter().find(|dir| dir.join(SONAMES[0]).exists()).cloned();
    found.map_or_else(|| bail!("{}", missing(&candidates, origin.as_ref())), Ok)
}

/// Finds that directory for the libraries that this process loads, and tells them how to start the daemon.
///
/// # Errors
/// As [`find`].
pub fn locate() -> Result<PathBuf> {
    let dir = find()?;
    announce_daemon();
    Ok(dir)
}

/// The remedy for an incomplete installation.
const REINSTALL: &str = "reinstall Weft the way it was installed (Debian package, wheel, or install.sh)";

/// The error message for a failed search.
fn missing(candidates: &[PathBuf], origin: Option<&origin::Origin>) -> String {
    let places = candidates.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" or ");
    let hint = match origin {
        Some(origin) => format!(
            "`cargo install` installs the command alone; run `cargo build --release` in {}, \
             which must stay where it is, or set WEFT_LIB_DIR",
            origin.workspace.display()
        ),
        None => format!("{REINSTALL}, run `cargo build --release` in Weft's sources, or set WEFT_LIB_DIR"),
    };
    format!("Weft's libraries are not built or not installed: no libibverbs.so.1 in {places}; {hint}")
}

/// Candidates beside the command (`target/release/rdma`; one level up for test programs in `deps`), and those of an
/// installation.
fn candidates(exe: &Path) -> Vec<PathBuf> {
    let Some(dir) = exe.parent() else {
        return Vec::new();
    };
    let mut found = vec![dir.join("rdma")];
    if let Some(above) = dir.parent() {
        found.push(above.join("rdma"));
        found.extend(installed::directories(above));
    }
    found
}

/// Removes duplicates of earlier paths.
fn deduplicate(paths: &mut Vec<PathBuf>) {
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
}

fn holds_all(dir: &Path) -> bool {
    all_names().all(|name| dir.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_and_installation_are_looked_at() {
        let of = |exe: &str| candidates(Path::new(exe));
        assert!(of("/src/target/release/weft").contains(&"/src/target/release/rdma".into()));
        assert!(of("/src/target/debug/deps/weft-1").contains(&"/src/target/debug/rdma".into()));
        assert!(of("/usr/bin/weft").contains(&"/usr/lib/weft".into()));
    }

    #[test]
    fn each_directory_is_named_once() {
        let mut paths = [candidates(Path::new("/usr/bin/weft")), candidates(Path::new("/usr/bin/weft"))].concat();
        deduplicate(&mut paths);
        assert_eq!(paths, candidates(Path::new("/usr/bin/weft")));
    }

    #[test]
    fn a_command_of_cargo_install_names_its_sources() {
        let origin = origin::Origin { workspace: "/src/weft".into() };
        let text = missing(&["/home/u/.cargo/bin/rdma".into()], Some(&origin));
        assert!(text.contains("run `cargo build --release` in /src/weft"), "{text}");
        assert!(missing(&[], None).contains("reinstall Weft"));
    }
}
