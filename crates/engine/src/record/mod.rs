//! The record of this process, if `WEFT_RECORD` names a directory: what happens to queue pairs, for `weft explain`. All
//! calls come under the pump's lock. The state machines know nothing of it: their changes show by comparison, as for the
//! trace.

mod observe;
mod packets;
mod reach;
mod requests;

use std::collections::BTreeSet;
use std::path::Path;

use weft_hca::Screening;
use weft_link::LinkStats;
use weft_record::{CompletionInfo, Event as Entry, Record};
use weft_recorder::{Library, Recorder};
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{AsyncSubject, Duration, Event, Instant, Wc, WcFlags, WcStatus};

use crate::adapter::Adapter;
use crate::config;
use observe::Observer;
use reach::Probe;

/// The record, and what it compares with.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    observer: Observer,
    link: LinkStats,
    probe: Probe,
    /// Queue pairs of packets since the last comparison.
    touched: BTreeSet<u32>,
    /// Time of the last completions that the program polled.
    polled_at: Instant,
    /// Time of the last comparison of all queue pairs.
    compared_at: Instant,
    /// Whether timers ran since.
    have_timers_run: bool,
    /// Whether a call or turn since compared some queue pairs alone.
    is_behind: bool,
}

/// Time from one comparison of all queue pairs to the next while packets alone change them: some ten times the time that
/// the comparison takes.
const INTERVAL_PER_QP: Duration = Duration::from_micros(1);

/// The queue pairs that a call or turn may have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// None, other than by packets and timers.
    Nothing,
    /// Some: a post, or arrivals.
    Some,
    /// Any: a control call.
    Everything,
}

/// Starts the record that `WEFT_RECORD` requests. A program whose record cannot be written runs without one: the variable
/// outlives the directory in processes that stay in the background, and they must not fail for it.
pub fn start() -> Option<Box<Recording>> {
    config::record().and_then(|directory| start_in(&directory))
}

fn start_in(directory: &Path) -> Option<Box<Recording>> {
    match Recorder::create(directory, Library::Verbs) {
        Ok(recorder) => Some(Box::new(Recording {
            recorder,
            observer: Observer::default(),
            link: LinkStats::default(),
            probe: Probe::default(),
            touched: BTreeSet::new(),
            polled_at: Instant::default(),
            compared_at: Instant::default(),
            have_timers_run: false,
            is_behind: false,
        })),
        Err(error) => {
            crate::log::note(&format!("WEFT_RECORD={}: no record is written: {error}", directory.display()));
            None
        }
    }
}

impl Recording {
    fn put(&self, at: Instant, qpn: u32, event: Entry) {
        self.recorder.write(&Record { at: at.0, qpn, event });
    }

    /// Records a received packet, and how the adapter treated it.
    #[cold]
    pub fn received(&mut self, now: Instant, rx: &RxPacket<'_>, screening: Screening) {
        self.touched.insert(rx.packet.bth.dest_qp());
        self.put(now, rx.packet.bth.dest_qp(), Entry::Received(packets::received(rx), packets::fate(screening)));
    }

    /// Records packets that leave.
    #[cold]
    pub fn sent(&mut self, now: Instant, batch: &TxBatch) {
        for (qpn, packet) in packets::sent(batch) {
            self.touched.insert(qpn);
            self.put(now, qpn, Entry::Sent(packet));
        }
    }

    /// Records what the link lost since the last call. A batch of one queue pair says whose packets it refused.
    #[cold]
    pub fn link(&mut self, now: Instant, stats: &LinkStats, batch: Option<&TxBatch>) {
        let before = std::mem::replace(&mut self.link, *stats);
        const RECEIVED: std::ops::Range<u8> = 4..7;
        for trouble in packets::troubles(&before, stats) {
            let is_sent = !RECEIVED.contains(&trouble.counter);
            let qpn = batch.filter(|_| is_sent).and_then(packets::only_sender).unwrap_or(0);
            self.put(now, qpn, Entry::Link(trouble));
        }
    }

