#![no_main]
//! Fuzz target `topology`: fabric descriptions (TOML, net files, generators); see weft_fabric::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fabric::fuzzing::topology(bytes));
