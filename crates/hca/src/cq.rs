//! Completion queues: a ring of completions, and the notification that a program arms.

use std::collections::VecDeque;

use weft_verbs::{
    AsyncEvent, AsyncSubject, CQE_MAX, Cookie, CqId, CqInit, DeviceId, Event, Qpn, VerbsError, Wc, WcStatus,
};

use crate::context::HcaContext;
use crate::{Hca, HostInterface};

/// The completions for which an armed queue raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arm {
    No,
    /// Completions that the peer solicited, and errors.
    Solicited,
    /// Any completion.
    Any,
}

impl Arm {
    fn rings_for(self, wc: &Wc) -> bool {
        match self {
            Arm::No => false,
            Arm::Any => true,
            Arm::Solicited => wc.solicited || wc.status != WcStatus::Success,
        }
    }
}

/// The program's knowledge of the ring. A hardware adapter that arms with the consumer's index raises an event at once
/// for completions between the last poll and the arming. The specification requires less (IBA 11.4.2.2: only later
/// completions raise one), and makes the consumer poll once more after arming. Programs that do not, and never lost an
/// event with such an adapter, must not sleep for ever here. Yet no completion may cause two events, as completions
/// left by a poll would: programs that count one event for each completion, and poll one for each, would get out of
/// step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// No completion came since the last poll.
    None,
    /// An event was raised since the last poll: another poll must follow, whatever else comes.
    Told,
    /// Completions came since, without an event.
    Untold,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) device: DeviceId,
    pub(crate) cookie: Cookie,
    cqe: u32,
    ignore_overrun: bool,
    ring: VecDeque<Wc>,
    pub(crate) arm: Arm,
    news: News,
    /// Completions at the ring's end that came since the last poll.
    unpolled: usize,
    /// A completion event waits for delivery: another one would add nothing.
    pub(crate) event_waiting: bool,
    /// The queue overflowed: the program can still poll the ring's contents, then polls fail.
    pub(crate) failed: bool,
    /// Number of queue pairs and shared receive queues that complete here.
    pub(crate) uses: u32,
}

impl<H: HostInterface> HcaContext<H> {
    /// Adds a completion to a queue and raises the armed event; fails the queue if it is full.
    pub(crate) fn push_completion(&mut self, id: CqId, mut wc: Wc) {
        if let Some(device) = self.devices.get_mut(&self.acting) {
            device.counters.on_completion(&wc);
        }
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        if cq.failed {
            return;
        }
        if cq.ring.len() as u64 >= u64::from(cq.cqe) {
            if cq.ignore_overrun {
                return;
            }
            cq.failed = true;
            let (device, cookie) = (cq.device, cq.cookie);
            self.failed_cqs.push(id);
            self.raise(device, AsyncEvent::CqErr, AsyncSubject::Cq(id), cookie);
            return;
        }
        if wc.timestamp == 0 {
            wc.timestamp = self.now.0;
        }
        let rings = cq.arm.rings_for(&wc);
        cq.ring.push_back(wc);
        cq.unpolled += 1;
        if rings {
            self.ring_bell(id);
        } else if cq.news == News::None {
            cq.news = News::Untold;
        }
    }

    /// Raises the event that an armed queue owes, and disarms it.
    fn ring_bell(&mut self, id: CqId) {
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        if std::mem::replace(&mut cq.arm, Arm::No) != Arm::No {
            self.armed_cqs -= 1;
        }
        cq.news = News::Told;
        if !std::mem::replace(&mut cq.event_waiting, true) {
            let (cookie, device) = (cq.cookie, cq.device);
            self.events.push(Event::Completion { cq: id, cookie });
            if let Some(device) = self.devices.get_mut(&device) {
                device.counters.cq_events += 1;
            }
        }
    }

    /// Removes the completions of a reset or destroyed queue pair, as drivers of hardware adapters do: the program
    /// frees the objects that their work request ids name. The others keep their order, and a raised event stays
    /// raised.
    pub(crate) fn forget_completions(&mut self, id: CqId, qpn: Qpn) {
        let Ok(cq) = self.cqs.get_mut(id) else { return };
        let first_unpolled = cq.ring.len().saturating_sub(cq.unpolled);
        cq.unpolled = cq.ring.iter().skip(first_unpolled).filter(|wc| wc.qp_num != qpn).count();
        cq.ring.retain(|wc| wc.qp_num != qpn);
        if cq.unpolled == 0 && cq.news == News::Untold {
            cq.news = News::None;
        }
    }
}

