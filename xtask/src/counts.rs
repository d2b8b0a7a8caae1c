//! Figures of the code's shape, to compare before and after a change: `cargo xtask counts`.
//!
//! All are read from the text of the sources, so they cost a second and need no build.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files besides its test that a new request may touch: its definition, its feature in the daemon, the client's call.
const REQUEST_FILES_MAX: usize = 3;

/// Files that may name an operation: the wire's opcodes, the table of operations, frames between processes of one host,
/// the C side of that table, the checker's wrapper of its builder, and three of the record, whose file format has numbers and
/// names of its own. The C structures' constants come on top.
const OPERATION_FILES_MAX: usize = 9;

/// The crate that repeats the constants of the C headers.
const C_CONSTANTS: &str = "abi/types";

/// A shipped source file and its text up to its unit tests.
struct Source {
    path: PathBuf,
    text: String,
}

#[derive(clap::Args)]
pub struct Options {
    /// List the files in circles of imports instead: which file names which, and in which line
    #[arg(long)]
    circles: bool,
    /// Crates to list, by directory, such as crates/sm; default: all
    #[arg(requires = "circles")]
    crates: Vec<String>,
}

/// Prints all figures, or the circles.
pub fn run(options: &Options) -> Result<()> {
    if options.circles {
        return crate::circles::print(&options.crates);
    }
    let sources = shipped()?;
    let lines: usize = sources.iter().map(|source| source.text.lines().count()).sum();
    println!("shipped sources                  {:5} files, {lines} lines", sources.len());
    println!("banned openings (lint)           {:5}", crate::words::breaches()?.len());
    let circles = crate::circles::by_crate()?;
    println!("files in circles                 {:5}", circles.values().sum::<usize>());
    for (name, files) in circles.iter().filter(|(_, files)| **files > 0) {
        println!("    {name:28} {files:5}");
    }
    println!("unsafe blocks, fns, impls in bin {:5}", unsafe_in(&sources, "bin"));
    let (naming, constants) = naming(&sources, "ATOMIC WRITE");
    println!(
        "files that name ATOMIC WRITE     {:5} (at most {OPERATION_FILES_MAX}), and {constants} of {C_CONSTANTS}",
        naming.len()
    );
    for path in naming {
        println!("    {}", path.display());
    }
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

/// The files that name an operation in code, in whatever spelling (`AtomicWrite`, `ATOMIC_WRITE`, "ATOMIC WRITE"), and
/// how many more do so among the C headers' constants.
fn naming<'a>(sources: &'a [Source], operation: &str) -> (Vec<&'a Path>, usize) {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "");
    let operation = plain(operation);
    let names = sources.iter().filter(|source| code(&source.text).any(|line| plain(line).contains(&operation)));
    let (constants, others): (Vec<&Path>, Vec<&Path>) =
        names.map(|source| source.path.as_path()).partition(|path| path.starts_with(C_CONSTANTS));
    (others, constants.len())
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
    fn an_operation_is_found_in_every_spelling() {
        let text = |name: &str| format!("let x = {name};");
        let named = ["AtomicWrite", "IBV_WR_ATOMIC_WRITE", "wr_atomic_write", "\"ATOMIC WRITE\""];
        for name in named {
            assert_eq!(naming(&[source("a.rs", &text(name))], "ATOMIC WRITE").0.len(), 1, "{name}");
        }
        assert_eq!(naming(&[source("a.rs", "// AtomicWrite\natomic::write()")], "ATOMIC WRITE").0.len(), 0);
        assert_eq!(naming(&[source("abi/types/src/wr.rs", &text(named[1]))], "ATOMIC WRITE"), (vec![], 1));
    }

    #[test]
    fn few_files_name_an_operation() {
        let sources = shipped().expect("readable sources");
        let (files, _) = naming(&sources, "ATOMIC WRITE");
        assert!(files.len() <= OPERATION_FILES_MAX, "{files:?}: CONTRIBUTING.md, \"How to add an opcode\"");
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
