//! Query templates: a record to match, and the mask of its components.

use std::net::Ipv6Addr;

use crate::ib::number::number;

/// Bytes of the longest record.
const RECORD_LEN: usize = 200;

/// Component values of the options, with a "not set" value for each missing one.
#[derive(Clone, Debug)]
pub struct Params {
    /// `--service_id`
    pub service_id: u64,
    /// `--sgid`
    pub sgid: [u8; 16],
    /// `--dgid`
    pub dgid: [u8; 16],
    /// `--gid`
    pub gid: [u8; 16],
    /// `--mgid`
    pub mgid: [u8; 16],
    /// `--slid`
    pub slid: u16,
    /// `--dlid`
    pub dlid: u16,
    /// `--mlid`
    pub mlid: u16,
    /// `-F`
    pub flow_label: u32,
    /// `-H`
    pub hop_limit: i32,
    /// `-T`
    pub tclass: u8,
    /// `-r`
    pub reversible: i32,
    /// `-n`
    pub numb_path: i32,
    /// `--pkey`
    pub pkey: u16,
    /// `-Q`
    pub qos_class: i32,
    /// `--sl`
    pub sl: i32,
    /// `-M`, with its selector
    pub mtu: u8,
    /// `-R`, with its selector
    pub rate: u8,
    /// `--pkt_lifetime`, with its selector
    pub pkt_life: u8,
    /// `-q`
    pub qkey: u32,
    /// `--scope`
    pub scope: u8,
    /// `-J`
    pub join_state: u8,
    /// `-X`
    pub proxy_join: i32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            service_id: 0,
            sgid: [0; 16],
            dgid: [0; 16],
            gid: [0; 16],
            mgid: [0; 16],
            slid: 0,
            dlid: 0,
            mlid: 0,
            flow_label: 0,
            hop_limit: -1,
            tclass: 0,
            reversible: -1,
            numb_path: -1,
            pkey: 0,
            qos_class: -1,
            sl: -1,
            mtu: 0,
            rate: 0,
            pkt_life: 0,
            qkey: 0,
            scope: 0,
            join_state: 0,
            proxy_join: -1,
        }
    }
}

/// Parses a GID.
pub fn gid(text: &str) -> Option<[u8; 16]> {
    text.parse::<Ipv6Addr>().ok().map(|gid| gid.octets())
}

/// A record to match.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its bytes.
    pub bytes: [u8; RECORD_LEN],
    /// The mask of components to match.
    pub mask: u64,
}

impl Default for Template {
    fn default() -> Template {
        Template { bytes: [0; RECORD_LEN], mask: 0 }
    }
}

impl Template {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Sets a component of `N` bytes, unless it is `none`.
    fn set<const N: usize>(mut self, bit: u32, at: usize, value: [u8; N], none: [u8; N]) -> Template {
        if value != none {
            self.put(at, &value);
            self.mask |= 1 << bit;
        }
        self
    }

    fn u8(self, bit: u32, at: usize, value: i32, none: i32) -> Template {
        self.set(bit, at, [value as u8], [none as u8])
    }

    fn u16(self, bit: u32, at: usize, value: i32, none: i32) -> Template {
        self.set(bit, at, (value as u16).to_be_bytes(), (none as u16).to_be_bytes())
    }

    /// Sets a component whose upper two bits are its selector.
    fn selected(self, selector_bit: u32, at: usize, value: u8) -> Template {
        let set = self.set(selector_bit, at, [value], [0]);
        if value == 0 { set } else { Template { mask: set.mask | 1 << (selector_bit + 1), ..set } }
    }
}

/// PathRecord.
pub fn path(p: &Params) -> Template {
    let mut t = Template::default()
        .set(0, 0, p.service_id.to_be_bytes(), [0; 8])
        .set(3, 24, p.sgid, [0; 16])
        .set(2, 8, p.dgid, [0; 16])
        .set(5, 42, p.slid.to_be_bytes(), [0; 2])
        .set(4, 40, p.dlid.to_be_bytes(), [0; 2])
        .set(9, 44, p.hop_limit.to_be_bytes(), (-1i32).to_be_bytes())
        .u8(10, 48, p.tclass.into(), 0)
        .u8(12, 49, p.numb_path, -1)
        .set(13, 50, p.pkey.to_be_bytes(), [0; 2])
        .u16(15, 52, p.sl, -1)
        .selected(16, 54, p.mtu)
        .selected(18, 55, p.rate)
        .selected(20, 56, p.pkt_life);
    // ServiceID has two bits in the component mask.
    t.mask |= (t.mask & 1) << 1;
    // The original uses only the last eight bits of a flow label.
    if p.flow_label as u8 != 0 {
        t.bytes[46] |= p.flow_label as u8;
        t.mask |= 1 << 8;
    }
    if p.reversible as u8 != -1i32 as u8 {
        t.bytes[49] |= (p.reversible as u8) << 7;
        t.mask |= 1 << 11;
    }
    if p.qos_class != -1 {
        let word = u16::from(t.bytes[53] & 15) | (p.qos_class as u16) << 4;
        t.put(52, &word.to_be_bytes());
        t.mask |= 1 << 14;
    } else {
        (t.bytes[52], t.bytes[53]) = (0, t.bytes[53] & 15);
    }
    t
}

