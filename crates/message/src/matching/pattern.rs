//! What a receive accepts, and what a message is, in few bytes: with many of them, their size decides the cache misses.

use core::hash::{Hash, Hasher};

use weft_base::PeerId;

/// The tags that a receive accepts: those that agree with `tag` in all bits except `ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The tag.
    pub tag: u64,
    /// Bits that may differ.
    pub ignore: u64,
}

/// Set in [`Exact::source`] if there is a tag: untagged messages are a kind of their own.
const TAGGED: u64 = 1 << 63;

/// Source and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact {
    /// The source's number plus 1; 0 for any. And [`TAGGED`].
    source: u64,
    tag: u64,
}

impl Exact {
    pub(super) fn new(source: Option<PeerId>, tag: Option<u64>) -> Self {
        let number = source.map_or(0, |source| u64::from(source.0) + 1);
        Self { source: number | if tag.is_some() { TAGGED } else { 0 }, tag: tag.unwrap_or(0) }
    }

    pub(super) const fn is_from_any_source(self) -> bool {
        self.source & !TAGGED == 0
    }

    pub(super) const fn is_tagged(self) -> bool {
        self.source & TAGGED != 0
    }

    pub(super) fn is_from(self, source: PeerId) -> bool {
        self.source & !TAGGED == u64::from(source.0) + 1
    }

    /// The same from any source.
    pub(super) const fn without_source(self) -> Self {
        Self { source: self.source & TAGGED, tag: self.tag }
    }

    /// The same without these bits of the tag.
    pub(super) const fn without_bits(self, ignore: u64) -> Self {
        Self { source: self.source, tag: self.tag & !ignore }
    }
}

impl Hash for Exact {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.source);
        state.write_u64(self.tag);
    }
}

/// What a receive accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Without the bits of the tag that it ignores. The source may be any.
    pub(super) exact: Exact,
    /// Bits of the tag that it ignores. Then it accepts tagged messages alone.
    pub(super) ignore: u64,
}

impl Pattern {
    pub(super) fn new(source: Option<PeerId>, matching: Option<Match>) -> Self {
        let ignore = matching.map_or(0, |matching| matching.ignore);
        Self { exact: Exact::new(source, matching.map(|matching| matching.tag)).without_bits(ignore), ignore }
    }

    pub(super) const fn is_exact(self) -> bool {
        self.ignore == 0 && !self.exact.is_from_any_source()
    }

    pub(super) fn takes(self, message: Exact) -> bool {
        let message = message.without_bits(self.ignore);
        self.exact == if self.exact.is_from_any_source() { message.without_source() } else { message }
    }
}
