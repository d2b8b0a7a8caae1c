//! P_Key tables: writes the tables that the partitions require, where they differ.

use weft_wire::mad::subn::{GuidInfo, PKeyTable, Smp};

use super::{Ask, What};
use crate::manager::Manager;
use crate::partition::Plan;
use crate::subnet::PortIx;

/// P_Keys per block.
const BLOCK: usize = 32;

impl Manager {
    /// Plans the partitions for the ports now present.
    pub(crate) fn plan_partitions(&mut self) {
        self.plan = Plan::new(&self.setup.partitions, &self.subnet, &self.setup.options, Some(&self.plan));
    }

    /// Returns the wanted table of a port; `None` if it may stay.
    fn wanted_pkeys(&self, at: PortIx) -> Option<&[u16]> {
        let port = self.subnet.port(at)?;
        if port.guid != 0 {
            return Some(self.plan.table(port.guid)).filter(|table| !table.is_empty());
        }
        self.plan.enforced.get(&at).map(|enforced| &enforced.table[..]).filter(|table| !table.is_empty())
    }

    /// Writes every block that differs.
    pub(crate) fn write_pkeys(&mut self) {
        for at in self.every_port() {
            let Some(wanted) = self.wanted_pkeys(at) else { continue };
            let known = self.subnet.port(at).map_or(&[][..], |port| &port.pkeys);
            let used = known.iter().rposition(|key| *key != 0).map_or(0, |last| last + 1);
            let blocks = wanted.len().max(used).div_ceil(BLOCK).min(self.pkey_blocks(at) as usize);
            let differs = |block: &usize| {
                let part = |keys: &[u16]| -> [u16; BLOCK] {
                    std::array::from_fn(|index| keys.get(block * BLOCK + index).copied().unwrap_or(0))
                };
                part(wanted) != part(known)
            };
            let different: Vec<usize> = (0..blocks).filter(differs).collect();
            for block in different {
                self.wire.ask(Ask { what: What::SetPKeys, at, arg: block as u32 });
            }
        }
    }

    pub(crate) fn pkey_block(&self, ask: Ask) -> Option<[u8; 64]> {
        let wanted = self.wanted_pkeys(ask.at)?;
        let first = ask.arg as usize * BLOCK;
        let pkeys = std::array::from_fn(|index| wanted.get(first + index).copied().unwrap_or(0));
        Some(PKeyTable { pkeys }.encode())
    }

    pub(crate) fn on_pkeys_set(&mut self, ask: Ask, smp: &Smp) {
        self.sweep.written = true;
        let table = PKeyTable::parse(&smp.data);
        let first = ask.arg as usize * BLOCK;
        let Some(port) = self.subnet.port_mut(ask.at).filter(|_| first < 1 << 16) else { return };
        port.pkeys.resize(port.pkeys.len().max(first + BLOCK), 0);
        port.pkeys[first..first + BLOCK].copy_from_slice(&table.pkeys);
    }

    /// Returns a block of the GUIDs that the SA assigned to a port.
    pub(crate) fn guid_block(&self, ask: Ask) -> Option<[u8; 64]> {
        let port = self.subnet.port(ask.at)?;
        let guids = self.administration.sa.guids_of(port.guid)?;
        let first = ask.arg as usize * 8;
        Some(GuidInfo { guids: std::array::from_fn(|index| guids.get(first + index).copied().unwrap_or(0)) }.encode())
    }
}
