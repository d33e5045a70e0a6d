//! What a lab may have.

use std::ops::RangeInclusive;

pub use weft_scenario::BitsPerSecond;

/// How many hosts a lab may have.
pub const HOSTS: RangeInclusive<usize> = 2..=64;

/// How many links each host may have.
pub const LINKS: RangeInclusive<usize> = 1..=8;

/// The MTU that a link may have, in bytes. IPv6 asks for 1280 (RFC 8200 section 5), a veth takes no more than the upper
/// end.
pub const MTU: RangeInclusive<u32> = 1280..=65_535;

/// The rate that a link may have. Below it one packet would take longer than any program waits for; above it no
/// processor comes.
pub const RATE: RangeInclusive<BitsPerSecond> = BitsPerSecond(100_000)..=BitsPerSecond(100_000_000_000);
