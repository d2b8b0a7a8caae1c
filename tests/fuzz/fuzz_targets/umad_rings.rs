#![no_main]
//! Fuzz target `umad_rings`: words that either end writes into the rings of management datagrams; see weft_ipc::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_ipc::fuzzing::umad_rings(bytes));
