//! Packets for interfaces over which the kernel does not send yet. It drops its answers to them, although the interface has a
//! link: they wait until it says that the interface is operational.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use weft_ipoib::Frame;

/// Packets that wait for an interface; an older one makes room.
const PACKETS_MAX: usize = 64;

/// How long a packet waits: its sender repeats it then.
const WAITS_AT_MOST: Duration = Duration::from_secs(1);

/// An interface: its network, and its place there.
type At = (u32, usize);

/// The waiting packets, and the interfaces that need none to wait.
#[derive(Debug, Default)]
pub struct Arrivals {
    operational: BTreeSet<At>,
    waiting: BTreeMap<At, VecDeque<(Instant, Frame)>>,
}

impl Arrivals {
    /// Returns whether an interface needs no packets to wait.
    pub fn is_operational(&self, at: At) -> bool {
        self.operational.contains(&at)
    }

    /// Returns a packet that the kernel may have now; keeps it otherwise.
    pub fn admit(&mut self, now: Instant, at: At, packet: Frame) -> Option<Frame> {
        if self.is_operational(at) {
            return Some(packet);
        }
        let waiting = self.waiting.entry(at).or_default();
        let is_stale = |since: &Instant| now.saturating_duration_since(*since) > WAITS_AT_MOST;
        while waiting.len() >= PACKETS_MAX || waiting.front().is_some_and(|(since, _)| is_stale(since)) {
            waiting.pop_front();
        }
        waiting.push_back((now, packet));
        None
    }

    /// Notes an interface's state; returns the packets that the kernel may have now.
    pub fn follow(&mut self, now: Instant, at: At, is_operational: bool) -> impl Iterator<Item = Frame> + use<> {
        let mut released = VecDeque::new();
        if is_operational {
            self.operational.insert(at);
            released = self.waiting.remove(&at).unwrap_or_default();
        } else {
            self.operational.remove(&at);
        }
        let is_fresh = move |since: &Instant| now.saturating_duration_since(*since) <= WAITS_AT_MOST;
        released.into_iter().filter(move |(since, _)| is_fresh(since)).map(|(_, packet)| packet)
    }

    /// Forgets an interface.
    pub fn forget(&mut self, at: At) {
        self.operational.remove(&at);
        self.waiting.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: At = (3, 0);

    fn frame(number: u8) -> Frame {
        vec![number].into()
    }

    #[test]
    fn packets_wait_until_the_kernel_sends_over_the_interface() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        assert_eq!(arrivals.admit(now, AT, frame(1)), None);
        assert_eq!(arrivals.admit(now, AT, frame(2)), None);
        assert_eq!(arrivals.follow(now, (3, 1), true).count(), 0);
        assert_eq!(arrivals.follow(now, AT, true).collect::<Vec<_>>(), [frame(1), frame(2)]);
        assert_eq!(arrivals.admit(now, AT, frame(3)), Some(frame(3)));
        assert_eq!(arrivals.follow(now, AT, false).count(), 0);
        assert_eq!(arrivals.admit(now, AT, frame(4)), None);
    }

    #[test]
    fn few_packets_wait_and_none_for_long() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        for number in 0..=PACKETS_MAX {
            arrivals.admit(now, AT, frame(number as u8));
        }
        let released: Vec<_> = arrivals.follow(now + WAITS_AT_MOST, AT, true).collect();
        assert_eq!((released.len(), &released[0]), (PACKETS_MAX, &frame(1)));
        arrivals.forget(AT);
        arrivals.admit(now, AT, frame(1));
        assert_eq!(arrivals.follow(now + 2 * WAITS_AT_MOST, AT, true).count(), 0);
    }
}
