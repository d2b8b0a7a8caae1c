//! Location of the product under test.
//!
//! `target/release/weft`, that of another profile (`WEFT_PROFILE`), or `WEFT_BIN` to test an installed one. An ordinary
//! user of the lab must be able to read it: below a closed home directory it is copied to a place that everyone can
//! read.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Returns Cargo's target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the `weft` command under test.
pub fn weft() -> Result<PathBuf> {
    static FOUND: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| find().map_err(|e| format!("{e:#}"))).clone().map_err(anyhow::Error::msg)
}

/// Build profile of releases.
pub const SHIPPED: &str = "dist";

/// Environment variable with the profile of the command under test.
pub const PROFILE_VARIABLE: &str = "WEFT_PROFILE";

static PROFILE: OnceLock<String> = OnceLock::new();

/// Lets this process run the command that was built with `profile`, whatever the environment says. Must come before
/// [`weft`].
pub fn select_profile(profile: &str) {
    let _ = PROFILE.set(profile.to_owned());
}

/// Returns the directory of the command's libraries.
pub fn libraries() -> Result<PathBuf> {
    Ok(weft()?.parent().context("the command has no directory")?.join("rdma"))
}

/// Returns the version that the command under test reports.
pub fn version() -> Result<String> {
    let out = std::process::Command::new(weft()?).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn find() -> Result<PathBuf> {
    let profile = PROFILE.get_or_init(|| std::env::var(PROFILE_VARIABLE).unwrap_or_else(|_| "release".to_owned()));
    let weft = std::env::var_os("WEFT_BIN").map_or_else(|| target().join(profile).join("weft"), PathBuf::from);
    if !weft.is_file() {
        bail!("{} is missing: run `cargo build --profile {profile}` first (`cargo xtask test` does)", weft.display());
    }
    let weft = weft.canonicalize()?;
    let open = weft.ancestors().skip(1).all(|dir| mode(dir) & 0o001 != 0);
    if open && mode(&weft) & 0o005 == 0o005 { Ok(weft) } else { copy(&weft) }
}

fn mode(path: &Path) -> u32 {
    path.metadata().map_or(0, |m| m.permissions().mode())
}

/// Copies the command and the libraries beside it to a directory that an ordinary user can read.
fn copy(weft: &Path) -> Result<PathBuf> {
    let from = weft.parent().context("the command has no directory")?;
    let to = std::env::temp_dir().join(format!("weft-product-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&to)?;
    let rdma = from.join("rdma");
    let files = std::fs::read_dir(from)?.flatten().map(|e| e.path());
    let files = files.filter(|p| p == weft || p.extension().is_some_and(|e| e == "so"));
    let mut copy = std::process::Command::new("cp");
    // An earlier run's daemon may still execute the file that this replaces.
    copy.args(["-a", "--remove-destination"]).args(files).args(rdma.exists().then_some(&rdma)).arg(&to);
    if !copy.status()?.success() {
        bail!("cannot copy the product from {} to {}", from.display(), to.display());
    }
    std::process::Command::new("chmod").args(["-R", "a+rX"]).arg(&to).status()?;
    Ok(to.join(weft.file_name().context("the command has no name")?))
}
