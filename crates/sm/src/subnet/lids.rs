//! LID assignments, present and past. A port keeps its LID as long as any record of it exists: the subnet model across
//! sweeps, the text of the guid2lid file across restarts, and otherwise the LID in the port's own PortInfo.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::change::lids;
use super::{PortIx, Subnet};
use weft_wire::mad::subn::NodeType;

/// The first LID above the unicast LIDs.
const LID_END: u16 = 0xc000;

/// LIDs of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LidRange {
    /// Base LID.
    pub first: u16,
    /// Last LID of the port.
    pub last: u16,
}

/// Rules of LID assignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub lmc: u8,
    pub lmc_esp0: bool,
    /// Ignore the LIDs that ports report.
    pub reassign: bool,
}

/// LID ranges by PortGUID, including those of ports that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lids {
    ranges: BTreeMap<u64, LidRange>,
}

impl Lids {
    /// Parses the text of a guid2lid file; impossible lines are skipped.
    pub fn parse(text: &str) -> Lids {
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let mut ranges = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace().map(hex);
            let (Some(Some(guid)), Some(Some(first)), Some(Some(last))) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(last)) else { continue };
            if guid != 0 && first != 0 && first <= last && last < LID_END && last - first < 128 {
                ranges.insert(guid, LidRange { first, last });
            }
        }
        Lids { ranges }
    }

    /// Returns the text of a guid2lid file.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.ranges.len() * 34);
        for (guid, range) in &self.ranges {
            let _ = write!(text, "0x{guid:016x} 0x{:04x} 0x{:04x}\n\n", range.first, range.last);
        }
        text
    }

    /// Forgets all assignments.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Assigns LIDs to every end port of a subnet and writes them into it. Returns whether any assignment changed, and
    /// the ports left without LIDs.
    pub(crate) fn assign(&mut self, subnet: &mut Subnet, rules: Rules) -> (bool, Vec<u64>) {
        let before = self.ranges.clone();
        let wanted: Vec<(u64, PortIx, u8)> = in_order(subnet, rules);
        let mut taken = Taken::default();
        wanted.iter().for_each(|(guid, _, lmc)| self.keep(*guid, *lmc, &mut taken));
        if !rules.reassign {
            for (guid, at, lmc) in &wanted {
                let says = subnet.port(*at).map_or(0, |port| port.info.lid);
                if !self.ranges.contains_key(guid) && is_range(says, *lmc) && taken.take(says, *lmc) {
                    self.ranges.insert(*guid, range(says, *lmc));
                }
            }
        }
        let missing: Vec<_> = wanted.iter().filter(|(guid, ..)| !self.ranges.contains_key(guid)).copied().collect();
        let none = self.give(&missing, &wanted, taken);
        self.write(subnet, &wanted);
        (self.ranges != before, none)
    }

    /// Keeps a live port's range if it has the right size and no other port has taken it.
    fn keep(&mut self, guid: u64, lmc: u8, taken: &mut Taken) {
        let Some(has) = self.ranges.get(&guid).copied() else { return };
        let fits = is_range(has.first, lmc) && has == range(has.first, lmc);
        if !fits || !taken.take(has.first, lmc) {
            self.ranges.remove(&guid);
        }
    }

    /// Assigns ranges to ports without one: LIDs never assigned come first, then LIDs of ports that left.
    fn give(&mut self, missing: &[(u64, PortIx, u8)], live: &[(u64, PortIx, u8)], mut taken: Taken) -> Vec<u64> {
        let living: std::collections::BTreeSet<u64> = live.iter().map(|(guid, ..)| *guid).collect();
        // A port that left loses its range if a live port took any LID of it.
        let gone: Vec<_> =
            self.ranges.iter().filter(|(guid, _)| !living.contains(guid)).map(|(g, r)| (*g, *r)).collect();
        let mut held = Vec::new();
        for (guid, range) in gone {
            if (range.first..=range.last).any(|lid| taken.has(lid)) {
                self.ranges.remove(&guid);
            } else {
                (range.first..=range.last).for_each(|lid| taken.set(lid, true));
                held.push((guid, range));
            }
        }
        let mut none = Vec::new();
        let mut next = 1;
        for (guid, _, lmc) in missing {
            let mut found = taken.free(next, *lmc);
            if found.is_none() && !held.is_empty() {
                for (guid, range) in held.drain(..) {
                    self.ranges.remove(&guid);
                    (range.first..=range.last).for_each(|lid| taken.set(lid, false));
                }
                found = taken.free(1, *lmc);
            }
            match found {
                Some(lid) => {
                    taken.take(lid, *lmc);
                    self.ranges.insert(*guid, range(lid, *lmc));
                    next = lid;
                }
                None => none.push(*guid),
            }
        }
        none
    }

    fn write(&self, subnet: &mut Subnet, wanted: &[(u64, PortIx, u8)]) {
        subnet.by_lid.clear();
        for (guid, at, lmc) in wanted {
            let first = self.ranges.get(guid).map_or(0, |range| range.first);
            subnet.by_lid.extend(lids(first, *lmc).map(|lid| (lid, *at)));
            if let Some(port) = subnet.port_mut(*at) {
                (port.lid, port.lmc) = (first, *lmc);
            }
        }
    }
}

/// Returns every end port with the LMC to assign: the manager's own first, then by GUID.
fn in_order(subnet: &Subnet, rules: Rules) -> Vec<(u64, PortIx, u8)> {
    let lmc = |at: PortIx| match subnet.node(at.node) {
        Some(node) if node.info.node_type == NodeType::SWITCH => {
            let enhanced = node.switch.as_ref().is_some_and(|switch| switch.info.enhanced_port0);
            if enhanced && rules.lmc_esp0 { rules.lmc } else { 0 }
        }
        _ => rules.lmc,
    };
    let mut ports: Vec<_> = subnet.by_port_guid.iter().map(|(guid, at)| (*guid, *at, lmc(*at))).collect();
    if let Some(own) = ports.iter().position(|(_, at, _)| Some(*at) == subnet.own) {
        ports[..=own].rotate_right(1);
    }
    ports
}

