//! Random bytes for the readers: nothing panics, and some frames pass.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rds::fuzzing;
use weft_rds::wire::{Flags, Header};

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..20_000 {
        let mut bytes = vec![0; (random.next_u32() % 400) as usize];
        random.fill_bytes(&mut bytes);
        fuzzing::frames(&bytes);
        fuzzing::readers(&bytes);
    }
}

#[test]
fn damaged_frames_do_no_harm() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut datagrams = 0;
    for _ in 0..3000 {
        let mut bytes = Vec::new();
        for sequence in 1..20 {
            let length = random.next_u32() % 200 * 16;
            let flags = Flags((random.next_u32() % 8) as u8 & !Flags::CONGESTION_MAP.0);
            let header = Header {
                sequence,
                length,
                source_port: 7,
                destination_port: [4000, 0][usize::from(random.next_u32().is_multiple_of(8))],
                flags,
                ..Header::default()
            };
            bytes.push((3 + length / 16) as u8);
            bytes.extend(header.to_bytes());
            bytes.resize(bytes.len() + length as usize, 1);
        }
        for _ in 0..random.next_u32() % 4 {
            let at = random.next_u32() as usize % bytes.len();
            bytes[at] ^= 1 << (random.next_u32() % 8);
        }
        datagrams += fuzzing::frames(&bytes);
    }
    assert!(datagrams > 10_000, "{datagrams} datagrams passed");
}
