#![no_main]
//! Fuzz target `packet_rings`: words that either end writes into the packet rings of a hop-by-hop fabric; see
//! weft_link::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_link::fuzzing::packet_rings(bytes));
