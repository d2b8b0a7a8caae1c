//! Tables of a port and of a switch. They grow as a manager writes them: thousands of ports keep their defaults and use
//! no memory for tables.

use crate::limits::{GUIDS, LINEAR_FDB_CAP, MULTICAST_FDB_CAP, VL_ARBITRATION_CAP};
use weft_wire::lrh::LID_MULTICAST_FIRST;

/// The P_Key of the default partition, full member.
pub const PKEY_DEFAULT: u16 = 0xffff;
/// P_Key bit of full members.
pub const PKEY_FULL: u16 = 0x8000;
/// P_Keys in a block of the table.
pub(crate) const PKEY_BLOCK: usize = 32;
/// Value in forwarding tables that means no port.
pub(crate) const NO_PORT: u8 = 0xff;

/// Returns whether two P_Keys are of one partition and not both limited members (IBA 10.9.3).
pub fn pkeys_match(a: u16, b: u16) -> bool {
    a & !PKEY_FULL != 0 && (a ^ b) & !PKEY_FULL == 0 && (a | b) & PKEY_FULL != 0
}

/// Returns whether a switch's port with this entry lets a P_Key in. The node behind it may be a limited member, and
/// must not claim to be a full one; the output port checks whether two limited members meet.
pub(crate) fn pkey_enters(entry: u16, pkey: u16) -> bool {
    entry & !PKEY_FULL != 0 && (entry ^ pkey) & !PKEY_FULL == 0 && entry >= pkey
}

/// Tables of a port that its manager wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortTables {
    /// P_Keys up to the last one written; empty means the default partition alone.
    pkeys: Vec<u16>,
    /// GUIDs from entry 1 on.
    guids: Vec<u64>,
    /// The low and the high VL arbitration table: lane and weight.
    pub vl_arbitration: Option<[[(u8, u8); VL_ARBITRATION_CAP as usize]; 2]>,
    /// The lane of each service level, of an adapter's port.
    pub sl2vl: Option<u64>,
}

impl PortTables {
    pub fn pkeys(&self) -> &[u16] {
        if self.pkeys.is_empty() { &[PKEY_DEFAULT] } else { &self.pkeys }
    }

    /// Writes a block, up to the `cap` entries of the table; returns whether anything changed.
    pub fn set_pkeys(&mut self, block: usize, keys: &[u16; PKEY_BLOCK], cap: usize) -> bool {
        let first = block * PKEY_BLOCK;
        let end = (first + PKEY_BLOCK).min(cap);
        let mut table = self.pkeys().to_vec();
        if table.len() < end {
            table.resize(end, 0);
        }
        for (place, key) in table.iter_mut().skip(first).zip(&keys[..end.saturating_sub(first)]) {
            *place = *key;
        }
        let last = table.iter().rposition(|key| *key != 0).map_or(1, |last| last + 1);
        table.truncate(last.max(1));
        let changed = table != self.pkeys();
        if changed {
            table.shrink_to_fit();
            self.pkeys = table;
        }
        changed
    }

    /// Returns the GUID of entry `index`, from 1 on; 0 if there is none.
    pub fn guid(&self, index: usize) -> u64 {
        index.checked_sub(1).and_then(|place| self.guids.get(place)).copied().unwrap_or(0)
    }

    pub fn set_guid(&mut self, index: usize, guid: u64) -> bool {
        let Some(place) = index.checked_sub(1).filter(|place| *place + 1 < usize::from(GUIDS)) else { return false };
        if self.guid(index) == guid {
            return false;
        }
        if self.guids.len() <= place {
            self.guids.resize(place + 1, 0);
        }
        self.guids[place] = guid;
        true
    }
}

/// A linear forwarding table: the port of every LID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lft {
    ports: Vec<u8>,
}

impl Lft {
    /// Entries of a block.
    pub const BLOCK: usize = 64;

    #[inline]
    pub fn port(&self, lid: u16) -> u8 {
        self.ports.get(usize::from(lid)).copied().unwrap_or(NO_PORT)
    }

    pub fn block(&self, block: u32) -> Option<[u8; Lft::BLOCK]> {
        let first = usize::try_from(block).ok()?.checked_mul(Lft::BLOCK)?;
        (first < usize::from(LINEAR_FDB_CAP)).then(|| {
            let mut ports = [NO_PORT; Lft::BLOCK];
            ports.iter_mut().zip(self.ports.iter().skip(first)).for_each(|(to, from)| *to = *from);
            ports
        })
    }

    /// Writes an existing block; returns whether anything changed.
    pub fn set_block(&mut self, block: u32, ports: &[u8; Lft::BLOCK]) -> bool {
        if self.block(block).is_none_or(|old| old == *ports) {
            return false;
        }
        let first = block as usize * Lft::BLOCK;
        if self.ports.len() < first + Lft::BLOCK {
            self.ports.resize(first + Lft::BLOCK, NO_PORT);
        }
        self.ports[first..first + Lft::BLOCK].copy_from_slice(ports);
        true
    }
}

