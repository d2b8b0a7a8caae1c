//! The scenarios that Weft brings: files of the directory `scenarios/`, by their names.

use std::path::Path;
use std::{fs, io};

use crate::outln;

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../../../scenarios/", $name, ".toml")))),*]
    };
}

/// Names and texts, from what a network does to what a device does.
const LIBRARY: &[(&str, &str)] = library![
    "bad-cable",
    "lost-acks",
    "long-way",
    "slow-peer",
    "outage",
    "dead-peer",
    "rail-lost",
    "flapping-port",
    "retry-exceeded",
    "receiver-not-ready",
    "no-memory",
    "device-reset",
    "cable-cut",
    "manager-lost",
];

/// Reads a scenario: a file, or else one of the library.
pub(super) fn read(scenario: &Path) -> Result<String, String> {
    let error = match fs::read_to_string(scenario) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    match scenario.to_str().and_then(find) {
        Some(text) if error.kind() == io::ErrorKind::NotFound => Ok(text.to_owned()),
        _ => Err(format!("{error}; `weft fault scenarios` lists those that Weft brings")),
    }
}

fn find(name: &str) -> Option<&'static str> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Prints the names and what happens, or one scenario as a file.
///
/// # Errors
/// There is no scenario of this name.
pub fn list(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else {
        for (name, text) in LIBRARY {
            outln!("{name:<19} {}", summary(text));
        }
        return Ok(());
    };
    let text = find(name).ok_or_else(|| format!("no scenario {name}: `weft fault scenarios` lists all"))?;
    outln!("{}", text.trim_end());
    Ok(())
}

/// The first line, a comment.
fn summary(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches("# ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::file;
    use super::*;

    #[test]
    fn every_file_is_there_and_parses() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files: BTreeSet<String> = fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().display().to_string())
            .collect();
        assert_eq!(files, LIBRARY.iter().map(|(name, _)| (*name).to_owned()).collect());
        for (name, text) in LIBRARY {
            let needed = ["address", "device", "cable", "node"].into_iter();
            let set = needed.filter(|name| text.contains(&format!("${{{name}}}")));
            let set =
                set.map(|name| (name.to_owned(), if name == "address" { "10.0.0.1" } else { "leaf1:1" }.to_owned()));
            let scenario = file::parse(text, &set.collect()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!scenario.steps.is_empty() && summary(text).len() > 20, "{name}");
        }
    }

    /// The book's example is a scenario, and its table has every name.
    #[test]
    fn the_book_is_right() {
        let book = include_str!("../../../../../../docs/faults.md");
        let example = book.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(file::parse(example, &Default::default()).unwrap().steps.len() > 4);
        for (name, _) in LIBRARY {
            assert!(book.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn a_file_comes_before_a_name_and_a_missing_one_is_named() {
        assert_eq!(read(Path::new("outage")).unwrap(), find("outage").unwrap());
        assert!(read(Path::new("no-such-thing")).unwrap_err().contains("weft fault scenarios"));
    }
}
