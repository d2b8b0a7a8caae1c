//! The manager's log: lines in OpenSM's form, and events.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use weft_sm::manager::{Event, Level};
use weft_sm::options::files::ModuleFlags;
use weft_sm::options::{self, Diagnostic};

/// Number of recent lines kept in memory for the console.
const LAST_MAX: usize = 10_000;
/// Socket of the system's log.
const SYSLOG: &str = "/dev/log";
/// Priority of messages to the system's log: facility user, severity notice (RFC 3164).
const USER_NOTICE: u8 = 13;

/// The module name of lines that the manager itself did not write.
const MAIN: &str = "main.c";

/// Whether all users should see a line.
fn is_grave(level: Level) -> bool {
    matches!(level, Level::System | Level::Error)
}

/// Destinations of log lines, and which lines go there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogOptions {
    /// The log file; none if lines go only to standard output.
    pub path: Option<PathBuf>,
    /// All lines go to standard output, not only the important ones.
    pub talks: bool,
    /// Mask of the levels to write.
    pub flags: u8,
    /// Masks for modules that differ from `flags`.
    pub modules: Vec<ModuleFlags>,
    /// Size in bytes at which the file is truncated; 0: never.
    pub len_max: u64,
    /// Prefix of messages to the system's log and to standard output.
    pub prefix: Option<String>,
    /// Important lines go to the system's log, too.
    pub syslog: bool,
}

/// The log.
#[derive(Debug)]
pub struct Log {
    options: LogOptions,
    file: Option<File>,
    len: u64,
    /// Lines not yet written. Many events happen at once, and a write for each would cost more than the event.
    held: String,
    /// Whether the last write failed.
    is_stuck: bool,
    last: VecDeque<String>,
    syslog: Option<UnixDatagram>,
}

impl Log {
    /// Opens the log file. Without one, lines go only to standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(options: LogOptions, accumulate: bool) -> io::Result<Log> {
        let syslog = if options.syslog { UnixDatagram::unbound().ok() } else { None };
        let (held, last) = (String::new(), VecDeque::new());
        let mut log = Log { options, file: None, len: 0, held, is_stuck: false, last, syslog };
        log.reopen(!accumulate)?;
        Ok(log)
    }

    /// Opens the file again, after it was moved away, or to truncate it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn reopen(&mut self, truncate: bool) -> io::Result<()> {
        self.flush();
        let Some(path) = &self.options.path else {
            self.file = None;
            return Ok(());
        };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if truncate {
            file.set_len(0)?;
        }
        self.len = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Continues with other options.
    ///
    /// # Errors
    /// The new file cannot be written; the log stays in the old one.
    pub fn change(&mut self, options: LogOptions) -> io::Result<()> {
        self.flush();
        let old = std::mem::replace(&mut self.options, options);
        if old.path != self.options.path
            && let Err(error) = self.reopen(false)
        {
            self.options.path = old.path;
            return Err(error);
        }
        Ok(())
    }

    /// Writes a diagnostic about a file to standard error and to the log.
    pub fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        crate::errln!("weft sm: {diagnostic}");
        self.remember(diagnostic);
    }

    /// Logs a diagnostic that was already printed before the log was open.
    pub fn remember(&mut self, diagnostic: &Diagnostic) {
        let level = if diagnostic.level == options::Level::Error { Level::Error } else { Level::Info };
        if self.takes(level, MAIN) {
            self.write(level, &diagnostic.to_string());
        }
        self.flush();
    }

    /// Sets the mask of levels to write.
    pub fn set_flags(&mut self, flags: u8) {
        self.options.flags = flags;
    }

    /// The mask of levels to write.
    pub fn flags(&self) -> u8 {
        self.options.flags
    }

    /// Masks of modules that differ.
    pub fn modules(&self) -> &[ModuleFlags] {
        &self.options.modules
    }

    /// Returns the last `count` lines.
    pub fn last(&self, count: usize) -> String {
        self.last.iter().skip(self.last.len().saturating_sub(count)).map(String::as_str).collect()
    }

    /// Logs an event; [`Log::flush`] writes it.
    pub fn event(&mut self, event: &Event) {
        self.tell(event.level(), event.module(), &event.to_string());
    }

    /// Logs a line and writes it.
    pub fn line(&mut self, level: Level, text: &str) {
        self.tell(level, MAIN, text);
        self.flush();
    }

    fn tell(&mut self, level: Level, module: &str, text: &str) {
        if !self.takes(level, module) {
            return;
        }
        let line = self.write(level, text);
        let grave = is_grave(level);
        match (self.options.talks, &self.options.prefix) {
            (true, _) => crate::outln!("{}", line.trim_end()),
            (false, Some(prefix)) if grave => crate::outln!("{prefix}: {text}"),
            (false, None) if grave => crate::outln!("{text}"),
            _ => {}
        }
        if level == Level::System {
            self.tell_system(text);
        }
    }

    fn takes(&self, level: Level, module: &str) -> bool {
        let own = self.options.modules.iter().find(|entry| entry.module == module).map(|entry| entry.flags);
        own.unwrap_or(self.options.flags) & level.bit() != 0 || is_grave(level)
    }

    /// Formats a line, queues it for the file, and returns it.
    fn write(&mut self, level: Level, text: &str) -> String {
        let line = format!("{} [{:08X}] 0x{:02x} -> {text}\n", time(), std::process::id(), level.bit());
        if self.file.is_some() {
            self.held.push_str(&line);
        }
        if self.last.len() >= LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(line.clone());
        line
    }

    /// Sends a message to the system's log, if that accepts it now.
    fn tell_system(&self, text: &str) {
        let Some(syslog) = &self.syslog else { return };
        let prefix = self.options.prefix.as_ref().map(|prefix| format!("{prefix}: ")).unwrap_or_default();
        let line = format!("<{USER_NOTICE}>weft-sm[{}]: {prefix}{text}", std::process::id());
        let _ = syslog.set_nonblocking(true).and_then(|()| syslog.send_to(line.as_bytes(), SYSLOG));
    }

    /// Writes the queued lines. A full disk must not stop the manager: the first failure and the recovery are reported.
    pub fn flush(&mut self) {
        let lines = std::mem::take(&mut self.held);
        let Some(file) = self.file.as_mut().filter(|_| !lines.is_empty()) else { return };
        let max = self.options.len_max;
        if max > 0 && self.len > max && file.set_len(0).is_ok() {
            self.len = 0;
        }
        let name = self.options.path.as_deref().unwrap_or(Path::new("")).display();
        match file.write_all(lines.as_bytes()) {
            Ok(()) => {
                self.len += lines.len() as u64;
                if std::mem::take(&mut self.is_stuck) {
                    crate::outln!("the log {name} can be written again");
                }
            }
            Err(error) if !std::mem::replace(&mut self.is_stuck, true) => {
                crate::outln!("cannot write the log {name}: {error}; lines are lost until it can be written again");
            }
            Err(_) => {}
        }
    }
}

