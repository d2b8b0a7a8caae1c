//! The last run of a unit that ends at once, which the daemon keeps as a file of the host.

use weft_ipc::{Client, HostFile};
use weft_tool::fabric::spell;

use super::unit::Unit;

/// Names of the files: of runs, and of units that are enabled or disabled.
const RUNS: &str = "units/run/";
const ENABLED: &str = "units/enabled/";

/// Lines of its log that are kept of a run, and characters of each: all of them fit a host's file.
const LOG_LINES_MAX: usize = 32;
const LOG_LINE_CHARS_MAX: usize = 120;

/// The last run of a unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// Its end, in seconds since the epoch.
    pub at: i64,
    /// The process that did it.
    pub pid: u32,
    /// Exit code.
    pub code: u8,
    /// Lines of its log.
    pub log: Vec<String>,
}

impl Run {
    fn format(&self) -> String {
        let mut text = format!("{} {} {}\n", self.at, self.pid, self.code);
        for line in self.log.iter().take(LOG_LINES_MAX) {
            text.extend(line.chars().filter(|char| !char.is_control()).take(LOG_LINE_CHARS_MAX));
            text.push('\n');
        }
        text
    }

    fn parse(text: &str) -> Option<Run> {
        let mut lines = text.lines();
        let mut numbers = lines.next()?.split(' ');
        let (at, pid, code) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?, numbers.next()?);
        Some(Run { at, pid, code: code.parse().ok()?, log: lines.map(str::to_owned).collect() })
    }
}

/// The daemon's files about a unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Its last run.
    pub run: Option<Run>,
    /// Whether the user enabled or disabled it.
    pub enabled: Option<bool>,
}

/// Returns what is kept of a unit.
///
/// # Errors
/// The text is for the user.
pub fn read(client: &mut Client, unit: &Unit) -> Result<Kept, String> {
    let files = client.host_files().map_err(spell)?;
    let find = |prefix: &str| {
        let name = format!("{prefix}{}", unit.name());
        files.iter().find(|file: &&HostFile| file.name == name).map(|file| file.content.as_str())
    };
    Ok(Kept { run: find(RUNS).and_then(Run::parse), enabled: find(ENABLED).map(|text| text == "yes") })
}

/// Keeps a run, or forgets it.
///
/// # Errors
/// The text is for the user.
pub fn write_run(client: &mut Client, unit: &Unit, run: Option<&Run>) -> Result<(), String> {
    let name = format!("{RUNS}{}", unit.name());
    match run {
        Some(run) => client.write_host_file(&name, &run.format()),
        None => client.remove_host_file(&name),
    }
    .map_err(spell)
}

/// Keeps whether a unit is enabled.
///
/// # Errors
/// The text is for the user.
pub fn write_enabled(client: &mut Client, unit: &Unit, enabled: bool) -> Result<(), String> {
    let text = if enabled { "yes" } else { "no" };
    client.write_host_file(&format!("{ENABLED}{}", unit.name()), text).map_err(spell)
}

/// Returns the names of units with a kept run.
///
/// # Errors
/// The text is for the user.
pub fn with_runs(client: &mut Client) -> Result<Vec<Unit>, String> {
    let files = client.host_files().map_err(spell)?;
    Ok(files.iter().filter_map(|file| Unit::parse(file.name.strip_prefix(RUNS)?)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let run = Run { at: 1_790_000_000, pid: 17, code: 1, log: vec!["Inserted module 'ib_ipoib'".to_owned()] };
        assert_eq!(Run::parse(&run.format()), Some(run));
        assert_eq!(Run::parse("1 2 0\n"), Some(Run { at: 1, pid: 2, code: 0, log: Vec::new() }));
        for bad in ["", "1 2", "x 2 0", "1 2 300"] {
            assert_eq!(Run::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_long_log_is_cut() {
        let run = Run { log: vec!["é\n".repeat(150); 100], ..Run::default() };
        let read = Run::parse(&run.format()).unwrap();
        assert_eq!((read.log.len(), read.log[0].as_str()), (LOG_LINES_MAX, "é".repeat(LOG_LINE_CHARS_MAX).as_str()));
        assert!(run.format().len() < weft_ipc::HOST_FILE_BYTES_MAX);
    }
}
