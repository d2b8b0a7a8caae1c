//! Hosts that send anything: mostly well-formed commands with random fields, so that they get far. The fuzz target's checks
//! hold (operations stay within their namespace, responses fit their memory), and nothing panics.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_nvme::fuzzing;
use weft_nvme::wire::{
    AdminOpcode, COMMAND_LEN, ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER, FabricsType, OPCODE_FABRICS,
};

const SESSIONS: u64 = 2000;
const CAPSULES: usize = 60;

struct Host(Xoshiro256PlusPlus);

impl Host {
    fn below(&mut self, limit: u32) -> u32 {
        self.0.next_u32() % limit.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    /// Returns a capsule as the fuzz target reads it: queue, length in units of four, bytes.
    fn capsule(&mut self, index: usize) -> Vec<u8> {
        let mut bytes = vec![0; COMMAND_LEN];
        let queue = self.below(4) as u8;
        let any = self.0.next_u32();
        let opcodes = [OPCODE_FABRICS, 0, 1, 2, 5, 8, 9, AdminOpcode::IDENTIFY.0, 0x0a, 0x0c, 0x18, any as u8];
        bytes[0] = self.pick(&opcodes);
        bytes[2..4].copy_from_slice(&(index as u16).to_le_bytes());
        bytes[4] = 1;
        for byte in bytes.iter_mut().skip(40) {
            *byte = if self.below(3) == 0 { self.0.next_u32() as u8 & 0x1f } else { 0 };
        }
        let length = self.pick(&[0_u32, 16, 512, 1024, 4096, any]);
        bytes[32..36].copy_from_slice(&length.to_le_bytes());
        bytes[39] = self.pick(&[0x40, 0x4f, 0x01, 0x00]);
        if bytes[0] == OPCODE_FABRICS {
            bytes[4] = self.pick(&[FabricsType::CONNECT.0, FabricsType::PROPERTY_SET.0, FabricsType::PROPERTY_GET.0]);
        }
        if index < 8 {
            self.connect(&mut bytes, index);
        }
        let units = bytes.len().div_ceil(4).min(255) as u8;
        [&[queue_of(index, queue), units], &bytes[..usize::from(units).min(255) * 4]].concat()
    }

    /// Begins with a Connect whose data is in the capsule, then enables the controller.
    fn connect(&mut self, bytes: &mut Vec<u8>, index: usize) {
        bytes[0] = OPCODE_FABRICS;
        bytes[40..COMMAND_LEN].fill(0);
        if index.is_multiple_of(2) {
            bytes[4] = FabricsType::CONNECT.0;
            bytes[42] = index as u8 / 2;
            bytes[44] = 31;
            bytes[32..36].copy_from_slice(&1024_u32.to_le_bytes());
            // The fuzz target gives the rest of the capsule, filled up with zeros, as fetched data.
            bytes[39] = 0x40;
            let controller = if index == 0 { DYNAMIC_CONTROLLER } else { 1 };
            let subsystem = if self.below(8) == 0 { DISCOVERY_NQN } else { "nqn.2026-01.io.weft:disk" };
            let host = "nqn.2014-08.org.nvmexpress:uuid:1".to_owned();
            let data = ConnectData { host_id: [1; 16], controller, subsystem: subsystem.to_owned(), host };
            bytes.extend(data.to_bytes());
            bytes.truncate(255 * 4);
        } else {
            bytes[4] = FabricsType::PROPERTY_SET.0;
            bytes[44] = 0x14;
            bytes[48..52].copy_from_slice(&0x0046_0001_u32.to_le_bytes());
        }
    }
}

/// The first capsules connect queue 0, 1, 2 and 3 in turn; controllers are enabled on queue 0.
fn queue_of(index: usize, random: u8) -> u8 {
    match index {
        0..8 if index.is_multiple_of(2) => index as u8 / 2,
        0..8 => 0,
        _ => random,
    }
}

#[test]
fn a_target_withstands_any_host() {
    let mut operations = 0;
    for seed in 0..SESSIONS {
        let mut host = Host(Xoshiro256PlusPlus::seed_from_u64(seed));
        let bytes: Vec<u8> = (0..CAPSULES).flat_map(|index| host.capsule(index)).collect();
        operations += fuzzing::target(&bytes);
    }
    // The commands get as far as the namespace.
    assert!(operations > SESSIONS as usize, "{operations} operations");
}
