//! The process's reports, under a lock of their own.
//!
//! Names of functions come from the loader. A thread that holds the loader's lock frees memory, and thereby waits for the
//! state's lock: so no lock is held while the loader is asked, and no thread holds this lock and the state's.

use std::collections::HashMap;
use std::path::PathBuf;

use weft_check::model::{Counters, Finding, StackId};
use weft_check::{End, HistoryEntry, Line, Repeat, Report};

use crate::errno;
use crate::lock::Guarded;
use crate::stacks;
use crate::symbols::{self, Location, Symbols};
use crate::writer::Writer;

/// Reports that a process writes. Later ones are counted.
const REPORTS_MAX: u32 = 1000;

/// A finding, and the return addresses of its stacks.
pub struct Breach {
    pub finding: Finding,
    /// The stack's number.
    pub stack: StackId,
    pub frames: Vec<usize>,
    /// Earlier calls.
    pub history: Vec<(String, Vec<usize>)>,
}

struct Reporter {
    writer: Writer,
    symbols: Symbols,
    program: String,
    /// Reports by rule and stack: the place in the file, and how often.
    seen: HashMap<(&'static str, StackId), (u32, u64)>,
    reports: u32,
    dropped: u64,
}

static REPORTER: Guarded<Option<Reporter>> = Guarded::new(None);

/// Reports go to a file in this directory.
pub fn start(dir: PathBuf) {
    let reporter = Reporter::new(Writer::new(dir), Symbols::default());
    REPORTER.with(|place| *place = Some(reporter));
}

/// Makes the process's file: it uses a device.
pub fn open() {
    with(|reporter| reporter.writer.open());
}

/// Whether the process has a file.
pub fn is_open() -> bool {
    with(|reporter| reporter.writer.is_open()).unwrap_or(false)
}

/// Writes the report of a breach, or counts it. The caller holds no lock that a thread may wait for under the loader's.
pub fn report(breach: Breach) {
    let key = (breach.finding.rule.name, breach.stack);
    if with(|reporter| reporter.is_known(key)).unwrap_or(true) {
        return;
    }
    let locations = Locations {
        stack: located(&breach.frames),
        history: breach.history.into_iter().map(|(what, frames)| (what, located(&frames))).collect(),
    };
    with(|reporter| {
        // Another thread may have written it meanwhile.
        if !reporter.is_known(key) {
            reporter.write(key, breach.finding, locations);
        }
    });
}

/// Writes the last counts of reports, and the totals.
pub fn finish(counters: Counters) {
    with(|reporter| reporter.finish(counters));
}

fn with<R>(f: impl FnOnce(&mut Reporter) -> R) -> Option<R> {
    errno::preserved(|| REPORTER.with(|reporter| reporter.as_mut().map(f)))
}

/// Before a fork: no other thread is inside.
pub fn before_fork() {
    REPORTER.before_fork();
}

/// After a fork, in the parent.
pub fn after_fork() {
    REPORTER.after_fork();
}

/// After a fork, in the child: it has a file of its own.
pub fn in_child() {
    REPORTER.in_child();
    with(|reporter| {
        let symbols = std::mem::take(&mut reporter.symbols);
        let writer = reporter.writer.for_child();
        *reporter = Reporter::new(writer, symbols);
    });
}

/// The places of a breach.
struct Locations {
    stack: Vec<Location>,
    history: Vec<(String, Vec<Location>)>,
}

fn located(frames: &[usize]) -> Vec<Location> {
    stacks::callers(frames).iter().map(|address| symbols::locate(*address)).collect()
}

impl Reporter {
    fn new(writer: Writer, symbols: Symbols) -> Reporter {
        let program = std::env::current_exe().unwrap_or_default().to_string_lossy().into_owned();
        Reporter { writer, symbols, program, seen: HashMap::new(), reports: 0, dropped: 0 }
    }

    /// Counts a breach that is reported already, or that is beyond the limit.
    fn is_known(&mut self, key: (&'static str, StackId)) -> bool {
        if let Some((place, count)) = self.seen.get_mut(&key) {
            *count += 1;
            if count.is_power_of_two() {
                let repeat = Repeat { report: *place, count: *count };
                self.writer.write(&Line::Repeat { repeat });
            }
            return true;
        }
        let is_beyond = self.reports == REPORTS_MAX;
        self.dropped += u64::from(is_beyond);
        is_beyond
    }

    fn write(&mut self, key: (&'static str, StackId), finding: Finding, locations: Locations) {
        self.seen.insert(key, (self.reports, 1));
        self.reports += 1;
        let stack = self.names(&locations.stack);
        let history = locations.history.into_iter();
        let history = history.map(|(what, stack)| HistoryEntry { what, stack: self.names(&stack) }).collect();
        // SAFETY: no arguments.
        let thread = unsafe { libc::gettid() };
        self.writer.report(Report {
            rule: finding.rule.name.to_owned(),
            severity: finding.severity,
            message: finding.message,
            object: finding.object,
            call: finding.site.call.to_owned(),
            stack,
            history,
            clause: finding.rule.clause.to_owned(),
            advice: finding.rule.advice.to_owned(),
            count: 1,
            program: self.program.clone(),
            pid: std::process::id(),
            thread: u32::try_from(thread).unwrap_or(0),
        });
    }

    /// The program's frames of a stack, innermost first.
    fn names(&mut self, stack: &[Location]) -> Vec<String> {
        let mut names: Vec<_> = stack.iter().map(|location| self.symbols.name(location)).collect();
        // The C library's start of programs and threads says nothing about them.
        if let Some(start) = names.iter().position(|name| name.starts_with("__libc_start")) {
            names.truncate(start.max(1));
        }
        while names.len() > 1
            && names.last().is_some_and(|name| name.contains("/libc.so.") || name.starts_with("_start "))
        {
            names.pop();
        }
        names
    }

    fn finish(&mut self, counters: Counters) {
        let mut repeats: Vec<_> = self.seen.values().filter(|(_, count)| !count.is_power_of_two()).copied().collect();
        repeats.sort_unstable();
        for (report, count) in repeats {
            self.writer.write(&Line::Repeat { repeat: Repeat { report, count } });
        }
        let end = End {
            program: self.program.clone(),
            pid: std::process::id(),
            requests: counters.requests,
            completions: counters.completions,
            buffers_compared: counters.buffers_compared,
            buffers_skipped: counters.buffers_skipped,
            untracked: counters.untracked,
            reports_dropped: self.dropped,
        };
        self.writer.write(&Line::End { end });
    }
}
