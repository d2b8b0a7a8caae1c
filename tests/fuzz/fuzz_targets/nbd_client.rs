#![no_main]
//! Fuzz target `nbd_client`: see weft_nbd::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_nbd::fuzzing::client(bytes);
});
