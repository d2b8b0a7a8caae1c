//! Requests with any bits for the device management agent: the fuzz target's checks hold, and nothing panics.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_srp::fuzzing;

const REQUESTS: u64 = 20_000;

/// Returns a datagram: header fields are near those of good requests, so that many get far.
fn request(random: &mut Xoshiro256PlusPlus) -> [u8; 256] {
    let mut bytes = [0; 256];
    random.fill_bytes(&mut bytes);
    let [class, version, method, attribute, slot, last, ..] = random.next_u64().to_le_bytes();
    bytes[..4].copy_from_slice(&[1, if class < 250 { 6 } else { class }, 1 + u8::from(version > 250), 1 + method % 3]);
    bytes[16..18].copy_from_slice(&[0, [0x01, 0x10, 0x11, 0x12, 0x20, 0x24][usize::from(attribute % 6)]]);
    bytes[20..24].copy_from_slice(&[0, slot % 3, last % 2, slot % 2]);
    bytes
}

#[test]
fn an_agent_withstands_any_request() {
    let mut answers = 0;
    for seed in 0..REQUESTS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        answers += fuzzing::device_management(&request(&mut random));
    }
    assert!(answers > REQUESTS as usize / 2, "{answers} answers");
}
