//! Delayed acknowledgements. If a program answers messages at once, its answers carry its acknowledgements. The driver
//! of the adapter enables this, and makes sure that no acknowledgement waits when a queue pair or the process ends.

use weft_verbs::{Instant, QpId};

use crate::{Hca, HostInterface};

impl<H: HostInterface> Hca<H> {
    /// Lets queue pairs created from now on delay acknowledgements, where the traffic shows that it pays.
    pub fn allow_ack_delay(&mut self, allowed: bool) {
        self.ack_delay = allowed;
    }

    /// Releases all delayed acknowledgements of a queue pair (or of all): [`Hca::poll_transmit`] returns them.
    pub fn release_acks(&mut self, now: Instant, id: Option<QpId>) {
        self.pay_acks(now, id);
        if !self.ack_delay {
            return;
        }
        let ids: Vec<QpId> = match id {
            Some(id) => vec![id],
            None => self.qps.iter().map(|(id, _)| id).collect(),
        };
        for id in ids {
            if let Ok(entry) = self.qps.get_mut(id) {
                entry.qp.allow_ack_delay(false);
                self.settle(id, now);
            }
        }
    }

    /// Makes a queue pair send its last acknowledgement again.
    pub fn acknowledge_again(&mut self, now: Instant, id: QpId) {
        if let Ok(entry) = self.qps.get_mut(id) {
            entry.qp.acknowledge_again();
            self.settle(id, now);
        }
    }
}
