//! Queue pairs that wait in line for a place among the senders to their peer: joining, leaving, and admission.

use weft_verbs::{Gid, Instant, QpId};

use crate::{Hca, HostInterface};

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
            let peers: Vec<Gid> = self.peer_quotas.peers().collect();
            peers.into_iter().for_each(|peer| self.admit(peer, now));
        }
    }
}
