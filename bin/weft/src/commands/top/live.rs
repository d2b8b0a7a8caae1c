//! `weft top` on a terminal: one loop over keys, signals and reports, which sleeps otherwise.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ratatui_core::terminal::Terminal;
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::{self, SignalQueue};

use super::activity::{Activity, compare};
use super::collect::{Collector, time_of_day};
use super::draw::{Palette, Screen, draw, rows_of};
use super::input::keys;
use super::state::{Action, State};
use super::summary;
use super::table::Table;
use super::terminal::{Output, RawTerminal};
use crate::commands::report::Report;

const TOKEN_KEYS: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_REPORTS: u64 = 2;

/// Signals that end the program; the terminal is restored first.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Time in which a stop signal must have stopped the process. It has no effect without a shell that can continue it.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);
/// Exit status of a program that a signal ended, less the signal's number.
const SIGNAL_STATUS: u8 = 128;

/// Runs until the user or a signal ends it.
///
/// # Errors
/// There is no terminal, or it is gone.
pub fn run(host: Option<String>, state: State) -> io::Result<ExitCode> {
    // Before any thread starts: each inherits the blocked signals.
    let signals = SignalQueue::new(&[ENDING.as_slice(), &[libc::SIGWINCH, libc::SIGCONT]].concat())?;
    let raw = RawTerminal::enter()?;
    let collector = Collector::start(host, state.delay)?;
    let epoll = Epoll::new()?;
    epoll.add(io::stdin(), TOKEN_KEYS, Interest::READ)?;
    epoll.add(&signals, TOKEN_SIGNALS, Interest::READ)?;
    epoll.add(collector.ready(), TOKEN_REPORTS, Interest::READ)?;
    let terminal = Terminal::new(Output::default())?;
    let top = Top { state, reports: Reports::default(), terminal, raw, collector, stopped: false, palette: palette() };
    top.run(&epoll, &signals)
}

/// Colors, unless the user wants none (no-color.org) or the terminal has none.
fn palette() -> Palette {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let unable = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.starts_with("vt1"));
    Palette { colors: !unwanted && !unable }
}

/// The reports so far.
#[derive(Default)]
struct Reports {
    last: Option<Report>,
    activity: Activity,
    problem: Option<String>,
}

impl Reports {
    fn take(&mut self, report: Result<Report, String>) {
        match report {
            Ok(report) => {
                let seconds =
                    self.last.as_ref().map_or(0.0, |last| report.taken.duration_since(last.taken).as_secs_f64());
                self.activity = compare(self.last.as_ref(), &report, seconds);
                (self.last, self.problem) = (Some(report), None);
            }
            Err(problem) => (self.last, self.problem) = (None, Some(problem)),
        }
    }

    fn screen(&self, state: &State) -> Screen {
        let title = || vec![format!("weft top {}", time_of_day())];
        let (summary, table) = match &self.last {
            Some(report) => {
                let lines = summary::lines(report, &self.activity, state, &time_of_day());
                (lines, Table::new(&self.activity, state))
            }
            None => (title(), Table::new(&Activity::default(), state)),
        };
        Screen { summary, view: summary::view_line(state), table, problem: self.problem.clone() }
    }
}

struct Top {
    state: State,
    reports: Reports,
    terminal: Terminal<Output>,
    raw: RawTerminal,
    collector: Collector,
    /// Whether the process asked to be stopped, and was not continued yet.
    stopped: bool,
    palette: Palette,
}

impl Top {
    fn run(mut self, epoll: &Epoll, signals: &SignalQueue) -> io::Result<ExitCode> {
        let mut ready = Vec::new();
        loop {
            if !self.stopped {
                self.draw()?;
            }
            epoll.wait(&mut ready, self.stopped.then_some(STOP_TIMEOUT))?;
            if ready.is_empty() && self.stopped {
                self.resume()?;
            }
            for event in &ready {
                if let Some(code) = self.on_ready(event, signals)? {
                    return Ok(code);
                }
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let screen = self.reports.screen(&self.state);
        let (state, palette) = (&mut self.state, self.palette);
        self.terminal.draw(|frame| {
            state.keep_in_view(screen.table.rows.len(), rows_of(&screen, frame.area().height));
            draw(frame.buffer_mut(), &screen, state, palette);
        })?;
        Ok(())
    }

    /// Handles a ready descriptor; returns the exit status at the end.
    fn on_ready(&mut self, event: &Ready, signals: &SignalQueue) -> io::Result<Option<ExitCode>> {
        match event.token {
            TOKEN_KEYS => return self.on_keys(),
            TOKEN_REPORTS => {
                for report in self.collector.take() {
                    if !self.state.paused {
                        self.reports.take(report);
                    }
                }
            }
            _ => {
                while let Some(signal) = signals.take() {
                    match signal {
                        libc::SIGWINCH => {}
                        libc::SIGCONT => self.resume()?,
                        signal => return Ok(Some(ExitCode::from(SIGNAL_STATUS + signal as u8))),
                    }
                }
            }
        }
        Ok(None)
    }

    fn on_keys(&mut self) -> io::Result<Option<ExitCode>> {
        let mut bytes = [0; 256];
        let length = match rustix::io::read(io::stdin(), &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(rustix::io::Errno::IO) => return Ok(Some(ExitCode::FAILURE)),
            Ok(length) => length,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        for key in keys(&bytes[..length]) {
            let screen = self.reports.screen(&self.state);
            let page = rows_of(&screen, self.terminal.size()?.height);
            match self.state.on_key(key, &screen.table.shown(page, self.state.selected)) {
                Action::Draw => {}
                Action::Report => self.collector.set_delay(self.state.delay),
                Action::Redraw => self.terminal.clear()?,
                Action::Suspend => self.suspend()?,
                Action::Quit => return Ok(Some(ExitCode::SUCCESS)),
            }
        }
        Ok(None)
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.raw.leave();
        self.stopped = true;
        signals::send(std::process::id(), libc::SIGTSTP)
    }

    fn resume(&mut self) -> io::Result<()> {
        self.stopped = false;
        self.raw.again()?;
        self.terminal.clear()
    }
}
