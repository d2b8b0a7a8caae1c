//! Initiators that send anything: mostly well-formed units with random fields, so that they get far. The fuzz target's checks
//! hold (operations stay within their unit and its data within the buffers, responses come once), and nothing panics.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_srp::fuzzing;

const SESSIONS: u64 = 2000;
const UNITS: usize = 80;

struct Initiator(Xoshiro256PlusPlus);

impl Initiator {
    fn below(&mut self, limit: u32) -> u32 {
        self.0.next_u32() % limit.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    /// Returns a unit as the fuzz target reads it: channel and work, length in units of four, bytes.
    fn unit(&mut self) -> Vec<u8> {
        let mut bytes = match self.below(12) {
            0 => self.task(),
            1 => (0..self.below(80)).map(|_| self.0.next_u32() as u8).collect(),
            _ => self.command(),
        };
        if self.below(30) == 0 {
            let len = self.below(bytes.len() as u32 + 1) as usize;
            bytes.truncate(len);
        }
        let units = bytes.len().div_ceil(4).min(255);
        bytes.resize(units * 4, 0);
        [&[self.0.next_u32() as u8, units as u8], &bytes[..]].concat()
    }

    fn task(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        (bytes[0], bytes[8], bytes[21]) = (1, 0x80, self.below(3) as u8);
        bytes[30] = self.pick(&[1, 2, 4, 8, 0x40, 3]);
        bytes[32] = self.below(16) as u8;
        bytes
    }

    fn command(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        bytes[0] = 2;
        bytes[8] = self.below(200) as u8;
        bytes[21] = self.pick(&[0, 0, 0, 1, 2]);
        let any = self.0.next_u32() as u8;
        let opcodes = [0, 3, 8, 0x0a, 0x12, 0x1a, 0x1b, 0x25, 0x28, 0x2a, 0x2f, 0x35, 0x41, 0x42, 0x88, 0x8a, 0x93];
        bytes[32] = self.pick(&[&opcodes[..], &[0x9e, 0xa0, 0xa3, 0xa8, 0xaa, any]].concat());
        // Most commands name blocks that exist.
        let odds = self.pick(&[2, 16, 16, 16]);
        for byte in &mut bytes[33..48] {
            *byte = if self.below(odds) == 0 { self.0.next_u32() as u8 & 0x1f } else { 0 };
        }
        (bytes[40], bytes[45]) = (self.pick(&[1, 8, 16, 64]), 1);
        // A format that is none ends the channel.
        let odd = if self.below(16) == 0 { any } else { 0x11 };
        bytes[5] = self.pick(&[0x01, 0x10, 0x11, 0x20, 0x02, 0x30, 0x00, odd]);
        for format in [bytes[5] >> 4, bytes[5] & 0xf] {
            let any = self.0.next_u32();
            let length = self.pick(&[0_u32, 8, 512, 1024, 4096, 1 << 20, any]);
            let mut descriptor = vec![7; 12];
            match format {
                1 => descriptor.extend(length.to_be_bytes()),
                2 => {
                    let count = self.below(4);
                    bytes[6] = count as u8;
                    bytes[7] = count as u8;
                    let table = count + self.below(2);
                    descriptor.extend((table * 16).to_be_bytes());
                    descriptor.extend((length.wrapping_mul(count)).to_be_bytes());
                    (0..count).for_each(|_| {
                        descriptor.extend([7; 12]);
                        descriptor.extend(length.to_be_bytes());
                    });
                }
                3 => descriptor = length.to_be_bytes().to_vec(),
                _ => descriptor.clear(),
            }
            bytes.extend(descriptor);
        }
        if bytes[5] >> 4 == 3 {
            bytes.resize(68 + 512, 1);
        }
        bytes
    }
}

#[test]
fn a_target_withstands_any_initiator() {
    let mut operations = 0;
    for seed in 0..SESSIONS {
        let mut initiator = Initiator(Xoshiro256PlusPlus::seed_from_u64(seed));
        let bytes: Vec<u8> = (0..UNITS).flat_map(|_| initiator.unit()).collect();
        operations += fuzzing::target(&bytes);
    }
    // The commands get as far as the units.
    assert!(operations > SESSIONS as usize, "{operations} operations");
}
