#![no_main]
//! Fuzz target `mpa`: see weft_wire::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::mpa(bytes));
