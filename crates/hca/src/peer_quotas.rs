//! The queue pairs that send to one peer. Together they respect a bound on the packets in flight to it; queue pairs
//! that find no place wait in line.

use std::collections::{BTreeMap, VecDeque};

use weft_transport::PeerQuota;
use weft_verbs::{Gid, Instant, QpId};

use crate::{Hca, HostInterface};

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
    fn line_up(&mut self, peer: Gid, id: QpId) -> bool {
        let Some(WaitingLine { peer_quota, line }) = self.by_peer.get_mut(&peer) else { return false };
        line.push_back(id);
        peer_quota.set_waiting(line.len());
        self.waiting += 1;
        true
    }

    /// Takes the first queue pair in line, if there is a free place.
    fn next(&mut self, peer: Gid) -> Option<QpId> {
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
    fn forget(&mut self, id: QpId) {
        for WaitingLine { peer_quota, line } in self.by_peer.values_mut() {
            let before = line.len();
            line.retain(|waiting| *waiting != id);
            peer_quota.set_waiting(line.len());
            self.waiting -= before - line.len();
        }
    }

    /// Whether any queue pair waits in line.
    #[inline]
    pub(crate) fn are_awaited(&self) -> bool {
        self.waiting > 0
    }
}

impl<H: HostInterface> Hca<H> {
    /// Puts a queue pair that found no place in line.
    pub(crate) fn line_up(&mut self, id: QpId, now: Instant) {
        let Ok(entry) = self.qps.get_mut(id) else { return };
        if entry.in_line {
            return;
        }
        entry.in_line = entry.peer.as_ref().is_some_and(|peer| self.peer_quotas.line_up(peer.dgid, id));
        // Without a line that would call it, the queue pair does not wait.
        if !entry.in_line && entry.qp.admit(now) {
            self.schedule.add(id, &mut entry.queued);
        }
    }

    /// Takes a queue pair that is reset or destroyed out of its line.
    pub(crate) fn leave_line(&mut self, id: QpId) {
        if self.peer_quotas.are_awaited() {
            self.peer_quotas.forget(id);
        }
        if let Ok(entry) = self.qps.get_mut(id) {
            entry.in_line = false;
        }
    }

    /// Gives the free places to the queue pairs waiting for them.
    pub(crate) fn admit(&mut self, peer: Gid, now: Instant) {
        while let Some(id) = self.peer_quotas.next(peer) {
            let Ok(entry) = self.qps.get_mut(id) else { continue };
            entry.in_line = false;
            if entry.qp.admit(now) {
                self.schedule.add(id, &mut entry.queued);
            }
        }
    }

    /// Does the same for every peer, after a queue pair was taken out of service.
    pub(crate) fn admit_all(&mut self, now: Instant) {
        if self.peer_quotas.are_awaited() {
            let peers: Vec<Gid> = self.peer_quotas.by_peer.keys().copied().collect();
            peers.into_iter().for_each(|peer| self.admit(peer, now));
        }
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
