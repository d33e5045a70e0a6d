//! NICs in virtual time: in-memory networks from one seed, and the checkers that watch them.
#![forbid(unsafe_code)]
