#![no_main]
//! Fuzz target `shared_memory`: words that a peer writes into the shared memory of a pair and of its key directory; see
//! weft_link::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_link::fuzzing::shared_memory(bytes));