/// The current time in OpenSM's format: `Nov 20 12:40:00 569913`.
fn time() -> String {
    jiff::Zoned::now().strftime("%b %d %H:%M:%S %6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_lines_of_its_levels() {
        let path = std::env::temp_dir().join(format!("weft-sm-log-{}", std::process::id()));
        let options = LogOptions { path: Some(path.clone()), flags: 0x03, ..LogOptions::default() };
        let mut log = Log::open(options, false).expect("a file");
        log.line(Level::System, "SUBNET UP");
        log.line(Level::Verbose, "nobody reads this");
        let moved = path.with_extension("old");
        std::fs::rename(&path, &moved).expect("moved");
        log.reopen(false).expect("again");
        log.line(Level::Error, "ERR");
        let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a log");
        let (old, new) = (read(&moved), read(&path));
        assert!(old.ends_with("] 0x80 -> SUBNET UP\n") && old.lines().count() == 1, "{old}");
        assert!(new.ends_with("] 0x01 -> ERR\n"), "{new}");
        assert_eq!(old.find(" ["), Some("Nov 20 12:40:00 569913".len()));
        assert_eq!(log.last(1), new);
        for path in [path, moved] {
            std::fs::remove_file(path).expect("removed");
        }
    }

    #[test]
    fn modules_have_levels_of_their_own_and_a_full_disk_is_survived() {
        let path = std::env::temp_dir().join(format!("weft-sm-modules-{}", std::process::id()));
        let modules = vec![ModuleFlags { module: "osm_lid_mgr.c".to_owned(), flags: 0xff }];
        let options = LogOptions { path: Some(path.clone()), flags: 0x03, modules, ..LogOptions::default() };
        let mut log = Log::open(options.clone(), false).expect("a file");
        log.event(&Event::LidsChanged);
        log.event(&Event::SweepBegan { heavy: true });
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), Some(""), "written before it was told to be");
        log.flush();
        let text = std::fs::read_to_string(&path).expect("a log");
        assert!(text.contains("LIDs were assigned") && !text.contains("SWEEP"), "{text}");
        // Every write to it fails for lack of space.
        log.change(LogOptions { path: Some("/dev/full".into()), ..options.clone() }).expect("another file");
        log.line(Level::Info, "lost");
        log.line(Level::Info, "lost too");
        assert!(log.is_stuck && log.last(1).contains("lost too"));
        log.change(options.clone()).expect("the first again");
        log.line(Level::Info, "back");
        assert!(!log.is_stuck && std::fs::read_to_string(&path).is_ok_and(|text| text.contains("back")));
        let nowhere = LogOptions { path: Some("/nowhere/log".into()), ..options };
        assert!(log.change(nowhere).is_err());
        log.line(Level::Info, "still here");
        assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.contains("still here")));
        std::fs::remove_file(path).expect("removed");
    }
}
