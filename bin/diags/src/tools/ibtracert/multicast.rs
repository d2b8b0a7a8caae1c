//! The path of a group's packets: a breadth-first search along the multicast forwarding tables.

use std::collections::BTreeSet;

use super::node::Seen;
use super::session::{Detail, NoWay, Session};
use super::unicast::{HOPS_MAX, extend};
use crate::ib::address::PortId;
use crate::ib::fields::subn::{port_info, switch_info};
use crate::ib::report::{verbose, warn};
use crate::ib::smp;

const FUNCTION: &str = "find_mcpath";
/// Number of LIDs in a block of the table.
const LIDS_IN_BLOCK: u32 = 32;
/// Number of ports in a position of the table.
const PORTS_IN_POSITION: u32 = 16;
const MLID_MIN: u32 = 0xc000;
/// PortPhysicalState of a trained link.
const LINK_UP: u64 = 5;

/// A node that the group's packets reach.
struct Reached {
    seen: Seen,
    to: PortId,
    /// The previous node and its egress port; `None` at the start.
    from: Option<(usize, u32)>,
    /// The ingress port.
    up_port: u32,
}

/// Finds the path of group `mlid` from `start` to `target` and prints it.
pub fn trace(session: &mut Session<'_>, start: PortId, target: &PortId, mlid: u32) -> Result<(), NoWay> {
    let Ok(target) = session.see(target) else {
        warn("find_target_portguid", "can't find to port\n");
        warn("get_route", "can't find a multicast route from src to dest");
        return Err(NoWay);
    };
    let mut search = Search { session, target: target.port_guid, mlid, all: Vec::new(), known: BTreeSet::new() };
    let Some(end) = search.run(start) else {
        warn("get_route", "can't find a multicast route from src to dest");
        return Err(NoWay);
    };
    let mut way = vec![end];
    while let Some((from, _)) = search.all[way[way.len() - 1]].from {
        way.push(from);
    }
    let nodes: Vec<Reached> = search.all;
    way.iter().rev().for_each(|&index| tell(session, &nodes[index], index == end));
    Ok(())
}

struct Search<'a, 'b> {
    session: &'a mut Session<'b>,
    /// The target's port GUID.
    target: u64,
    mlid: u32,
    all: Vec<Reached>,
    /// GUIDs of the nodes reached so far.
    known: BTreeSet<u64>,
}

/// The result of reaching a node.
enum Found {
    Target(usize),
    New(usize),
    Known,
}

impl Search<'_, '_> {
    /// Searches from `start`; returns the index of the node at the end of the path.
    fn run(&mut self, start: PortId) -> Option<usize> {
        let Ok(seen) = self.session.see(&start) else {
            warn(FUNCTION, &format!("can't reach node {start}"));
            return None;
        };
        let root = Reached { seen, to: start, from: None, up_port: 0 };
        if let Found::Target(index) = self.add(root) {
            if !seen.is_switch() {
                warn(FUNCTION, "ibtracert from CA to CA is unsupported");
                return None;
            }
            let ports = self.ports_of(&seen, &start)?;
            return ports.contains(&0).then_some(index);
        }
        // A route back from an adapter ends at the adapter's switch port.
        let leaf = if seen.is_switch() { 0 } else { u32::from(start.dr_path.last()) };
        let mut nearer = vec![0];
        for distance in 0..HOPS_MAX {
            let mut farther = Vec::new();
            for index in nearer {
                if let Some(end) = self.expand(index, distance, leaf, &mut farther) {
                    return end;
                }
            }
            // The original prepends each node that it finds.
            farther.reverse();
            nearer = farther;
        }
        None
    }

    /// Extends the search from a node by all ports of the group. `Some` ends the search.
    fn expand(&mut self, index: usize, distance: usize, leaf: u32, farther: &mut Vec<usize>) -> Option<Option<usize>> {
        let (seen, to) = (self.all[index].seen, self.all[index].to);
        let detail = self.session.verbose_detail();
        self.session.tell_end(detail, "processing", &seen);
        if !seen.is_switch() && distance > 0 {
            return None;
        }
        if seen.is_switch() && distance == 1 && leaf != 0 {
            self.all[index].up_port = leaf;
        }
        let ports = if !seen.is_switch() {
            vec![u32::from(seen.number)]
        } else if let Some(ports) = self.ports_of(&seen, &to) {
            ports
        } else {
            warn(FUNCTION, &format!("skipping bad Switch 0x{:x}", seen.guid));
            return None;
        };
        let up_port = self.all[index].up_port;
        for port in ports.into_iter().filter(|port| (1..=seen.ports).contains(port) && *port != up_port) {
            let mut next = to;
            if distance == 0 && leaf != 0 {
                next.dr_path.count = next.dr_path.count.saturating_sub(1);
            } else {
                match self.is_up(&to, port) {
                    None => return Some(None),
                    Some(false) => continue,
                    Some(true) => {}
                }
                if extend(&mut next.dr_path, port as u8).is_err() {
                    return Some(None);
                }
            }
            match self.reach(index, port, next) {
                Some(Found::Target(end)) => return Some(Some(end)),
                Some(Found::New(new)) => farther.push(new),
                Some(Found::Known) | None => {}
            }
        }
        None
    }

