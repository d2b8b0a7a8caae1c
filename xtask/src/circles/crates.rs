//! The circles of each crate, counted and listed.

use super::graph::{Modules, arrows, circles};
use super::imports::{File, Mention};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many files of each crate stand in a circle.
pub fn by_crate() -> Result<BTreeMap<String, usize>> {
    let count = |modules: &Modules| circles(&arrows(modules)).iter().map(BTreeSet::len).sum();
    Ok(crates()?.iter().map(|(name, modules)| (name.clone(), count(modules))).collect())
}

/// Prints the circles of the crates whose directories are named, or of all: which file names which, and where.
pub fn print(only: &[String]) -> Result<()> {
    for (name, modules) in crates()?.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        let arrows = arrows(modules);
        for circle in circles(&arrows) {
            println!("{name}: {} files", circle.len());
            for from in &circle {
                let others = arrows.get(from).into_iter().flatten().filter(|(to, _)| circle.contains(*to));
                for (to, mentions) in others {
                    println!("    {:32} -> {:32} {}", shown(from), shown(to), places(mentions));
                }
            }
        }
    }
    Ok(())
}

fn shown(module: &str) -> &str {
    if module.is_empty() { "(root)" } else { module }
}

fn places(mentions: &[&Mention]) -> String {
    let place = |mention: &&Mention| format!("{}: {}", mention.line, mention.path.join("::"));
    mentions.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// The modules of each crate, by the crate's directory.
fn crates() -> Result<BTreeMap<String, Modules>> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for path in crate::sources::tracked(&["*.rs"])?.into_iter().filter(|path| crate::sources::is_shipped(path)) {
        if let Some((name, module)) = place(&path) {
            let text = std::fs::read_to_string(crate::cargo::root().join(&path))?;
            crates.entry(name).or_default().insert(module, File::read(&text));
        }
    }
    Ok(crates)
}

/// The crate's directory and the module of a source file.
fn place(path: &Path) -> Option<(String, String)> {
    let (directory, file) = path.to_str()?.split_once("/src/")?;
    let module = file.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let module = if matches!(module, "lib" | "main") { "" } else { module };
    Some((directory.to_owned(), module.replace('/', "::")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_from_the_crates_root() {
        let placed = |path: &str| place(Path::new(path)).expect("a source file");
        assert_eq!(placed("crates/x/src/a/mod.rs"), ("crates/x".to_owned(), "a".to_owned()));
        assert_eq!(placed("crates/x/src/a/b.rs"), ("crates/x".to_owned(), "a::b".to_owned()));
        assert_eq!(placed("bin/x/src/main.rs"), ("bin/x".to_owned(), String::new()));
    }
}
