//! See `weft_fuzz::edge_setup`.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| weft_fuzz::edge_setup(data));
