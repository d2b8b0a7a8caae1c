//! Operations on completion queues, and their events.

use weft_verbs::injection::Call;
use weft_verbs::{AsyncEvent, AsyncSubject, CqId, CqInit, DeviceId, Event, Instant, Qpn, VerbsError, Wc};

use crate::context::HcaContext;
use crate::objects::{Arm, Cq, Pushed};
use crate::{Hca, HostInterface};

impl<H: HostInterface> HcaContext<H> {
    /// Adds a completion to a queue and raises the armed event; fails the queue if it is full.
    pub(crate) fn push_completion(&mut self, id: CqId, mut wc: Wc) {
        if let Some(device) = self.devices.get_mut(&self.acting) {
            device.counters.on_completion(&wc);
        }
        if wc.timestamp == 0 {
            wc.timestamp = self.now.0;
        }
        let now = self.now;
        let visible = match &mut self.strict {
            Some(strict) => strict.hold(now, id, wc),
            None => Some(wc),
        };
        if let Some(wc) = visible {
            self.show_completion(id, wc);
        }
    }

    /// Makes a completion visible.
    #[inline]
    fn show_completion(&mut self, id: CqId, wc: Wc) {
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        match cq.push(wc) {
            Pushed::Quiet => {}
            Pushed::Rings => self.ring_bell(id),
            Pushed::Overflow => self.fail_cq(id),
        }
    }

    /// Fails a queue as if it had overflowed.
    pub(crate) fn fail_cq(&mut self, id: CqId) {
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        cq.fail();
        let (device, cookie) = (cq.device, cq.cookie);
        self.failed_cqs.push(id);
        self.raise(device, AsyncEvent::CqErr, AsyncSubject::Cq(id), cookie);
    }

    /// Returns when the next completion or event that strict mode holds back is due.
    #[inline]
    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.strict.as_ref()?.poll_timeout()
    }

    /// Raises the event that an armed queue owes, and disarms it.
    fn ring_bell(&mut self, id: CqId) {
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        self.armed_cqs -= usize::from(cq.is_armed());
        if !cq.disarm() {
            return;
        }
        match &mut self.strict {
            Some(strict) => strict.hold_bell(self.now, id),
            None => self.raise_completion_event(id),
        }
    }

    fn raise_completion_event(&mut self, id: CqId) {
        if let Ok(cq) = self.cqs.get(id) {
            let (cookie, device) = (cq.cookie, cq.device);
            self.events.push(Event::Completion { cq: id, cookie });
            if let Some(device) = self.devices.get_mut(&device) {
                device.counters.cq_events += 1;
            }
        }
    }

    /// Removes the completions of a reset or destroyed queue pair, as drivers of hardware adapters do: the program
    /// frees the objects that their work request ids name.
    pub(crate) fn forget_completions(&mut self, id: CqId, qpn: Qpn) {
        if let Some(strict) = &mut self.strict {
            strict.forget(id, qpn);
        }
        if let Ok(cq) = self.cqs.get_mut(id) {
            cq.forget(qpn);
        }
    }
}

impl<H: HostInterface> Hca<H> {
    /// Creates a completion queue of at least `init.cqe` entries.
    pub fn create_cq(&mut self, device: DeviceId, init: &CqInit) -> Result<CqId, VerbsError> {
        self.context.present(device)?;
        self.context.may_call(device, Call::CreateCq, None)?;
        self.context.cqs.insert(Cq::new(device, init)?)
    }

    /// Destroys a completion queue; busy while queue pairs complete there.
    pub fn destroy_cq(&mut self, id: CqId) -> Result<(), VerbsError> {
        if self.context.cqs.get(id)?.uses > 0 {
            return Err(VerbsError::Busy("queue pairs or shared receive queues use the completion queue"));
        }
        let cq = self.context.cqs.remove(id)?;
        self.context.armed_cqs -= usize::from(cq.is_armed());
        Ok(())
    }

    /// Changes the number of entries, keeping the completions in the queue. Returns the granted number.
    pub fn resize_cq(&mut self, id: CqId, cqe: u32) -> Result<u32, VerbsError> {
        let device = self.context.cqs.get(id)?.device;
        self.context.may_call(device, Call::ResizeCq, None)?;
        self.context.cqs.get_mut(id)?.resize(cqe)?;
        Ok(cqe)
    }

    /// Returns the number of entries of a completion queue.
    pub fn cqe(&self, id: CqId) -> Result<u32, VerbsError> {
        Ok(self.context.cqs.get(id)?.size())
    }

    /// Moves completions to `out`, oldest first, and returns how many. Once an overflowed queue is empty, this returns
    /// an error.
    #[inline]
    pub fn poll_cq(&mut self, id: CqId, out: &mut [Wc]) -> Result<usize, VerbsError> {
        self.context.cqs.get_mut(id)?.poll(out)
    }

    /// Returns the number of completions in the queue.
    pub fn cq_len(&self, id: CqId) -> usize {
        self.context.cqs.get(id).map_or(0, Cq::len)
    }

    /// Requests an event for the next completion, or only for a solicited one or an error. A request for any completion
    /// overrides one for solicited ones, whichever came first (IBA C11-29). The event is raised at once if a matching
    /// completion is in the queue and some came since the last poll without an event.
    pub fn arm_cq(&mut self, id: CqId, solicited_only: bool) -> Result<(), VerbsError> {
        if self.context.injector.is_some() {
            let device = self.context.cqs.get(id)?.device;
            self.context.may_call(device, Call::ReqNotifyCq, None)?;
        }
        let cq = self.context.cqs.get_mut(id)?;
        let wanted = if solicited_only { Arm::Solicited } else { Arm::Any };
        if cq.owes_event(wanted) {
            self.context.ring_bell(id);
            return Ok(());
        }
        self.context.armed_cqs += usize::from(!cq.is_armed());
        cq.arm(wanted);
        Ok(())
    }

    /// Makes the completions visible, and raises the events, that strict mode held until now.
    pub(crate) fn release_completions(&mut self, now: Instant) {
        if self.context.held_until().is_none_or(|at| at > now) {
            return;
        }
        while let Some((id, wc)) = self.context.strict.as_mut().and_then(|strict| strict.release(now)) {
            self.context.show_completion(id, wc);
        }
        while let Some(id) = self.context.strict.as_mut().and_then(|strict| strict.release_bell(now)) {
            self.context.raise_completion_event(id);
        }
        self.settle_cqs();
    }

    /// Whether any completion queue is armed.
    pub fn any_cq_armed(&self) -> bool {
        self.context.armed_cqs > 0
    }
}
