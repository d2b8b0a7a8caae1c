#![no_main]
//! Fuzz target `rpcrdma_nfs`: see weft_rpcrdma::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_rpcrdma::fuzzing::nfs(bytes));
