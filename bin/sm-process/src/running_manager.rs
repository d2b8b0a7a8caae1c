//! A manager with its files and its log: the part of a server that commands of the console act on.

use std::time::{Duration, Instant};

use weft_sm::manager::{Level, Manager};

use super::files::Files;
use super::log::Log;

/// How long an ending manager tries to hand its subnet over.
const FAREWELL: Duration = Duration::from_secs(2);

/// A manager that runs.
pub struct RunningManager {
    pub manager: Manager,
    pub files: Files,
    pub log: Log,
    /// GUID of its port.
    pub guid: u64,
    /// Set once it ends: when it stops trying to hand its subnet over.
    pub ending: Option<Instant>,
}

impl RunningManager {
    /// Reads the configuration again and returns a message about it.
    pub fn reload(&mut self) -> String {
        let changed = match self.files.read_again() {
            Ok(changed) => changed,
            Err(error) => return format!("configuration left as it was: {error:#}"),
        };
        let (options, diagnostics) = self.files.log();
        let name = options.path.clone().unwrap_or_default();
        if let Err(error) = self.log.change(options) {
            self.log.line(Level::Error, &format!("cannot write the log {}: {error}", name.display()));
        }
        let (setup, said) = self.files.setup(self.guid, Some(self.manager.setup()));
        for diagnostic in self.files.diagnostics().iter().chain(&diagnostics).chain(&said) {
            self.log.diagnostic(diagnostic);
        }
        for line in changed {
            self.log.line(Level::Info, &line);
        }
        self.manager.reload(setup);
        "configuration read anew, heavy sweep".to_owned()
    }

    /// Starts to end: the manager hands the subnet over if another takes it.
    pub fn end(&mut self) {
        let now = Instant::now();
        self.ending = Some(now + FAREWELL);
        self.manager.shut_down();
    }
}
