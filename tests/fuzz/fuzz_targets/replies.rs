#![no_main]
//! Fuzz target `replies`: a daemon's answers to the library; see weft_ipc::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_ipc::fuzzing::replies(bytes));
