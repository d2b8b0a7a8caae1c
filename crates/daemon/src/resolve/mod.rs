//! Answers the connection manager's question for the route to an address: immediately from the host's routing table,
//! or, if the neighbour's link address is unknown, once the kernel found it. As in Linux's own connection manager, the
//! kernel looks for a silent neighbour again and again until the requester gives up.

mod kernel;
mod message;

use libc::{EACCES, EAGAIN, EHOSTUNREACH, EINVAL, ENETUNREACH};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weft_cm::rdma_cm::{QuestionId, ResolveQuestion, ResolveResult, Resolved};

pub use kernel::{Kernel, Linux};
pub use message::{Route, RouteKind};

use crate::netdev::Netdevs;

/// Neighbours that questions wait for; a question about one more is refused.
const NEIGHBOURS_MAX: usize = 4096;

/// First pause between two checks of a neighbour: a reply takes a fraction of this.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// NUD_REACHABLE, STALE, DELAY, PROBE, NOARP, PERMANENT: the link address is known.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// The kernel is looking for it.
const NUD_INCOMPLETE: u16 = 0x01;

/// A neighbour whose link address is unknown, and the questions that wait for it.
#[derive(Debug)]
struct Waiting {
    questions: Vec<(QuestionId, Resolved)>,
    look_at: Instant,
    pause: Duration,
}

/// Open questions, and the kernel to ask.
#[derive(Debug)]
pub struct Resolver<K> {
    kernel: K,
    waiting: BTreeMap<(u32, IpAddr), Waiting>,
    places: BTreeMap<QuestionId, (u32, IpAddr)>,
}

impl<K: Kernel> Resolver<K> {
    /// Makes a resolver without questions.
    pub fn new(kernel: K) -> Resolver<K> {
        Resolver { kernel, waiting: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Asks a question; `None` if the answer comes later, from [`Resolver::handle_timeout`].
    pub fn ask(&mut self, now: Instant, asked: &ResolveQuestion, netdevs: &Netdevs) -> Option<ResolveResult> {
        let route = match self.kernel.route(asked.dst, asked.src, asked.ifindex, asked.tos) {
            Ok(route) => route,
            Err(errno) => return Some(Err(errno)),
        };
        if let RouteKind::Nowhere(kind) = route.kind {
            return Some(Err(errno_of(kind)));
        }
        let Some(src) = asked.src.or(route.src) else { return Some(Err(ENETUNREACH)) };
        let resolved = Resolved {
            src,
            ifindex: route.ifindex,
            local: route.kind == RouteKind::Local,
            gateway: route.gateway.is_some(),
            hop_limit: route.hop_limit,
            dgid: None,
        };
        let neighbourless = netdevs.by_index(route.ifindex).is_some_and(|netdev| !netdev.has_neighbours());
        if route.kind != RouteKind::Unicast || neighbourless {
            return Some(Ok(resolved));
        }
        self.await_neighbour(now, asked.question, (route.ifindex, route.gateway.unwrap_or(asked.dst)), resolved)
    }

    fn await_neighbour(
        &mut self,
        now: Instant,
        question: QuestionId,
        place: (u32, IpAddr),
        resolved: Resolved,
    ) -> Option<ResolveResult> {
        if let Some(waiting) = self.waiting.get_mut(&place) {
            waiting.questions.push((question, resolved));
        } else {
            if self.is_known(place, resolved.src) {
                return Some(Ok(resolved));
            }
            if self.waiting.len() >= NEIGHBOURS_MAX {
                return Some(Err(EAGAIN));
            }
            let waiting =
                Waiting { questions: vec![(question, resolved)], look_at: now + PAUSE_FIRST, pause: PAUSE_FIRST };
            self.waiting.insert(place, waiting);
        }
        self.places.insert(question, place);
        None
    }

    /// Returns whether a neighbour's link address is known; if not, makes the kernel look for it, unless it already
    /// does.
    fn is_known(&mut self, (ifindex, neighbour): (u32, IpAddr), src: IpAddr) -> bool {
        match self.kernel.neighbour(ifindex, neighbour) {
            Ok(state) if state & NUD_VALID != 0 => true,
            Ok(state) if state & NUD_INCOMPLETE != 0 => false,
            Ok(_) => {
                self.kernel.probe(ifindex, neighbour, src);
                false
            }
            // Kernels before 5.0 do not say; the connection's own timers take over.
            Err(_) => true,
        }
    }

    /// Withdraws a question.
    pub fn forget(&mut self, question: QuestionId) {
        let Some(place) = self.places.remove(&question) else { return };
        if let Some(waiting) = self.waiting.get_mut(&place) {
            waiting.questions.retain(|(other, _)| *other != question);
            if waiting.questions.is_empty() {
                self.waiting.remove(&place);
            }
        }
    }

    /// Returns when [`Resolver::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.look_at).min()
    }

    /// Checks the neighbours that are due; returns the answers that are known now.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<(QuestionId, ResolveResult)> {
        let due: Vec<(u32, IpAddr)> =
            self.waiting.iter().filter(|(_, waiting)| waiting.look_at <= now).map(|(place, _)| *place).collect();
        let mut answers = Vec::new();
        for place in due {
            let Some(src) = self.waiting.get(&place).and_then(|w| w.questions.first()).map(|(_, r)| r.src) else {
                continue;
            };
            if self.is_known(place, src) {
                for (question, resolved) in self.waiting.remove(&place).map(|w| w.questions).unwrap_or_default() {
                    self.places.remove(&question);
                    answers.push((question, Ok(resolved)));
                }
            } else if let Some(waiting) = self.waiting.get_mut(&place) {
                waiting.pause = (waiting.pause * 2).min(PAUSE_MAX);
                waiting.look_at = now + waiting.pause;
            }
        }
        answers
    }
}

/// Returns the error of sending to such a route.
fn errno_of(kind: u8) -> i32 {
    const RTN_BLACKHOLE: u8 = 6;
    const RTN_UNREACHABLE: u8 = 7;
    const RTN_PROHIBIT: u8 = 8;
    match kind {
        RTN_BLACKHOLE => EINVAL,
        RTN_UNREACHABLE => EHOSTUNREACH,
        RTN_PROHIBIT => EACCES,
        _ => ENETUNREACH,
    }
}

#[cfg(test)]
mod tests;
