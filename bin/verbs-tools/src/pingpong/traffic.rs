//! The message loop: each side sends again after it has received and its own send has completed, until both counts are
//! reached.

use std::io;

use super::report::Clock;
use super::{Options, Setup};
use crate::spin::Spin;
use weft_client::verbs::{Cq, Qp, SendChain, SendRequest, TimestampCq};

/// `wr_id` of a receive request.
const RECV: u64 = 1;
/// `wr_id` of a send request.
const SEND: u64 = 2;

/// The completion queue of all requests of a rally.
pub enum Completions {
    /// A plain queue.
    Plain(Cq),
    /// A queue with completion timestamps.
    Timestamped(TimestampCq),
}

impl Completions {
    /// Creates the queue that the options ask for.
    ///
    /// # Errors
    /// The line to print.
    pub fn new(setup: &Setup, options: &Options, entries: u32) -> Result<Completions, String> {
        let failed = |_: io::Error| "Couldn't create CQ".to_owned();
        let channel = setup.channel.as_ref();
        let completions = if options.ts {
            let attr = setup.context.query_device().map_err(failed)?;
            if attr.completion_timestamp_mask == 0 {
                return Err("The device isn't completion timestamp capable".to_owned());
            }
            Completions::Timestamped(TimestampCq::new(&setup.context, entries, channel).map_err(failed)?)
        } else {
            Completions::Plain(Cq::new(&setup.context, entries, channel).map_err(failed)?)
        };
        if options.events {
            completions.cq().request_notify().map_err(|_| "Couldn't request CQ notification".to_owned())?;
        }
        Ok(completions)
    }

    /// The completion queue.
    pub fn cq(&self) -> &Cq {
        match self {
            Completions::Plain(cq) => cq,
            Completions::Timestamped(cq) => cq.cq(),
        }
    }
}

/// One queue pair of a rally and the message that it sends.
pub struct Endpoint<'a> {
    qp: &'a Qp,
    request: SendRequest,
    chain: SendChain,
    new_send: bool,
    /// The bits of [`RECV`] and [`SEND`] that have not completed yet.
    pending: u64,
}

impl<'a> Endpoint<'a> {
    /// Creates an endpoint that sends `request` each time, with its `wr_id` set here; `new_send` selects `ibv_wr_*`.
    pub fn new(qp: &'a Qp, request: SendRequest, new_send: bool) -> Endpoint<'a> {
        let request = SendRequest { wr_id: SEND, ..request };
        let chain = SendChain::new(std::slice::from_ref(&request));
        Endpoint { qp, request, chain, new_send, pending: RECV }
    }

    fn send(&mut self) -> Result<(), String> {
        self.pending = RECV | SEND;
        let posted =
            if self.new_send { self.qp.wr_send(&self.request) } else { self.qp.post_chain(&mut self.chain, 1) };
        posted.map_err(|e| format!("Couldn't post send: {}", crate::errno::text(&e)))
    }
}

/// Receive completion times, in cycles of the adapter's clock.
#[derive(Default)]
struct Times {
    last: Option<u64>,
    max: u64,
    min: Option<u64>,
    total: u64,
    count: u64,
}

impl Times {
    fn add(&mut self, time: u64) {
        if let Some(last) = self.last {
            let delta = time.wrapping_sub(last);
            self.max = self.max.max(delta);
            self.min = Some(self.min.map_or(delta, |min| min.min(delta)));
            self.total += delta;
            self.count += 1;
        }
        self.last = Some(time);
    }

    fn text(&self) -> String {
        if self.total == 0 {
            return String::new();
        }
        format!(
            "Max receive completion clock cycles = {}\nMin receive completion clock cycles = {}\n\
             Average receive completion clock cycles = {:.6}\n",
            self.max,
            self.min.unwrap_or(0),
            self.total as f64 / self.count as f64
        )
    }
}

/// A rally over one completion queue.
pub struct Rally<'a> {
    /// The parsed command line.
    pub options: &'a Options,
    /// The completion queue.
    pub completions: &'a Completions,
    /// Posts one receive request with `wr_id` [`Rally::RECV_ID`].
    pub post_recv: &'a dyn Fn() -> io::Result<()>,
    /// All queue pairs.
    pub endpoints: Vec<Endpoint<'a>>,
    /// Receive requests posted before the rally began.
    pub posted: u32,
}

