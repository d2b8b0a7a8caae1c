//! One run of a test, on either side: the connection to the other, what was asked for, the time, the counts.

use std::time::{Duration, Instant};

use super::clocks;
use super::control::{Control, Result};
use super::wire::{Number, Request, Stat};
use crate::verbs_api::Which;

/// How often news of the peer are looked for.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// How long a call may sleep, so that the end of the test is not missed.
pub const NAP: Duration = Duration::from_millis(10);

/// A run.
#[derive(Debug)]
pub struct Run {
    /// The other side.
    pub control: Control,
    /// What was asked of this side.
    pub request: Request,
    /// Whether this side asks.
    pub client: bool,
    /// Whose libraries.
    pub which: Which,
    /// What is counted.
    pub stat: Stat,
    end: Option<Instant>,
    next_check: Instant,
    finished: bool,
}

impl Run {
    /// Nothing counted yet.
    pub fn new(control: Control, request: Request, client: bool, which: Which) -> Run {
        let (cpus, ticks) = clocks::machine();
        let stat = Stat { cpus, ticks, ..Stat::default() };
        Run { control, request, client, which, stat, end: None, next_check: Instant::now(), finished: false }
    }

    /// A number of the request.
    pub fn number(&self, number: Number) -> u32 {
        self.request.number(number)
    }

    /// Bytes of a message.
    pub fn msg_size(&self) -> usize {
        self.number(Number::MsgSize) as usize
    }

    /// Waits until the other side is ready too; the time begins.
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

    /// Whether the time is over.
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

    /// It is over.
    pub fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.stat.end = clocks::now();
        }
    }

    /// Ends the time and tells the client what the server measured; the client is answered that.
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
