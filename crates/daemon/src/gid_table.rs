//! The GID table of a device. Programs remember rows, so a row keeps its address as long as that lives; a row whose
//! address is gone stays empty until another address fills it. Rows for RoCE v1 are left free for programs that can
//! speak it. Programs take row 0 for the routable address: if a better one than row 0's arrives while no program has a
//! device open, the table is laid out again.

use weft_ipc::{GID_TABLE_ROWS_MAX, ROCE_V1_ROWS};

use crate::netdev::Address;

/// A GID table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GidTable {
    rows: Vec<Option<[u8; 16]>>,
}

impl GidTable {
    /// Makes a table with these rows, as a predecessor left it.
    pub fn from_rows(mut rows: Vec<Option<[u8; 16]>>) -> GidTable {
        rows.truncate(GID_TABLE_ROWS_MAX);
        GidTable { rows }
    }

    /// Returns all rows, empty ones too.
    pub fn rows(&self) -> &[Option<[u8; 16]>] {
        &self.rows
    }

    /// Returns row and GID of every row that has one.
    pub fn entries(&self) -> impl Iterator<Item = (u32, [u8; 16])> + '_ {
        (0..).zip(&self.rows).filter_map(|(index, row)| row.map(|gid| (index, gid)))
    }

    /// Updates the table from the addresses of the interface, which come in order of preference. `in_use` says whether
    /// some program may hold a row's number.
    pub fn follow(&mut self, addresses: &[Address], in_use: bool) {
        if !in_use && self.first_row_is_worse_than(addresses) {
            self.rows.clear();
        }
        for row in &mut self.rows {
            if row.is_some_and(|gid| !addresses.iter().any(|address| address.gid() == gid)) {
                *row = None;
            }
        }
        for address in addresses {
            let gid = address.gid();
            if self.rows.contains(&Some(gid)) {
                continue;
            }
            let mut holes = (0u32..).zip(&mut self.rows).filter(|(index, _)| !ROCE_V1_ROWS.contains(index));
            if let Some((_, hole)) = holes.find(|(_, row)| row.is_none()) {
                *hole = Some(gid);
                continue;
            }
            if self.rows.len() == ROCE_V1_ROWS.start as usize {
                self.rows.resize(ROCE_V1_ROWS.end as usize, None);
            }
            if self.rows.len() < GID_TABLE_ROWS_MAX {
                self.rows.push(Some(gid));
            }
        }
    }

    fn first_row_is_worse_than(&self, addresses: &[Address]) -> bool {
        let first = self.rows.first().copied().flatten();
        // An empty first row needs nothing: the next address fills it.
        let known = first.and_then(|gid| addresses.iter().find(|address| address.gid() == gid));
        match (addresses.first(), known) {
            (Some(best), Some(first)) => best.class() < first.class(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::Netdev;

    fn address(text: &str) -> Address {
        Address { ip: text.parse().unwrap(), scope: 0, flags: 0x80 }
    }

    fn sorted(list: &[&str]) -> Vec<Address> {
        let netdev = Netdev {
            ifindex: 1,
            name: "x".into(),
            flags: 0,
            mtu: 0,
            mac: [0; 6],
            addresses: list.iter().map(|text| address(text)).collect(),
            speed_mbps: None,
        };
        netdev.usable_addresses()
    }

    fn shown(table: &GidTable) -> Vec<Option<String>> {
        table
            .rows()
            .iter()
            .map(|row| {
                row.map(|gid| {
                    let ip = std::net::Ipv6Addr::from(gid);
                    ip.to_ipv4_mapped().map_or(ip.to_string(), |ip| ip.to_string())
                })
            })
            .collect()
    }

    fn some(list: &[&str]) -> Vec<Option<String>> {
        list.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
    }

    #[test]
    fn routable_first_link_local_last() {
        let mut table = GidTable::default();
        table.follow(&sorted(&["fe80::1", "2001:db8::1", "10.0.0.1", "10.0.0.2"]), true);
        assert_eq!(shown(&table), some(&["10.0.0.1", "10.0.0.2", "2001:db8::1", "fe80::1"]));
    }

    #[test]
    fn rows_stay_and_holes_are_filled() {
        let mut table = GidTable::default();
        table.follow(&sorted(&["10.0.0.1", "10.0.0.2", "fe80::1"]), true);
        table.follow(&sorted(&["10.0.0.2", "fe80::1"]), true);
        assert_eq!(shown(&table), some(&["", "10.0.0.2", "fe80::1"]));
        table.follow(&sorted(&["10.0.0.2", "fe80::1", "10.0.0.9", "10.0.0.8"]), true);
        assert_eq!(shown(&table), some(&["10.0.0.9", "10.0.0.2", "fe80::1", "10.0.0.8"]));
    }

    #[test]
    fn a_better_first_row_only_while_nobody_looks() {
        let mut table = GidTable::default();
        table.follow(&sorted(&["fe80::1"]), false);
        let mut used = table.clone();
        used.follow(&sorted(&["fe80::1", "10.0.0.1"]), true);
        assert_eq!(shown(&used), some(&["fe80::1", "10.0.0.1"]));
        table.follow(&sorted(&["fe80::1", "10.0.0.1"]), false);
        assert_eq!(shown(&table), some(&["10.0.0.1", "fe80::1"]));
        // Row 0 is good: nothing moves although the order of preference differs.
        table.follow(&sorted(&["fe80::1", "10.0.0.1", "2001:db8::1"]), false);
        assert_eq!(shown(&table), some(&["10.0.0.1", "fe80::1", "2001:db8::1"]));
    }

    #[test]
    fn tentative_addresses_wait() {
        let mut list = sorted(&["10.0.0.1"]);
        let tentative = Address { flags: 0x40, ..address("2001:db8::1") };
        assert!(!tentative.is_usable());
        list.retain(Address::is_usable);
        assert_eq!(list.len(), 1);
        assert!(Address { flags: 0x44, ..tentative }.is_usable());
        assert!(!Address { flags: 0x48, ..tentative }.is_usable());
    }

    #[test]
    fn no_more_rows_than_there_may_be() {
        let many: Vec<Address> = (0..600u32)
            .map(|n| Address { ip: std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), scope: 0, flags: 0 })
            .collect();
        let mut table = GidTable::default();
        table.follow(&many, false);
        assert_eq!(table.rows().len(), GID_TABLE_ROWS_MAX);
        assert!(table.entries().all(|(index, _)| !ROCE_V1_ROWS.contains(&index)));
        table.follow(&many[1..], true);
        assert_eq!(table.rows()[0], Some(many[GID_TABLE_ROWS_MAX - ROCE_V1_ROWS.len()].gid()), "the hole is filled");
    }
}
