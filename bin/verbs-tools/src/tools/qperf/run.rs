//! One run of a test on either side: the control connection, the request, the time, the counts.

use std::time::{Duration, Instant};

use super::clocks;
use super::control::{Control, Result};
use super::wire::{Number, Request, Stat};
use weft_client::Which;

/// Interval between checks for a failure of the peer.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Maximum sleep of a call, so that a side does not miss the end of the test.
pub const NAP: Duration = Duration::from_millis(10);

/// A run of a test.
#[derive(Debug)]
pub struct Run {
    /// The connection to the other side.
    pub control: Control,
    /// The request for this side.
    pub request: Request,
    /// Whether this side is the client.
    pub client: bool,
    /// Weft's libraries or the system's.
    pub which: Which,
    /// The counts of this side.
    pub stat: Stat,
    end: Option<Instant>,
    next_check: Instant,
    finished: bool,
}

impl Run {
    /// Creates a run with zero counts.
    pub fn new(control: Control, request: Request, client: bool, which: Which) -> Run {
        let (cpus, ticks) = clocks::machine();
        let stat = Stat { cpus, ticks, ..Stat::default() };
        Run { control, request, client, which, stat, end: None, next_check: Instant::now(), finished: false }
    }

    /// A number from the request.
    pub fn number(&self, number: Number) -> u32 {
        self.request.number(number)
    }

    /// Bytes of a message.
    pub fn msg_size(&self) -> usize {
        self.number(Number::MsgSize) as usize
    }

    /// Waits until the other side is ready too, and starts the clock.
    pub fn sync(&mut self) -> Result<()> {
        self.control.send_sync("synchronization before test")?;
        self.control.recv_sync(b"synchronization before test")?;
        let seconds = self.number(Number::Time);
        let now = Instant::now();
        self.end = (seconds > 0).then(|| now + Duration::from_secs(seconds.into()));
        self.next_check = now + CHECK_EVERY;
        self.stat.start = clocks::now();
        Ok(())
    }

    /// Whether the test time is over.
    ///
    /// # Errors
    /// The peer has failed.
    pub fn finished(&mut self) -> Result<bool> {
        let now = Instant::now();
        if !self.finished && self.end.is_some_and(|end| now >= end) {
            self.finish();
        }
        if now >= self.next_check {
            self.control.check()?;
            self.next_check = now + CHECK_EVERY;
        }
        Ok(self.finished)
    }

    /// Ends the test time.
    pub fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.stat.end = clocks::now();
        }
    }

    /// Ends the test time and sends the server's results to the client, which returns them.
    pub fn exchange(&mut self) -> Result<Option<Stat>> {
        self.finish();
        if self.client {
            let stat = Stat::decode(&self.control.recv("results")?);
            self.control.send_sync("synchronization after test")?;
            return Ok(Some(stat));
        }
        self.control.send(&self.stat.encode(), "results")?;
        self.control.recv_sync(b"synchronization after test")?;
        Ok(None)
    }
}
