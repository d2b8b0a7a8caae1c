#![no_main]
//! Fuzz target `nvme_host`: see weft_nvme::fuzzing.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_nvme::fuzzing::host(bytes);
});
