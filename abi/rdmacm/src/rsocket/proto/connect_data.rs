//! Private data of the connection's request and reply, which describes the memory that each side lends the other.
//!
//! ```text
//! version | flags | credits (2) | reserved (3) | iomap size | target SGL (16) | data buffer (16)
//! ```
//! All fields are in network order.

use super::sge::{Order, Sge};

/// The only protocol version.
pub const VERSION: u8 = 1;
/// Entries of a target SGL: one for each half of the receive buffer.
pub const SGL_ENTRIES: u32 = 2;

/// The sender reads its memory in network order.
const FLAG_NET: u8 = 1 << 0;
/// The sender has an I/O map behind its target SGL.
const FLAG_IOMAP: u8 = 1 << 1;

/// One side's description of itself at connection time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// The order in which it reads data that the peer writes into its memory.
    pub order: Order,
    /// Number of receive requests that it has posted.
    pub credits: u16,
    /// Number of entries in its I/O map; 0 if it has none.
    pub iomap_entries: u16,
    /// The list into which its peer writes grants of receive memory; `length` counts entries.
    pub target_sgl: Sge,
    /// The first half of its receive buffer.
    pub data_buffer: Sge,
}

impl ConnectData {
    /// Length on the wire in bytes.
    pub const SIZE: usize = 40;

    /// Encodes to wire format.
    pub fn encode(&self) -> [u8; ConnectData::SIZE] {
        let mut bytes = [0; ConnectData::SIZE];
        let net = if self.order == Order::Big { FLAG_NET } else { 0 };
        let [high, low] = self.credits.to_be_bytes();
        bytes[..4].copy_from_slice(&[VERSION, net | FLAG_IOMAP, high, low]);
        bytes[7] = value_to_scale(self.iomap_entries);
        bytes[8..24].copy_from_slice(&self.target_sgl.encode(Order::Big));
        bytes[24..].copy_from_slice(&self.data_buffer.encode(Order::Big));
        bytes
    }

    /// Decodes private data, which the connection manager may have padded. `None` if it is too short or of another
    /// version.
    pub fn decode(bytes: &[u8]) -> Option<ConnectData> {
        let bytes: &[u8; ConnectData::SIZE] = bytes.first_chunk()?;
        let [version, flags, high, low, _, _, _, iomap, ..] = *bytes;
        if version != VERSION {
            return None;
        }
        Some(ConnectData {
            order: if flags & FLAG_NET != 0 { Order::Big } else { Order::Little },
            credits: u16::from_be_bytes([high, low]),
            iomap_entries: if flags & FLAG_IOMAP != 0 { scale_to_value(iomap) } else { 0 },
            target_sgl: Sge::decode(bytes[8..].first_chunk()?, Order::Big),
            data_buffer: Sge::decode(bytes[24..].first_chunk()?, Order::Big),
        })
    }

    /// Returns the address of its I/O map: behind the target SGL, under the same key.
    pub fn iomap_address(&self) -> u64 {
        self.target_sgl.addr.wrapping_add(u64::from(self.target_sgl.length) * Sge::SIZE as u64)
    }
}

/// Encodes a count in eight bits: up to 128 unchanged, more in units of 256 with the top bit set.
pub fn value_to_scale(value: u16) -> u8 {
    if value <= 128 { value as u8 } else { 128 | (value >> 8) as u8 }
}

/// Decodes a count from eight bits.
pub fn scale_to_value(scale: u8) -> u16 {
    if scale <= 128 { scale.into() } else { u16::from(scale & 127) << 8 }
}

/// Returns the nearest count that the encoding can represent.
pub fn supported(value: u16) -> u16 {
    scale_to_value(value_to_scale(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ConnectData {
        ConnectData {
            order: Order::Little,
            credits: 384,
            iomap_entries: 5,
            target_sgl: Sge { addr: 0x7f00_0000_1000, key: 0x1234, length: SGL_ENTRIES },
            data_buffer: Sge { addr: 0x7f00_0000_2000, key: 0x5678, length: 65536 },
        }
    }

    #[test]
    fn it_survives_the_wire_and_padding() {
        let mut bytes = example().encode().to_vec();
        assert_eq!(bytes[..8], [1, 2, 1, 128, 0, 0, 0, 5]);
        assert_eq!(ConnectData::decode(&bytes), Some(example()));
        bytes.extend([0; 16]);
        assert_eq!(ConnectData::decode(&bytes), Some(example()));
    }

    #[test]
    fn a_short_or_foreign_one_is_refused() {
        let bytes = example().encode();
        assert_eq!(ConnectData::decode(&bytes[..39]), None);
        assert_eq!(ConnectData::decode(&[]), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(ConnectData::decode(&other), None);
    }

    #[test]
    fn a_peer_of_the_other_order_says_so() {
        let data = ConnectData { order: Order::Big, ..example() };
        assert_eq!(data.encode()[1], 3);
        assert_eq!(ConnectData::decode(&data.encode()), Some(data));
        assert_eq!(data.iomap_address(), 0x7f00_0000_1020);
    }

    #[test]
    fn scales_are_exact_up_to_128() {
        for value in 0..=128 {
            assert_eq!(supported(value), value);
        }
        assert_eq!(supported(256), 256);
        assert_eq!(supported(1000), 768);
        assert_eq!(supported(0x7fff), 0x7f00);
    }
}