    /// Queries the node behind a port.
    fn reach(&mut self, from: usize, port: u32, to: PortId) -> Option<Found> {
        let Ok(seen) = self.session.see(&to) else {
            warn(FUNCTION, &format!("NodeInfo on {to} port {port} failed, skipping port"));
            return None;
        };
        let up_port = u32::from(seen.number);
        let found = self.add(Reached { seen, to, from: Some((from, port)), up_port });
        let detail = self.session.verbose_detail();
        match found {
            Found::New(_) => self.session.tell_end(detail, "new remote", &seen),
            Found::Known if seen.is_switch() => {
                self.session.tell_end(Detail::Full, "ERR: circle discovered at", &seen);
            }
            _ => {}
        }
        Some(found)
    }

    fn add(&mut self, reached: Reached) -> Found {
        let seen = reached.seen;
        let index = self.all.len();
        if seen.port_guid == self.target {
            self.all.push(reached);
            let detail = self.session.verbose_detail();
            self.session.tell_end(detail, "found target", &seen);
            return Found::Target(index);
        }
        if !self.known.insert(seen.guid) {
            return Found::Known;
        }
        self.all.push(reached);
        Found::New(index)
    }

    /// Whether a port's link is up; prints the error and returns `None` if the port does not answer.
    fn is_up(&mut self, to: &PortId, port: u32) -> Option<bool> {
        let timeout_ms = self.session.timeout_ms();
        let Ok(info) = self.session.port.smp_get_within(to, smp::PORT_INFO, port, timeout_ms) else {
            warn(FUNCTION, &format!("can't reach node {to} port {port}"));
            return None;
        };
        let value = |field: crate::ib::field::Field| field.value(&info);
        let phys_state = value(port_info::PHYS_LINK_STATE);
        if self.session.line.common.verbose > 0 {
            let (lid, state) = (value(port_info::LID), value(port_info::LINK_STATE));
            let text = format!("portid {to} portnum {port}: lid {lid} state {state} physstate {phys_state}");
            verbose("get_port", &text);
        }
        Some(phys_state == LINK_UP)
    }

    /// The ports to which a switch forwards the group's packets; `None` if it does not answer.
    fn ports_of(&mut self, seen: &Seen, to: &PortId) -> Option<Vec<u32>> {
        let timeout_ms = self.session.timeout_ms();
        let info = self.session.port.smp_get_within(to, smp::SWITCH_INFO, 0, timeout_ms).ok()?;
        let index = self.mlid.checked_sub(MLID_MIN)?;
        if u64::from(index) >= switch_info::MCAST_FDB_CAP.value(&info) {
            return None;
        }
        let mut ports = Vec::new();
        for position in 0..seen.ports / PORTS_IN_POSITION + 1 {
            let modifier = (index / LIDS_IN_BLOCK) | (position << 28);
            let data = self.session.port.smp_get_within(to, smp::MULTICAST_FORWARDING, modifier, timeout_ms).ok()?;
            let at = (index % LIDS_IN_BLOCK) as usize * 2;
            let mask = u16::from_be_bytes([data[at], data[at + 1]]);
            let bits = (0..PORTS_IN_POSITION).filter(|bit| mask >> bit & 1 != 0);
            ports.extend(bits.map(|bit| position * PORTS_IN_POSITION + bit));
        }
        if self.session.line.common.verbose > 0 {
            for port in &ports {
                let (guid, mlid) = (seen.guid, self.mlid);
                let text = format!("Switch guid 0x{guid:x}: mlid 0x{mlid:x} is forwarded to port {port}");
                verbose("switch_mclookup", &text);
            }
        }
        Some(ports)
    }
}

/// Prints a node of the path.
fn tell(session: &mut Session<'_>, reached: &Reached, is_end: bool) {
    let seen = &reached.seen;
    let (kind, guid, number, name) = (seen.kind(), seen.guid, seen.number, session.name(seen));
    let (first, last) = seen.lids();
    let end = |word: &str| format!("{word} {kind} 0x{guid:x} port {number} lid {first}-{last} \"{name}\"\n");
    match reached.from {
        None if !is_end => session.print(&end("From")),
        None => {}
        Some((_, out)) => {
            let up = reached.up_port;
            let hop = if session.detail == Detail::Brief {
                format!("[{out}] -> {kind} {{0x{guid:016x}}}[{up}]\n")
            } else {
                format!("[{out}] -> {kind} 0x{guid:x}[{up}] lid {} \"{name}\"\n", seen.lid)
            };
            session.print(&hop);
        }
    }
    if is_end {
        session.print(&end("To"));
    }
    let role = if is_end {
        "to"
    } else if reached.from.is_none() {
        "from"
    } else {
        "hop"
    };
    let number = if reached.from.is_some() { reached.up_port } else { number.into() };
    session.keep(role, seen, number, reached.from.map(|(_, out)| out));
}
