//! Queue pairs: creation, numbering, destruction, and posting of work.

use weft_transport::Peers;
use weft_transport::peers::Reach;
use weft_transport::{Passed, Qp, QpStats, StreamPhase};
use weft_verbs::injection::Call;
use weft_verbs::{
    AddressVector, DeviceId, Duration, INLINE_MAX, Instant, QP_MAX, QP_WR_MAX, QPN_INDEX_BITS, QpAttr, QpCap, QpId,
    QpInit, QpState, QpType, Qpn, RecvWr, SGE_MAX, SendWr, VerbsError, XrcdId,
};
use weft_wire::MULTICAST_QPN;

use crate::objects::QpEntry;
use crate::paths::FabricPath;
use crate::posted::PostedRequest;
use crate::violation::KeyViolation;
use crate::{Hca, HostInterface, streams};

/// Queue pair numbers of slot 0 below this are the management queue pairs 0 and 1.
const MANAGEMENT_QPNS: u32 = 2;

/// A queue pair as tools show it.
#[derive(Clone, Debug)]
pub struct QpSummary {
    /// Handle.
    pub id: QpId,
    /// Number.
    pub qpn: Qpn,
    /// Device.
    pub device: DeviceId,
    /// Kind.
    pub qp_type: QpType,
    /// State.
    pub state: QpState,
    /// The peer's number (connected kinds).
    pub dest_qpn: u32,
    /// Path to the peer (connected kinds).
    pub peer: Option<AddressVector>,
    /// First PSN that it receives.
    pub rq_psn: u32,
    /// First PSN that it sends.
    pub sq_psn: u32,
    /// All its attributes.
    pub attr: QpAttr,
    /// P_Key of its packets.
    pub pkey: u16,
    /// Source LID of its packets; 0 on RoCE.
    pub slid: u16,
    /// Capacity, as it was granted.
    pub cap: QpCap,
    /// Whether every send makes a completion.
    pub signals_all: bool,
    /// Whether a shared receive queue is in place of its own.
    pub has_srq: bool,
    /// Path of its packets.
    pub path: &'static str,
    /// Number of work requests posted to its send queue.
    pub posted_sends: u64,
    /// Number of work requests posted to its own receive queue.
    pub posted_recvs: u64,
    /// Smoothed round trip to the peer, if its transport measures one.
    pub round_trip: Option<Duration>,
    /// Its counters.
    pub stats: QpStats,
}

/// Returns a display name of the path by which a queue pair reaches its peer.
fn path_name(reach: Option<Reach>) -> &'static str {
    match reach {
        None => "wire",
        Some(Reach::Memory) => "same-host(memcpy)",
        Some(Reach::Kernel) => "same-host(process_vm)",
        Some(Reach::Ring) => "same-host(ring)",
    }
}

/// Bytes of a gather list's entry in a work request, in Soft-RoCE's layout.
const SGE_BYTES: u32 = 16;

/// Checks the parts that each kind of queue pair must and must not have, and returns the granted sizes.
fn grant(init: &QpInit) -> Result<QpCap, VerbsError> {
    let invalid = |why| Err(VerbsError::Invalid(why));
    match init.qp_type {
        QpType::Rc | QpType::Uc | QpType::Ud => {
            if init.pd.is_none() || init.send_cq.is_none() || init.recv_cq.is_none() {
                return invalid("a queue pair of this type needs a protection domain and two completion queues");
            }
        }
        QpType::XrcSend => {
            if init.pd.is_none() || init.send_cq.is_none() {
                return invalid("an XRC initiator needs a protection domain and a completion queue");
            }
            if init.srq.is_some() {
                return invalid("an XRC initiator receives nothing");
            }
        }
        QpType::XrcRecv => {
            if init.xrcd.is_none() {
                return invalid("an XRC target needs an XRC domain");
            }
        }
    }
    let asked = &init.cap;
    let mut cap = QpCap::default();
    if init.qp_type.has_send_queue() {
        if asked.max_send_wr > QP_WR_MAX || asked.max_send_sge > SGE_MAX || asked.max_inline_data > INLINE_MAX {
            return invalid("max_send_wr, max_send_sge or max_inline_data is above the device's limit");
        }
        cap.max_send_wr = asked.max_send_wr.max(1);
        cap.max_send_sge = asked.max_send_sge.max(1);
        // As Soft-RoCE: space for a gather list holds inline data of the same size. rdma-core's rdma_xclient relies on
        // it.
        cap.max_inline_data = asked.max_inline_data.max(cap.max_send_sge * SGE_BYTES);
    }
    // With a shared receive queue, the sizes of an own receive queue mean nothing.
    if init.qp_type.has_recv_queue() && init.srq.is_none() {
        if asked.max_recv_wr > QP_WR_MAX || asked.max_recv_sge > SGE_MAX {
            return invalid("max_recv_wr or max_recv_sge is above the device's limit");
        }
        cap.max_recv_wr = asked.max_recv_wr.max(1);
        cap.max_recv_sge = asked.max_recv_sge.max(1);
    }
    Ok(cap)
}

