//! Entries that one side writes into the other's memory: a place in a receive buffer, and a mapped buffer.

/// The byte order in which a machine reads its own memory. What we write into a peer's is in the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first; also that of connection data.
    Big,
}

impl Order {
    /// This machine's.
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
    /// Where it starts.
    pub addr: u64,
    /// Its R_Key.
    pub key: u32,
    /// Its bytes (for a list: its entries).
    pub length: u32,
}

impl Sge {
    /// Bytes in memory.
    pub const SIZE: usize = 16;
    /// Where its length stands in them.
    pub const LENGTH_AT: usize = 12;

    /// As bytes in `order`.
    pub fn encode(&self, order: Order) -> [u8; Sge::SIZE] {
        let mut bytes = [0; Sge::SIZE];
        bytes[..8].copy_from_slice(&order.bytes8(self.addr));
        bytes[8..12].copy_from_slice(&order.bytes4(self.key));
        bytes[12..].copy_from_slice(&order.bytes4(self.length));
        bytes
    }

    /// From bytes in `order`.
    pub fn decode(bytes: &[u8; Sge::SIZE], order: Order) -> Sge {
        let [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Sge {
            addr: order.u64([a0, a1, a2, a3, a4, a5, a6, a7]),
            key: order.u32([k0, k1, k2, k3]),
            length: order.u32([l0, l1, l2, l3]),
        }
    }
}

/// A buffer that a peer mapped for us: the offset by which it is named (8 bytes), and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoMap {
    /// The name of its first byte.
    pub offset: u64,
    /// Where it is.
    pub sge: Sge,
}

impl IoMap {
    /// Bytes in memory.
    pub const SIZE: usize = 8 + Sge::SIZE;
    /// Where its length stands in them.
    pub const LENGTH_AT: usize = 8 + Sge::LENGTH_AT;

    /// As bytes in `order`.
    pub fn encode(&self, order: Order) -> [u8; IoMap::SIZE] {
        let mut bytes = [0; IoMap::SIZE];
        bytes[..8].copy_from_slice(&order.bytes8(self.offset));
        bytes[8..].copy_from_slice(&self.sge.encode(order));
        bytes
    }

    /// From bytes in `order`.
    pub fn decode(bytes: &[u8; IoMap::SIZE], order: Order) -> IoMap {
        let (offset, sge) = bytes.split_at(8);
        let mut first = [0; 8];
        first.copy_from_slice(offset);
        let mut rest = [0; Sge::SIZE];
        rest.copy_from_slice(sge);
        IoMap { offset: order.u64(first), sge: Sge::decode(&rest, order) }
    }

    /// How many bytes from `offset` on this buffer holds, and the address of the first; `None` if it holds none.
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
