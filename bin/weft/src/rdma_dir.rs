//! Where our shared libraries are: next to the command, in an installation's `lib/weft`, or where `WEFT_LIB_DIR` says.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use anyhow::{Result, bail};

/// The libraries, by the names that programs ask the loader for.
pub const SONAMES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"];

/// The directory of our libraries, absolute.
///
/// # Errors
/// It is nowhere; the text says where it was looked for.
pub fn find() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("WEFT_LIB_DIR") {
        let dir = PathBuf::from(dir);
        if !holds_libibverbs(&dir) {
            bail!(
                "WEFT_LIB_DIR={}: there is no libibverbs.so.1; unset it or point it to Weft's libraries",
                dir.display()
            );
        }
        return Ok(std::path::absolute(dir)?);
    }
    let exe = env::current_exe()?.canonicalize()?;
    let mut candidates = candidates(&exe);
    // Where `weft run` shows us as `rdma`, that is not where we are installed.
    candidates.extend(env::var_os("WEFT_BIN").into_iter().flat_map(|bin| self::candidates(Path::new(&bin))));
    if !candidates.iter().any(|dir| holds_libibverbs(dir)) {
        build_under_cargo(&exe);
    }
    match candidates.iter().find(|dir| holds_libibverbs(dir)) {
        Some(dir) => Ok(dir.clone()),
        None => bail!(
            "Weft's libraries are not built or not installed: no libibverbs.so.1 in {}; \
             run `cargo build --release`, or set WEFT_LIB_DIR",
            candidates.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" or ")
        ),
    }
}

/// `cargo run --bin weft` builds the command alone. If that is how we were started, have cargo build the rest: whoever
/// tries Weft for the first time has typed one command and shall not need a second.
fn build_under_cargo(exe: &Path) {
    let (Some(cargo), Some(manifest_dir)) = (env::var_os("CARGO"), env::var_os("CARGO_MANIFEST_DIR")) else { return };
    let mut build = Command::new(cargo);
    build.current_dir(manifest_dir).args(["build", "--quiet"]);
    build.args(["--package", "weft-ibverbs", "--package", "weft-rdmacm", "--package", "weft-ibumad"]);
    if exe.parent().is_some_and(|dir| dir.ends_with("release")) {
        build.arg("--release");
    }
    crate::errln!("building Weft's libraries first");
    // If it fails it has said why, and our caller says what is missing.
    let _ = build.status();
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

fn holds_libibverbs(dir: &Path) -> bool {
    dir.join(SONAMES[0]).exists()
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
}
