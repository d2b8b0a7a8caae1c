//! The adapter: the owner of the tables, and the entry points that its driver calls.

use std::ops::Range;

use rustc_hash::FxHashMap;
use weft_transport::TxBatch;
use weft_verbs::{Instant, QP_MAX, QpId};

use crate::HcaConfig;
use crate::context::HcaContext;
use crate::host::{HostInterface, HostParts};
use crate::objects::{Groups, QpEntry};
use crate::owed_acks::OwedAcks;
use crate::peer_quotas::PeerQuotas;
use crate::posted::PostedLog;
use crate::schedule::Schedule;
use crate::table::Table;
use crate::timers::Timers;
use crate::violation::KeyViolation;

/// One process's slice of all its adapters.
pub struct Hca<H: HostInterface> {
    pub(crate) context: HcaContext<H>,
    pub(crate) qps: Table<QpId, QpEntry>,
    /// Maps a number's index within the slot to the queue pair.
    pub(crate) by_qpn: FxHashMap<u32, QpId>,
    /// The queue pair of the last frame.
    pub(crate) recent_qp: Option<QpId>,
    pub(crate) groups: Groups,
    pub(crate) schedule: Schedule,
    /// Queue pairs that want to write to their streams.
    pub(crate) streams: Schedule,
    /// Queue pairs whose order for the owner of their socket has changed, each once; destroyed ones, too.
    pub(crate) stream_changes: Vec<QpId>,
    /// Queue pairs that have waited for a receive of a shared queue; some may wait no more.
    pub(crate) paused_streams: Vec<QpId>,
    pub(crate) timers: Timers,
    pub(crate) peer_quotas: PeerQuotas,
    /// Buffer for the queue pairs whose deadline has expired.
    due: Vec<QpId>,
    pub(crate) slot: u32,
    pub(crate) privileged: bool,
    pub(crate) null_memory: Range<u64>,
    /// New queue pairs may delay acknowledgements.
    pub(crate) ack_delay: bool,
    /// There is or was a datagram queue pair.
    pub(crate) receives_datagrams: bool,
    /// Number of queue pairs that may get packets.
    pub(crate) wire_qps: usize,
    pub(crate) owed_acks: OwedAcks,
    pub(crate) key_violations: Vec<KeyViolation>,
    /// Accepted work requests, if they are kept.
    pub(crate) posted: PostedLog,
}

impl<H: HostInterface> Hca<H> {
    /// Makes an adapter without devices over the parts of its process.
    pub fn new(config: HcaConfig, HostParts { memory, peers, paths }: HostParts<H>) -> Self {
        Hca {
            context: HcaContext::new(&config, memory, peers, paths),
            qps: Table::new(QP_MAX, "queue pair"),
            by_qpn: FxHashMap::default(),
            recent_qp: None,
            groups: Groups::default(),
            schedule: Schedule::default(),
            streams: Schedule::default(),
            stream_changes: Vec::new(),
            paused_streams: Vec::new(),
            timers: Timers::default(),
            peer_quotas: PeerQuotas::default(),
            due: Vec::new(),
            slot: config.slot,
            privileged: config.privileged,
            null_memory: config.null_memory,
            receives_datagrams: false,
            wire_qps: 0,
            owed_acks: OwedAcks::default(),
            key_violations: Vec::new(),
            posted: PostedLog::default(),
            ack_delay: false,
        }
    }

    /// Returns the memory that was given to [`Hca::new`].
    pub fn memory(&mut self) -> &mut H::Memory {
        &mut self.context.memory
    }

    /// Returns the other processes of this host.
    #[inline]
    pub fn peers(&mut self) -> &mut H::Peers {
        &mut self.context.peers
    }

    /// Returns the known paths over the fabric.
    #[inline]
    pub fn paths(&mut self) -> &mut H::Paths {
        &mut self.context.paths
    }

    /// Sends packets of devices on an InfiniBand fabric to the link from now on, which takes them over the fabric hop
    /// by hop.
    pub fn send_fabric_packets(&mut self) {
        self.context.fabric_packets = true;
    }

