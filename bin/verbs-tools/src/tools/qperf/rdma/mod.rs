//! RDMA tests: SENDs, WRITEs and READs, one way, both ways, or as ping-pong.

mod device;
mod manager;
mod path;
mod verbs;

use weft_abi_types::ibv_qp_type;

use super::control::{Failure, Result};
use super::run::Run;
use super::tests_table::{Pattern, TESTS};
use super::wire::{Number, Stat};
use device::{Device, RECEIVED};
use weft_client::verbs::{Op, Wc};

/// Maximum number of outstanding requests.
const DEPTH: u32 = 1024;

/// Runs a test on either side; the client gets the server's results.
pub fn measure(run: &mut Run, transport: ibv_qp_type, pattern: Pattern) -> Result<Option<Stat>> {
    let (sends, recvs) = depth(pattern, run.client);
    let mut device = Device::open(run, transport, sends, recvs)?;
    device.prepare(run)?;
    let deep = sends.max(recvs) > 1;
    let mut test = Test { run, device: &device, deep };
    match (pattern, test.run.client) {
        (Pattern::Bandwidth, true) => test.send(&test.op_send())?,
        (Pattern::WriteBandwidth, true) => test.send(&Op::WriteImm(device.peer_buffer(), 0))?,
        (Pattern::Bandwidth | Pattern::WriteBandwidth, false) => test.receive()?,
        (Pattern::BothWays, _) => test.both_ways()?,
        (Pattern::Latency, _) => test.ping_pong(&test.op_send())?,
        (Pattern::WriteLatency, _) => test.ping_pong(&Op::WriteImm(device.peer_buffer(), 0))?,
        (Pattern::ReadBandwidth, true) => test.read(DEPTH)?,
        (Pattern::ReadLatency, true) => test.read(1)?,
        (Pattern::ReadBandwidth | Pattern::ReadLatency, false) => test.idle()?,
    }
    let theirs = run.exchange()?;
    device.close(run)?;
    Ok(theirs)
}

/// Send and receive queue depths of the queue pair.
fn depth(pattern: Pattern, client: bool) -> (u32, u32) {
    match (pattern, client) {
        (Pattern::BothWays, _) => (DEPTH, DEPTH),
        (Pattern::Latency | Pattern::WriteLatency, _) => (1, 1),
        (Pattern::Bandwidth | Pattern::WriteBandwidth | Pattern::ReadBandwidth, true) => (DEPTH, 0),
        (Pattern::Bandwidth | Pattern::WriteBandwidth, false) => (0, DEPTH),
        (Pattern::ReadLatency, true) => (1, 0),
        (Pattern::ReadBandwidth | Pattern::ReadLatency, false) => (0, 1),
    }
}

/// A running test.
struct Test<'a> {
    run: &'a mut Run,
    device: &'a Device,
    /// Whether to record the maximum number of completions taken at once.
    deep: bool,
}

