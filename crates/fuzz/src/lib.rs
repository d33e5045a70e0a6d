//! What is fuzzed, as ordinary functions of bytes. A panic is a finding.
//!
//! `cargo fuzz run <target>` (nightly, in `fuzz/`) makes new inputs without end; `cargo test` here runs every target on
//! its seeds and on a bounded number of inputs made from them, the same ones each time.
//!
//! To add a target: a function here, a row in [`TARGETS`], a five-line file in `fuzz/fuzz_targets`, a `[[bin]]` in
//! `fuzz/Cargo.toml`.
#![forbid(unsafe_code)]

mod edge;
mod messages;
mod mpa;
mod pair;
mod ring;
mod scenario;
mod tcp;
mod wire;

pub use edge::{edge_connection, edge_packet, edge_setup};
pub use messages::messages;
pub use mpa::{mpa_reassembler, mpa_stream};
pub use pair::{hostile, pair};
pub use ring::ring;
pub use scenario::{scenario, trace};
pub use tcp::{tcp_connection, tcp_segment};
pub use wire::wire;

/// A target, by name, with inputs to begin with.
pub struct Target {
    /// The name of its function and of its binary.
    pub name: &'static str,
    /// What is fuzzed.
    pub run: fn(&[u8]),
    /// Inputs from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "wire", run: wire, seeds: wire::seeds },
    Target { name: "mpa_stream", run: mpa_stream, seeds: mpa::seeds },
    Target { name: "mpa_reassembler", run: mpa_reassembler, seeds: mpa::seeds },
    Target { name: "pair", run: pair, seeds: pair::seeds },
    Target { name: "hostile", run: hostile, seeds: pair::seeds },
    Target { name: "edge_packet", run: edge_packet, seeds: edge::packets },
    Target { name: "edge_setup", run: edge_setup, seeds: edge::setups },
    Target { name: "edge_connection", run: edge_connection, seeds: edge::scripts },
    Target { name: "tcp_segment", run: tcp_segment, seeds: tcp::segments },
    Target { name: "tcp_connection", run: tcp_connection, seeds: tcp::scripts },
    Target { name: "messages", run: messages, seeds: messages::seeds },
    Target { name: "ring", run: ring, seeds: ring::seeds },
    Target { name: "scenario", run: scenario, seeds: scenario::seeds },
    Target { name: "trace", run: trace, seeds: scenario::lines },
];
