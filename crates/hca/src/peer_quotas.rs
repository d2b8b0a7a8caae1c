//! The queue pairs that send to one peer. Together they respect a bound on the packets in flight to it; queue pairs
//! that find no place wait in line.

use std::collections::{BTreeMap, VecDeque};

use weft_transport::PeerQuota;
use weft_verbs::{Gid, QpId};

/// Number of remembered peers above which unused ones are forgotten.
const PEERS_KEPT: usize = 256;

/// One quota per address.
#[derive(Debug, Default)]
pub(crate) struct PeerQuotas {
    by_peer: BTreeMap<Gid, WaitingLine>,
    /// Queue pairs waiting in line, in all quotas.
    waiting: usize,
}

/// A quota, and the queue pairs waiting for a place in it.
#[derive(Debug, Default)]
struct WaitingLine {
    peer_quota: PeerQuota,
    line: VecDeque<QpId>,
}

impl PeerQuotas {
    /// Returns the quota of queue pairs that send to `peer`.
    pub(crate) fn of(&mut self, peer: Gid) -> &PeerQuota {
        if self.by_peer.len() >= PEERS_KEPT && !self.by_peer.contains_key(&peer) {
            self.by_peer.retain(|_, gathering| !gathering.peer_quota.is_unused() || !gathering.line.is_empty());
        }
        &self.by_peer.entry(peer).or_default().peer_quota
    }

    /// Puts `id` in line for a place among the senders to `peer`. Returns false if there is no such quota.
    pub(crate) fn line_up(&mut self, peer: Gid, id: QpId) -> bool {
        let Some(WaitingLine { peer_quota, line }) = self.by_peer.get_mut(&peer) else { return false };
        line.push_back(id);
        peer_quota.set_waiting(line.len());
        self.waiting += 1;
        true
    }

    /// Takes the first queue pair in line, if there is a free place.
    pub(crate) fn next(&mut self, peer: Gid) -> Option<QpId> {
        let WaitingLine { peer_quota, line } = self.by_peer.get_mut(&peer)?;
        if !peer_quota.has_place() {
            return None;
        }
        let id = line.pop_front()?;
        peer_quota.set_waiting(line.len());
        self.waiting -= 1;
        Some(id)
    }

    /// Removes `id` from every line.
    pub(crate) fn forget(&mut self, id: QpId) {
        for WaitingLine { peer_quota, line } in self.by_peer.values_mut() {
            let before = line.len();
            line.retain(|waiting| *waiting != id);
            peer_quota.set_waiting(line.len());
            self.waiting -= before - line.len();
        }
    }

    /// Returns the peers that have a quota.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Gid> {
        self.by_peer.keys().copied()
    }

    /// Whether any queue pair waits in line.
    #[inline]
    pub(crate) fn are_awaited(&self) -> bool {
        self.waiting > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(n: u32) -> Gid {
        Gid::from(std::net::IpAddr::from(std::net::Ipv4Addr::from(n)))
    }

    #[test]
    fn peers_nobody_sends_to_are_forgotten() {
        let mut peer_quotas = PeerQuotas::default();
        let kept = peer_quotas.of(gid(1)).clone();
        for n in 0..2000 {
            peer_quotas.of(gid(n));
        }
        assert!(peer_quotas.by_peer.len() <= PEERS_KEPT);
        assert!(peer_quotas.by_peer.contains_key(&gid(1)) && !kept.is_unused());
    }

    #[test]
    fn who_waits_is_served_in_order_and_who_left_is_not() {
        let id = |index| QpId { index, generation: 0 };
        let mut peer_quotas = PeerQuotas::default();
        assert!(!peer_quotas.line_up(gid(1), id(1)), "nobody joined");
        peer_quotas.of(gid(1));
        assert!((1..4).all(|n| peer_quotas.line_up(gid(1), id(n))));
        assert!(peer_quotas.are_awaited() && peer_quotas.next(gid(2)).is_none());
        peer_quotas.forget(id(2));
        assert_eq!([(); 3].map(|()| peer_quotas.next(gid(1))), [Some(id(1)), Some(id(3)), None]);
        assert!(!peer_quotas.are_awaited());
    }
}
