#![no_main]
//! Fuzz target `ddp`: see weft_wire::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::ddp(bytes));
