//! The transport's interface to the other processes of the host.

use weft_transport::Peers;
use weft_transport::frame::{Frame, HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::{Qpn, Sge};

use super::host::{Host, LOOKS_MAX};
use super::key_directory::QpEntry;
use super::peer::Peer;

impl Peers for Host {
    #[inline]
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        let Some(to) = self.peers.get_mut(peer.0 as usize).and_then(|peer| peer.as_deref_mut()) else { return false };
        if !to.alive {
            return false;
        }
        match to.out.push(&to.pair, frame, payload) {
            Ok(true) => {
                if !to.own && !std::mem::replace(&mut to.pushed, true) {
                    self.pushed.push(peer.0);
                }
                true
            }
            Ok(false) => false,
            Err(_) => {
                self.close(peer.0);
                false
            }
        }
    }

    fn ring_mark(&self, peer: PeerId) -> u64 {
        self.peer_at(peer.0).map_or(0, |peer| peer.out.head())
    }

    /// A peer that never joined the pair takes nothing: frames to it count as lost, as on a wire.
    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.peer_at(peer.0).is_none_or(|peer| !peer.is_here() || peer.out.taken(&peer.pair) >= mark)
    }

    fn has_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.peer_at(peer.0).is_none_or(|peer| !peer.alive || peer.out.taken(&peer.pair) >= mark)
    }

    #[inline]
    fn peer_of_slot(&self, slot: u32) -> Option<PeerId> {
        self.number_of_slot(slot)
    }

    #[inline]
    fn meet(&mut self, slot: u32) -> Option<PeerId> {
        self.number_of_slot(slot).or_else(|| self.want(slot))
    }

    #[inline]
    fn is_alive(&self, peer: PeerId) -> bool {
        self.peer_at(peer.0).is_some_and(|peer| peer.alive)
    }

    #[inline]
    fn arrival(&mut self) -> Option<PeerId> {
        for _ in 0..self.rings.len().min(LOOKS_MAX) {
            if self.turn >= self.rings.len() {
                self.turn = 0;
            }
            let index = self.rings[self.turn];
            self.turn += 1;
            if self.peer_at(index).is_some_and(Peer::has_frame) {
                return Some(PeerId(index));
            }
        }
        None
    }

    #[inline]
    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        let from = self.peers.get_mut(peer.0 as usize)?.as_deref_mut()?;
        match from.inn.look(&from.pair) {
            Ok(Some(frame)) => {
                self.current = Some((peer.0, frame.bytes));
                Some(frame)
            }
            Ok(None) => {
                if from.dead {
                    self.clear_away(peer.0);
                }
                None
            }
            Err(_) => {
                self.close(peer.0);
                None
            }
        }
    }

    #[inline]
    fn place(&mut self, offset: u32, to: HostRange) {
        if let Some((index, bytes)) = self.current
            && let Some(peer) = self.peer_at(index)
        {
            peer.inn.place(&peer.pair, bytes, offset, to);
        }
    }

    #[inline]
    fn peek(&self, offset: u32, out: &mut [u8]) {
        if let Some((index, bytes)) = self.current
            && let Some(peer) = self.peer_at(index)
        {
            peer.inn.peek(&peer.pair, bytes, offset, out);
        }
    }

    #[inline]
    fn end_frame(&mut self) {
        if let Some((index, bytes)) = self.current.take()
            && let Some(peer) = self.peer(index)
        {
            peer.inn.end(&peer.pair, bytes);
        }
    }

    fn fetch(&mut self, peer: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        self.fetch_named(peer.0, from, offset, to).is_some()
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Reach {
        self.peer_at(peer.0).map_or(Reach::Ring, Peer::reach)
    }

    #[inline]
    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        self.copy_there(at, from).is_some()
    }

    fn read_direct(&mut self, at: &Direct, to: &[HostRange]) -> bool {
        self.copy_here(at, to).is_some()
    }

    fn atomic_direct(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        self.act_there(at, op)
    }

    fn publish_key(&mut self, key: &KeyView) {
        self.publish_shared_key(key, None);
    }

    fn revoke_key(&mut self, key: u32) {
        if self.directory.take_key(key) {
            self.wait_for_copies();
        }
    }

    fn publish_qp(&mut self, qp: &QpView) {
        self.revoke_qp(qp.qpn);
        let Some(peer) = self.peer_at(qp.peer.0) else { return };
        let (slot, generation, access) = (peer.slot, peer.generation, qp.access.bits());
        self.directory.put_qp(qp.qpn, &QpEntry { dest_qpn: qp.dest_qpn, slot, generation, pd: qp.pd, access });
    }

    fn revoke_qp(&mut self, qpn: Qpn) {
        if self.directory.take_qp(qpn) {
            self.wait_for_copies();
        }
    }
}
