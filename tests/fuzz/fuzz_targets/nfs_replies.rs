#![no_main]
//! Fuzz target `nfs_replies`: see weft_nfs::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_nfs::fuzzing::replies(bytes));
