//! Matches messages with receives.
//!
//! A message matches the oldest posted receive that accepts it, and a receive the oldest message that it accepts.
//! Receives and messages with one source and one tag are in a hash table; so are receives of one tag from any source.
//! Receives that ignore bits of the tag are in a list, in order, and so are all messages: a search for several tags or
//! sources walks it. A number that grows with each receive decides which of two is older.

use core::hash::{Hash, Hasher};

use slotmap::{SlotMap, new_key_type};
use weft_base::PeerId;

use crate::chains::{Chained, Chains};
use crate::hash::Seeded;
use crate::list::{Linked, Links, List};

/// The tags that a receive accepts: those that agree with `tag` in all bits except `ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The tag.
    pub tag: u64,
    /// Bits that may differ.
    pub ignore: u64,
}

new_key_type! {
    /// Names a posted receive.
    pub struct PostedId;
    /// Names an unexpected message.
    pub struct UnexpectedId;
}

/// Set in [`Exact::source`] if there is a tag: untagged messages are a kind of their own.
const TAGGED: u64 = 1 << 63;

/// Source and tag, in few bytes: with many of them, their size decides the cache misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exact {
    /// The source's number plus 1; 0 for any. And [`TAGGED`].
    source: u64,
    tag: u64,
}

impl Exact {
    fn new(source: Option<PeerId>, tag: Option<u64>) -> Self {
        let number = source.map_or(0, |source| u64::from(source.0) + 1);
        Self { source: number | if tag.is_some() { TAGGED } else { 0 }, tag: tag.unwrap_or(0) }
    }

    const fn is_from_anybody(self) -> bool {
        self.source & !TAGGED == 0
    }

    /// The same from any source.
    const fn without_source(self) -> Self {
        Self { source: self.source & TAGGED, tag: self.tag }
    }
}

impl Hash for Exact {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.source);
        state.write_u64(self.tag);
    }
}

/// What a receive accepts. Where it ignores no bits of the tag, it is in the hash table.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    exact: Exact,
    ignore: u64,
}

impl Pattern {
    fn new(source: Option<PeerId>, matching: Option<Match>) -> Self {
        Self {
            exact: Exact::new(source, matching.map(|matching| matching.tag)),
            ignore: matching.map_or(0, |matching| matching.ignore),
        }
    }

    const fn takes(&self, message: Exact) -> bool {
        let source = if self.exact.is_from_anybody() { message.without_source().source } else { message.source };
        self.exact.source == source && (self.exact.tag ^ message.tag) & !self.ignore == 0
    }
}

struct Posted<P> {
    pattern: Pattern,
    order: u64,
    links: Links<PostedId>,
    value: P,
}

impl<P> Linked<PostedId, 0> for Posted<P> {
    fn links(&mut self) -> &mut Links<PostedId> {
        &mut self.links
    }

    fn next(&self) -> PostedId {
        self.links.next
    }
}

impl<P> Chained<PostedId> for Posted<P> {
    type By = Exact;

    fn by(&self) -> Exact {
        self.pattern.exact
    }

    fn previous(&self) -> PostedId {
        self.links.previous
    }
}

struct Unexpected<U> {
    exact: Exact,
    same: Links<UnexpectedId>,
    all: Links<UnexpectedId>,
    value: U,
}

impl<U> Linked<UnexpectedId, 0> for Unexpected<U> {
    fn links(&mut self) -> &mut Links<UnexpectedId> {
        &mut self.same
    }

    fn next(&self) -> UnexpectedId {
        self.same.next
    }
}

impl<U> Linked<UnexpectedId, 1> for Unexpected<U> {
    fn links(&mut self) -> &mut Links<UnexpectedId> {
        &mut self.all
    }

    fn next(&self) -> UnexpectedId {
        self.all.next
    }
}

impl<U> Chained<UnexpectedId> for Unexpected<U> {
    type By = Exact;

    fn by(&self) -> Exact {
        self.exact
    }

    fn previous(&self) -> UnexpectedId {
        self.same.previous
    }
}

/// Posted receives, with a value `P`, and unexpected messages, with a value `U`.
pub struct Matcher<P, U> {
    posted: SlotMap<PostedId, Posted<P>>,
    posted_exact: Chains<PostedId>,
    posted_wild: List<PostedId, 0>,
    /// The number of exact receives posted for any source.
    from_anybody: usize,
    order: u64,
    unexpected: SlotMap<UnexpectedId, Unexpected<U>>,
    unexpected_exact: Chains<UnexpectedId>,
    unexpected_all: List<UnexpectedId, 1>,
}

