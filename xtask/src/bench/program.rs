//! Programs that can be measured, ours or a peer's: each yields one figure in a turn.

use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result};
use std::time::Duration;
use weft_interop::{Proc, skip};

/// Time that a program may take in addition to its run time.
const PATIENCE: Duration = Duration::from_secs(60);

/// One side of a case.
pub trait Program: Sync {
    /// Name for readers.
    fn name(&self) -> String;

    /// Returns its command line, as a person would type it on the client's side.
    fn command(&self, seconds: u32) -> String;

    /// Unit of its figure.
    fn unit(&self) -> Unit;

    /// Returns the Debian package that is missing, if any.
    fn missing(&self) -> Option<&'static str> {
        None
    }

    /// Runs it once.
    fn measure(&self, room: &Room) -> Result<f64>;
}

/// Returns `package`, unless `tool` is installed.
pub fn unless_installed(tool: &str, package: &'static str) -> Option<&'static str> {
    if skip::on_path(tool).is_some() { None } else { Some(package) }
}

/// Waits for a program's end and passes its output to `read`, which finds the figure.
pub fn figure_of(program: Proc, seconds: u32, read: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let ended = program.wait(PATIENCE + Duration::from_secs(u64::from(seconds))).success()?;
    read(&ended.text).with_context(|| format!("no result: {}", ended.report()))
}

/// Returns the number before the first `unit`, whatever its digit grouping.
pub fn number_before(text: &str, unit: &str) -> Option<f64> {
    let words: Vec<_> = text.split_whitespace().collect();
    words.windows(2).find(|pair| pair[1] == unit).and_then(|pair| pair[0].replace(',', "").parse().ok())
}

/// Splits a command line into words.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_unit() {
        assert_eq!(number_before("typical 4.512 us\n", "us"), Some(4.512));
        assert_eq!(number_before("bw = 1,012,400 bytes/sec\n", "bytes/sec"), Some(1_012_400.0));
        assert_eq!(number_before("ready\n", "us"), None);
    }

    #[test]
    fn what_is_not_installed_is_named_by_its_package() {
        assert_eq!(unless_installed("no-such-tool-anywhere", "a-package"), Some("a-package"));
        assert_eq!(unless_installed("sh", "dash"), None);
    }
}
