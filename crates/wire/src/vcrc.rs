//! The variant CRC (IBA 7.8.2): 16 bits over everything from the LRH's first byte to the ICRC's last, recomputed by
//! every switch. Polynomial 0x100b, initial value all ones, least significant bit first, inverted at the end; it goes
//! on the wire least significant byte first, as the ICRC does.

/// The polynomial, least significant bit first.
const POLY: u16 = 0xd008;

/// Bytes processed in one step.
const STRIDE: usize = 16;

/// Register values for each byte value, starting from zero, followed by as many zero bytes as the row's number.
static TABLE: [[u16; 256]; STRIDE] = table();

const fn table() -> [[u16; 256]; STRIDE] {
    let mut all = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            register = if register & 1 != 0 { register >> 1 ^ POLY } else { register >> 1 };
            bit += 1;
        }
        all[0][byte] = register;
        byte += 1;
    }
    let mut row = 1;
    while row < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let before = all[row - 1][byte];
            all[row][byte] = before >> 8 ^ all[0][(before & 0xff) as usize];
            byte += 1;
        }
        row += 1;
    }
    all
}

/// A VCRC computation in progress.
#[derive(Clone, Copy, Debug)]
pub struct Vcrc(u16);

impl Vcrc {
    /// Starts before the LRH.
    pub const fn new() -> Vcrc {
        Vcrc(0xffff)
    }
    /// Feeds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (strides, rest) = bytes.as_chunks::<STRIDE>();
        for stride in strides {
            let [low, high] = self.0.to_le_bytes();
            let mut fed = *stride;
            fed[0] ^= low;
            fed[1] ^= high;
            self.0 = fed.iter().zip(TABLE.iter().rev()).fold(0, |sum, (byte, row)| sum ^ row[usize::from(*byte)]);
        }
        for byte in rest {
            self.0 = self.0 >> 8 ^ TABLE[0][usize::from(self.0 as u8 ^ byte)];
        }
    }
    /// Returns the CRC.
    pub const fn finish(self) -> u16 {
        !self.0
    }
}

impl Default for Vcrc {
    fn default() -> Vcrc {
        Vcrc::new()
    }
}

/// Returns the VCRC of a packet from LRH to ICRC.
pub fn of(bytes: &[u8]) -> u16 {
    let mut vcrc = Vcrc::new();
    vcrc.update(bytes);
    vcrc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grh::Grh;
    use crate::icrc;
    use crate::lrh::{Lrh, NextHeader};
    use zerocopy::{FromBytes, IntoBytes};

    /// BTH and payload of the specification's example packet, which it computes twice: within a subnet and beyond.
    const TRANSPORT: [u8; 44] = [
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d,
        0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4,
        0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00,
    ];

    #[test]
    fn the_example_of_the_specification_within_a_subnet() {
        let lrh = Lrh::new(7, 1, NextHeader::Bth, 0x375c, 0x17d2, 14);
        assert_eq!(lrh.as_bytes(), [0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2]);
        let icrc = icrc::Icrc::begin(icrc::seed_lrh(&lrh), &TRANSPORT).finish();
        assert_eq!(icrc.to_le_bytes(), [0x96, 0x25, 0xb7, 0x5a]);
        let packet = [lrh.as_bytes(), &TRANSPORT, &icrc.to_le_bytes()].concat();
        assert_eq!(usize::from(lrh.packet_length()) * 4, packet.len());
        assert_eq!(of(&packet), 0xfa45);
        // Another virtual lane changes only the VCRC.
        let mut moved = lrh;
        moved.set_vl(3);
        assert_eq!(icrc::seed_lrh(&moved), icrc::seed_lrh(&lrh));
        assert_ne!(of(&[moved.as_bytes(), &packet[8..]].concat()), 0xfa45);
    }

    #[test]
    fn many_bytes_at_once_are_as_one_after_another() {
        let bytes: Vec<u8> = (0..100_u32).map(|at| ((at * at) >> 3) as u8).collect();
        for len in 0..bytes.len() {
            let mut single = Vcrc::new();
            bytes[..len].iter().for_each(|byte| single.update(std::slice::from_ref(byte)));
            assert_eq!(of(&bytes[..len]), single.finish(), "{len}");
        }
    }

    #[test]
    fn the_example_of_the_specification_beyond_a_subnet() {
        let mut grh = [0; 40];
        grh[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0x32, 0, 0x10]);
        (grh[14], grh[15], grh[23]) = (0x01, 0x25, 0x26);
        (grh[30], grh[31], grh[39]) = (0x01, 0x17, 0x96);
        let grh = Grh::read_from_bytes(&grh).expect("40 bytes");
        let icrc = icrc::Icrc::begin(icrc::seed_grh(&grh), &TRANSPORT).finish();
        assert_eq!(icrc.to_le_bytes(), [0x14, 0x93, 0xec, 0x46]);
    }
}
