//! DDP and RDMAP without I/O: segmentation, placement, ordering, reads, atomics, terminates (RFC 5040, RFC 5041, RFC 7306).
#![forbid(unsafe_code)]
