//! Local Route Header (IBA 7.7), the first header of every packet within a subnet:
//!
//! ```text
//! |   VL   |  LVer  |   SL   |R R|LNH|          destination LID              |
//! |R R R R R|   packet length (11)   |             source LID                |
//! ```

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// LID that no port has.
pub const LID_NONE: u16 = 0;
/// First multicast LID; the last is one below [`LID_PERMISSIVE`] (IBA 4.1.1).
pub const LID_MULTICAST_FIRST: u16 = 0xc000;
/// LID that every port accepts as its own, in directed-route SMPs.
pub const LID_PERMISSIVE: u16 = 0xffff;

/// Whether a port can have this LID.
pub fn is_unicast(lid: u16) -> bool {
    (1..LID_MULTICAST_FIRST).contains(&lid)
}
/// Whether a multicast group can have this LID.
pub fn is_multicast(lid: u16) -> bool {
    (LID_MULTICAST_FIRST..LID_PERMISSIVE).contains(&lid)
}

/// The virtual lane of subnet management.
pub const VL_MANAGEMENT: u8 = 15;

/// The header after the LRH.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NextHeader {
    /// A raw packet with an Ethertype.
    RawEthertype = 0,
    /// A raw packet of IPv6.
    RawIpv6 = 1,
    /// A BTH.
    Bth = 2,
    /// A GRH, and a BTH after it.
    Grh = 3,
}

/// Local Route Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Lrh {
    vl_lver: u8,
    sl_lnh: u8,
    dlid: U16,
    length: U16,
    slid: U16,
}

const _: () = assert!(size_of::<Lrh>() == Lrh::LEN);

impl Lrh {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// Composes the header. `words` counts four-byte words from the LRH's first byte to the ICRC's last.
    pub fn new(vl: u8, sl: u8, next: NextHeader, dlid: u16, slid: u16, words: u16) -> Lrh {
        Lrh {
            vl_lver: vl << 4,
            sl_lnh: sl << 4 | next as u8,
            dlid: dlid.into(),
            length: (words & 0x7ff).into(),
            slid: slid.into(),
        }
    }
    /// Virtual lane.
    pub fn vl(&self) -> u8 {
        self.vl_lver >> 4
    }
    /// Version of the link layer, 0.
    pub fn link_version(&self) -> u8 {
        self.vl_lver & 0xf
    }
    /// Service level.
    pub fn sl(&self) -> u8 {
        self.sl_lnh >> 4
    }
    /// Type of the next header.
    pub fn next_header(&self) -> NextHeader {
        match self.sl_lnh & 3 {
            0 => NextHeader::RawEthertype,
            1 => NextHeader::RawIpv6,
            2 => NextHeader::Bth,
            _ => NextHeader::Grh,
        }
    }
    /// Destination LID.
    pub fn dlid(&self) -> u16 {
        self.dlid.get()
    }
    /// Four-byte words from the LRH's first byte to the ICRC's last.
    pub fn packet_length(&self) -> u16 {
        self.length.get() & 0x7ff
    }
    /// Source LID.
    pub fn slid(&self) -> u16 {
        self.slid.get()
    }
    /// Sets the virtual lane; each switch does.
    pub fn set_vl(&mut self, vl: u8) {
        self.vl_lver = self.vl_lver & 0xf | vl << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut lrh = Lrh::new(0xa, 0x5, NextHeader::Grh, 0x1234, 0xbeef, 0x7f1);
        assert_eq!(lrh.as_bytes(), [0xa0, 0x53, 0x12, 0x34, 0x07, 0xf1, 0xbe, 0xef]);
        assert_eq!((lrh.vl(), lrh.sl(), lrh.next_header(), lrh.link_version()), (0xa, 5, NextHeader::Grh, 0));
        assert_eq!((lrh.dlid(), lrh.slid(), lrh.packet_length()), (0x1234, 0xbeef, 0x7f1));
        lrh.set_vl(VL_MANAGEMENT);
        assert_eq!(lrh.as_bytes()[0], 0xf0);
        assert!(is_unicast(1) && is_unicast(0xbfff) && !is_unicast(0) && !is_unicast(0xc000));
        assert!(is_multicast(0xc000) && is_multicast(0xfffe) && !is_multicast(0xffff));
    }
}
