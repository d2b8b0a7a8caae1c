//! Circles of files inside a crate: files that reach each other by `use` or by path, directly or by others.

use super::{Source, code};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules that each module of a crate names, all as paths from the crate's root ("a::b").
type Uses = BTreeMap<String, BTreeSet<String>>;

/// How many files of each crate stand in a circle.
pub(super) fn by_crate(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut crates: BTreeMap<String, Vec<(String, &Source)>> = BTreeMap::new();
    for source in sources {
        if let Some((name, module)) = place(&source.path) {
            crates.entry(name).or_default().push((module, source));
        }
    }
    crates.into_iter().map(|(name, files)| (name, in_circles(&uses(&files)))).collect()
}

/// The crate's directory and the module of a source file.
fn place(path: &Path) -> Option<(String, String)> {
    let (directory, file) = path.to_str()?.split_once("/src/")?;
    let module = file.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let module = if matches!(module, "lib" | "main") { "" } else { module };
    Some((directory.to_owned(), module.replace('/', "::")))
}

fn uses(files: &[(String, &Source)]) -> Uses {
    let modules: BTreeSet<&str> = files.iter().map(|(module, _)| module.as_str()).collect();
    let found = files.iter().map(|(module, source)| {
        let named = paths(&source.text).into_iter().filter_map(|path| resolve(&modules, module, &path));
        // Roots re-export what is below them; that is no dependency of theirs, nor of who names the root.
        let named = named.filter(|other| other != module && !other.is_empty());
        (module.clone(), if module.is_empty() { BTreeSet::new() } else { named.collect() })
    });
    found.collect()
}

/// Paths that begin with `crate::` or `super::`, groups in braces taken apart.
fn paths(text: &str) -> Vec<String> {
    let text: String = code(text).collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':' && c != '$') {
                expand("", text.get(at..).unwrap_or_default(), &mut found);
            }
        }
    }
    found
}

/// Adds the paths that begin at `text`, each with `prefix` before it. Returns what follows them.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let (path, mut rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    if !path.ends_with("::") || !rest.starts_with('{') {
        found.push(path);
        return rest;
    }
    while let Some(inner) = rest.strip_prefix(['{', ',']) {
        rest = expand(&path, inner.trim_start(), found).trim_start();
        // "as name" and the like up to the next member.
        rest = rest.get(rest.find([',', '}']).unwrap_or(rest.len())..).unwrap_or_default();
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// The module of the crate that a path written in `module` leads to: the longest that is a file.
fn resolve(modules: &BTreeSet<&str>, module: &str, path: &str) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    for part in path.split("::") {
        match part {
            "crate" => at.clear(),
            "super" => {
                at.pop()?;
            }
            "self" | "" => {}
            name => at.push(name),
        }
    }
    (0..=at.len())
        .rev()
        .map(|length| at.iter().take(length).copied().collect::<Vec<_>>().join("::"))
        .find(|candidate| modules.contains(candidate.as_str()))
}

/// How many modules reach themselves again.
fn in_circles(uses: &Uses) -> usize {
    uses.keys().filter(|module| reaches(uses, module, module)).count()
}

fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in uses.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> usize {
        let source = |(path, text): &(&str, &str)| Source { path: path.into(), text: (*text).to_owned() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        by_crate(&sources).values().sum()
    }

    #[test]
    fn a_circle_of_three_is_found_and_its_users_are_not_in_it() {
        let files = [
            ("crates/x/src/a.rs", "use crate::b::{self, T};"),
            ("crates/x/src/b/mod.rs", "fn f() -> crate::c::d::T {}"),
            ("crates/x/src/c/d.rs", "use super::super::a::{U as V};"),
            ("crates/x/src/user.rs", "use crate::{a, c::d};"),
            ("crates/y/src/a.rs", "use crate::b;"),
        ];
        assert_eq!(circles(&files), 3);
    }

    #[test]
    fn comments_and_the_root_make_no_circle() {
        let files = [
            ("crates/x/src/lib.rs", "pub use crate::a::T;"),
            ("crates/x/src/a.rs", "// crate::b\nuse crate::T;"),
            ("crates/x/src/b.rs", "use crate::a;"),
        ];
        assert_eq!(circles(&files), 0);
    }
}
