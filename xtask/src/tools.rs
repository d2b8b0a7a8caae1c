//! Cargo tools that the chores use: from the PATH, or installed below `target/tools`.

use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// A tool that `cargo install` installs.
pub struct Tool {
    /// The package, and the name of its program.
    pub name: &'static str,
    /// Release series.
    pub version: &'static str,
}

impl Tool {
    /// The program, if it is installed.
    pub fn find(&self) -> Option<PathBuf> {
        let runs =
            |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
        [PathBuf::from(self.name), self.installed()].into_iter().find(runs)
    }

    /// The program, which is installed first if it is missing.
    pub fn install(&self) -> Result<PathBuf> {
        if let Some(found) = self.find() {
            return Ok(found);
        }
        let root = crate::cargo::root().join("target/tools");
        let root = root.to_str().context("the repository's path is not UTF-8")?;
        crate::cargo::run(&["install", self.name, "--locked", "--version", self.version, "--root", root], &[])?;
        Ok(self.installed())
    }

    fn installed(&self) -> PathBuf {
        crate::cargo::root().join("target/tools/bin").join(self.name)
    }
}
