#![no_main]
//! Fuzz target `configuration`: the subnet manager's files; see weft_sm::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_sm::fuzzing::configuration(bytes));