/// MCMemberRecord.
pub fn member(p: &Params) -> Template {
    let mut t = Template::default()
        .set(0, 0, p.mgid, [0; 16])
        .set(1, 16, p.gid, [0; 16])
        .set(3, 36, p.mlid.to_be_bytes(), [0; 2])
        .set(2, 32, p.qkey.to_be_bytes(), [0; 4])
        .selected(4, 38, p.mtu)
        .selected(8, 42, p.rate)
        .selected(10, 43, p.pkt_life)
        .u8(6, 39, p.tclass.into(), 0)
        .set(7, 40, p.pkey.to_be_bytes(), [0; 2])
        .u8(16, 48, p.join_state.into(), 0)
        .u8(17, 49, p.proxy_join, -1);
    let mut word = 0u32;
    for (bit, shift, value, none) in
        [(12, 28, p.sl as u8, 255), (13, 8, p.flow_label as u8, 0), (14, 0, p.hop_limit as u8, 255)]
    {
        if value != none {
            word |= u32::from(value) << shift;
            t.mask |= 1 << bit;
        }
    }
    t.put(44, &word.to_be_bytes());
    if p.scope != 0 {
        t.bytes[48] |= p.scope << 4;
        t.mask |= 1 << 15;
    }
    t
}

/// A LID and up to two numbers, separated by slashes; a missing number is -1.
pub type LidAndPorts = (u16, i32, i32);

/// Parses the numbers after a LID, separated by slashes.
pub fn ports(text: &str) -> (i32, i32) {
    let mut numbers = text.split('/').skip(1).map(|part| {
        let digits = part.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
        if digits { number(part) as i32 } else { -1 }
    });
    (numbers.next().unwrap_or(-1), numbers.next().unwrap_or(-1))
}

/// Template of a record selected by a LID and two numbers, each with its component bit, offset and width.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The first number.
    pub first: Option<(u32, usize, usize)>,
    /// The second.
    pub second: Option<(u32, usize, usize)>,
}

impl Keys {
    /// No numbers: the LID alone.
    pub const NONE: Keys = Keys { first: None, second: None };

    /// One byte each, after the LID.
    pub const BYTES: Keys = Keys { first: Some((1, 2, 1)), second: Some((2, 3, 1)) };

    /// The template for the given LID and numbers.
    pub fn template(&self, (lid, first, second): LidAndPorts) -> Template {
        let t = Template::default().set(0, 0, lid.to_be_bytes(), [0; 2]);
        [(self.first, first), (self.second, second)].into_iter().fold(t, |t, (place, value)| match place {
            Some((bit, at, 1)) => t.u8(bit, at, value, -1),
            Some((bit, at, _)) => t.u16(bit, at, value, -1),
            None => t,
        })
    }
}

/// MulticastForwardingTableRecord: position and block share two bytes.
pub fn multicast_forwarding((lid, position, block): LidAndPorts) -> Template {
    let mut t = Template::default().set(0, 0, lid.to_be_bytes(), [0; 2]);
    let mut word = 0;
    if block as u16 != u16::MAX {
        word |= block as u16 & 0x1ff;
        t.mask |= 1 << 3;
    }
    if position as u8 != u8::MAX {
        word |= u16::from(position as u8) << 12;
        t.mask |= 1 << 1;
    }
    t.put(2, &word.to_be_bytes());
    t
}

/// InformInfoRecord by subscriber.
pub fn subscriber(gid: [u8; 16]) -> Template {
    let mut t = Template::default();
    t.put(0, &gid);
    t.mask = 1;
    t
}

/// LinkRecord between two ports.
pub fn link((from, from_port, _): LidAndPorts, (to, to_port, _): LidAndPorts) -> Template {
    Template::default()
        .set(0, 0, from.to_be_bytes(), [0; 2])
        .u8(1, 2, from_port, -1)
        .set(3, 4, to.to_be_bytes(), [0; 2])
        .u8(2, 3, to_port, -1)
}

/// PortInfoRecord of ports with this bit in their CapabilityMask.
pub fn capability(mask: u32) -> Template {
    let mut t = Template::default();
    t.put(4 + 20, &mask.to_be_bytes());
    t.mask = 1 << 7;
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_asked_for_by_what_was_typed() {
        let p = Params { slid: 1, dlid: 2, numb_path: 0x7f, ..Params::default() };
        let t = path(&p);
        assert_eq!(t.mask, 1 << 5 | 1 << 4 | 1 << 12);
        assert_eq!((t.bytes[40..44].to_vec(), t.bytes[49]), (vec![0, 2, 0, 1], 0x7f));
        let p = Params { reversible: 1, numb_path: 1, sl: 3, qos_class: 5, service_id: 7, ..Params::default() };
        let t = path(&p);
        assert_eq!(t.mask, 1 << 11 | 1 << 12 | 1 << 15 | 1 << 14 | 3);
        assert_eq!((t.bytes[49], t.bytes[52], t.bytes[53]), (0x81, 0, 0x53));
    }

    #[test]
    fn tables_are_asked_for_by_lid_and_numbers() {
        assert_eq!(ports("1/2/3"), (2, 3));
        assert_eq!(ports("1//3"), (-1, 3));
        assert_eq!(ports("1"), (-1, -1));
        let t = Keys::BYTES.template((1, 2, -1));
        assert_eq!((t.mask, &t.bytes[..4]), (3, &[0, 1, 2, 0][..]));
        let t = multicast_forwarding((0, 1, 2));
        assert_eq!((t.mask, &t.bytes[2..4]), (1 << 3 | 1 << 1, &[0x10, 2][..]));
    }

    #[test]
    fn groups_are_asked_for_by_what_was_typed() {
        let p =
            Params { mgid: [0xff; 16], sl: 2, hop_limit: 3, scope: 2, join_state: 1, mtu: 0x84, ..Params::default() };
        let t = member(&p);
        assert_eq!(t.mask, 1 | 1 << 12 | 1 << 14 | 1 << 15 | 1 << 16 | 3 << 4);
        assert_eq!((&t.bytes[44..49], t.bytes[38]), (&[0x20, 0, 0, 3, 0x21][..], 0x84));
    }
}
