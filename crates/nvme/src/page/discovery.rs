//! Discovery log page (NVMe-oF 1.1 §5.3): a header, and an entry for each subsystem.

use super::builder::Builder;

const HEADER_LEN: usize = 1024;
const ENTRY_LEN: usize = 1024;

/// Transport type RDMA; service subtypes of its transport: reliable connected queue pairs, no provider, RDMA CM.
const TRANSPORT_RDMA: u8 = 1;
const CONNECTED: u8 = 1;
const NO_PROVIDER: u8 = 1;
const RDMA_CM: u8 = 1;
/// Whether a secure channel is required is not specified; hosts may do without submission queue heads.
const TREQ: u8 = 0b100;
/// Controllers are allocated by Connect.
const DYNAMIC: u16 = 0xffff;
/// Entries of an admin queue.
const ADMIN_ENTRIES: u16 = 32;

/// Kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// Another discovery service.
    Referral,
    /// Subsystem with namespaces.
    Nvm,
}

/// Entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Kind.
    pub kind: EntryKind,
    /// Number of the port.
    pub port_id: u16,
    /// Whether the address is of IPv6.
    pub is_ipv6: bool,
    /// Address.
    pub address: &'a str,
    /// Port of RDMA CM.
    pub service: &'a str,
    /// Name of the subsystem.
    pub subsystem: &'a str,
}

impl Entry<'_> {
    fn to_bytes(self) -> Vec<u8> {
        Builder::new(ENTRY_LEN)
            .u8(0, TRANSPORT_RDMA)
            .u8(1, if self.is_ipv6 { 2 } else { 1 })
            .u8(
                2,
                match self.kind {
                    EntryKind::Referral => 1,
                    EntryKind::Nvm => 2,
                },
            )
            .u8(3, TREQ)
            .u16(4, self.port_id)
            .u16(6, DYNAMIC)
            .u16(8, ADMIN_ENTRIES)
            .padded(32, 32, self.service)
            .text(256, 256, self.subsystem)
            .padded(512, 256, self.address)
            .bytes(768, &[CONNECTED, NO_PROVIDER, RDMA_CM])
            .finish()
    }
}

/// Returns the whole log.
pub fn discovery_log(generation: u64, entries: &[Entry<'_>]) -> Vec<u8> {
    let mut log = Builder::new(HEADER_LEN).u64(0, generation).u64(8, entries.len() as u64).finish();
    entries.iter().for_each(|entry| log.extend(entry.to_bytes()));
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_the_header() {
        let entry = Entry {
            kind: EntryKind::Nvm,
            port_id: 3,
            is_ipv6: false,
            address: "10.0.0.1",
            service: "4420",
            subsystem: "nqn.2026-01.io.weft:disk",
        };
        let log = discovery_log(5, &[entry, Entry { kind: EntryKind::Referral, is_ipv6: true, ..entry }]);
        assert_eq!((log.len(), log[0], log[8], log[16]), (3072, 5, 2, 0));
        assert_eq!(log[1024..1032], [1, 1, 2, 4, 3, 0, 0xff, 0xff]);
        assert_eq!((&log[1056..1061], &log[1536..1545]), (&b"4420 "[..], &b"10.0.0.1 "[..]));
        assert_eq!((log[2049], log[2050]), (2, 1));
    }
}
