//! An adapter around one queue pair: keys, completions, events and a shared receive queue.

use std::collections::VecDeque;

use weft_verbs::*;

use crate::{Budget, Datagram, Env, RecvWqe, RemoteFault, XrcSrq};

use super::constants::{BASE, KEY, KEY_READ_ONLY, KEY_WINDOW, MEMORY, PD, SRQ, SRQN, XRC_CQ, XRCD};
use super::memory::VecMemory;

/// A region: bytes `host..` of the memory under the addresses `iova..`.
#[derive(Clone, Copy)]
pub struct Region {
    pub key: u32,
    pub iova: u64,
    pub len: u64,
    pub access: Access,
    pub host: u64,
}

impl Region {
    pub fn new(key: u32, len: u64, access: Access) -> Region {
        Region { key, iova: BASE, len, access, host: BASE }
    }
}

pub struct World {
    pub memory: VecMemory,
    pub keys: Vec<Region>,
    pub wcs: Vec<(CqId, Wc)>,
    pub events: Vec<AsyncEvent>,
    pub srq: VecDeque<RecvWqe>,
    pub binds: Vec<MwBind>,
    pub reorder: Budget,
    /// Frames lost on a closed path, by source and destination.
    pub lost_frames: Vec<(Qpn, Qpn)>,
}

impl World {
    pub fn new(fill: u8) -> World {
        let bytes = (0..MEMORY).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ fill).collect();
        World {
            memory: VecMemory(bytes, Vec::new(), None),
            keys: vec![
                Region::new(KEY, MEMORY as u64, Access::all()),
                Region::new(KEY_READ_ONLY, MEMORY as u64, Access::empty()),
                Region::new(KEY_WINDOW, 4096, Access::all()),
            ],
            wcs: Vec::new(),
            events: Vec::new(),
            srq: VecDeque::new(),
            binds: Vec::new(),
            reorder: Budget::new(MEMORY),
            lost_frames: Vec::new(),
        }
    }

    fn range(&self, key: u32, addr: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        let found = self.keys.iter().find(|k| k.key == key).ok_or(RemoteFault::BadKey)?;
        let end = addr.checked_add(len).ok_or(RemoteFault::OutOfBounds)?;
        if addr < found.iova || end > found.iova + found.len {
            return Err(RemoteFault::OutOfBounds);
        }
        if !found.access.contains(need) {
            return Err(RemoteFault::NoRight);
        }
        Ok(found.host + (addr - found.iova))
    }

    /// Takes the completions of a CQ as (wr_id, status, bytes).
    pub fn take(&mut self, cq: CqId) -> Vec<(u64, WcStatus, u32)> {
        self.take_wcs(cq).iter().map(|w| (w.wr_id, w.status, w.byte_len)).collect()
    }

    pub fn take_wcs(&mut self, cq: CqId) -> Vec<Wc> {
        let found = self.wcs.iter().filter(|(c, _)| *c == cq).map(|(_, w)| *w).collect();
        self.wcs.retain(|(c, _)| *c != cq);
        found
    }
}

impl Env for World {
    type Memory = VecMemory;
    type Peers = VecMemory;
    fn memory(&mut self) -> &mut VecMemory {
        &mut self.memory
    }
    fn peers(&mut self) -> &mut VecMemory {
        &mut self.memory
    }
    fn send_within_host(&mut self, _: &Datagram<'_>) -> bool {
        false
    }
    fn lose_frame(&mut self, src_qpn: Qpn, dest_qpn: Qpn) {
        self.lost_frames.push((src_qpn, dest_qpn));
    }
    fn reorder_budget(&self) -> &Budget {
        &self.reorder
    }
    fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus> {
        assert!(sge.length > 0);
        let need = if write { Access::LOCAL_WRITE } else { Access::empty() };
        if pd != PD {
            return Err(WcStatus::LocProtErr);
        }
        self.range(sge.lkey, sge.addr, u64::from(sge.length), need).map_err(|_| WcStatus::LocProtErr)
    }
    fn remote(&self, pd: PdId, _: Qpn, rkey: u32, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        assert!(len > 0);
        if pd != PD {
            return Err(RemoteFault::WrongDomain);
        }
        self.range(rkey, va, len, need)
    }
    fn remote_range(&self, _: PdId, _: Qpn, rkey: u32) -> Result<(u64, u64), RemoteFault> {
        self.keys.iter().find(|k| k.key == rkey).map(|k| (k.iova, k.len)).ok_or(RemoteFault::BadKey)
    }
    fn complete(&mut self, cq: CqId, wc: Wc) {
        self.wcs.push((cq, wc));
    }
    fn srq_take(&mut self, srq: SrqId) -> Option<RecvWqe> {
        assert_eq!(srq, SRQ);
        self.srq.pop_front()
    }
    fn srq_has(&self, _: SrqId) -> bool {
        !self.srq.is_empty()
    }
    fn xrc_srq(&self, xrcd: XrcdId, srqn: u32) -> Option<XrcSrq> {
        (xrcd == XRCD && srqn == SRQN).then_some(XrcSrq { srq: SRQ, pd: PD, cq: XRC_CQ })
    }
    fn bind_mw(&mut self, _: PdId, _: Qpn, bind: &MwBind) -> Result<(), WcStatus> {
        if bind.mr_lkey != KEY {
            return Err(WcStatus::MwBindErr);
        }
        self.binds.push(*bind);
        Ok(())
    }
    fn invalidate_local(&mut self, _: PdId, _: Qpn, key: u32) -> Result<(), WcStatus> {
        self.invalidate_remote(PD, 0, key).map_err(|_| WcStatus::MwBindErr)
    }
    fn invalidate_remote(&mut self, _: PdId, _: Qpn, rkey: u32) -> Result<(), RemoteFault> {
        let at = self.keys.iter().position(|k| k.key == rkey).ok_or(RemoteFault::BadKey)?;
        self.keys.remove(at);
        Ok(())
    }
    fn event(&mut self, event: AsyncEvent, _: AsyncSubject, _: Cookie) {
        self.events.push(event);
    }
}