    /// Records completions that the program polled. A queue pair whose peer does not answer is an occasion to ask the
    /// kernel what it knows of the peer's address.
    #[cold]
    pub fn polled(&mut self, now: Instant, completions: &[Wc]) {
        self.polled_at = now;
        for wc in completions {
            let info = CompletionInfo {
                wr_id: wc.wr_id,
                status: wc.status as u8,
                opcode: wc.opcode as u8,
                bytes: wc.byte_len,
                vendor_err: wc.vendor_err,
                made_at: wc.timestamp,
                imm: if wc.flags.contains(WcFlags::WITH_IMM) { u32::from_be(wc.imm_data) } else { wc.imm_data },
                flags: wc.flags.bits() as u8,
            };
            self.put(now, wc.qp_num, Entry::Completed(info));
            if wc.status == WcStatus::RetryExcErr
                && let Some(peer) = self.observer.peer(wc.qp_num)
                && let Some(seen) = self.probe.ask(now, &peer)
            {
                self.put(now, wc.qp_num, Entry::Reachability(seen));
            }
        }
    }

    /// Records the work requests that queue pairs accepted since the last call.
    #[cold]
    pub fn posted(&self, now: Instant, hca: &mut Adapter) {
        // A post may have the time of the last turn, which is before the completions that the program polled.
        let at = now.max(self.polled_at);
        for request in hca.take_posted() {
            self.put(at, request.qpn, Entry::Request(requests::describe(&request)));
        }
    }

    /// Records asynchronous events.
    #[cold]
    pub fn delivered(&self, now: Instant, events: &[Event]) {
        for event in events {
            let Event::Async { device, event, subject, .. } = event else { continue };
            let (qpn, port) = match subject {
                AsyncSubject::Qp(id) => (self.observer.number(*id).unwrap_or(0), 0),
                AsyncSubject::Port(port) => (0, *port),
                _ => (0, 0),
            };
            self.put(now, qpn, Entry::Async { event: *event as u8, port, device: device.0 });
        }
    }

    /// Records that the fabric's path of a queue pair opened or closed.
    #[cold]
    pub fn fabric_path(&self, now: Instant, qpn: u32, open: bool) {
        self.put(now, qpn, Entry::FabricPath { open });
    }

    /// Records the end of a process that this one exchanged data with.
    #[cold]
    pub fn peer_gone(&self, now: Instant, slot: u32, generation: u64) {
        self.put(now, 0, Entry::PeerGone { slot, generation });
    }

    /// Records the loss of the daemon.
    #[cold]
    pub fn fabric_lost(&self, now: Instant) {
        self.put(now, 0, Entry::FabricLost);
    }

    /// Records that timers ran, which may change any queue pair.
    #[cold]
    pub fn on_timers(&mut self) {
        self.have_timers_run = true;
    }

    /// Whether queue pairs may differ from the record after a call or turn. An unsuccessful poll changes none.
    #[inline]
    pub fn is_due(&self, extent: Extent) -> bool {
        extent != Extent::Nothing || self.have_timers_run || self.is_behind || !self.touched.is_empty()
    }

    /// Compares queue pairs with their previous states: all of them after calls and timers that may change any, and in
    /// between as often as takes a bounded share of the time; else those that packets were from or for.
    #[cold]
    pub fn observe(&mut self, now: Instant, hca: &Adapter, extent: Extent) {
        let Recording { recorder, observer, touched, .. } = self;
        let put = &mut |qpn, event| recorder.write(&Record { at: now.0, qpn, event });
        let again_at = self.compared_at + INTERVAL_PER_QP * u32::try_from(observer.len()).unwrap_or(u32::MAX);
        if extent == Extent::Everything || self.have_timers_run || now >= again_at {
            observer.compare_all(hca.qps(), put);
            touched.clear();
            (self.compared_at, self.have_timers_run, self.is_behind) = (now, false, false);
            return;
        }
        while let Some(qpn) = touched.pop_first() {
            if let Some(qp) = hca.qp_summary(qpn) {
                observer.compare(&qp, put);
            }
        }
        self.is_behind = true;
    }

    /// Records the regular end of the process.
    pub fn end(&self) {
        self.recorder.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_written_is_none() {
        let directory = std::env::temp_dir().join(format!("weft-engine-{:x}", weft_sys::random::u64()));
        assert!(start_in(&directory).is_none(), "the directory does not exist");
        std::fs::create_dir(&directory).unwrap();
        let recording = start_in(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        let mut recording = recording.unwrap();
        assert!(!recording.is_due(Extent::Nothing) && recording.is_due(Extent::Some), "an unsuccessful poll");
        recording.on_timers();
        assert!(recording.is_due(Extent::Nothing));
    }
}
