//! Walks the route from a port to a LID hop by hop along the forwarding tables and collects its limits.

use crate::sa::index::{Carries, Entry, Index, NOWHERE};
use crate::sa::limits::HOPS_MAX;
use crate::sa::world::World;

/// Limits of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sa) struct Way {
    /// The largest MTU and rate.
    pub carries: Carries,
    /// Bit mask of the service levels that no port on the route drops.
    pub levels: u16,
    /// Number of switches.
    pub hops: u8,
}

/// Source, destination, and the destination LID that selects the route.
#[derive(Clone, Copy, Debug)]
pub(in crate::sa) struct Course {
    pub from: u32,
    pub to: u32,
    pub dlid: u16,
}

/// The routes there and back; `None` if the tables do not lead there. Walks both in lockstep, so that their memory
/// accesses overlap.
pub(in crate::sa) fn walk_both(world: &World<'_>, index: &Index, there: Course, back: Course) -> [Option<Way>; 2] {
    let mut walkers = [Walker::new(world, index, there), Walker::new(world, index, back)];
    for _ in 0..=HOPS_MAX {
        let [first, second] = &mut walkers;
        let (first, second) = (first.step(world, index), second.step(world, index));
        if !first && !second {
            break;
        }
    }
    walkers.map(Walker::arrived)
}

/// Progress of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// At a switch: its index and ingress port; port 0 if the route starts at the switch.
    At(u32, u8),
    Arrived,
    /// The tables do not lead further.
    Lost,
}

/// A walk in progress.
struct Walker {
    course: Course,
    way: Way,
    /// Limits of the destination port itself.
    end: Carries,
    state: State,
}

impl Walker {
    fn new(world: &World<'_>, index: &Index, course: Course) -> Walker {
        let mut way = Way { carries: Carries::ALL, levels: u16::MAX, hops: 0 };
        let (source, end) = (index.entry(course.from), index.entry(course.to));
        let state = match (source, end) {
            (Some(source), Some(end)) => set_out(world, &mut way, course, source, end),
            _ => State::Lost,
        };
        Walker { course, way, end: end.map_or(Carries::ALL, |end| end.own), state }
    }

    /// Moves on to the next switch or the destination. Returns whether the walk continues.
    fn step(&mut self, world: &World<'_>, index: &Index) -> bool {
        let State::At(at, came) = self.state else { return false };
        self.state = self.next(world, index, at, came).unwrap_or(State::Lost);
        matches!(self.state, State::At(..))
    }

    fn next(&mut self, world: &World<'_>, index: &Index, at: u32, came: u8) -> Option<State> {
        let port = world.tables.port(at, self.course.dlid)?;
        self.way.hops = self.way.hops.saturating_add(1);
        if port == 0 {
            self.way.carries = self.way.carries.and(self.end);
            return (index.switches.get(at as usize) == Some(&self.course.to)).then_some(State::Arrived);
        }
        pass(world, index, at, came, port, &mut self.way)?;
        let hop = index.hop(at, port)?;
        self.way.carries = self.way.carries.and(hop.carries);
        match index.end_of(hop) {
            Some(entry) => {
                self.way.carries = self.way.carries.and(self.end);
                (entry == self.course.to).then_some(State::Arrived)
            }
            None => Some(State::At(hop.next, hop.port)),
        }
    }

    fn arrived(self) -> Option<Way> {
        (self.state == State::Arrived).then_some(self.way)
    }
}

/// Starts at the source and moves to the switch that it is attached to, or that it is. Applies an adapter's SL-to-VL
/// table and returns the switch's ingress port.
fn set_out(world: &World<'_>, way: &mut Way, course: Course, source: &Entry, end: &Entry) -> State {
    way.carries = source.own;
    if course.from == course.to {
        return State::Arrived;
    }
    if source.switch == NOWHERE {
        way.carries = way.carries.and(end.own);
        return if source.peer == course.to { State::Arrived } else { State::Lost };
    }
    if source.is_switch {
        return State::At(source.switch, 0);
    }
    way.carries = way.carries.and(source.far);
    let lanes = world.lanes.filter(|_| world.settings.qos);
    let lanes = lanes.and_then(|lanes| lanes.sl_to_vl(source.at.node, 0, source.at.port));
    if keep(way, lanes).is_none() { State::Lost } else { State::At(source.switch, source.port) }
}

/// Applies the SL-to-VL table of a switch.
fn pass(world: &World<'_>, index: &Index, at: u32, came: u8, port: u8, way: &mut Way) -> Option<()> {
    let Some(lanes) = world.lanes.filter(|_| world.settings.qos) else { return Some(()) };
    let switch = index.switches.get(at as usize).and_then(|entry| index.entry(*entry))?;
    keep(way, lanes.sl_to_vl(switch.at.node, came, port))
}

/// Removes the service levels that map to VL 15, because packets on them are dropped. `None` if none is left.
fn keep(way: &mut Way, lanes: Option<[u8; 16]>) -> Option<()> {
    for (level, lane) in lanes.into_iter().flatten().enumerate() {
        if lane == 15 {
            way.levels &= !(1 << level);
        }
    }
    (way.levels != 0).then_some(())
}
