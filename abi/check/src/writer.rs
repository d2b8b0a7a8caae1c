//! The process's file of reports.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use weft_check::{Line, Report};

/// Names tried for the file: an earlier process may have had the same ID.
const NAMES_MAX: u32 = 1000;

/// Appends lines; a file is made for the first.
pub struct Writer {
    dir: PathBuf,
    file: Option<File>,
}

impl Writer {
    /// Writes below `dir`.
    pub fn new(dir: PathBuf) -> Writer {
        Writer { dir, file: None }
    }

    /// The directory.
    pub fn dir(&self) -> &PathBuf {
        &self.dir
    }

    /// Whether the process has a file.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Makes the file.
    pub fn open(&mut self) {
        if self.file.is_none() {
            self.file = self.create();
        }
    }

    fn create(&self) -> Option<File> {
        let pid = std::process::id();
        let name = |attempt: u32| if attempt == 0 { format!("{pid}.jsonl") } else { format!("{pid}-{attempt}.jsonl") };
        for attempt in 0..NAMES_MAX {
            match OpenOptions::new().append(true).create_new(true).open(self.dir.join(name(attempt))) {
                Ok(file) => return Some(file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Appends a line in one write, so that a process that is killed leaves whole lines. A full disk loses it.
    pub fn write(&mut self, line: &Line) {
        self.open();
        if let Some(file) = &mut self.file {
            let _ = file.write_all((line.to_json() + "\n").as_bytes());
        }
    }

    /// Appends a report.
    pub fn report(&mut self, report: Report) {
        self.write(&Line::Report(Box::new(report)));
    }
}
