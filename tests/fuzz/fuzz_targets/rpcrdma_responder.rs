#![no_main]
//! Fuzz target `rpcrdma_responder`: see weft_rpcrdma::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_rpcrdma::fuzzing::responder(bytes));
