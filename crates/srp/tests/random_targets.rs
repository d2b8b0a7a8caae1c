//! Targets that answer anything: mostly right responses, so that the initiator gets far. The fuzz target's checks hold (every
//! request ends once, pieces stay within their data, memory comes back once), and nothing panics.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_srp::fuzzing;

const SESSIONS: u64 = 3000;
const EVENTS: usize = 200;

/// Returns an event: responses at first, until the disks are known.
fn event(random: &mut Xoshiro256PlusPlus, index: usize) -> [u8; 2] {
    let any = random.next_u32().to_le_bytes();
    let kind = match any[0] % 32 {
        _ if index < 40 => 0,
        0 => 4,
        1 => 5,
        2 => 6 | 0x40,
        3 => any[1],
        4 => any[1] & 0xe0,
        5..=14 => 6,
        15 => 7,
        _ => 0,
    };
    [kind & !0x18, any[2]]
}

#[test]
fn an_initiator_withstands_any_target() {
    let mut commands = 0;
    for seed in 0..SESSIONS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bytes: Vec<u8> = (0..EVENTS).flat_map(|index| event(&mut random, index)).collect();
        commands += fuzzing::initiator(&bytes);
    }
    // The setup takes about seventeen commands: initiators get beyond it.
    assert!(commands > 20 * SESSIONS as usize, "{commands} commands");
}
