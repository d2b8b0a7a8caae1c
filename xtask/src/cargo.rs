//! Running cargo, and finding the repository.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Creates a cargo command in the repository's root.
pub fn command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// Runs cargo with visible output; an error unless it succeeds.
pub fn run(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    eprintln!("\n== cargo {}", args.join(" "));
    let status = command(args).envs(env.iter().copied()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    Ok(())
}

/// Returns the names of a package's integration tests, which cargo finds the same way: `NAME.rs` and `NAME/main.rs`.
pub fn test_targets(dir: &str) -> Result<Vec<String>> {
    targets_in(&root().join(dir))
}

fn targets_in(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_target = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
        names.extend(path.file_stem().and_then(|name| name.to_str()).filter(|_| is_target).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_and_directories_with_a_main_file() {
        let dir = std::env::temp_dir().join(format!("weft-targets-{}", std::process::id()));
        for path in ["seeds.rs", "directed/main.rs", "directed/world.rs", "helpers/mod.rs", "notes.txt"] {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = targets_in(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, ["directed", "seeds"]);
    }

    #[test]
    fn the_simulators_tests_in_directories_are_found() {
        assert!(test_targets("tests/sim/tests").unwrap().iter().any(|name| name == "directed"));
    }
}