/// A multicast forwarding table: the ports of every group, 16 of them in each position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mft {
    masks: Vec<u16>,
}

impl Mft {
    /// Groups of a block.
    pub const BLOCK: usize = 32;
    /// Ports of a position.
    pub const POSITION: usize = 16;

    /// Returns the number of positions of a switch with `ports` external ports.
    pub fn positions(ports: u8) -> usize {
        usize::from(ports) / Mft::POSITION + 1
    }

    /// Returns whether group `mlid` has any port.
    pub fn has(&self, mlid: u16, positions: usize) -> bool {
        self.row(mlid, positions).iter().any(|mask| *mask != 0)
    }

    /// Returns the ports of a group, one mask per position.
    pub fn row(&self, mlid: u16, positions: usize) -> &[u16] {
        let first = usize::from(mlid.wrapping_sub(LID_MULTICAST_FIRST)) * positions;
        self.masks.get(first..first + positions).unwrap_or(&[])
    }

    pub fn block(&self, block: usize, position: usize, positions: usize) -> Option<[u16; Mft::BLOCK]> {
        let exists = block < usize::from(MULTICAST_FDB_CAP) / Mft::BLOCK && position < positions;
        let mask = |place| (block * Mft::BLOCK + place) * positions + position;
        exists.then(|| std::array::from_fn(|place| self.masks.get(mask(place)).copied().unwrap_or(0)))
    }

    /// Writes an existing block; returns whether anything changed.
    pub fn set_block(&mut self, block: usize, position: usize, positions: usize, masks: &[u16; Mft::BLOCK]) -> bool {
        if self.block(block, position, positions).is_none_or(|old| old == *masks) {
            return false;
        }
        let end = (block + 1) * Mft::BLOCK * positions;
        if self.masks.len() < end {
            self.masks.resize(end, 0);
        }
        for (place, mask) in masks.iter().enumerate() {
            self.masks[(block * Mft::BLOCK + place) * positions + position] = *mask;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_members_do_not_match_each_other() {
        assert!(pkeys_match(0xffff, 0x7fff) && pkeys_match(0x8001, 0x8001));
        let enters = [(0xffff, 0x7fff), (0xffff, 0xffff), (0x7fff, 0x7fff), (0x7fff, 0xffff), (0xffff, 0x8001)];
        assert_eq!(enters.map(|(entry, pkey)| pkey_enters(entry, pkey)), [true, true, true, false, false]);
        assert!(!pkeys_match(0x7fff, 0x7fff) && !pkeys_match(0x8001, 0x8002) && !pkeys_match(0x8000, 0x8000));
    }

    #[test]
    fn pkeys_are_kept_as_far_as_they_reach() {
        let mut tables = PortTables::default();
        assert_eq!(tables.pkeys(), [0xffff]);
        let mut keys = [0; PKEY_BLOCK];
        keys[..3].copy_from_slice(&[0xffff, 0x8001, 0x0002]);
        assert!(tables.set_pkeys(0, &keys, 128) && !tables.set_pkeys(0, &keys, 128));
        assert_eq!(tables.pkeys(), [0xffff, 0x8001, 0x0002]);
        assert!(tables.set_pkeys(3, &keys, 98), "the end of a table that ends within a block");
        assert_eq!(tables.pkeys().len(), 98);
        assert!(tables.set_pkeys(0, &[0; PKEY_BLOCK], 128) && tables.set_pkeys(3, &[0; PKEY_BLOCK], 128));
        assert_eq!(tables.pkeys(), [0]);
    }

    #[test]
    fn forwarding_tables_grow_to_what_was_written() {
        let mut lft = Lft::default();
        let mut ports = [NO_PORT; Lft::BLOCK];
        ports[1] = 7;
        assert!(lft.set_block(2, &ports) && !lft.set_block(2, &ports) && !lft.set_block(768, &ports));
        assert_eq!((lft.port(129), lft.port(128), lft.port(1), lft.port(0xbfff)), (7, NO_PORT, NO_PORT, NO_PORT));
        assert_eq!((lft.block(2), lft.block(768), lft.ports.len()), (Some(ports), None, 192));

        let positions = Mft::positions(36);
        assert_eq!((positions, Mft::positions(15), Mft::positions(16)), (3, 1, 2));
        let mut mft = Mft::default();
        let mut masks = [0; Mft::BLOCK];
        masks[4] = 0x8001;
        assert!(mft.set_block(1, 2, positions, &masks) && !mft.set_block(1, 3, positions, &masks));
        assert_eq!(mft.row(0xc024, positions), [0, 0, 0x8001]);
        assert!(mft.has(0xc024, positions) && !mft.has(0xc025, positions) && !mft.has(0xfffe, positions));
        assert_eq!(mft.block(1, 2, positions), Some(masks));
        assert_eq!(mft.block(128, 0, positions), None);
    }
}
