#![no_main]
//! Fuzz target `rds_frames`: see weft_rds::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_rds::fuzzing::frames(bytes);
    weft_rds::fuzzing::readers(bytes);
});
