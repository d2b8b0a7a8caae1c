//! The repository's files, by pattern and by what they are.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that match, new ones included.
pub fn tracked(patterns: &[&str]) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(crate::cargo::root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]);
    let out = git.args(patterns).output().context("cannot run git ls-files")?;
    anyhow::ensure!(out.status.success(), "git ls-files: {}", String::from_utf8_lossy(&out.stderr).trim());
    let listed = String::from_utf8(out.stdout).context("a file's name is not UTF-8")?;
    // A file that was removed but not committed is listed, too.
    Ok(listed.lines().map(PathBuf::from).filter(|path| crate::cargo::root().join(path).exists()).collect())
}

/// Whether the path is one of shipped code: not a test, a benchmark or a chore.
pub fn is_shipped(path: &Path) -> bool {
    let first = path.components().next().and_then(|c| c.as_os_str().to_str());
    let has = |name: &str| path.components().any(|c| c.as_os_str() == name);
    matches!(first, Some("abi" | "bin" | "crates"))
        && !has("tests")
        && !has("benches")
        && !has("examples")
        && path.file_name().is_some_and(|name| name != "tests.rs")
}
