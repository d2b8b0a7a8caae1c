//! The adapter as its queue pairs see it: all of [`crate::Hca`] except the queue pairs, so that a queue pair and the
//! rest can be borrowed side by side.

use std::collections::BTreeMap;

use weft_transport::{Budget, Datagram, Env, Memory, Peers, RecvWqe, RemoteFault, XrcSrq};
use weft_verbs::{
    Access, AsyncEvent, AsyncSubject, CQ_MAX, Cookie, CqId, DeviceId, Instant, MwBind, PD_MAX, PdId, Qpn, Sge, SrqId,
    Wc, WcStatus, XrcdId,
};

use crate::config::HcaConfig;
use crate::host::HostInterface;
use crate::inject::Injector;
use crate::local_datagrams::LocalDatagrams;
use crate::objects::{Cq, Devices, EventQueue, Keys, Pd, Srqs, Xrcd};
use crate::rng::Rng;
use crate::strict::Strict;
use crate::table::Table;

/// XRC domains of one process.
const XRCD_MAX: u32 = 65_536;

/// Bytes of early packets that all queue pairs of a process together keep: enough for hundreds of them with a full
/// window each behind a gap, and an upper limit against peers that send nothing but gaps.
const REORDER_BYTES_MAX: usize = 256 << 20;

/// Payload of the longest packet.
const PACKET_BYTES_MAX: u64 = 4096;

/// Queue pairs on closed paths whose lost frames are counted until the next call.
const LOST_MAX: usize = 1024;

/// Tables, memory, and the ways to others that need no packets.
pub(crate) struct HcaContext<H: HostInterface> {
    pub(crate) memory: H::Memory,
    pub(crate) peers: H::Peers,
    pub(crate) paths: H::Paths,
    pub(crate) devices: Devices,
    pub(crate) pds: Table<PdId, Pd>,
    pub(crate) keys: Keys,
    pub(crate) cqs: Table<CqId, Cq>,
    pub(crate) srqs: Srqs,
    pub(crate) xrcds: Table<XrcdId, Xrcd>,
    pub(crate) events: EventQueue,
    pub(crate) rng: Rng,
    reorder: Budget,
    /// Number of armed completion queues.
    pub(crate) armed_cqs: usize,
    /// Overflowed completion queues whose queue pairs have not failed yet.
    pub(crate) failed_cqs: Vec<CqId>,
    /// Datagrams that travel as frames.
    pub(crate) datagrams: LocalDatagrams,
    /// Frames lost on closed paths, by source and destination.
    pub(crate) lost_frames: BTreeMap<(Qpn, Qpn), u64>,
    /// Frames may come: this process has met one of this host.
    pub(crate) rings_open: bool,
    /// Fabric ports send packets, which cross the fabric hop by hop.
    pub(crate) fabric_packets: bool,
    /// Completions that strict mode holds back.
    pub(crate) strict: Option<Box<Strict>>,
    /// Failures to inject.
    pub(crate) injector: Option<Box<Injector>>,
    /// The latest time passed in.
    pub(crate) now: Instant,
    /// Device of the queue pair that is currently driven.
    pub(crate) acting: DeviceId,
}

impl<H: HostInterface> HcaContext<H> {
    pub(crate) fn new(config: &HcaConfig, memory: H::Memory, peers: H::Peers, paths: H::Paths) -> HcaContext<H> {
        HcaContext {
            memory,
            peers,
            paths,
            devices: Devices::default(),
            pds: Table::new(PD_MAX, "protection domain"),
            keys: Keys::new(),
            cqs: Table::new(CQ_MAX, "completion queue"),
            srqs: Srqs::new(),
            xrcds: Table::new(XRCD_MAX, "XRC domain"),
            events: EventQueue::default(),
            rng: Rng::new(config.seed),
            reorder: Budget::new(REORDER_BYTES_MAX),
            armed_cqs: 0,
            failed_cqs: Vec::new(),
            datagrams: LocalDatagrams::default(),
            lost_frames: BTreeMap::new(),
            rings_open: false,
            fabric_packets: false,
            strict: config.strict.map(|seed| Box::new(Strict::new(seed))),
            injector: None,
            now: Instant::default(),
            acting: DeviceId(0),
        }
    }