    /// Runs the queue pairs whose deadline has expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.release_completions(now);
        self.run_injections(now);
        let mut due = std::mem::take(&mut self.due);
        self.timers.take_due(now, &mut due);
        for id in due.drain(..) {
            let Ok(entry) = self.qps.get_mut(id) else { continue };
            entry.armed = None;
            if entry.qp.poll_timeout().is_some_and(|deadline| deadline <= now) {
                self.context.act(entry.device, now);
                entry.qp.handle_timeout(now, &mut self.context);
            }
            self.settle(id, now);
        }
        self.due = due;
    }

    /// Returns when to call [`Hca::handle_timeout`] next. Never too late; too early only if a deadline has moved.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let (owed, retry) = (self.owed_acks.until, self.context.datagrams.retry_at);
        let (held, injected) = (self.context.held_until(), self.context.injections_until());
        self.next_timer().into_iter().chain(owed).chain(retry).chain(held).chain(injected).min()
    }

    fn next_timer(&mut self) -> Option<Instant> {
        while let Some((at, id)) = self.timers.first() {
            let Ok(entry) = self.qps.get_mut(id) else {
                self.timers.remove(id, &mut Some(at));
                continue;
            };
            match entry.qp.poll_timeout() {
                Some(deadline) if deadline <= at => return Some(at),
                Some(deadline) => {
                    self.timers.remove(id, &mut entry.armed);
                    self.timers.wake_by(id, deadline, &mut entry.armed);
                }
                None => self.timers.remove(id, &mut entry.armed),
            }
        }
        None
    }

    /// Whether packets are expected: some queue pair does not have its peer on this host.
    #[inline]
    pub fn awaits_packets(&self) -> bool {
        self.wire_qps > 0
    }

    /// Whether frames may come: this process has met one of this host.
    #[inline]
    pub fn has_rings(&self) -> bool {
        self.context.rings_open
    }

    /// Whether the process receives or has received datagrams, which expose the network header's fields.
    pub fn receives_datagrams(&self) -> bool {
        self.receives_datagrams
    }

    /// Whether [`Hca::handle_timeout`] may have work; cheap enough for pollers.
    #[inline]
    pub fn may_be_due(&self, now: Instant) -> bool {
        self.timers.first().is_some_and(|(at, _)| at <= now)
            || self.context.held_until().is_some_and(|at| at <= now)
            || self.context.injections_until().is_some_and(|at| at <= now)
    }

    /// Fills the batch with packets that may be sent now, queue pairs taking turns. Returns `true` if more could be
    /// sent at once.
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut TxBatch) -> bool {
        // A queue pair that has its turn and adds nothing gets no other turn in this round.
        let mut fruitless = 0;
        while tx.has_room() {
            if fruitless > self.schedule.len() {
                return false;
            }
            let Some(id) = self.schedule.next() else { return false };
            let Ok(entry) = self.qps.get_mut(id) else { continue };
            entry.queued = false;
            let (before, sent_before) = (tx.packets.len(), entry.qp.packets_sent());
            self.context.act(entry.device, now);
            if entry.qp.poll_transmit(now, tx, &mut self.context) {
                self.schedule.add(id, &mut entry.queued);
            }
            let waits = entry.qp.waits_for_place();
            fruitless = if entry.qp.packets_sent() > sent_before { 0 } else { fruitless + 1 };
            if tx.packets.len() > before
                && let Some(device) = self.context.devices.get_mut(&entry.device)
            {
                device.counters.on_sent(&tx.packets[before..]);
                if device.on_fabric() {
                    let source = entry.fabric_source();
                    if self.context.fabric_packets {
                        self.address_on_fabric(tx, before, source);
                    } else {
                        // This fabric port sends no packets: a process that cannot be met is unreachable.
                        tx.packets.truncate(before);
                    }
                }
            }
            if waits {
                self.line_up(id, now);
            }
            self.settle(id, now);
        }
        self.schedule.len() > 0
    }

    /// Whether any queue pair waits for its turn to send.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.schedule.len() > 0
    }

    /// Updates the adapter after any call into a queue pair: gives it a turn if it wants to send, records its deadline,
    /// and fails the queue pairs whose completion queue overflowed.
    #[inline]
    pub(crate) fn settle(&mut self, id: QpId, now: Instant) {
        if let Ok(entry) = self.qps.get_mut(id) {
            if !entry.queued && entry.qp.wants_transmit(now) {
                self.schedule.add(id, &mut entry.queued);
            }
            entry.settle_stream(id, &mut self.streams, &mut self.stream_changes, &mut self.paused_streams);
            if let Some(deadline) = entry.qp.poll_timeout() {
                self.timers.wake_by(id, deadline, &mut entry.armed);
            }
            if self.peer_quotas.are_awaited()
                && let Some(peer) = &entry.peer
            {
                let peer = peer.dgid;
                self.admit(peer, now);
            }
        }
        self.settle_cqs();
    }

    /// Fails the queue pairs whose completion queue overflowed.
    #[inline]
    pub(crate) fn settle_cqs(&mut self) {
        if !self.context.failed_cqs.is_empty() {
            self.fail_with_cqs();
        }
    }

    #[cold]
    fn fail_with_cqs(&mut self) {
        while let Some(cq) = self.context.failed_cqs.pop() {
            let on_it: Vec<QpId> = self
                .qps
                .iter()
                .filter(|(_, e)| e.init.send_cq == Some(cq) || e.init.recv_cq == Some(cq))
                .map(|(qp, _)| qp)
                .collect();
            for qp in on_it {
                self.fail_qp(qp);
            }
        }
    }

    /// Moves a queue pair to the error state.
    pub(crate) fn fail_qp(&mut self, id: QpId) {
        let now = self.context.now;
        let Ok(entry) = self.qps.get_mut(id) else { return };
        self.context.act(entry.device, now);
        entry.qp.to_error(now, &mut self.context);
        if entry.qp.wants_transmit(now) {
            self.schedule.add(id, &mut entry.queued);
        }
        entry.settle_stream(id, &mut self.streams, &mut self.stream_changes, &mut self.paused_streams);
        self.admit_all(now);
    }
}
