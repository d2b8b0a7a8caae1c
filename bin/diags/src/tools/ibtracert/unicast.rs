//! The path to a LID: from switch to switch along the linear forwarding tables, by directed routes.

use super::node::{Lookup, Seen};
use super::session::{Detail, NoWay, Session};
use crate::ib::address::{DrPath, PATH_LEN, PortId};
use crate::ib::names::clean;
use crate::ib::report::warn;

/// Maximum number of hops.
pub const HOPS_MAX: usize = 63;
const FUNCTION: &str = "find_route";

/// Follows the path to `to` from `from`, which becomes the directed route to its end.
pub fn trace(session: &mut Session<'_>, from: &mut PortId, to: &PortId, detail: Detail) -> Result<(), NoWay> {
    let (first, target) = ends(session, from, to)?;
    let mut here = first;
    let mut lookup = Lookup::default();
    session.tell_end(detail, "From", &here);
    if here.is_switch() {
        lookup = session.look_up(from, to.lid);
        check(&here, to, &lookup)?;
    }
    for _ in 0..HOPS_MAX {
        if here.is_inactive(&lookup) {
            let (name, number, state) = (clean(&here.desc), here.number, here.state);
            return no_way(&format!("Bad port state found: node \"{name}\" port {number} state {state}"));
        }
        if is_same(session, &here, &target) {
            session.tell_end(detail, "To", &here);
            return Ok(());
        }
        let mut next = here;
        let mut out = lookup.out.map_or(0, u32::from);
        if here.is_switch() {
            extend(&mut from.dr_path, out as u8)?;
            next = see(session, from)?;
            if out == 0 {
                if !is_same(session, &next, &target) {
                    return Err(bad_entry(&here, to, &lookup));
                }
                session.tell_end(detail, "To", &here);
                return Ok(());
            }
        } else if here.node_type != 0 {
            out = u32::from(here.number);
            next = leave_adapter(session, from, &here, &first)?;
        }
        if next.is_switch() {
            lookup = session.look_up(from, to.lid);
            check(&next, to, &lookup)?;
        }
        if next.is_inactive(&lookup) {
            let (name, state) = (clean(&next.desc), next.state);
            return no_way(&format!("Bad out port state found: node \"{name}\" outport {out} state {state}"));
        }
        here = next;
        tell_hop(session, detail, &here, out);
    }
    no_way(&format!("no route found after {HOPS_MAX} hops"))
}

/// Queries both ends; with `-f`, uses placeholders for those that do not answer.
fn ends(session: &mut Session<'_>, from: &PortId, to: &PortId) -> Result<(Seen, Seen), NoWay> {
    let first = session.see(from).ok();
    let target = if first.is_some() { session.see(to).ok() } else { None };
    if let (Some(first), Some(target)) = (first, target) {
        return Ok((first, target));
    }
    warn(FUNCTION, "can't reach to/from ports");
    if !session.forces() {
        return Err(NoWay);
    }
    warn(FUNCTION, &format!("Force: look for lid {}", to.lid));
    let target = Seen { lid: to.lid, ..target.unwrap_or_default() };
    Ok((first.unwrap_or_default(), target))
}

fn is_same(session: &Session<'_>, a: &Seen, b: &Seen) -> bool {
    a.port_guid == b.port_guid || session.forces() && a.lid == b.lid
}

fn see(session: &mut Session<'_>, to: &PortId) -> Result<Seen, NoWay> {
    session.see(to).map_err(|_| no_way_of(&format!("can't reach port at {to}")))
}

/// Moves from an adapter to its switch: one hop back if the route reached the adapter by a hop, else one hop out.
fn leave_adapter(session: &mut Session<'_>, from: &mut PortId, here: &Seen, first: &Seen) -> Result<Seen, NoWay> {
    if !is_same(session, here, first) {
        let (guid, lid) = (here.port_guid, here.lid);
        return Err(no_way_of(&format!("can't continue: reached CA or router port {guid:x}, lid {lid}")));
    }
    let came_by = from.dr_path.last();
    let goes_back = from.dr_path.count > 0;
    if goes_back {
        from.dr_path.count -= 1;
    } else if here.number != 0 {
        extend(&mut from.dr_path, here.number)?;
    }
    let mut next = see(session, from)?;
    // The switch port that leads to the adapter.
    if goes_back {
        next.number = came_by;
    }
    Ok(next)
}

/// Adds one hop.
pub fn extend(path: &mut DrPath, port: u8) -> Result<(), NoWay> {
    let longer = path.extended(port).filter(|longer| longer.count + 1 < PATH_LEN);
    *path = longer.ok_or_else(|| no_way_of("Direct path too long!"))?;
    Ok(())
}

/// Checks that the switch has a port for the LID.
fn check(seen: &Seen, to: &PortId, lookup: &Lookup) -> Result<(), NoWay> {
    match lookup.out {
        Some(out) if u32::from(out) <= seen.ports => Ok(()),
        _ => Err(bad_entry(seen, to, lookup)),
    }
}

fn bad_entry(seen: &Seen, to: &PortId, lookup: &Lookup) -> NoWay {
    let (name, lid, top) = (clean(&seen.desc), to.lid, lookup.top);
    let out = lookup.out.map_or(-1, i32::from);
    no_way_of(&format!("Bad forwarding table entry found at: node \"{name}\" lid entry {lid} is {out} (top {top})"))
}

fn no_way(text: &str) -> Result<(), NoWay> {
    Err(no_way_of(text))
}

fn no_way_of(text: &str) -> NoWay {
    warn(FUNCTION, text);
    NoWay
}

fn tell_hop(session: &mut Session<'_>, detail: Detail, seen: &Seen, out: u32) {
    if detail == Detail::Nothing && session.line.common.verbose == 0 {
        return;
    }
    let (guid, number) = (seen.port_guid, seen.number);
    if detail == Detail::Brief {
        session.print(&format!("[{out}] -> {{0x{guid:016x}}}[{number}]\n"));
        return;
    }
    let (kind, name) = (seen.kind(), session.name(seen));
    let (first, last) = seen.lids();
    session.print(&format!("[{out}] -> {kind} port {{0x{guid:016x}}}[{number}] lid {first}-{last} \"{name}\"\n"));
    if detail == Detail::Full {
        session.keep("hop", seen, number.into(), Some(out));
    }
}
