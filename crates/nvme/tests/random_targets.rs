//! Targets that answer anything: mostly right completions, so that the host gets far. The fuzz target's checks hold (every
//! request ends once, pieces stay within their data, memory comes back once), and nothing panics.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_nvme::fuzzing;

const SESSIONS: u64 = 3000;
const EVENTS: usize = 200;

/// Returns an event: completions at first, until the host is ready.
fn event(random: &mut Xoshiro256PlusPlus, index: usize) -> [u8; 2] {
    let any = random.next_u32().to_le_bytes();
    let kind = match any[0] % 32 {
        _ if index < 30 => 0,
        0 => 4,
        1 => 5,
        2 => 6 | 0x40,
        3 => any[1],
        4 => any[1] & 0xe0,
        5..=14 => 6,
        15 => 7,
        _ => 0,
    };
    [kind & !0x08, any[2]]
}

#[test]
fn a_host_withstands_any_target() {
    let mut commands = 0;
    for seed in 0..SESSIONS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bytes: Vec<u8> = (0..EVENTS).flat_map(|index| event(&mut random, index)).collect();
        commands += fuzzing::host(&bytes);
    }
    // The setup takes about fifteen commands: hosts get beyond it.
    assert!(commands > 20 * SESSIONS as usize, "{commands} commands");
}
