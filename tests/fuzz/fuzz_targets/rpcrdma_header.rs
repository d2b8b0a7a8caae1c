#![no_main]
//! Fuzz target `rpcrdma_header`: see weft_rpcrdma::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_rpcrdma::fuzzing::header(bytes));
