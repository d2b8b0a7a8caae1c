//! A progress bar on the terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter runs end before a bar is of use.
const WORTH_A_BAR: Duration = Duration::from_secs(2);
/// Steps of the bar per second.
const STEPS_PER_SECOND: f64 = 10.0;

/// The bar, or nothing if standard error is no terminal.
pub struct Progress {
    bar: Option<ProgressBar>,
    done: f64,
}

impl Progress {
    /// A bar for a run of this many seconds in all.
    pub fn new(seconds: f64) -> Progress {
        let worth = seconds > WORTH_A_BAR.as_secs_f64() && std::io::stderr().is_terminal();
        let bar = worth.then(|| {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {msg} (about {eta} left)");
            let bar = ProgressBar::new((seconds * STEPS_PER_SECOND) as u64);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Progress { bar, done: 0.0 }
    }

    /// Sets the text of the bar.
    pub fn start(&self, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
        }
    }

    /// Shows the time since the start of the current case. Cheap enough to call for every message.
    pub fn tick(&self, into: Duration) {
        if let Some(bar) = &self.bar {
            let at = ((self.done + into.as_secs_f64()) * STEPS_PER_SECOND) as u64;
            if at != bar.position() {
                bar.set_position(at);
            }
        }
    }

    /// Marks a case of this many seconds as finished.
    pub fn finish_case(&mut self, seconds: f64) {
        self.done += seconds;
        self.tick(Duration::ZERO);
    }

    /// Prints a line above the bar.
    pub fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::output::print(text)),
            None => crate::output::print(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
