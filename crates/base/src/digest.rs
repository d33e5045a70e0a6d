//! A running checksum, seen from a crate that moves bytes and does not know which checksum it is.

/// A checksum that is fed bytes in order. The CRC-32C of `weft-wire` is one; `weft-memory` feeds it while it copies, so
/// that copying and checking are one pass over the cache.
pub trait Digest {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);
}

/// No checksum: for frames whose CRC is switched off.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDigest;

impl Digest for NoDigest {
    fn update(&mut self, _: &[u8]) {}
}
