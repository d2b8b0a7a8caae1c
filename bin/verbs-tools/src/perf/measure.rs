//! The timed loops.

use std::io;
use std::time::{Duration, Instant};

use super::control::{Address, Ask, Control};
use super::endpoint::Endpoint;
use super::histogram::Histogram;
use super::{Operation, Transport};
use crate::spin::Spin;
use weft_client::verbs::{Cq, SendChain};

/// Time after which a message of an unreliable transport counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(50);
/// Time without progress after which a reliable transport counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// A number of messages, and the time they took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throughput {
    /// Messages.
    pub messages: u64,
    /// Time from the first to the last.
    pub took: Duration,
}

/// Counts failed completions.
struct Failures<'a> {
    cq: &'a Cq,
    first: Option<u32>,
}

impl Failures<'_> {
    fn check(&self) -> Result<(), String> {
        match self.first {
            None => Ok(()),
            Some(status) => Err(format!("a request failed: {} ({status})", self.cq.status_text(status))),
        }
    }
}

/// Takes up to 16 completions, passes the `wr_id` of each to `on_completion`, and returns their number.
#[inline]
fn take(cq: &Cq, mut on_completion: impl FnMut(u64)) -> Result<usize, String> {
    let mut failures = Failures { cq, first: None };
    let taken = cq
        .poll::<16>(|wc| {
            if wc.status() != 0 && failures.first.is_none() {
                failures.first = Some(wc.status());
            }
            on_completion(wc.wr_id());
        })
        .map_err(|e| format!("cannot poll: {}", crate::errno::text(&e)))?;
    failures.check()?;
    Ok(taken)
}

fn posting(e: io::Error) -> String {
    format!("cannot post a request: {}", crate::errno::text(&e))
}

/// Keeps the queues full until the time is over, then waits for the last completion.
pub fn throughput(endpoint: &Endpoint, peer: &Address, mut tick: impl FnMut(Duration)) -> Result<Throughput, String> {
    let case = &endpoint.case;
    let (batch, depth) = (case.batch() as usize, case.depth as usize);
    let mut chains: Vec<SendChain> = (0..endpoint.qps.len())
        .map(|i| {
            let requests: Vec<_> = (1..=batch).map(|n| endpoint.request(i, peer, n == batch)).collect();
            SendChain::new(&requests)
        })
        .collect();
    let mut in_flight = vec![0; endpoint.qps.len()];
    let limit = Duration::from_secs_f64(case.seconds);
    let start = Instant::now();
    let mut result = Throughput::default();
    let mut last_progress = start;
    let mut spin = Spin::default();
    loop {
        let now = Instant::now();
        let over = now - start >= limit;
        if !over {
            for ((qp, chain), in_flight) in endpoint.qps.iter().zip(&mut chains).zip(&mut in_flight) {
                while *in_flight + batch <= depth {
                    qp.post_chain(chain, batch).map_err(posting)?;
                    *in_flight += batch;
                }
            }
        }
        let taken = take(&endpoint.send_cq, |wr_id| {
            if let Some(in_flight) = in_flight.get_mut(wr_id as usize) {
                *in_flight -= batch;
                result.messages += batch as u64;
            }
        })?;
        if taken > 0 {
            last_progress = now;
            spin.hit();
            tick(now - start);
        } else if spin.empty() && now - last_progress > STUCK_AFTER {
            return Err(format!("nothing completed for {} s", STUCK_AFTER.as_secs()));
        }
        if over && in_flight.iter().all(|&n| n == 0) {
            result.took = start.elapsed();
            return Ok(result);
        }
    }
}

/// Measures one READ or atomic at a time, from posting to completion.
pub fn round_trips(endpoint: &Endpoint, peer: &Address, mut tick: impl FnMut(Duration)) -> Result<Histogram, String> {
    let mut chain = SendChain::new(&[endpoint.request(0, peer, true)]);
    let mut histogram = Histogram::default();
    let limit = Duration::from_secs_f64(endpoint.case.seconds);
    let start = Instant::now();
    let mut before = start;
    while before - start < limit {
        endpoint.qps[0].post_chain(&mut chain, 1).map_err(posting)?;
        let mut spin = Spin::default();
        while take(&endpoint.send_cq, |_| {})? == 0 {
            if spin.empty() && before.elapsed() > STUCK_AFTER {
                return Err(format!("nothing completed for {} s", STUCK_AFTER.as_secs()));
            }
        }
        let after = Instant::now();
        histogram.add((after - before).as_nanos() as u64);
        before = after;
        tick(after - start);
    }
    Ok(histogram)
}

