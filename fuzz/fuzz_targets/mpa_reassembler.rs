//! See `weft_fuzz::mpa_reassembler`.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| weft_fuzz::mpa_reassembler(data));
