//! Entries that one side writes into the other's memory: a part of a receive buffer, and a mapped buffer.

/// The byte order in which a machine reads its own memory. Entries in a peer's memory are in the peer's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first; also the order of connection data.
    Big,
}

impl Order {
    /// The order of this machine.
    pub const HOST: Order = if cfg!(target_endian = "big") { Order::Big } else { Order::Little };

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    fn bytes4(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    fn bytes8(self, value: u64) -> [u8; 8] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }
}

/// Memory that a peer may write: `addr` (8 bytes), `key` (4), `length` (4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Start address.
    pub addr: u64,
    /// R_Key.
    pub key: u32,
    /// Length in bytes (for a list: in entries).
    pub length: u32,
}

impl Sge {
    /// Length in memory in bytes.
    pub const SIZE: usize = 16;
    /// Offset of the length field.
    pub const LENGTH_AT: usize = 12;

    /// Encodes in `order`.
    pub fn encode(&self, order: Order) -> [u8; Sge::SIZE] {
        let mut bytes = [0; Sge::SIZE];
        bytes[..8].copy_from_slice(&order.bytes8(self.addr));
        bytes[8..12].copy_from_slice(&order.bytes4(self.key));
        bytes[12..].copy_from_slice(&order.bytes4(self.length));
        bytes
    }

    /// Decodes from `order`.
    pub fn decode(bytes: &[u8; Sge::SIZE], order: Order) -> Sge {
        let [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Sge {
            addr: order.u64([a0, a1, a2, a3, a4, a5, a6, a7]),
            key: order.u32([k0, k1, k2, k3]),
            length: order.u32([l0, l1, l2, l3]),
        }
    }
}

/// A buffer that a peer mapped for us: its name, an offset (8 bytes), and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoMap {
    /// The name of its first byte.
    pub offset: u64,
    /// Its place.
    pub sge: Sge,
}

impl IoMap {
    /// Length in memory in bytes.
    pub const SIZE: usize = 8 + Sge::SIZE;
    /// Offset of the length field.
    pub const LENGTH_AT: usize = 8 + Sge::LENGTH_AT;

    /// Encodes in `order`.
    pub fn encode(&self, order: Order) -> [u8; IoMap::SIZE] {
        let mut bytes = [0; IoMap::SIZE];
        bytes[..8].copy_from_slice(&order.bytes8(self.offset));
        bytes[8..].copy_from_slice(&self.sge.encode(order));
        bytes
    }

    /// Decodes from `order`.
    pub fn decode(bytes: &[u8; IoMap::SIZE], order: Order) -> IoMap {
        let (offset, sge) = bytes.split_at(8);
        let mut first = [0; 8];
        first.copy_from_slice(offset);
        let mut rest = [0; Sge::SIZE];
        rest.copy_from_slice(sge);
        IoMap { offset: order.u64(first), sge: Sge::decode(&rest, order) }
    }

    /// Returns the address of `offset` in this buffer, and the number of bytes from there to its end; `None` if the
    /// offset is outside.
    pub fn reach(&self, offset: u64) -> Option<(u64, u32)> {
        let inside = offset.checked_sub(self.offset)?;
        let left = u64::from(self.sge.length).checked_sub(inside)?;
        (left > 0).then_some((self.sge.addr.wrapping_add(inside), left as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_both_orders() {
        let sge = Sge { addr: 0x0102_0304_0506_0708, key: 0x1122_3344, length: 65536 };
        let map = IoMap { offset: 0xdead_beef, sge };
        for order in [Order::Little, Order::Big] {
            assert_eq!(Sge::decode(&sge.encode(order), order), sge);
            assert_eq!(IoMap::decode(&map.encode(order), order), map);
        }
        assert_eq!(sge.encode(Order::Big)[..4], [1, 2, 3, 4]);
        assert_eq!(sge.encode(Order::Little)[8..12], [0x44, 0x33, 0x22, 0x11]);
        assert_eq!(sge.encode(Order::Big)[Sge::LENGTH_AT..], 65536u32.to_be_bytes());
        assert_eq!(map.encode(Order::Big)[IoMap::LENGTH_AT..], 65536u32.to_be_bytes());
    }

    #[test]
    fn a_mapping_reaches_to_its_end_and_not_before_its_start() {
        let map = IoMap { offset: 100, sge: Sge { addr: 0x1000, key: 1, length: 50 } };
        assert_eq!(map.reach(100), Some((0x1000, 50)));
        assert_eq!(map.reach(149), Some((0x1031, 1)));
        assert_eq!(map.reach(150), None);
        assert_eq!(map.reach(99), None);
        assert_eq!(IoMap::default().reach(0), None);
    }
}
