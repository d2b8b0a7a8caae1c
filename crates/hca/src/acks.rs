//! Acknowledgements that wait for company: a program that answers messages at once has its acknowledgements leave with
//! its answers. Whoever drives the adapter allows it, and sees to it that nothing waits when a queue pair or the process
//! ends.

use weft_transport::Memory;
use weft_verbs::{Instant, QpId};

use crate::Hca;

impl<M: Memory> Hca<M> {
    /// Let acknowledgements of queue pairs made from here on wait, where the traffic shows that it pays.
    pub fn allow_ack_delay(&mut self, allowed: bool) {
        self.ack_delay = allowed;
    }

    /// Let nothing of a queue pair (or of any) wait any longer: [`Hca::poll_transmit`] gives it.
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

    /// Have a queue pair send its last acknowledgement once more.
    pub fn acknowledge_again(&mut self, now: Instant, id: QpId) {
        if let Ok(entry) = self.qps.get_mut(id) {
            entry.qp.acknowledge_again();
            self.settle(id, now);
        }
    }
}
