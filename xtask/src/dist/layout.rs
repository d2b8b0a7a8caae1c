//! Where the files of a package go.

use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file of a package.
#[derive(Clone, Debug)]
pub struct File {
    /// Path in the package.
    pub to: String,
    /// The file to copy.
    pub from: PathBuf,
    /// Whether it is a program.
    pub executable: bool,
}

impl File {
    /// A file that is data.
    pub fn data(to: impl Into<String>, from: impl Into<PathBuf>) -> File {
        File { to: to.into(), from: from.into(), executable: false }
    }

    /// A file that is a program.
    pub fn program(to: impl Into<String>, from: impl Into<PathBuf>) -> File {
        File { executable: true, ..File::data(to, from) }
    }

    /// Its permissions.
    pub fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }
}

/// Copies the files below `root`.
pub fn lay_out(files: &[File], root: &Path) -> Result<()> {
    for file in files {
        let to = root.join(&file.to);
        make_directories(root, to.parent().context("a file is in a directory")?)?;
        std::fs::copy(&file.from, &to)
            .with_context(|| format!("cannot copy {} to {}", file.from.display(), to.display()))?;
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(file.mode()))?;
    }
    Ok(())
}

/// Makes directories that everyone can read, whatever the umask is.
fn make_directories(root: &Path, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for dir in dir.ancestors().take_while(|dir| dir.starts_with(root)) {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Paths of all files and directories below `root`, sorted, relative to it.
pub fn listing(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let entry = entry?;
            found.push(entry.path().strip_prefix(root)?.display().to_string());
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
