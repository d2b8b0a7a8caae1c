//! Posts to send and receive queues while there are failures to inject.

use weft_verbs::{Instant, QpId, QpState, RecvWr, SendWr, SrqId, VerbsError};

use super::injector::Posting;
use crate::{Hca, HostInterface};

/// Whether a queue pair in this state works on its receives: before, they wait, and in ERR they are flushed (IBA 10.3.1). Events
/// count no others.
fn serves_receives(state: QpState) -> bool {
    matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd)
}

impl<H: HostInterface> Hca<H> {
    /// Posts a send, whose status may be injected, and raises the events that its number asks for.
    #[cold]
    pub(crate) fn post_send_or_fail(&mut self, now: Instant, id: QpId, wr: &SendWr<'_>) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        // A failed queue pair flushes its requests in any case, and one without room refuses them: they have no number.
        let is_served = matches!(entry.qp.state(), QpState::Rts | QpState::Sqd) && entry.qp.would_post(wr, 0).is_ok();
        let mut status = None;
        if let (true, Some(injector), Some(device)) =
            (is_served, &mut self.context.injector, self.context.devices.get(&entry.device))
        {
            let posting = Posting {
                device: &device.attr.name,
                qp: id,
                qpn: entry.qp.qpn(),
                qp_type: entry.qp.qp_type(),
                op: wr.op.op(),
                wr_id: wr.wr_id,
            };
            status = injector.on_request(now, posting);
        }
        let posted = match status {
            Some(status) => entry.qp.post_failing_send(now, wr, status, &mut self.context),
            None => entry.qp.post_send(now, wr, &mut self.context),
        };
        let qpn = entry.qp.qpn();
        entry.posted.0 += u64::from(posted.is_ok());
        if posted.is_ok() {
            self.posted.on_send(qpn, wr);
        }
        self.settle(id, now);
        if posted.is_ok() && is_served {
            self.raise_for_post(now, id);
        }
        posted
    }

    /// Posts a receive, whose status may be injected, and raises the events that its number asks for.
    #[cold]
    pub(crate) fn post_recv_or_fail(&mut self, id: QpId, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        let is_served = self.qps.get(id).is_ok_and(|entry| serves_receives(entry.qp.state()));
        let posted = self.queue_recv(id, wr);
        if posted.is_ok() {
            self.fail_recv(id, wr);
        }
        self.serve_recv(id);
        posted?;
        if is_served {
            self.raise_for_post(self.context.now, id);
        }
        Ok(())
    }

    /// Lets an injected failure strike the receive that was posted last. A failed queue pair has flushed it: it has no number.
    fn fail_recv(&mut self, id: QpId, wr: &RecvWr<'_>) {
        let now = self.context.now;
        let Ok(entry) = self.qps.get_mut(id) else { return };
        let (Some(injector), Some(device)) = (&mut self.context.injector, self.context.devices.get(&entry.device))
        else {
            return;
        };
        if entry.qp.state() != QpState::Err
            && let Some(status) = injector.on_receive(now, &device.attr.name, Some((id, entry.qp.qpn())), wr.wr_id)
        {
            entry.qp.fail_newest_recv(status);
        }
    }

    /// As [`Hca::fail_recv`], for a shared receive queue.
    #[cold]
    pub(crate) fn fail_srq_recv(&mut self, id: SrqId, wr: &RecvWr<'_>) {
        let now = self.context.now;
        let Ok(srq) = self.context.srqs.get_mut(id) else { return };
        let (Some(injector), Some(device)) = (&mut self.context.injector, self.context.devices.get(&srq.device)) else {
            return;
        };
        if let Some(status) = injector.on_receive(now, &device.attr.name, None, wr.wr_id) {
            srq.fail_newest(status);
        }
    }
}
