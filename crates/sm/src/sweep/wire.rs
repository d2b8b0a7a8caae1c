//! SMPs queued and in flight. A request is a few bytes that name the attribute and the target; the SMP is built when it
//! is sent, so that its route and content are those of that moment.

use std::collections::VecDeque;

use super::ask::{Ask, What};
use crate::subnet::NodeIx;

/// Upper limit of SMPs in flight, whatever the configuration says.
pub const WIRE_SMPS_MAX: u32 = 1 << 15;
/// Smallest window, however many SMPs timed out.
const WINDOW_MIN: u32 = 4;
/// Initial window, if the limit allows: answers show whether the fabric can take more.
const WINDOW_AT_FIRST: u32 = 64;

#[derive(Clone, Debug)]
struct Slot {
    ask: Option<Ask>,
    tries: u8,
    /// Distinguishes answers to the slot's previous requests from answers to its present one.
    generation: u16,
}

/// Counters of SMPs sent and their outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireCounts {
    /// SMPs sent, including retries.
    pub sent: u64,
    /// Answers to them.
    pub answered: u64,
    /// Tries that timed out.
    pub timeouts: u64,
    /// Requests given up.
    pub silent: u64,
}

/// All SMPs queued and in flight, with a congestion window.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    slots: Vec<Slot>,
    free: Vec<u16>,
    queue: VecDeque<Ask>,
    again: VecDeque<u16>,
    /// Requests of the sweep that are queued or in flight: the sweep moves on at zero.
    sweeping: usize,
    in_flight: u32,
    window: u32,
    limit: u32,
    /// Answers since the window last grew.
    credit: u32,
    /// Further timeouts attributed to the same congestion.
    forgiven: u32,
    pub counts: WireCounts,
}

/// Outcome of a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silence {
    /// The request is sent again.
    Again,
    /// The request has no retries left.
    GivenUp(Ask),
    /// No request waits for this answer.
    Stale,
}

impl Wire {
    pub fn new(limit: u32) -> Wire {
        let limit = limit.clamp(1, WIRE_SMPS_MAX);
        Wire {
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            again: VecDeque::new(),
            sweeping: 0,
            in_flight: 0,
            window: limit.min(WINDOW_AT_FIRST),
            limit,
            credit: 0,
            forgiven: 0,
            counts: WireCounts::default(),
        }
    }

