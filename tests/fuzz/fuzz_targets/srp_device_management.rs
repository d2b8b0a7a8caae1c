#![no_main]
//! Fuzz target `srp_device_management`: see weft_srp::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_srp::fuzzing::device_management(bytes);
});
