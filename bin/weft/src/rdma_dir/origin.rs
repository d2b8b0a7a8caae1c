//! The sources that `cargo install --path` built this command from: cargo records them beside the installed commands.

use std::path::{Path, PathBuf};

/// Sources of an installed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The workspace's directory.
    pub workspace: PathBuf,
}

impl Origin {
    /// Cargo's target directory of the workspace.
    pub fn target(&self) -> PathBuf {
        let named = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
        named.map_or_else(|| self.workspace.join("target"), |dir| self.workspace.join(dir))
    }
}

/// Path of this package in the workspace.
const PACKAGE_DIR: &str = "bin/weft";

/// Reads cargo's list of installed commands above `exe`, a file `ROOT/bin/weft`. Returns `None` if there is no list or
/// the sources are gone.
pub fn of(exe: &Path) -> Option<Origin> {
    let list = exe.parent()?.parent()?.join(".crates.toml");
    let workspace = workspace_of(&std::fs::read_to_string(list).ok()?)?;
    workspace.join(PACKAGE_DIR).join("Cargo.toml").exists().then_some(Origin { workspace })
}

/// Parses the workspace from a line such as `"weft 0.1.0 (path+file:///src/weft/bin/weft)" = ["weft"]`.
fn workspace_of(list: &str) -> Option<PathBuf> {
    let entry = list.lines().find(|line| line.starts_with("\"weft "))?;
    let (_, rest) = entry.split_once("(path+file://")?;
    let (path, _) = rest.split_once(')')?;
    Some(PathBuf::from(path.strip_suffix(PACKAGE_DIR)?.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_installed_commands_names_the_sources() {
        let list = "[v1]\n\"ripgrep 14.1.0 (registry+https://github.com/rust-lang/crates.io-index)\" = [\"rg\"]\n\
                    \"weft 0.1.0 (path+file:///src/weft/bin/weft)\" = [\"weft\"]\n";
        assert_eq!(workspace_of(list), Some("/src/weft".into()));
        assert_eq!(workspace_of("[v1]\n\"weft 0.1.0 (git+https://example.org/weft#1)\" = [\"weft\"]\n"), None);
        assert_eq!(workspace_of(""), None);
    }

    #[test]
    fn sources_that_are_gone_are_none() {
        assert_eq!(of(Path::new("/nonexistent/bin/weft")), None);
    }
}
