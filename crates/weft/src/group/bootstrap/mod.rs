//! The bootstrap server: a thread to which each rank has a TCP connection. It tells each rank its neighbours in a tree
//! of all ranks, and when a round may begin; the bytes go from rank to rank ([`tree`]). Where a rank cannot reach its
//! neighbour (a firewall, an address that only the server sees), the server hands the bytes of all to all.
//!
//! ```text
//! a rank, first:            | "WEFTGRP2" | token 16 | rank u32 | size u32 | port u16 |
//! the server, all are here: | 2 u8 | session 16 | length u32 | address of the parent: text, empty for rank 0 |
//! a rank:                   | 1 u32 | 1 u8 |                    it has reached its parent; 0: it has not
//! the server:               | 3 u8 |   all have, bytes go by the tree;   or  | 4 u8 |   they go by the server
//!
//! each time, by the tree
//! a rank:                   | 5 u32 | 0 u8 | length of its bytes u32 |
//! the server:               | 0 u8 | length of the bytes of all u32 |
//! a rank that lost another: | length u32 | 1 u8 | what is wrong |
//!
//! each time, by the server
//! a rank:                   | length u32 | bytes |
//! the server:               | 0 u8 | of each rank: length u32, bytes |
//!
//! the server, at any time:  | 1 u8 | length u32 | what is wrong |
//! ```
//!
//! The last character of the magic number is the version: a rank of another version gets an error that says so. `port`
//! is where the rank listens for its children in the tree; 0: it cannot.

mod client;
mod server;
mod tree;
mod wire;

pub(super) use client::Client;
pub(super) use server::Server;
pub(super) use wire::Token;