impl<H: HostInterface> Hca<H> {
    /// Creates a completion queue of at least `init.cqe` entries.
    pub fn create_cq(&mut self, device: DeviceId, init: &CqInit) -> Result<CqId, VerbsError> {
        self.context.present(device)?;
        if init.cqe == 0 || init.cqe > CQE_MAX {
            return Err(VerbsError::Invalid("a completion queue has 1 to 4194303 entries"));
        }
        self.context.cqs.insert(Cq {
            device,
            cookie: init.cookie,
            cqe: init.cqe,
            ignore_overrun: init.ignore_overrun,
            ring: VecDeque::new(),
            arm: Arm::No,
            news: News::None,
            unpolled: 0,
            event_waiting: false,
            failed: false,
            uses: 0,
        })
    }

    /// Destroys a completion queue; busy while queue pairs complete there.
    pub fn destroy_cq(&mut self, id: CqId) -> Result<(), VerbsError> {
        if self.context.cqs.get(id)?.uses > 0 {
            return Err(VerbsError::Busy("queue pairs or shared receive queues use the completion queue"));
        }
        let cq = self.context.cqs.remove(id)?;
        if cq.arm != Arm::No {
            self.context.armed_cqs -= 1;
        }
        Ok(())
    }

    /// Changes the number of entries, keeping the completions in the queue. Returns the granted number.
    pub fn resize_cq(&mut self, id: CqId, cqe: u32) -> Result<u32, VerbsError> {
        let cq = self.context.cqs.get_mut(id)?;
        if cqe == 0 || cqe > CQE_MAX {
            return Err(VerbsError::Invalid("a completion queue has 1 to 4194303 entries"));
        }
        if (cqe as usize) < cq.ring.len() {
            return Err(VerbsError::Invalid("more completions wait than the new size holds"));
        }
        cq.cqe = cqe;
        cq.ring.shrink_to(cqe as usize);
        Ok(cqe)
    }

    /// Returns the number of entries of a completion queue.
    pub fn cqe(&self, id: CqId) -> Result<u32, VerbsError> {
        Ok(self.context.cqs.get(id)?.cqe)
    }

    /// Moves completions to `out`, oldest first, and returns how many. Once an overflowed queue is empty, this returns
    /// an error.
    #[inline]
    pub fn poll_cq(&mut self, id: CqId, out: &mut [Wc]) -> Result<usize, VerbsError> {
        let cq = self.context.cqs.get_mut(id)?;
        (cq.news, cq.unpolled) = (News::None, 0);
        if cq.ring.is_empty() {
            let over = cq.failed && !out.is_empty();
            return if over { Err(VerbsError::Invalid("the completion queue overflowed")) } else { Ok(0) };
        }
        let mut count = 0;
        while let Some(slot) = out.get_mut(count)
            && let Some(wc) = cq.ring.front()
        {
            *slot = *wc;
            cq.ring.pop_front();
            count += 1;
        }
        Ok(count)
    }

    /// Returns the number of completions in the queue.
    pub fn cq_len(&self, id: CqId) -> usize {
        self.context.cqs.get(id).map_or(0, |cq| cq.ring.len())
    }

    /// Requests an event for the next completion, or only for a solicited one or an error. A request for any completion
    /// overrides one for solicited ones, whichever came first (IBA C11-29). The event is raised at once if a matching
    /// completion is in the queue and some came since the last poll without an event.
    pub fn arm_cq(&mut self, id: CqId, solicited_only: bool) -> Result<(), VerbsError> {
        let cq = self.context.cqs.get_mut(id)?;
        let wanted = if solicited_only { Arm::Solicited } else { Arm::Any };
        if cq.news == News::Untold && cq.ring.iter().any(|wc| wanted.rings_for(wc)) {
            self.context.ring_bell(id);
            return Ok(());
        }
        if cq.arm == Arm::No {
            self.context.armed_cqs += 1;
        }
        if cq.arm != Arm::Any {
            cq.arm = wanted;
        }
        Ok(())
    }

    /// Whether any completion queue is armed.
    pub fn any_cq_armed(&self) -> bool {
        self.context.armed_cqs > 0
    }
}