impl<H: HostInterface> Hca<H> {
    /// Creates a queue pair in RESET. Returns its handle, its number, and the granted sizes.
    pub fn create_qp(&mut self, device: DeviceId, init: &QpInit) -> Result<(QpId, Qpn, QpCap), VerbsError> {
        self.context.present(device)?;
        self.context.may_call(device, Call::CreateQp, None)?;
        let mut init = *init;
        init.cap = grant(&init)?;
        let is_iwarp = self.context.present(device)?.attr.is_iwarp;
        if is_iwarp {
            streams::check_type(init.qp_type)?;
        }
        match init.qp_type {
            QpType::XrcRecv => (init.pd, init.send_cq, init.recv_cq, init.srq) = (None, None, None, None),
            QpType::XrcSend => (init.recv_cq, init.xrcd) = (None, None),
            _ => init.xrcd = None,
        }
        self.check_parts(device, &init)?;
        if self.qps.is_full() {
            return Err(VerbsError::NoMemory("queue pair"));
        }
        self.receives_datagrams |= init.qp_type == QpType::Ud;
        let index = self.draw_index()?;
        let qpn = self.slot << QPN_INDEX_BITS | index;
        let mtu = self.context.present(device)?.mtu(1);
        let ack_delay = self.ack_delay;
        let id = self.qps.insert_with(|id| {
            let new = if is_iwarp { Qp::new_iwarp } else { Qp::new };
            let mut qp = new(id, qpn, &init, device);
            qp.set_port_mtu(mtu);
            qp.allow_ack_delay(ack_delay);
            QpEntry::new(qp, device, init)
        })?;
        self.by_qpn.insert(index, id);
        self.count_uses(&init, 1);
        Ok((id, qpn, init.cap))
    }

    /// Checks that all parts of a queue pair are of one device and in working order.
    fn check_parts(&self, device: DeviceId, init: &QpInit) -> Result<(), VerbsError> {
        const FOREIGN: VerbsError = VerbsError::Invalid("the queue pair's parts are of different devices");
        if let Some(pd) = init.pd {
            (self.context.pds.get(pd)?.device == device).then_some(()).ok_or(FOREIGN)?;
        }
        if let Some(xrcd) = init.xrcd {
            (self.context.xrcds.get(xrcd)?.device == device).then_some(()).ok_or(FOREIGN)?;
        }
        for cq in [init.send_cq, init.recv_cq].into_iter().flatten() {
            let cq = self.context.cqs.get(cq)?;
            (cq.device == device).then_some(()).ok_or(FOREIGN)?;
            if cq.has_failed() {
                return Err(VerbsError::Invalid("the completion queue has overflowed"));
            }
        }
        if let Some(srq) = init.srq {
            let srq = self.context.srqs.get(srq)?;
            (srq.device == device).then_some(()).ok_or(FOREIGN)?;
            if srq.xrc.is_some() {
                return Err(VerbsError::Invalid("an XRC shared receive queue belongs to XRC targets"));
            }
        }
        Ok(())
    }

    /// Draws a random unused number within the slot; if chance finds none, takes the next free one.
    fn draw_index(&mut self) -> Result<u32, VerbsError> {
        let start = self.context.rng.next_u32() & (QP_MAX - 1);
        (0..QP_MAX)
            .map(|step| (start + step) & (QP_MAX - 1))
            .find(|index| {
                let qpn = self.slot << QPN_INDEX_BITS | index;
                qpn >= MANAGEMENT_QPNS && qpn != MULTICAST_QPN && !self.by_qpn.contains_key(index)
            })
            .ok_or(VerbsError::NoMemory("queue pair numbers"))
    }

    /// Adds `by` to the use counts of a queue pair's parts.
    fn count_uses(&mut self, init: &QpInit, by: i32) {
        let add = |uses: &mut u32| *uses = uses.saturating_add_signed(by);
        let context = &mut self.context;
        if let Some(Ok(pd)) = init.pd.map(|id| context.pds.get_mut(id)) {
            add(&mut pd.uses);
        }
        if let Some(Ok(xrcd)) = init.xrcd.map(|id| context.xrcds.get_mut(id)) {
            add(&mut xrcd.uses);
        }
        if let Some(Ok(srq)) = init.srq.map(|id| context.srqs.get_mut(id)) {
            add(&mut srq.uses);
        }
        for id in [init.send_cq, init.recv_cq].into_iter().flatten() {
            if let Ok(cq) = context.cqs.get_mut(id) {
                add(&mut cq.uses);
            }
        }
    }

