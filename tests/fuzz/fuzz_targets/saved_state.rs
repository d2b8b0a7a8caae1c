#![no_main]
//! Fuzz target `saved_state`: the memory that a daemon inherits from a predecessor that died; see weft_daemon::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_daemon::fuzzing::saved_state(bytes));
