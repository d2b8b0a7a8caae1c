//! Completion queue: a ring of completions, and the notification that a program arms.

use std::collections::VecDeque;

use weft_verbs::{CQE_MAX, Cookie, CqInit, DeviceId, Qpn, VerbsError, Wc, WcStatus};

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
enum News {
    /// No completion came since the last poll.
    None,
    /// An event was raised since the last poll: another poll must follow, whatever else comes.
    Told,
    /// Completions came since, without an event.
    Untold,
}

/// The effect of a completion on its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pushed {
    /// The completion waits to be polled, or was dropped.
    Quiet,
    /// The armed queue owes an event.
    Rings,
    /// The queue has just failed for want of room.
    Overflow,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) device: DeviceId,
    pub(crate) cookie: Cookie,
    cqe: u32,
    ignore_overrun: bool,
    ring: VecDeque<Wc>,
    arm: Arm,
    news: News,
    /// Completions at the ring's end that came since the last poll.
    unpolled: usize,
    /// A completion event waits for delivery: another one would add nothing.
    pub(crate) event_waiting: bool,
    /// The queue overflowed: the program can still poll the ring's contents, then polls fail.
    failed: bool,
    /// Number of queue pairs and shared receive queues that complete here.
    pub(crate) uses: u32,
}

/// Checks a number of entries.
fn check_size(cqe: u32) -> Result<(), VerbsError> {
    if cqe == 0 || cqe > CQE_MAX {
        return Err(VerbsError::Invalid("a completion queue has 1 to 4194303 entries"));
    }
    Ok(())
}

impl Cq {
    /// Returns an empty queue of at least `init.cqe` entries.
    pub(crate) fn new(device: DeviceId, init: &CqInit) -> Result<Cq, VerbsError> {
        check_size(init.cqe)?;
        Ok(Cq {
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

    /// Returns the number of entries.
    pub(crate) fn size(&self) -> u32 {
        self.cqe
    }

    /// Returns the number of completions in the queue.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the queue overflowed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Fails the queue.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Adds a completion; the queue fails if it is full.
    #[inline]
    pub(crate) fn push(&mut self, wc: Wc) -> Pushed {
        if self.failed {
            return Pushed::Quiet;
        }
        if self.ring.len() as u64 >= u64::from(self.cqe) {
            self.failed = !self.ignore_overrun;
            return if self.failed { Pushed::Overflow } else { Pushed::Quiet };
        }
        let rings = self.arm.rings_for(&wc);
        self.ring.push_back(wc);
        self.unpolled += 1;
        if rings {
            return Pushed::Rings;
        }
        if self.news == News::None {
            self.news = News::Untold;
        }
        Pushed::Quiet
    }

    /// Moves completions to `out`, oldest first, and returns how many. Once an overflowed queue is empty, this returns
    /// an error.
    #[inline]
    pub(crate) fn poll(&mut self, out: &mut [Wc]) -> Result<usize, VerbsError> {
        (self.news, self.unpolled) = (News::None, 0);
        if self.ring.is_empty() {
            let over = self.failed && !out.is_empty();
            return if over { Err(VerbsError::Invalid("the completion queue overflowed")) } else { Ok(0) };
        }
        let mut count = 0;
        while let Some(slot) = out.get_mut(count)
            && let Some(wc) = self.ring.front()
        {
            *slot = *wc;
            self.ring.pop_front();
            count += 1;
        }
        Ok(count)
    }

    /// Removes the completions of a queue pair. The others keep their order, and a raised event stays raised.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        let first_unpolled = self.ring.len().saturating_sub(self.unpolled);
        self.unpolled = self.ring.iter().skip(first_unpolled).filter(|wc| wc.qp_num != qpn).count();
        self.ring.retain(|wc| wc.qp_num != qpn);
        if self.unpolled == 0 && self.news == News::Untold {
            self.news = News::None;
        }
    }

    /// Changes the number of entries, keeping the completions in the queue.
    pub(crate) fn resize(&mut self, cqe: u32) -> Result<(), VerbsError> {
        check_size(cqe)?;
        if (cqe as usize) < self.ring.len() {
            return Err(VerbsError::Invalid("more completions wait than the new size holds"));
        }
        self.cqe = cqe;
        self.ring.shrink_to(cqe as usize);
        Ok(())
    }

    /// Whether a matching completion is in the queue and some came since the last poll without an event.
    pub(crate) fn owes_event(&self, wanted: Arm) -> bool {
        self.news == News::Untold && self.ring.iter().any(|wc| wanted.rings_for(wc))
    }

    /// Whether the program requested an event.
    pub(crate) fn is_armed(&self) -> bool {
        self.arm != Arm::No
    }

    /// Requests an event. A request for any completion overrides one for solicited ones.
    pub(crate) fn arm(&mut self, wanted: Arm) {
        if self.arm != Arm::Any {
            self.arm = wanted;
        }
    }

    /// Disarms the queue for an event. Returns whether that event is a new one: another one that still waits for
    /// delivery stands for both.
    pub(crate) fn disarm(&mut self) -> bool {
        self.arm = Arm::No;
        self.news = News::Told;
        !std::mem::replace(&mut self.event_waiting, true)
    }
}
