//! Writes forwarding tables: only blocks that a switch is not known to have.

use weft_wire::mad::Block;
use weft_wire::mad::subn::{CapabilityMask, GuidInfo, LFT_BLOCK, LFT_NO_PATH, LinearForwardingTable, Smp, SwitchInfo};

use super::{Ask, Phase, What};
use crate::manager::Manager;
use crate::subnet::{NodeIx, PortIx};

const BLOCK: usize = LFT_BLOCK as usize;

impl Manager {
    /// Writes the forwarding tables of switches that have none yet, or of all.
    pub(crate) fn begin_tables(&mut self, fresh: bool) {
        self.sweep.phase = if fresh { Phase::FreshTables } else { Phase::Tables };
        let mut switches: Vec<NodeIx> = self.places.keys().copied().collect();
        switches.retain(|node| {
            let mark = self.sweep.marks.get(node.0 as usize).copied().unwrap_or_default();
            self.subnet.node(*node).is_some() && (!fresh || mark.fresh)
        });
        // Switches that forward to a lost link drop packets, so they come first.
        switches.sort_by_cached_key(|node| !self.has_dead_entries(*node));
        for node in switches {
            self.sweep.mark(node).fresh = false;
            self.write_switch(node);
        }
        if fresh {
            self.write_lanes();
        }
    }

    /// Whether the present table of a switch forwards to ports without a neighbor.
    fn has_dead_entries(&self, node: NodeIx) -> bool {
        let Some(held) = self.subnet.node(node) else { return false };
        let Some(switch) = &held.switch else { return false };
        let dead = |port: u8| port != 0 && held.ports.get(usize::from(port)).is_none_or(|port| port.neighbor.is_none());
        switch.lft.iter().any(|port| *port != LFT_NO_PATH && dead(*port))
    }

    fn write_switch(&mut self, node: NodeIx) {
        let at = PortIx { node, port: 0 };
        let top = self.top();
        let Some(switch) = self.subnet.node(node).and_then(|node| node.switch.as_ref()) else { return };
        if let Some(wanted) = self.wanted_switch(Ask { what: What::SetSwitchInfo, at, arg: 0 })
            && wanted != (SwitchInfo { port_state_change: false, ..switch.info })
        {
            self.wire.ask(Ask { what: What::SetSwitchInfo, at, arg: 0 });
        }
        for block in 0..=u32::from(top) / BLOCK as u32 {
            if self.block_differs(node, block) {
                self.sweep.lft_blocks += 1;
                self.sweep.written = true;
                self.sweep.unsure.insert((node, block));
                self.wire.ask(Ask { what: What::SetLft, at, arg: block });
            }
        }
    }

    /// Returns the highest LID in the tables.
    fn top(&self) -> u16 {
        self.tables.lfts.first().map_or(0, |lft| lft.len().saturating_sub(1) as u16)
    }

    fn block_differs(&self, node: NodeIx, block: u32) -> bool {
        let Some(wanted) = self.lft_block(node, block) else { return false };
        let Some(switch) = self.subnet.node(node).and_then(|node| node.switch.as_ref()) else { return false };
        let first = block as usize * BLOCK;
        let has = switch.lft.get(first..first + BLOCK);
        has != Some(&wanted[..]) || self.sweep.unsure.contains(&(node, block))
    }

    /// Returns a block of a switch's wanted table.
    pub(crate) fn lft_block(&self, node: NodeIx, block: u32) -> Option<[u8; BLOCK]> {
        let lft = self.tables.lfts.get(*self.places.get(&node)? as usize)?;
        let entries = lft.get(block as usize * BLOCK..)?;
        let mut ports = [LFT_NO_PATH; BLOCK];
        ports.iter_mut().zip(entries).for_each(|(to, from)| *to = *from);
        Some(ports)
    }

    /// Returns the wanted SwitchInfo.
    pub(crate) fn wanted_switch(&self, ask: Ask) -> Option<SwitchInfo> {
        let held = self.subnet.node(ask.at.node)?;
        let info = held.switch.as_ref()?.info;
        if ask.what == What::ClearChange {
            return Some(SwitchInfo { port_state_change: true, ..info });
        }
        // Only [`What::ClearChange`] clears PortStateChange, before the ports are read.
        let mut wanted = SwitchInfo {
            port_state_change: false,
            linear_fdb_top: self.top(),
            life_time_value: self.setup.packet_life_time & 0x1f,
            ..info
        };
        if held.ports.first()?.info.capability_mask.contains(CapabilityMask::MULTICAST_FDB_TOP) {
            wanted.multicast_fdb_top = self.multicast_top(&info);
        }
        Some(wanted)
    }

    pub(crate) fn on_switch_set(&mut self, node: NodeIx, info: SwitchInfo) {
        self.sweep.written = true;
        if let Some(switch) = self.subnet.node_mut(node).and_then(|node| node.switch.as_mut()) {
            switch.info = info;
        }
    }

    /// Handles the answer to a Set of a table block.
    pub(crate) fn on_table_set(&mut self, ask: Ask, smp: &Smp) {
        match ask.what {
            What::SetLft => {}
            What::SetMft => return self.on_mft_set(ask, smp),
            What::SetPKeys => return self.on_pkeys_set(ask, smp),
            What::SetGuids => return self.on_guids(ask, &GuidInfo::parse(&smp.data)),
            _ => return,
        }
        self.sweep.unsure.remove(&(ask.at.node, ask.arg));
        let has: Block<BLOCK> = LinearForwardingTable::parse(&smp.data).ports;
        let Some(switch) = self.subnet.node_mut(ask.at.node).and_then(|node| node.switch.as_mut()) else { return };
        let first = ask.arg as usize * BLOCK;
        if first + BLOCK > 1 << 16 {
            return;
        }
        if switch.lft.len() < first + BLOCK {
            switch.lft.resize(first + BLOCK, LFT_NO_PATH);
        }
        switch.lft[first..first + BLOCK].copy_from_slice(&has[..]);
    }

    /// Handles a block that a switch may or may not have taken.
    pub(crate) fn on_lft_lost(&mut self, ask: Ask) {
        let at = self.subnet.call(ask.at);
        self.sweep.fail(|| format!("{at} did not take block {} of its forwarding table", ask.arg));
    }

    /// Returns a block of a table other than a forwarding table.
    pub(crate) fn table_block(&self, ask: Ask) -> Option<[u8; 64]> {
        match ask.what {
            What::SetMft => self.mft_block(ask),
            What::SetPKeys => self.pkey_block(ask),
            What::SetSlToVl => self.sl_to_vl_block(ask),
            What::SetVlArb => self.arbitration_block(ask),
            What::SetGuids => self.guid_block(ask),
            _ => None,
        }
    }
}
