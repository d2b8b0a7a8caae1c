//! Multicast tables: a job computes the trees, and a sweep or a change of members writes the differences.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_wire::mad::subn::{CapabilityMask, MFT_BLOCK, MFT_PORTS, MulticastForwardingTable, SmState, Smp, SwitchInfo};

use super::{Ask, Phase, What};
use crate::manager::{Job, Manager, Trees, Work};
use crate::multicast::{Forest, MLID_FIRST, PortMask};
use crate::subnet::{NodeIx, PortIx};

const BLOCK: u16 = MFT_BLOCK;
const PORTS: u32 = MFT_PORTS as u32;

/// Returns sixteen ports of a mask.
fn part(mask: &PortMask, position: u32) -> u16 {
    mask.get(position as usize / 4).map_or(0, |word| (word >> (position % 4 * 16)) as u16)
}

impl Manager {
    /// Starts a job for groups whose members changed, if nothing else is in progress.
    pub(crate) fn begin_groups(&mut self) -> bool {
        let begins = self.administration.regrow && self.state == SmState::MASTER && self.sweep.mastered;
        if begins {
            self.begin_multicast(Phase::Groups);
        }
        begins
    }

    /// Starts a job that computes multicast trees, if the present ones are outdated.
    pub(crate) fn begin_multicast(&mut self, phase: Phase) {
        self.sweep.phase = phase;
        self.sweep.mfts_written = false;
        let guids = self.graph.switches.iter().map(|switch| switch.guid);
        let same = self.administration.grown_for == self.administration.generation
            && guids.eq(self.forest.guids.iter().copied());
        if same && !self.administration.regrow {
            return;
        }
        self.administration.regrow = false;
        self.administration.grown_for = self.administration.generation;
        // The present tables decide which switch a member is attached to.
        self.administer(|sa, now, world| sa.refresh(now, world));
        self.job_count += 1;
        self.growing = Some(self.job_count);
        let trees = Trees {
            number: self.job_count,
            graph: self.graph.clone(),
            wanted: self.administration.sa.wanted(),
            without_mft: self.administration.sa.without_mft().to_vec(),
            previous: self.forest.clone(),
        };
        self.jobs.push_back(Job(Work::Trees(Box::new(trees))));
    }

    pub(crate) fn on_grown(&mut self, number: u64, forest: Forest) {
        if self.growing != Some(number) {
            return;
        }
        self.growing = None;
        self.mfts = forest.tables();
        self.forest = Arc::new(forest);
    }

    /// Writes the blocks that differ.
    pub(crate) fn write_multicast(&mut self) {
        self.sweep.mfts_written = true;
        let nodes: Vec<NodeIx> = self.places.keys().copied().collect();
        for node in nodes {
            self.write_mft(node);
        }
    }

    fn write_mft(&mut self, node: NodeIx) {
        let at = PortIx { node, port: 0 };
        let Some(place) = self.places.get(&node).copied() else { return };
        let Some(held) = self.subnet.node(node) else { return };
        let Some(switch) = held.switch.as_ref().filter(|switch| switch.info.multicast_fdb_cap > 0) else { return };
        let positions = (u32::from(held.info.num_ports) + PORTS) / PORTS;
        let empty = Default::default();
        let wanted = self.mfts.get(place as usize).unwrap_or(&empty);
        let mut parts: BTreeSet<u32> = BTreeSet::new();
        for mlid in wanted.keys().chain(switch.mft.keys()) {
            let mask = |table: &std::collections::BTreeMap<u16, PortMask>| table.get(mlid).copied().unwrap_or_default();
            let (to, from) = (mask(wanted), mask(&switch.mft));
            let block = u32::from(mlid.saturating_sub(MLID_FIRST) / BLOCK);
            let different = (0..positions).filter(|position| part(&to, *position) != part(&from, *position));
            parts.extend(different.map(|position| position << 28 | block));
        }
        let last = self.administration.sa.mlid_last();
        let used = if last < MLID_FIRST { 0 } else { u32::from((last - MLID_FIRST) / BLOCK) + 1 };
        let cleared = self.sweep.cleared.get(&node).copied().unwrap_or(0);
        parts.extend((cleared..used).flat_map(|block| (0..positions).map(move |position| position << 28 | block)));
        self.sweep.cleared.insert(node, cleared.max(used));
        let fits = |arg: &u32| (arg & 0xfff_ffff) < u32::from(switch.info.multicast_fdb_cap).div_ceil(BLOCK.into());
        let parts: Vec<u32> = parts.into_iter().filter(fits).collect();
        let takes_top = held.ports[0].info.capability_mask.contains(CapabilityMask::MULTICAST_FDB_TOP);
        let told = self.multicast_top(&switch.info) != switch.info.multicast_fdb_top;
        if told && takes_top {
            self.wire.ask(Ask { what: What::SetSwitchInfo, at, arg: 0 });
        }
        for arg in parts {
            self.wire.ask(Ask { what: What::SetMft, at, arg });
        }
    }

    /// Returns the MulticastFDBTop of a switch, with room for some more groups, so that a new group does not require a
    /// Set at every switch.
    pub(crate) fn multicast_top(&self, info: &SwitchInfo) -> u16 {
        let cap = info.multicast_fdb_cap;
        let top = self.administration.sa.mlid_last();
        if top < MLID_FIRST || cap == 0 || !self.setup.options.device.use_mfttop {
            return info.multicast_fdb_top;
        }
        let last = (top - MLID_FIRST) | (2 * BLOCK - 1);
        (MLID_FIRST + last.min(cap - 1)).max(info.multicast_fdb_top)
    }

    pub(crate) fn mft_block(&self, ask: Ask) -> Option<[u8; 64]> {
        let place = *self.places.get(&ask.at.node)?;
        let table = self.mfts.get(place as usize);
        let first = MLID_FIRST.checked_add((ask.arg & 0xfff_ffff) as u16 * BLOCK)?;
        let masks = std::array::from_fn(|index| {
            let mask = table.and_then(|table| table.get(&(first + index as u16)));
            mask.map_or(0, |mask| part(mask, ask.arg >> 28))
        });
        Some(MulticastForwardingTable { masks }.encode())
    }

    pub(crate) fn on_mft_set(&mut self, ask: Ask, smp: &Smp) {
        self.sweep.written = true;
        let table = MulticastForwardingTable::parse(&smp.data);
        let Some(first) = MLID_FIRST.checked_add((ask.arg & 0xfff_ffff) as u16 * BLOCK) else { return };
        let position = ask.arg >> 28;
        let Some(switch) = self.subnet.node_mut(ask.at.node).and_then(|node| node.switch.as_mut()) else { return };
        for (mlid, bits) in (first..).zip(table.masks) {
            if bits == 0 && !switch.mft.contains_key(&mlid) {
                continue;
            }
            let mask = switch.mft.entry(mlid).or_default();
            let shift = position % 4 * 16;
            if let Some(word) = mask.get_mut(position as usize / 4) {
                *word = *word & !(0xffff << shift) | u64::from(bits) << shift;
            }
            if *mask == [0; 4] {
                switch.mft.remove(&mlid);
            }
        }
    }

    /// Forgets that a switch's table is known after a failed Set.
    pub(crate) fn on_mft_lost(&mut self, ask: Ask) {
        self.sweep.cleared.remove(&ask.at.node);
    }
}
