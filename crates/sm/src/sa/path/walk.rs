//! The way from one port to a LID, hop by hop along the forwarding tables, and what all of it carries.

use crate::sa::index::{Carries, Entry, Index, NOWHERE};
use crate::sa::limits::HOPS_MAX;
use crate::sa::world::World;

/// What a way is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sa) struct Way {
    /// The largest MTU and rate.
    pub carries: Carries,
    /// Service levels that no port on it drops, as bits.
    pub levels: u16,
    /// Switches on it.
    pub hops: u8,
}

/// The way from a port to a LID of another; `None` if the tables do not lead there.
pub(in crate::sa) fn walk(world: &World<'_>, index: &Index, from: u32, to: u32, dlid: u16) -> Option<Way> {
    let (source, end) = (index.entry(from)?, index.entry(to)?);
    let mut way = Way { carries: source.own, levels: u16::MAX, hops: 0 };
    if from == to {
        return Some(way);
    }
    if source.switch == NOWHERE {
        way.carries = way.carries.and(end.own);
        return (source.peer == to).then_some(way);
    }
    leave(world, index, source, &mut way)?;
    let mut at = source.switch;
    let mut came = source.port;
    // A switch sends what is its own through the port that leads there: nothing comes in.
    let mut own = source.is_switch;
    for _ in 0..HOPS_MAX {
        let port = world.tables.port(at, dlid)?;
        way.hops = way.hops.saturating_add(1);
        if port == 0 {
            way.carries = way.carries.and(end.own);
            return (index.switches.get(at as usize) == Some(&to)).then_some(way);
        }
        pass(world, index, at, if own { 0 } else { came }, port, &mut way)?;
        let hop = index.hop(at, port)?;
        way.carries = way.carries.and(hop.carries);
        if let Some(entry) = index.end_of(hop) {
            way.carries = way.carries.and(end.own);
            return (entry == to).then_some(way);
        }
        (at, came, own) = (hop.next, hop.port, false);
    }
    None
}

/// Out of the source: an adapter's own lanes, and the port of the switch that it comes in by.
fn leave(world: &World<'_>, index: &Index, source: &Entry, way: &mut Way) -> Option<()> {
    if source.is_switch {
        return Some(());
    }
    way.carries = way.carries.and(source.far);
    let Some(lanes) = world.lanes.filter(|_| world.settings.qos) else { return Some(()) };
    let _ = index;
    keep(way, lanes.sl_to_vl(source.at.node, 0, source.at.port))
}

/// Through a switch.
fn pass(world: &World<'_>, index: &Index, at: u32, came: u8, port: u8, way: &mut Way) -> Option<()> {
    let Some(lanes) = world.lanes.filter(|_| world.settings.qos) else { return Some(()) };
    let switch = index.switches.get(at as usize).and_then(|entry| index.entry(*entry))?;
    keep(way, lanes.sl_to_vl(switch.at.node, came, port))
}

/// Takes away the service levels that are dropped: those on lane 15. `None` if that is all of them.
fn keep(way: &mut Way, lanes: Option<[u8; 16]>) -> Option<()> {
    for (level, lane) in lanes.into_iter().flatten().enumerate() {
        if lane == 15 {
            way.levels &= !(1 << level);
        }
    }
    (way.levels != 0).then_some(())
}
