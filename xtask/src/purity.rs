//! Purity of the crates above the I/O line: the words that they must not contain (clocks, threads, sockets, files, hash
//! maps with a random order), and the one that they must: `#![forbid(unsafe_code)]`.
//!
//! Clippy's disallowed methods see through imports and aliases; this check reads the text, so that it reports a breach
//! within a second, before compilation.

use crate::layers::PURE;
use anyhow::{Context, Result};
use std::path::Path;

/// Words forbidden in a pure crate, with the reason.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time::Instant", "time is passed in"),
    ("std::time::SystemTime", "time is passed in"),
    ("Instant::now", "time is passed in"),
    ("std::thread", "no threads"),
    ("std::net::Udp", "no sockets"),
    ("std::net::Tcp", "no sockets"),
    ("std::os::", "no descriptors"),
    ("std::fs", "no files"),
    ("std::env::", "no environment"),
    ("std::process", "no processes"),
    ("std::collections::HashMap", "its order differs from run to run: FxHashMap for look-ups, BTreeMap to walk"),
    ("std::collections::HashSet", "its order differs from run to run: FxHashSet for look-ups, BTreeSet to walk"),
    ("unsafe {", "no unsafe"),
];

/// Returns every breach in the pure crates, as `file:line: description`.
pub fn breaches() -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for name in PURE {
        let source = crate::cargo::root().join("crates").join(name.trim_start_matches("weft-")).join("src");
        let lib = std::fs::read_to_string(source.join("lib.rs")).with_context(|| format!("{name}'s lib.rs"))?;
        if !lib.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{}: #![forbid(unsafe_code)] is missing", source.join("lib.rs").display()));
        }
        walk(&source, &mut breaches)?;
    }
    Ok(breaches)
}

fn walk(dir: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(dir)?.flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, breaches)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path)?;
            breaches.extend(judge(&text).map(|(line, what)| format!("{}:{line}: {what}", path.display())));
        }
    }
    Ok(())
}

/// Returns the lines of shipped code (tests come last in a file) that contain a forbidden word.
fn judge(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let shipped = text.lines().take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"));
    shipped.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).filter_map(|(number, line)| {
        let (word, why) = FORBIDDEN.iter().find(|(word, _)| line.contains(word))?;
        Some((number + 1, format!("{word} above the I/O line: {why}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pure_crates_are_pure() {
        assert_eq!(breaches().expect("readable sources"), Vec::<String>::new());
    }

    #[test]
    fn a_clock_is_seen_but_not_in_comments_and_tests() {
        let text = "// std::thread is banned\nlet now = std::time::Instant::now();\n#[cfg(test)]\nstd::fs::read(x)";
        let found: Vec<_> = judge(text).map(|(line, _)| line).collect();
        assert_eq!(found, [2]);
    }
}
