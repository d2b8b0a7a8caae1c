#![no_main]
//! Fuzz target `topology`: descriptions of fabrics: TOML, net files, generators; see weft_fabric::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fabric::fuzzing::topology(bytes));