impl<P, U> Matcher<P, U> {
    /// Empty. Peers must not be able to guess the seed, or they can choose tags that make it slow.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            posted: SlotMap::with_key(),
            posted_exact: Chains::new(Seeded::new(seed)),
            posted_wild: List::default(),
            from_anybody: 0,
            order: 0,
            unexpected: SlotMap::with_key(),
            unexpected_exact: Chains::new(Seeded::new(seed.wrapping_add(1))),
            unexpected_all: List::default(),
        }
    }

    /// Posts a receive, which is younger than all others: from a source or from any; of these tags, or (`None`) of
    /// untagged messages.
    pub fn post(&mut self, source: Option<PeerId>, matching: Option<Match>, value: P) -> PostedId {
        let pattern = Pattern::new(source, matching);
        self.order += 1;
        let id = self.posted.insert(Posted { pattern, order: self.order, links: Links::default(), value });
        if pattern.ignore == 0 {
            self.from_anybody += usize::from(source.is_none());
            self.posted_exact.push_back(&mut self.posted, id);
        } else {
            self.posted_wild.push_back(&mut self.posted, id);
        }
        id
    }

    /// Removes a receive. `None` if it is not posted any more.
    pub fn unpost(&mut self, id: PostedId) -> Option<P> {
        let Pattern { exact, ignore } = self.posted.get(id)?.pattern;
        if ignore == 0 {
            self.from_anybody -= usize::from(exact.is_from_anybody());
            self.posted_exact.remove(&mut self.posted, id);
        } else {
            self.posted_wild.remove(&mut self.posted, id);
        }
        self.posted.remove(id).map(|posted| posted.value)
    }

    /// The value of a posted receive.
    #[must_use]
    pub fn posted(&self, id: PostedId) -> Option<&P> {
        self.posted.get(id).map(|posted| &posted.value)
    }

    /// The number of posted receives.
    #[must_use]
    pub fn posted_count(&self) -> usize {
        self.posted.len()
    }

    /// The oldest receive that accepts a message from this source, with this tag or without one. It stays posted.
    #[must_use]
    pub fn find_posted(&self, source: PeerId, tag: Option<u64>) -> Option<PostedId> {
        let message = Exact::new(Some(source), tag);
        let exact = self.first_posted(message);
        let anybody = if self.from_anybody > 0 { self.first_posted(message.without_source()) } else { None };
        let wild = if tag.is_some() { self.first_wild(message) } else { None };
        [exact, anybody, wild].into_iter().flatten().min().map(|(_, id)| id)
    }

    fn first_posted(&self, exact: Exact) -> Option<(u64, PostedId)> {
        let id = self.posted_exact.first(&self.posted, exact)?;
        Some((self.posted[id].order, id))
    }

    fn first_wild(&self, message: Exact) -> Option<(u64, PostedId)> {
        let mut id = self.posted_wild.first();
        while let Some(posted) = self.posted.get(id) {
            if posted.pattern.takes(message) {
                return Some((posted.order, id));
            }
            id = posted.next();
        }
        None
    }

    /// The oldest posted receive for which `is_it` holds. Walks all of them.
    pub fn find_posted_by(&self, mut is_it: impl FnMut(&P) -> bool) -> Option<PostedId> {
        let fitting = self.posted.iter().filter(|(_, posted)| is_it(&posted.value));
        fitting.min_by_key(|(_, posted)| posted.order).map(|(id, _)| id)
    }

    /// The posted receives for this source alone, oldest first. Walks all of them.
    #[must_use]
    pub fn posted_for(&self, source: PeerId) -> Vec<PostedId> {
        let source = Exact::new(Some(source), None).source;
        let of_source = self.posted.iter().filter(|(_, posted)| posted.pattern.exact.source & !TAGGED == source);
        let mut found: Vec<_> = of_source.map(|(id, posted)| (posted.order, id)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Keeps a message that no receive accepts, which is younger than all others.
    pub fn keep(&mut self, source: PeerId, tag: Option<u64>, value: U) -> UnexpectedId {
        let exact = Exact::new(Some(source), tag);
        let id = self.unexpected.insert(Unexpected { exact, same: Links::default(), all: Links::default(), value });
        self.unexpected_exact.push_back(&mut self.unexpected, id);
        self.unexpected_all.push_back(&mut self.unexpected, id);
        id
    }

    /// The oldest message that a receive accepts. It stays.
    #[must_use]
    pub fn find_unexpected(&self, source: Option<PeerId>, matching: Option<Match>) -> Option<UnexpectedId> {
        let pattern = Pattern::new(source, matching);
        if source.is_some() && pattern.ignore == 0 {
            return self.unexpected_exact.first(&self.unexpected, pattern.exact);
        }
        let mut id = self.unexpected_all.first();
        while let Some(message) = self.unexpected.get(id) {
            if pattern.takes(message.exact) {
                return Some(id);
            }
            id = Linked::<_, 1>::next(message);
        }
        None
    }

    /// Removes a message. `None` if it is not there any more.
    pub fn take(&mut self, id: UnexpectedId) -> Option<U> {
        if !self.unexpected.contains_key(id) {
            return None;
        }
        self.unexpected_exact.remove(&mut self.unexpected, id);
        self.unexpected_all.remove(&mut self.unexpected, id);
        self.unexpected.remove(id).map(|message| message.value)
    }

    /// The value of a message.
    #[must_use]
    pub fn unexpected(&self, id: UnexpectedId) -> Option<&U> {
        self.unexpected.get(id).map(|message| &message.value)
    }

    /// The number of kept messages.
    #[must_use]
    pub fn unexpected_count(&self) -> usize {
        self.unexpected.len()
    }
}

#[cfg(test)]
mod tests;
