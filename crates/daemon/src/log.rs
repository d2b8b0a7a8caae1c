//! The daemon's log: few lines, for a person who wonders what it did.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::time::Instant;

use crate::options::LogTarget;

/// Destination of the log.
#[derive(Debug)]
pub struct Log {
    sink: Option<File>,
    stderr: bool,
    started: Instant,
}

impl Log {
    /// Opens the log. A file that cannot be opened does not keep the daemon from serving.
    pub fn open(target: &LogTarget) -> Log {
        let sink = match target {
            LogTarget::File(path) => File::options().append(true).create(true).open(path).ok(),
            LogTarget::None | LogTarget::Stderr => None,
        };
        Log { sink, stderr: *target == LogTarget::Stderr, started: Instant::now() }
    }

    /// Logs a line.
    pub fn note(&mut self, text: Arguments<'_>) {
        let line =
            || format!("weft daemon[{}] {:.3}s: {text}\n", std::process::id(), self.started.elapsed().as_secs_f64());
        if self.stderr {
            let _ = std::io::stderr().write_all(line().as_bytes());
        } else if let Some(mut file) = self.sink.as_ref() {
            let _ = file.write_all(line().as_bytes());
        }
    }
}
