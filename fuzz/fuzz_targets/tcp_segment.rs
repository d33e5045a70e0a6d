//! See `weft_fuzz::tcp_segment`.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| weft_fuzz::tcp_segment(data));