fn is_range(lid: u16, lmc: u8) -> bool {
    let size = 1_u16 << lmc;
    lid != 0 && lid.is_multiple_of(size) && lid <= LID_END - size
}

fn range(lid: u16, lmc: u8) -> LidRange {
    LidRange { first: lid, last: lid + (1 << lmc) - 1 }
}

/// Assigned LIDs, a bit each.
struct Taken(Vec<u64>);

impl Default for Taken {
    fn default() -> Taken {
        Taken(vec![0; usize::from(LID_END) / 64])
    }
}

impl Taken {
    fn has(&self, lid: u16) -> bool {
        self.0.get(usize::from(lid / 64)).is_none_or(|word| word >> (lid % 64) & 1 != 0)
    }

    fn set(&mut self, lid: u16, taken: bool) {
        let Some(word) = self.0.get_mut(usize::from(lid / 64)) else { return };
        let bit = 1 << (lid % 64);
        if taken { *word |= bit } else { *word &= !bit }
    }

    /// Takes a range, unless any LID of it is taken.
    fn take(&mut self, lid: u16, lmc: u8) -> bool {
        let free = !lids(lid, lmc).any(|lid| self.has(lid));
        if free {
            lids(lid, lmc).for_each(|lid| self.set(lid, true));
        }
        free
    }

    /// Returns the first free range at or after a LID.
    fn free(&self, from: u16, lmc: u8) -> Option<u16> {
        let size = 1_usize << lmc;
        let first = usize::from(from).next_multiple_of(size).max(size);
        (first..=usize::from(LID_END) - size)
            .step_by(size)
            .map(|lid| lid as u16)
            .find(|lid| !lids(*lid, lmc).any(|lid| self.has(lid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::subn::NodeInfo;

    const RULES: Rules = Rules { lmc: 0, lmc_esp0: false, reassign: false };

    fn subnet(guids: &[u64], own: usize) -> Subnet {
        let mut subnet = Subnet::default();
        for guid in guids {
            let info = NodeInfo { node_guid: *guid, node_type: NodeType::CA, num_ports: 1, ..NodeInfo::default() };
            let node = subnet.insert(info, Default::default()).expect("room");
            assert!(subnet.name_port(PortIx { node, port: 1 }, *guid + 1));
        }
        subnet.own = subnet.by_port_guid.get(&(guids[own] + 1)).copied();
        subnet
    }

    fn given(subnet: &Subnet) -> Vec<u16> {
        subnet.by_port_guid.values().map(|at| subnet.port(*at).expect("a port").lid).collect()
    }

    #[test]
    fn the_managers_port_is_first_then_by_guid() {
        let mut subnet = subnet(&[0x10, 0x20, 0x30], 1);
        let mut lids = Lids::default();
        assert_eq!(lids.assign(&mut subnet, RULES), (true, vec![]));
        assert_eq!(given(&subnet), [2, 1, 3]);
        assert_eq!(lids.assign(&mut subnet, RULES), (false, vec![]));
        let text = "0x0000000000000011 0x0002 0x0002\n\n0x0000000000000021 0x0001 0x0001\n\n\
                    0x0000000000000031 0x0003 0x0003\n\n";
        assert_eq!((lids.text().as_str(), Lids::parse(text)), (text, lids));
    }

    #[test]
    fn what_was_given_is_kept_and_what_ports_say_comes_next() {
        let mut lids = Lids::parse("0x11 0x7 0x7\n\n0x99 0x1 0x1\nnonsense\n0x21 0xc000 0xc000\n");
        let mut net = subnet(&[0x10, 0x20, 0x30, 0x40], 0);
        for (guid, lid) in [(0x21, 9), (0x31, 7), (0x41, 9)] {
            let at = net.by_port_guid[&guid];
            net.port_mut(at).expect("a port").info.lid = lid;
        }
        lids.assign(&mut net, RULES);
        // 0x31 reports 7, which belongs to 0x11; 0x41 reports the same LID as 0x21; 1 stays reserved for a port that
        // left.
        assert_eq!(given(&net), [7, 9, 2, 3]);
        lids.clear();
        lids.assign(&mut net, Rules { reassign: true, ..RULES });
        assert_eq!(given(&net), [1, 2, 3, 4]);
    }

    #[test]
    fn an_lmc_takes_aligned_ranges() {
        let mut net = subnet(&[0x10, 0x20], 0);
        let mut lids = Lids::default();
        lids.assign(&mut net, Rules { lmc: 2, ..RULES });
        assert_eq!((given(&net), net.at_lid(7)), (vec![4, 8], net.at_lid(4)));
        lids.assign(&mut net, RULES);
        assert_eq!(given(&net), [1, 2], "ranges of another size are given back");
    }

    #[test]
    fn who_is_gone_gives_way_when_lids_run_out() {
        let mut lids = Lids::default();
        for guid in 0..u64::from(LID_END) - 1 {
            let lid = guid as u16 + 1;
            lids.ranges.insert(0x1_0000 + guid, LidRange { first: lid, last: lid });
        }
        let mut net = subnet(&[0x10], 0);
        assert_eq!(lids.assign(&mut net, RULES), (true, vec![]));
        assert_eq!((given(&net), lids.ranges.len()), (vec![1], 1));
    }
}