    /// Returns when an injected failure is due.
    #[inline]
    pub(crate) fn injections_until(&self) -> Option<Instant> {
        self.injector.as_ref()?.poll_timeout()
    }

    /// Prepares for driving a queue pair of `device` at `now`.
    pub(crate) fn act(&mut self, device: DeviceId, now: Instant) {
        self.now = self.now.max(now);
        self.acting = device;
    }

    /// Whether memory of an on-demand region is mapped. Only packets are checked, one by one, not whole messages.
    fn can_touch(&self, addr: u64, len: u64, write: bool) -> bool {
        len > PACKET_BYTES_MAX || self.memory.is_there(addr, len, write)
    }
}

impl<H: HostInterface> Env for HcaContext<H> {
    type Memory = H::Memory;
    type Peers = H::Peers;

    #[inline]
    fn memory(&mut self) -> &mut H::Memory {
        &mut self.memory
    }

    #[inline]
    fn peers(&mut self) -> &mut H::Peers {
        &mut self.peers
    }

    fn send_within_host(&mut self, datagram: &Datagram<'_>) -> bool {
        self.send_by_frame(datagram)
    }

    fn lose_frame(&mut self, src_qpn: Qpn, dest_qpn: Qpn) {
        let ends = (src_qpn, dest_qpn);
        if self.lost_frames.len() < LOST_MAX || self.lost_frames.contains_key(&ends) {
            *self.lost_frames.entry(ends).or_default() += 1;
        }
    }

    fn reorder_budget(&self) -> &Budget {
        &self.reorder
    }

    #[inline]
    fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus> {
        let mr = self.keys.mr(sge.lkey).ok_or(WcStatus::LocProtErr)?;
        let addr = mr.local(pd, sge, write)?;
        if mr.access.contains(Access::ON_DEMAND) && !self.can_touch(addr, u64::from(sge.length), write) {
            return Err(WcStatus::LocProtErr);
        }
        Ok(addr)
    }

    fn remote(&self, pd: PdId, qpn: Qpn, rkey: u32, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        let addr = self.keys.remote(pd, qpn, rkey, va, len, need)?;
        let write = need.intersects(Access::REMOTE_CHANGE);
        if self.keys.is_on_demand(rkey) && !self.can_touch(addr, len, write) {
            return Err(RemoteFault::OutOfBounds);
        }
        Ok(addr)
    }

    fn remote_range(&self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(u64, u64), RemoteFault> {
        self.keys.remote_range(pd, qpn, rkey)
    }

    #[inline]
    fn complete(&mut self, cq: CqId, wc: Wc) {
        self.push_completion(cq, wc);
    }

    fn srq_take(&mut self, srq: SrqId) -> Option<RecvWqe> {
        self.take_srq_recv(srq)
    }

    fn srq_has(&self, srq: SrqId) -> bool {
        self.srqs.has(srq)
    }

    fn xrc_srq(&self, xrcd: XrcdId, srqn: u32) -> Option<XrcSrq> {
        self.srqs.xrc(xrcd, srqn)
    }

    fn bind_mw(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), WcStatus> {
        self.bind_published(pd, qpn, bind)
    }

    fn invalidate_local(&mut self, pd: PdId, qpn: Qpn, key: u32) -> Result<(), WcStatus> {
        self.invalidate_remote(pd, qpn, key).map_err(|_| WcStatus::LocQpOpErr)
    }

    fn invalidate_remote(&mut self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(), RemoteFault> {
        self.keys.invalidate(pd, qpn, rkey)?;
        self.peers.revoke_key(rkey);
        Ok(())
    }

    fn event(&mut self, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie) {
        self.raise(self.acting, event, subject, cookie);
    }
}
