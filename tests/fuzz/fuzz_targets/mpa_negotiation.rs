#![no_main]
//! Fuzz target `mpa_negotiation`: see weft_iwarp::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_iwarp::fuzzing::negotiation(bytes));
