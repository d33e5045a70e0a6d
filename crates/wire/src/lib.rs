//! Bytes to values and back: MPA, DDP and RDMAP headers, CRC-32C.
#![forbid(unsafe_code)]
