//! What the manager tells: lines of a log in OpenSM's form, and events as lines of JSON.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use weft_sm::manager::Level;

/// Lines that are kept for who asks.
const LAST_MAX: usize = 10_000;

/// Where lines go.
#[derive(Debug)]
pub struct Journal {
    path: Option<PathBuf>,
    file: Option<File>,
    /// Levels that are written.
    flags: u8,
    /// Bytes at which the file begins anew; 0: never.
    len_max: u64,
    len: u64,
    last: VecDeque<String>,
}

impl Journal {
    /// Opens the file; with none, lines go nowhere but to standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: Option<PathBuf>, flags: u8, len_max_mib: u64, accumulate: bool) -> io::Result<Journal> {
        let mut journal =
            Journal { path, file: None, flags, len_max: len_max_mib << 20, len: 0, last: VecDeque::new() };
        journal.reopen(!accumulate)?;
        Ok(journal)
    }

    /// Opens the file again, after it was moved away or when it is to begin anew.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn reopen(&mut self, truncate: bool) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if truncate {
            file.set_len(0)?;
        }
        self.len = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Sets which levels are written.
    pub fn set_flags(&mut self, flags: u8) {
        self.flags = flags;
    }

    /// Which levels are written.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The last lines.
    pub fn last(&self, count: usize) -> String {
        self.last.iter().skip(self.last.len().saturating_sub(count)).map(String::as_str).collect()
    }

    /// Writes a line.
    pub fn line(&mut self, level: Level, text: &str) {
        let grave = matches!(level, Level::System | Level::Error);
        if self.flags & level.bit() == 0 && !grave {
            return;
        }
        if grave {
            crate::outln!("{text}");
        }
        let line = format!("{} [{:08X}] 0x{:02x} -> {text}\n", time(), std::process::id(), level.bit());
        self.write(&line);
        if self.last.len() >= LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// A full disk is no reason not to manage the subnet.
    fn write(&mut self, line: &str) {
        let Some(file) = &mut self.file else { return };
        if self.len_max > 0 && self.len > self.len_max && file.set_len(0).is_ok() {
            self.len = 0;
        }
        if file.write_all(line.as_bytes()).is_ok() {
            self.len += line.len() as u64;
        }
    }
}

/// Now, as OpenSM writes it: `Nov 20 12:40:00 569913`.
fn time() -> String {
    jiff::Zoned::now().strftime("%b %d %H:%M:%S %6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_lines_of_its_levels() {
        let path = std::env::temp_dir().join(format!("weft-sm-journal-{}", std::process::id()));
        let mut journal = Journal::open(Some(path.clone()), 0x03, 0, false).expect("a file");
        journal.line(Level::System, "SUBNET UP");
        journal.line(Level::Verbose, "nobody reads this");
        let moved = path.with_extension("old");
        std::fs::rename(&path, &moved).expect("moved");
        journal.reopen(false).expect("again");
        journal.line(Level::Error, "ERR");
        let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a log");
        let (old, new) = (read(&moved), read(&path));
        assert!(old.ends_with("] 0x80 -> SUBNET UP\n") && old.lines().count() == 1, "{old}");
        assert!(new.ends_with("] 0x01 -> ERR\n"), "{new}");
        assert_eq!(old.find(" ["), Some("Nov 20 12:40:00 569913".len()));
        assert_eq!(journal.last(1), new);
        for path in [path, moved] {
            std::fs::remove_file(path).expect("removed");
        }
    }
}
