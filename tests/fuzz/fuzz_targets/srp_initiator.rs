#![no_main]
//! Fuzz target `srp_initiator`: see weft_srp::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_srp::fuzzing::initiator(bytes);
});
