//! The thread that asks the daemon for reports, so that keys and signals never wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use weft_ipc::{Client, ConnectError};
use weft_sys::event::EventFd;

use crate::commands::report::{self, Report};

/// Ports of the fabric in a report.
const PORTS_MAX: usize = 4096;
/// Time until the second report: there are no rates before it.
const SECOND_AFTER: Duration = Duration::from_millis(500);

/// Reports, one after the other.
pub struct Collector {
    delays: Sender<Duration>,
    reports: Receiver<Result<Report, String>>,
    ready: Arc<EventFd>,
}

impl Collector {
    /// Starts to ask, as this host if one is given, every `delay`.
    pub fn start(host: Option<String>, delay: Duration) -> io::Result<Collector> {
        let (delays, new_delays) = channel();
        let (sender, reports) = channel();
        let ready = Arc::new(EventFd::new()?);
        let signal = Arc::clone(&ready);
        let mut source = Source::new(host);
        std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
            let (mut delay, mut first) = (delay, true);
            loop {
                if sender.send(source.take()).is_err() {
                    return;
                }
                signal.signal();
                let wait = if std::mem::take(&mut first) { delay.min(SECOND_AFTER) } else { delay };
                match new_delays.recv_timeout(wait) {
                    Ok(new) => delay = new,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Collector { delays, reports, ready })
    }

    /// Returns the descriptor that is readable when reports wait.
    pub fn ready(&self) -> &EventFd {
        &self.ready
    }

    /// Returns the reports since the last call.
    pub fn take(&self) -> Vec<Result<Report, String>> {
        self.ready.take();
        self.reports.try_iter().collect()
    }

    /// Asks for a report now, and for the next ones after this delay.
    pub fn set_delay(&self, delay: Duration) {
        // The thread ends with this value's end alone.
        let _ = self.delays.send(delay);
    }
}

/// A session with the daemon that is opened again when it breaks.
pub struct Source {
    host: Option<String>,
    client: Option<Client>,
}

impl Source {
    /// Makes one without a session.
    pub fn new(host: Option<String>) -> Source {
        Source { host, client: None }
    }

    /// Asks for a report.
    ///
    /// # Errors
    /// No daemon runs, or it does not answer; the text is for the user.
    pub fn take(&mut self) -> Result<Report, String> {
        let client = match self.client.take().filter(Client::is_connected) {
            Some(client) => client,
            None => report::session(self.host.as_deref()).map_err(|error| explain(&error))?,
        };
        let client = self.client.insert(client);
        // Events of this session have no reader.
        client.poll_events();
        let report = Report::take(client, PORTS_MAX);
        if report.is_err() {
            self.client = None;
        }
        report.map_err(|error| error.to_string())
    }
}

fn explain(error: &ConnectError) -> String {
    match error {
        ConnectError::NotRunning => {
            "no daemon runs in this network namespace; programs start one when they need it".to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns the time of day, for the summary of a report.
pub fn time_of_day() -> String {
    jiff::Zoned::now().strftime("%H:%M:%S").to_string()
}