impl Rally<'_> {
    /// `wr_id` that receive requests must have.
    pub const RECV_ID: u64 = RECV;

    /// Runs until the requested number of messages has gone each way; returns the text to print.
    ///
    /// # Errors
    /// The line to print.
    pub fn play(mut self) -> Result<String, String> {
        let clock = Clock::start();
        if self.options.server.is_some() {
            for endpoint in &mut self.endpoints {
                endpoint.send()?;
            }
        }
        let (mut received, mut sent) = (0, 0);
        let mut times = Times::default();
        let mut spin = Spin::default();
        while received < self.options.iters || sent < self.options.iters {
            if self.options.events {
                self.sleep()?;
            }
            // After an event, take all completions: only new completions cause the next event.
            loop {
                let mut batch: [(u64, u32, u32, u64); 16] = [(0, 0, 0, 0); 16];
                let taken = self.poll(&mut batch)?;
                for &(wr_id, status, qp_num, time) in &batch[..taken] {
                    self.completed(wr_id, status, qp_num, &mut received, &mut sent)?;
                    if wr_id == RECV && self.options.ts {
                        times.add(time);
                    }
                }
                if taken > 0 {
                    spin.hit();
                } else if !self.options.events {
                    spin.empty();
                }
                if taken == 0 || !self.options.events {
                    break;
                }
            }
        }
        Ok(clock.summary(self.options.size, self.options.iters).text() + &times.text())
    }

    fn sleep(&self) -> Result<(), String> {
        let cq = self.completions.cq();
        let Some(channel) = cq.channel() else { return Ok(()) };
        if !channel.wait(cq).map_err(|_| "Failed to get cq_event".to_owned())? {
            return Err("CQ event for unknown CQ".to_owned());
        }
        cq.request_notify().map_err(|_| "Couldn't request CQ notification".to_owned())
    }

    fn poll(&self, batch: &mut [(u64, u32, u32, u64); 16]) -> Result<usize, String> {
        let mut at = 0;
        let failed = |e: io::Error| format!("poll CQ failed {}", e.raw_os_error().unwrap_or(-1));
        match self.completions {
            Completions::Plain(cq) => {
                cq.poll::<16>(|wc| {
                    batch[at] = (wc.wr_id(), wc.status(), wc.qp_num(), 0);
                    at += 1;
                })
                .map_err(failed)?;
            }
            Completions::Timestamped(cq) => {
                cq.poll(16, |wr_id, status, time| {
                    batch[at] = (wr_id, status, 0, time);
                    at += 1;
                })
                .map_err(failed)?;
            }
        }
        Ok(at)
    }

    fn completed(
        &mut self,
        wr_id: u64,
        status: u32,
        qp_num: u32,
        received: &mut u32,
        sent: &mut u32,
    ) -> Result<(), String> {
        if status != 0 {
            let text = self.completions.cq().status_text(status);
            return Err(format!("Failed status {text} ({status}) for wr_id {wr_id}"));
        }
        match wr_id {
            SEND => *sent += 1,
            RECV => {
                *received += 1;
                self.posted -= 1;
                if self.posted as usize <= self.endpoints.len() {
                    self.replenish()?;
                }
            }
            other => return Err(format!("Completion for unknown wr_id {other}")),
        }
        let iters = self.options.iters;
        let endpoint = match self.endpoints.as_mut_slice() {
            [only] => only,
            many => many
                .iter_mut()
                .find(|e| e.qp.number() == qp_num)
                .ok_or_else(|| format!("Couldn't find QPN {qp_num:06x}"))?,
        };
        endpoint.pending &= !wr_id;
        if endpoint.pending == 0 && *sent < iters {
            endpoint.send()?;
        }
        Ok(())
    }

    fn replenish(&mut self) -> Result<(), String> {
        while self.posted < self.options.rx_depth {
            (self.post_recv)().map_err(|_| format!("Couldn't post receive ({})", self.posted))?;
            self.posted += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up_between_receptions() {
        let mut times = Times::default();
        for time in [100, 110, 140] {
            times.add(time);
        }
        assert_eq!(
            times.text(),
            "Max receive completion clock cycles = 30\nMin receive completion clock cycles = 10\n\
             Average receive completion clock cycles = 20.000000\n"
        );
        assert_eq!(Times::default().text(), "");
    }
}