impl Test<'_> {
    fn op_send(&self) -> Op {
        self.device.op_send()
    }

    /// Posts `count` requests and counts them as sent.
    fn post(&mut self, op: &Op, count: u64) -> Result<()> {
        self.device.post_sends(op, count)?;
        for _ in 0..count {
            self.run.stat.sent.add(self.device.msg_size);
        }
        Ok(())
    }

    /// Waits briefly for completions; passes each successful one to `on`.
    fn poll(&mut self, mut on: impl FnMut(&mut Stat, &Wc)) -> Result<u64> {
        let polling = self.run.number(Number::PollMode) != 0;
        let stat = &mut self.run.stat;
        let mut failed = None;
        let count = self.device.poll(polling, |wc| match wc.status() {
            0 => on(stat, wc),
            status => failed = failed.or(Some(status)),
        })?;
        if self.deep {
            stat.max_cqes = stat.max_cqes.max(count as u32);
        }
        match failed {
            Some(status) if !self.run.finished()? => Err(self.completion_failed(status)),
            _ => Ok(count),
        }
    }

    fn completion_failed(&self, status: u32) -> Failure {
        let name = TESTS.get(usize::from(self.run.request.test)).map_or("test", |test| test.name);
        Failure::Ours(format!("{name} failed: {}", self.device.status_text(status)))
    }

    /// Number of requests to send next: up to `room`, within the number of messages of the test.
    fn left(&self, sent: u64, room: u64) -> u64 {
        match u64::from(self.run.number(Number::NoMsgs)) {
            0 => room,
            wanted => wanted.saturating_sub(sent).min(room),
        }
    }

    fn all_done(&self, done: u64) -> bool {
        let wanted = u64::from(self.run.number(Number::NoMsgs));
        wanted > 0 && done >= wanted
    }

    /// The sending side of a one-way test.
    fn send(&mut self, op: &Op) -> Result<()> {
        self.run.sync()?;
        let mut sent = self.left(0, DEPTH.into());
        self.post(op, sent)?;
        let mut done = 0;
        while !self.run.finished()? && !self.all_done(done) {
            let count = self.poll(|_, _| ())?;
            if self.run.finished()? {
                break;
            }
            done += count;
            let more = self.left(sent, count);
            self.post(op, more)?;
            sent += more;
        }
        Ok(())
    }

    /// The receiving side of a one-way test.
    fn receive(&mut self) -> Result<()> {
        let size = self.device.msg_size;
        self.device.post_recvs(DEPTH.into())?;
        self.run.sync()?;
        while !self.run.finished()? && !self.all_done(self.run.stat.received.msgs) {
            let count = self.poll(|stat, _| stat.received.add(size))?;
            if self.run.finished()? {
                break;
            }
            self.device.post_recvs(count)?;
        }
        Ok(())
    }

    fn both_ways(&mut self) -> Result<()> {
        let (size, op) = (self.device.msg_size, self.op_send());
        self.device.post_recvs(DEPTH.into())?;
        self.run.sync()?;
        self.post(&op, DEPTH.into())?;
        while !self.run.finished()? {
            let (mut sent, mut received) = (0, 0);
            self.poll(|stat, wc| {
                if wc.wr_id() == RECEIVED {
                    stat.received.add(size);
                    received += 1;
                } else {
                    sent += 1;
                }
            })?;
            if self.run.finished()? {
                break;
            }
            self.device.post_recvs(received)?;
            self.post(&op, sent)?;
        }
        Ok(())
    }

    /// Ping-pong: each side sends when its last send has completed and the other's message has arrived.
    fn ping_pong(&mut self, op: &Op) -> Result<()> {
        let size = self.device.msg_size;
        self.device.post_recvs(1)?;
        self.run.sync()?;
        let (mut left, mut came) = (true, false);
        if self.run.client {
            self.post(op, 1)?;
            left = false;
        }
        while !self.run.finished()? {
            let mut receptions = 0;
            self.poll(|stat, wc| {
                if wc.wr_id() == RECEIVED {
                    stat.received.add(size);
                    receptions += 1;
                    came = true;
                } else {
                    left = true;
                }
            })?;
            self.device.post_recvs(receptions)?;
            if left && came && !self.run.finished()? {
                self.post(op, 1)?;
                (left, came) = (false, false);
            }
        }
        Ok(())
    }

    fn read(&mut self, depth: u32) -> Result<()> {
        let (size, op) = (self.device.msg_size, Op::Read(self.device.peer_buffer()));
        self.run.sync()?;
        self.device.post_sends(&op, depth.into())?;
        while !self.run.finished()? {
            let count = self.poll(|stat, _| {
                stat.received.add(size);
                stat.remote_sent.add(size);
            })?;
            if !self.run.finished()? {
                self.device.post_sends(&op, count)?;
            }
        }
        Ok(())
    }

    /// Waits for the end of the test while the adapter does all the work.
    fn idle(&mut self) -> Result<()> {
        self.run.sync()?;
        while !self.run.finished()? {
            std::thread::sleep(super::run::NAP);
        }
        Ok(())
    }
}
