//! Figures of the code's shape, to compare before and after a change: `cargo xtask counts`.
//!
//! All are read from the text of the sources, so they cost a second and need no build.

mod circles;

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files besides its test that a new request may touch: its definition, its feature in the daemon, the client's call.
const REQUEST_FILES_MAX: usize = 3;

/// A shipped source file and its text up to its unit tests.
struct Source {
    path: PathBuf,
    text: String,
}

/// Prints all figures.
pub fn run() -> Result<()> {
    let sources = shipped()?;
    let lines: usize = sources.iter().map(|source| source.text.lines().count()).sum();
    println!("shipped sources                  {:5} files, {lines} lines", sources.len());
    println!("banned openings (lint)           {:5}", crate::words::breaches()?.len());
    let circles = circles::by_crate(&sources);
    println!("files in circles                 {:5}", circles.values().sum::<usize>());
    for (name, files) in circles.iter().filter(|(_, files)| **files > 0) {
        println!("    {name:28} {files:5}");
    }
    println!("unsafe blocks, fns, impls in bin {:5}", unsafe_in(&sources, "bin"));
    println!(
        "files that name ATOMIC WRITE     {:5}",
        naming(&sources, &["AtomicWrite", "ATOMIC_WRITE", "atomic_write"])
    );
    let requests = requests(&sources);
    let mut files: Vec<usize> = requests.values().copied().collect();
    files.sort_unstable();
    let median = files.get(files.len() / 2).copied().unwrap_or_default();
    let most = files.last().copied().unwrap_or_default();
    println!("files of a daemon request        {median:5} (median of {}), {most} at most, without tests", files.len());
    for (name, files) in requests.iter().filter(|(_, files)| **files > REQUEST_FILES_MAX) {
        println!("    {name:28} {files:5}");
    }
    let shared = shared_names(&sources);
    println!("type names defined in 3 files or more {} (in 5 or more:)", shared.len());
    for (name, times) in shared.into_iter().filter(|(_, times)| *times >= 5) {
        println!("    {name:28} {times:5}");
    }
    Ok(())
}

fn shipped() -> Result<Vec<Source>> {
    let paths = crate::sources::tracked(&["*.rs"])?.into_iter().filter(|path| crate::sources::is_shipped(path));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(crate::cargo::root().join(&path))?;
        let tests = text.lines().position(|line| line.trim_start().starts_with("#[cfg(test)]"));
        let kept: Vec<&str> = text.lines().take(tests.unwrap_or(usize::MAX)).collect();
        Ok(Source { path, text: kept.join("\n") })
    };
    paths.map(read).collect()
}

/// Lines of code, comments left out.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn unsafe_in(sources: &[Source], first: &str) -> usize {
    let unsafe_lines = |source: &Source| code(&source.text).map(|line| line.matches("unsafe ").count()).sum::<usize>();
    sources.iter().filter(|source| source.path.starts_with(first)).map(unsafe_lines).sum()
}

/// How many files name one of the words in code.
fn naming(sources: &[Source], words: &[&str]) -> usize {
    let names = |source: &&Source| code(&source.text).any(|line| words.iter().any(|word| line.contains(word)));
    sources.iter().filter(names).count()
}

/// The requests that a library can make of the daemon, and how many files each one is in: its definition, and the
/// files that name it.
fn requests(sources: &[Source]) -> BTreeMap<String, usize> {
    let Some(message) = sources.iter().find(|source| source.path == Path::new("crates/ipc/src/message.rs")) else {
        return BTreeMap::new();
    };
    let body = message.text.lines().skip_while(|line| !line.starts_with("pub enum Request {")).skip(1);
    let variants = body.take_while(|line| *line != "}").filter_map(|line| {
        let name = line.strip_prefix("    ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))?;
        name.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned)
    });
    variants
        .map(|name| {
            let files = sources.iter().filter(|source| names_request(&source.text, &name)).count();
            (name, 1 + files)
        })
        .collect()
}

/// Whether code names this request, and not one that begins so, or one of a feature (`FabricRequest`).
fn names_request(text: &str, name: &str) -> bool {
    let variant = format!("Request::{name}");
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code(text).any(|line| {
        line.match_indices(&variant).any(|(at, found)| {
            let (before, after) = (&line[..at], &line[at + found.len()..]);
            !in_word(before.chars().next_back()) && !in_word(after.chars().next())
        })
    })
}

/// Names of types that three or more files define, with how many do.
fn shared_names(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut defined: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for source in sources {
        for line in code(&source.text) {
            if let Some(name) = type_name(line) {
                defined.entry(name.to_owned()).or_default().insert(&source.path);
            }
        }
    }
    defined.into_iter().map(|(name, files)| (name, files.len())).filter(|(_, files)| *files >= 3).collect()
}

/// The name of the type that the line defines.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line =
        line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches("(crate)").trim_start_matches("(super)"));
    let (kind, rest) = line.trim_start().split_once(' ')?;
    let defines = matches!(kind, "struct" | "enum" | "union" | "trait");
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (defines && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn types_are_found_whatever_their_visibility() {
        assert_eq!(type_name("    pub(crate) struct Place<'a> {"), Some("Place"));
        assert_eq!(type_name("enum Way {"), Some("Way"));
        assert_eq!(type_name("structural();"), None);
    }

    #[test]
    fn a_name_that_three_files_define_is_shared() {
        let sources = ["a.rs", "b.rs", "c.rs"].map(|path| source(path, "// struct Other\nstruct Place;"));
        assert_eq!(shared_names(&sources), BTreeMap::from([("Place".to_owned(), 3)]));
    }

    #[test]
    fn a_request_is_told_from_others() {
        assert!(names_request("client.request(Request::Path(path))", "Path"));
        assert!(!names_request("Request::PathTraffic(traffic)", "Path"));
        assert!(!names_request("FabricRequest::Status", "Status"));
        assert!(!names_request("// Request::Status", "Status"));
    }

    #[test]
    fn the_daemons_requests_are_found() {
        let sources = shipped().expect("readable sources");
        assert!(requests(&sources).contains_key("ListDevices"));
    }
}
