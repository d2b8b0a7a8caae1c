//! An adapter around one queue pair: memory, keys, completions, and perhaps another process of its host.

use weft_transport::peers::KeyView;
use weft_transport::{Budget, Datagram, Env, Memory, Peers, RecvWqe, RemoteFault, XrcSrq};
use weft_verbs::{Access, AsyncEvent, AsyncSubject, Cookie, CqId, MwBind, PdId, Qpn, Sge, SrqId, Wc, WcStatus, XrcdId};

use crate::SimMemory;
use crate::peers::{Seat, SimPeers};

pub(super) const PD: PdId = PdId { index: 1, generation: 1 };
pub(super) const SEND_CQ: CqId = CqId { index: 1, generation: 0 };
pub(super) const RECV_CQ: CqId = CqId { index: 2, generation: 0 };

/// A registered region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub key: u32,
    pub addr: u64,
    pub len: u64,
    pub access: Access,
}

/// The adapter.
pub(super) struct Host {
    pub memory: SimMemory,
    pub regions: Vec<Region>,
    pub sends: Vec<Wc>,
    pub recvs: Vec<Wc>,
    pub events: Vec<AsyncEvent>,
    budget: Budget,
    peers: SimPeers,
}

impl Host {
    pub fn new(base: u64) -> Host {
        Host::with(SimMemory::new(base), None)
    }

    /// Creates one with this memory, which meets the other processes of its machine.
    pub fn with(memory: SimMemory, seat: Option<Seat>) -> Host {
        Host {
            peers: SimPeers { regions: memory.regions.clone(), seat },
            memory,
            regions: Vec::new(),
            sends: Vec::new(),
            recvs: Vec::new(),
            events: Vec::new(),
            budget: Budget::new(0),
        }
    }

    /// Registers new memory with some bytes.
    pub fn region(&mut self, key: u32, bytes: &[u8], access: Access) -> Region {
        let addr = self.memory.alloc(bytes.len());
        self.memory.write(addr, bytes);
        let region = Region { key, addr, len: bytes.len() as u64, access };
        self.regions.push(region);
        let view = KeyView { key, pd: PD, qpn: None, base: addr, len: region.len, host: addr, access };
        self.peers.publish_key(&view);
        region
    }

    fn find(&self, key: u32, addr: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        let region = self.regions.iter().find(|region| region.key == key).ok_or(RemoteFault::BadKey)?;
        let end = addr.checked_add(len).ok_or(RemoteFault::OutOfBounds)?;
        if addr < region.addr || end > region.addr + region.len {
            return Err(RemoteFault::OutOfBounds);
        }
        if region.access.contains(need) { Ok(addr) } else { Err(RemoteFault::NoRight) }
    }
}

impl Env for Host {
    type Memory = SimMemory;
    type Peers = SimPeers;

    fn memory(&mut self) -> &mut SimMemory {
        &mut self.memory
    }

    fn peers(&mut self) -> &mut SimPeers {
        &mut self.peers
    }

    fn send_within_host(&mut self, _: &Datagram<'_>) -> bool {
        false
    }

    fn lose_frame(&mut self, _: Qpn, _: Qpn) {}

    fn reorder_budget(&self) -> &Budget {
        &self.budget
    }

    fn local(&self, _: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus> {
        let need = if write { Access::LOCAL_WRITE } else { Access::empty() };
        self.find(sge.lkey, sge.addr, sge.length.into(), need).map_err(|_| WcStatus::LocProtErr)
    }

    fn remote(&self, _: PdId, _: Qpn, rkey: u32, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        self.find(rkey, va, len, need)
    }

    fn remote_range(&self, _: PdId, _: Qpn, _: u32) -> Result<(u64, u64), RemoteFault> {
        Err(RemoteFault::BadKey)
    }

    fn complete(&mut self, cq: CqId, wc: Wc) {
        if cq == SEND_CQ { self.sends.push(wc) } else { self.recvs.push(wc) }
    }

    fn srq_take(&mut self, _: SrqId) -> Option<RecvWqe> {
        None
    }

    fn srq_has(&self, _: SrqId) -> bool {
        false
    }

    fn xrc_srq(&self, _: XrcdId, _: u32) -> Option<XrcSrq> {
        None
    }

    fn bind_mw(&mut self, _: PdId, _: Qpn, _: &MwBind) -> Result<(), WcStatus> {
        Err(WcStatus::MwBindErr)
    }

    fn invalidate_local(&mut self, _: PdId, _: Qpn, key: u32) -> Result<(), WcStatus> {
        self.invalidate_remote(PD, 0, key).map_err(|_| WcStatus::MwBindErr)
    }

    fn invalidate_remote(&mut self, _: PdId, _: Qpn, rkey: u32) -> Result<(), RemoteFault> {
        let at = self.regions.iter().position(|region| region.key == rkey).ok_or(RemoteFault::BadKey)?;
        self.regions.remove(at);
        self.peers.revoke_key(rkey);
        Ok(())
    }

    fn event(&mut self, event: AsyncEvent, _: AsyncSubject, _: Cookie) {
        self.events.push(event);
    }
}