    /// Opens an XRC target queue pair of the domain by its number; it then exists until destroyed as often as opened.
    pub fn open_qp(&mut self, xrcd: XrcdId, qpn: Qpn) -> Result<QpId, VerbsError> {
        self.context.xrcds.get(xrcd)?;
        let id = self.qp_by_number(qpn).ok_or(VerbsError::Invalid("no queue pair has this number"))?;
        let entry = self.qps.get_mut(id)?;
        if entry.init.qp_type != QpType::XrcRecv || entry.init.xrcd != Some(xrcd) {
            return Err(VerbsError::Invalid("the queue pair is not a target of this XRC domain"));
        }
        entry.opens += 1;
        Ok(id)
    }

    /// Finds the queue pair of this process with this number.
    pub fn qp_by_number(&self, qpn: Qpn) -> Option<QpId> {
        (qpn >> QPN_INDEX_BITS == self.slot).then(|| self.by_qpn.get(&(qpn & (QP_MAX - 1))).copied()).flatten()
    }

    /// Destroys a queue pair. Its outstanding work ends without completions, and its completions that were not polled
    /// are removed from both of its queues. Busy while attached to multicast groups.
    pub fn destroy_qp(&mut self, id: QpId) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        if entry.opens > 1 {
            entry.opens -= 1;
            return Ok(());
        }
        if entry.groups > 0 {
            return Err(VerbsError::Busy("the queue pair is attached to multicast groups"));
        }
        let mut entry = self.qps.remove(id)?;
        if let Some(injector) = &mut self.context.injector {
            injector.forget(id);
        }
        entry.qp.retire(&mut self.context);
        if entry.qp.stream_phase().is_some_and(|phase| phase != StreamPhase::Idle) {
            entry.note_order(id, &mut self.stream_changes);
        }
        self.wire_qps -= usize::from(entry.on_wire);
        self.timers.remove(id, &mut entry.armed);
        let qpn = entry.qp.qpn();
        self.by_qpn.remove(&(qpn & (QP_MAX - 1)));
        for key in self.context.keys.unbind_all_of(qpn) {
            self.context.peers.revoke_key(key);
        }
        if let Some(device) = self.context.devices.get_mut(&entry.device) {
            device.counters.qps.add(&entry.qp.stats());
        }
        // XRC targets have no queues: their completions belong to the shared receive queue's completion queue, which
        // has other readers, too.
        for cq in [entry.init.send_cq, entry.init.recv_cq].into_iter().flatten() {
            self.context.forget_completions(cq, qpn);
        }
        self.count_uses(&entry.init, -1);
        drop(entry);
        self.leave_line(id);
        self.admit_all(self.context.now);
        Ok(())
    }

    /// Returns the current attributes, and those given at creation.
    pub fn query_qp(&self, id: QpId) -> Result<(QpAttr, QpInit), VerbsError> {
        let entry = self.qps.get(id)?;
        let mut attr = entry.qp.query();
        attr.cap = entry.init.cap;
        Ok((attr, entry.init))
    }

    /// Returns the number of a queue pair.
    pub fn qpn(&self, id: QpId) -> Result<Qpn, VerbsError> {
        Ok(self.qps.get(id)?.qp.qpn())
    }

    /// Posts work to a send queue.
    pub fn post_send(&mut self, now: Instant, id: QpId, wr: &SendWr<'_>) -> Result<(), VerbsError> {
        if self.context.injector.is_some() {
            return self.post_send_or_fail(now, id, wr);
        }
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let (posted, qpn) = (entry.qp.post_send(now, wr, &mut self.context), entry.qp.qpn());
        entry.posted.0 += u64::from(posted.is_ok());
        if posted.is_ok() {
            self.posted.on_send(qpn, wr);
        }
        self.settle(id, now);
        posted
    }

    /// Checks whether [`Hca::post_send`] would accept a work request after `ahead` others: for a caller that posts a
    /// whole list or nothing.
    pub fn would_post_send(&self, id: QpId, wr: &SendWr<'_>, ahead: usize) -> Result<(), VerbsError> {
        self.qps.get(id)?.qp.would_post(wr, ahead)
    }

    /// Posts a receive.
    pub fn post_recv(&mut self, id: QpId, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        if self.context.injector.is_some() {
            return self.post_recv_or_fail(id, wr);
        }
        let posted = self.queue_recv(id, wr);
        self.serve_recv(id);
        posted
    }

    /// Queues a receive; [`Hca::serve_recv`] follows.
    #[inline]
    pub(crate) fn queue_recv(&mut self, id: QpId, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        let now = self.context.now;
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let posted = entry.qp.post_recv(wr, &mut self.context);
        entry.posted.1 += u64::from(posted.is_ok());
        let qpn = entry.qp.qpn();
        if posted.is_ok() {
            self.posted.on_recv(qpn, wr);
        }
        posted
    }

    /// Gives a message that waits for it the receive that was posted.
    #[inline]
    pub(crate) fn serve_recv(&mut self, id: QpId) {
        if self.qps.get(id).is_ok_and(|entry| entry.qp.awaits_receive()) {
            self.resume_stream(self.context.now, id);
        }
        // A receive does not change the queue pair's sends; but in ERR it completes at once.
        self.settle_cqs();
    }

    /// Starts to keep the work requests that queue pairs accept, for [`Hca::take_posted`].
    pub fn keep_posted(&mut self) {
        self.posted.start();
    }

    /// Takes the work requests that were accepted since the last call, in the order of their posts.
    pub fn take_posted(&mut self) -> impl Iterator<Item = PostedRequest> {
        self.posted.take()
    }

    /// Takes each queue pair's traffic over the fabric since the last call.
    pub fn take_passed(&mut self) -> Vec<(Qpn, Passed)> {
        self.qps.iter_mut().filter_map(|(_, entry)| Some((entry.qp.qpn(), entry.qp.take_passed()?))).collect()
    }

    /// Takes the datagram traffic of each path over the fabric since the last call.
    pub fn take_passed_datagrams(&mut self) -> Vec<(FabricPath, Passed)> {
        self.context.datagrams.take_passed()
    }

    /// Takes the datagrams lost on the fabric since the last call, by path, sender and receiver.
    pub fn take_lost_datagrams(&mut self) -> Vec<((FabricPath, Qpn, Qpn), Passed)> {
        self.context.datagrams.take_lost()
    }

    /// Takes the number of frames lost on closed paths since the last call, by sender and receiver.
    pub fn take_lost_frames(&mut self) -> Vec<((Qpn, Qpn), u64)> {
        std::mem::take(&mut self.context.lost_frames).into_iter().collect()
    }

    /// Opens or closes the path of a connected queue pair to its peer over the fabric.
    pub fn set_path_open(&mut self, qpn: Qpn, open: bool) {
        if let Some(entry) = self.qp_by_number(qpn).and_then(|id| self.qps.get_mut(id).ok()) {
            entry.qp.set_path_open(open);
        }
    }

    /// Takes the datagrams that queue pairs on a fabric refused for their keys since the last call.
    pub fn take_key_violations(&mut self) -> Vec<KeyViolation> {
        std::mem::take(&mut self.key_violations)
    }

    /// Returns the counters of a queue pair that is connected and answers its peer; `None` for any other.
    pub fn answering(&self, id: QpId) -> Option<QpStats> {
        let qp = &self.qps.get(id).ok()?.qp;
        let answers = matches!(qp.state(), QpState::Rtr | QpState::Rts | QpState::Sqd);
        (qp.qp_type().is_reliable() && answers).then(|| qp.stats())
    }

    /// Returns a summary of every queue pair, for tools.
    pub fn qps(&self) -> impl Iterator<Item = QpSummary> {
        self.qps.iter().map(|(id, entry)| self.summary(id, entry))
    }

    /// Returns the summary of the queue pair with this number.
    pub fn qp_summary(&self, qpn: Qpn) -> Option<QpSummary> {
        let id = self.qp_by_number(qpn)?;
        self.qps.get(id).ok().map(|entry| self.summary(id, entry))
    }

    /// Returns the LID that a queue pair's packets have as their source.
    fn source_lid(&self, entry: &QpEntry) -> u16 {
        let device = self.context.devices.get(&entry.device);
        let (Some(peer), Some(device)) = (entry.peer, device) else { return 0 };
        device.fabric_port(peer.port_num).map_or(0, |port| port.source_lid(peer.src_path_bits))
    }

    fn summary(&self, id: QpId, entry: &QpEntry) -> QpSummary {
        let attr = entry.qp.query();
        QpSummary {
            id,
            qpn: entry.qp.qpn(),
            device: entry.device,
            qp_type: entry.qp.qp_type(),
            state: entry.qp.state(),
            dest_qpn: attr.dest_qpn,
            peer: entry.peer,
            rq_psn: attr.rq_psn,
            sq_psn: attr.sq_psn,
            attr,
            pkey: entry.qp.pkey(),
            slid: self.source_lid(entry),
            cap: entry.init.cap,
            signals_all: entry.init.sq_sig_all,
            has_srq: entry.init.srq.is_some(),
            path: match (entry.qp.peer(), entry.qp.stream_phase()) {
                (None, Some(_)) => "tcp",
                (peer, _) => path_name(peer.map(|peer| self.context.peers.reach(peer))),
            },
            posted_sends: entry.posted.0,
            posted_recvs: entry.posted.1,
            round_trip: entry.qp.round_trip(),
            stats: entry.qp.stats(),
        }
    }
}
