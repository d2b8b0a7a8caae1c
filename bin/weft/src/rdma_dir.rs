//! Where our shared libraries are: next to the command, in an installation's `lib/weft`, in the sources that
//! `cargo install` took the command from, or where `WEFT_LIB_DIR` says.

mod build;
mod origin;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Result, bail};

/// The libraries, by the names that programs ask the loader for.
pub const SONAMES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"];

/// The directory of our libraries, absolute.
///
/// # Errors
/// It is nowhere; the text says where it was looked for, and what makes it.
pub fn find() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("WEFT_LIB_DIR") {
        let dir = PathBuf::from(dir);
        if !dir.join(SONAMES[0]).exists() {
            bail!(
                "WEFT_LIB_DIR={}: there is no libibverbs.so.1; unset it or point it to Weft's libraries",
                dir.display()
            );
        }
        return Ok(std::path::absolute(dir)?);
    }
    let exe = env::current_exe()?.canonicalize()?;
    let origin = origin::of(&exe);
    let mut candidates = candidates(&exe);
    // `weft run` shows the command as `rdma`, too; WEFT_BIN is where it is installed.
    candidates.extend(env::var_os("WEFT_BIN").into_iter().flat_map(|bin| self::candidates(Path::new(&bin))));
    candidates.extend(origin.as_ref().map(|origin| origin.target().join("release/rdma")));
    deduplicate(&mut candidates);
    let held = || candidates.iter().find(|dir| holds_all(dir)).cloned();
    build::build_if_needed(&exe, origin.as_ref(), &held);
    // An installation may leave a library out: programs that need it say so.
    let found = held().or_else(|| candidates.iter().find(|dir| dir.join(SONAMES[0]).exists()).cloned());
    found.map_or_else(|| bail!("{}", missing(&candidates, origin.as_ref())), Ok)
}

/// The message of a search that found nothing.
fn missing(candidates: &[PathBuf], origin: Option<&origin::Origin>) -> String {
    let places = candidates.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" or ");
    let hint = match origin {
        Some(origin) => format!(
            "`cargo install` installs the command alone; run `cargo build --release` in {}, \
             which must stay where it is, or set WEFT_LIB_DIR",
            origin.workspace.display()
        ),
        None => "run `cargo build --release` in Weft's sources, or set WEFT_LIB_DIR".to_owned(),
    };
    format!("Weft's libraries are not built or not installed: no libibverbs.so.1 in {places}; {hint}")
}

/// Beside the command (`target/release/rdma`; one up for test programs in `deps`), and `../lib/weft` of it.
fn candidates(exe: &Path) -> Vec<PathBuf> {
    let Some(dir) = exe.parent() else {
        return Vec::new();
    };
    let mut found = vec![dir.join("rdma")];
    if let Some(above) = dir.parent() {
        found.push(above.join("rdma"));
        found.push(above.join("lib/weft"));
    }
    found
}

/// Removes the paths that stand in the list before.
fn deduplicate(paths: &mut Vec<PathBuf>) {
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
}

fn holds_all(dir: &Path) -> bool {
    SONAMES.iter().all(|soname| dir.join(soname).exists())
}

/// Tells libraries that this process loads, and its children, where the command is that starts the daemon.
pub fn announce_daemon() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if env::var_os("WEFT_BIN").is_none()
            && let Ok(exe) = env::current_exe()
        {
            // SAFETY: called before this process starts any thread that might read the environment.
            unsafe { env::set_var("WEFT_BIN", exe) };
        }
    });
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
        assert!(missing(&[], None).contains("in Weft's sources"));
    }
}