    /// Sets the limit of SMPs in flight.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit.clamp(1, WIRE_SMPS_MAX);
        self.window = self.limit.min(WINDOW_AT_FIRST);
    }

    /// Queues a request.
    pub fn ask(&mut self, ask: Ask) {
        self.sweeping += usize::from(ask.what.of_sweep());
        self.queue.push_back(ask);
    }

    /// Whether no request of the sweep is pending.
    pub fn is_still(&self) -> bool {
        self.sweeping == 0
    }

    /// Returns the number of requests of the sweep that are queued or in flight.
    pub fn left(&self) -> usize {
        self.sweeping
    }

    /// Returns the next request to send, with the number that identifies its answer.
    pub fn next(&mut self) -> Option<(Ask, u32)> {
        while let Some(slot) = self.again.pop_front() {
            let held = &self.slots[usize::from(slot)];
            if let Some(ask) = held.ask {
                self.counts.sent += 1;
                return Some((ask, u32::from(held.generation) << 16 | u32::from(slot)));
            }
        }
        if self.in_flight >= self.window {
            return None;
        }
        let ask = self.queue.pop_front()?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { ask: None, tries: 0, generation: 0 });
            (self.slots.len() - 1) as u16
        });
        let held = &mut self.slots[usize::from(slot)];
        (held.ask, held.tries) = (Some(ask), 0);
        self.in_flight += 1;
        self.counts.sent += 1;
        Some((ask, u32::from(held.generation) << 16 | u32::from(slot)))
    }

    /// Returns how often request `number` was sent before.
    pub fn tries(&self, number: u32) -> usize {
        self.slots.get(usize::from(number as u16)).map_or(0, |held| usize::from(held.tries))
    }

    /// Ends request `number` and returns it.
    pub fn take(&mut self, number: u32) -> Option<Ask> {
        let slot = number as u16;
        let held = self.slots.get_mut(usize::from(slot)).filter(|held| u32::from(held.generation) == number >> 16)?;
        let ask = held.ask.take()?;
        held.generation = held.generation.wrapping_add(1);
        self.free.push(slot);
        self.in_flight -= 1;
        self.sweeping -= usize::from(ask.what.of_sweep());
        Some(ask)
    }

    /// Counts an answer, which may widen the window.
    pub fn on_answer(&mut self) {
        self.counts.answered += 1;
        self.forgiven = self.forgiven.saturating_sub(1);
        if self.window < self.limit {
            self.credit += 1;
            if self.credit >= self.window {
                // The window doubles until the first loss, and then grows by a quarter.
                let more = if self.counts.timeouts == 0 { self.window } else { self.window / 4 + 1 };
                (self.window, self.credit) = ((self.window + more).min(self.limit), 0);
            }
        }
    }

    /// Handles a timeout of request `number`: narrows the window, and sends the request again while it has retries
    /// left.
    pub fn on_timeout(&mut self, number: u32, retries: u32) -> Silence {
        let slot = number as u16;
        let held = self.slots.get_mut(usize::from(slot)).filter(|held| u32::from(held.generation) == number >> 16);
        let Some(held) = held else { return Silence::Stale };
        let Some(ask) = held.ask else { return Silence::Stale };
        self.counts.timeouts += 1;
        if self.forgiven == 0 {
            self.window = (self.window / 2).max(WINDOW_MIN.min(self.limit));
            self.forgiven = self.window;
        }
        if u32::from(held.tries) < retries {
            held.tries += 1;
            self.again.push_back(slot);
            return Silence::Again;
        }
        self.counts.silent += 1;
        self.take(number);
        Silence::GivenUp(ask)
    }

    /// Drops all queued and pending requests of one kind; returns their target nodes.
    pub fn withdraw(&mut self, what: What) -> Vec<NodeIx> {
        let mut withdrawn = Vec::new();
        self.queue.retain(|ask| {
            let stays = ask.what != what;
            withdrawn.extend((!stays).then_some(ask.at.node));
            stays
        });
        for (slot, held) in (0..).zip(&mut self.slots) {
            if let Some(ask) = held.ask.take_if(|ask| ask.what == what) {
                held.generation = held.generation.wrapping_add(1);
                self.free.push(slot);
                self.in_flight -= 1;
                withdrawn.push(ask.at.node);
            }
        }
        let slots = &self.slots;
        self.again.retain(|slot| slots[usize::from(*slot)].ask.is_some());
        self.sweeping -= if what.of_sweep() { withdrawn.len() } else { 0 };
        withdrawn
    }

    /// Drops all queued and pending requests.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.again.clear();
        for (slot, held) in (0..).zip(&mut self.slots) {
            if held.ask.take().is_some() {
                held.generation = held.generation.wrapping_add(1);
                self.free.push(slot);
            }
        }
        (self.in_flight, self.sweeping) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subnet::PortIx;

    fn ask(arg: u32) -> Ask {
        Ask { what: What::NodeInfo, at: PortIx { node: NodeIx(0), port: 1 }, arg }
    }

    #[test]
    fn so_many_are_under_way_and_no_more() {
        let mut wire = Wire::new(2);
        (0..3).for_each(|arg| wire.ask(ask(arg)));
        let (first, number) = wire.next().expect("one");
        assert_eq!(first.arg, 0);
        assert!(wire.next().is_some() && wire.next().is_none());
        assert_eq!(wire.take(number), Some(ask(0)));
        assert_eq!(wire.take(number), None, "an answer that comes twice");
        let (third, again) = wire.next().expect("room for another");
        assert_eq!((third.arg, again == number), (2, false));
        assert!(!wire.is_still());
        wire.clear();
        assert!(wire.is_still() && wire.take(again).is_none());
    }

    #[test]
    fn what_is_not_answered_is_asked_again_so_often() {
        let mut wire = Wire::new(64);
        wire.ask(ask(7));
        let (_, number) = wire.next().expect("one");
        assert_eq!(wire.on_timeout(number, 1), Silence::Again);
        assert_eq!(wire.window, 32);
        assert_eq!(wire.next(), Some((ask(7), number)));
        assert_eq!(wire.on_timeout(number, 1), Silence::GivenUp(ask(7)));
        assert_eq!((wire.on_timeout(number, 1), wire.window), (Silence::Stale, 32));
        assert!(wire.is_still());
        (0..200).for_each(|_| wire.on_answer());
        assert_eq!(wire.window, 64);
    }

    #[test]
    fn one_kind_can_be_withdrawn() {
        let mut wire = Wire::new(2);
        let name = |node| Ask { what: What::NodeDescription, at: PortIx { node: NodeIx(node), port: 0 }, arg: 0 };
        [name(1), ask(2), name(3)].into_iter().for_each(|ask| wire.ask(ask));
        let (_, number) = wire.next().expect("the first");
        assert_eq!(wire.on_timeout(number, 3), Silence::Again);
        assert_eq!(wire.withdraw(What::NodeDescription), [NodeIx(3), NodeIx(1)]);
        assert_eq!((wire.left(), wire.take(number)), (1, None));
        let (second, again) = wire.next().expect("what is left");
        assert_eq!((second, wire.next(), wire.take(again)), (ask(2), None, Some(ask(2))));
        assert!(wire.is_still() && wire.withdraw(What::NodeDescription).is_empty());
    }

    #[test]
    fn more_are_under_way_while_none_is_lost() {
        let mut wire = Wire::new(200);
        assert_eq!(wire.window, 64);
        (0..64).for_each(|_| wire.on_answer());
        assert_eq!(wire.window, 128);
        (0..128).for_each(|_| wire.on_answer());
        assert_eq!(wire.window, 200, "no more than may be");
        wire.ask(ask(0));
        let (_, number) = wire.next().expect("one");
        wire.on_timeout(number, 1);
        assert_eq!(wire.window, 100);
        (0..100).for_each(|_| wire.on_answer());
        assert_eq!(wire.window, 126);
    }
}