/// The client's side of the ping-pong: records half of each round trip, and counts lost messages.
pub fn ping_pong(
    endpoint: &Endpoint,
    peer: &Address,
    mut tick: impl FnMut(Duration),
) -> Result<(Histogram, u64), String> {
    let mut turns = Turns::new(endpoint, peer);
    let mut histogram = Histogram::default();
    let mut lost = 0;
    let limit = Duration::from_secs_f64(endpoint.case.seconds);
    let start = Instant::now();
    let mut before = start;
    while before - start < limit {
        turns.send()?;
        let patience = if endpoint.case.transport == Transport::Rc { STUCK_AFTER } else { LOST_AFTER };
        let mut spin = Spin::default();
        let mut arrived = true;
        while !turns.has_arrived()? {
            if spin.empty() && before.elapsed() > patience {
                if endpoint.case.transport == Transport::Rc {
                    return Err(format!("no answer for {} s", patience.as_secs()));
                }
                arrived = false;
                break;
            }
        }
        let after = Instant::now();
        if arrived {
            histogram.add((after - before).as_nanos() as u64 / 2);
            turns.next();
        } else {
            lost += 1;
        }
        before = after;
        tick(after - start);
    }
    turns.drain()?;
    Ok((histogram, lost))
}

/// The server's side of the ping-pong, until the client sends `Stop`.
pub fn serve_ping_pong(endpoint: &Endpoint, peer: &Address, control: &mut Control) -> Result<Throughput, String> {
    let mut turns = Turns::new(endpoint, peer);
    let start = Instant::now();
    let mut result = Throughput::default();
    let mut spin = Spin::default();
    loop {
        if turns.has_arrived()? {
            result.messages += 1;
            turns.send()?;
            turns.next();
            spin.hit();
            continue;
        }
        if spin.empty() && control.has_news() {
            break;
        }
    }
    await_stop(control)?;
    turns.drain()?;
    result.took = start.elapsed();
    Ok(result)
}

/// The server's side of a flood of SENDs: takes completions and reposts receives, until the client sends `Stop` and all
/// messages have arrived.
pub fn serve_flood(endpoint: &Endpoint, control: &mut Control) -> Result<Throughput, String> {
    let mut result = Throughput::default();
    let mut first: Option<Instant> = None;
    let mut last = Instant::now();
    let mut announced: Option<u64> = None;
    let mut spin = Spin::default();
    let mut slots = [0_u64; 16];
    loop {
        let mut n = 0;
        let taken = take(&endpoint.recv_cq, |wr_id| {
            slots[n] = wr_id;
            n += 1;
        })?;
        for &slot in &slots[..taken] {
            endpoint.post_recv(slot as usize)?;
        }
        if taken > 0 {
            last = Instant::now();
            first.get_or_insert(last);
            result.messages += taken as u64;
            spin.hit();
        } else if spin.empty() {
            match announced {
                None if control.has_news() => announced = Some(await_stop(control)?),
                Some(sent) if result.messages >= sent || last.elapsed() > LOST_AFTER => break,
                _ => {}
            }
        }
    }
    result.took = first.map_or(Duration::ZERO, |first| last - first);
    Ok(result)
}

/// The server's side of operations that it does not notice.
pub fn serve_passively(control: &mut Control) -> Result<Throughput, String> {
    await_stop(control)?;
    Ok(Throughput::default())
}

fn await_stop(control: &mut Control) -> Result<u64, String> {
    match control.hear() {
        Ok(Some(Ask::Stop { sent })) => Ok(sent),
        Ok(Some(_)) => Err("the client asked for something else in the middle of a case".to_owned()),
        Ok(None) => Err("the client went away".to_owned()),
        Err(e) => Err(format!("the client cannot be understood: {e}")),
    }
}

/// Turns of a ping-pong: a SEND produces a completion, a WRITE changes the last byte.
struct Turns<'a> {
    endpoint: &'a Endpoint,
    chain: SendChain,
    in_flight: usize,
    /// Last byte of the next message, 1 to 255.
    mark: u8,
}

impl<'a> Turns<'a> {
    fn new(endpoint: &'a Endpoint, peer: &Address) -> Turns<'a> {
        let chain = SendChain::new(&[endpoint.request(0, peer, true)]);
        Turns { endpoint, chain, in_flight: 0, mark: 1 }
    }

    fn writes(&self) -> bool {
        self.endpoint.case.op == Operation::Write
    }

    fn send(&mut self) -> Result<(), String> {
        self.reap()?;
        while self.in_flight >= self.endpoint.case.depth as usize {
            self.reap()?;
        }
        if self.writes() {
            self.endpoint.buffer.write(self.endpoint.last_byte_out(), &[self.mark]);
        }
        self.endpoint.qps[0].post_chain(&mut self.chain, 1).map_err(posting)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Whether the peer's message has arrived.
    fn has_arrived(&mut self) -> Result<bool, String> {
        if self.writes() {
            // Polling drives an adapter that works on its caller's thread.
            self.reap()?;
            return Ok(self.endpoint.buffer.byte(self.endpoint.last_byte_in()) == self.mark);
        }
        let mut slots = [0_u64; 16];
        let mut n = 0;
        let taken = take(&self.endpoint.recv_cq, |wr_id| {
            slots[n] = wr_id;
            n += 1;
        })?;
        for &slot in &slots[..taken] {
            self.endpoint.post_recv(slot as usize)?;
        }
        Ok(taken > 0)
    }

    /// Starts the next round.
    fn next(&mut self) {
        self.mark = self.mark % 255 + 1;
    }

    fn reap(&mut self) -> Result<(), String> {
        self.in_flight -= take(&self.endpoint.send_cq, |_| {})?;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while self.in_flight > 0 && start.elapsed() < STUCK_AFTER {
            self.reap()?;
        }
        Ok(())
    }
}
