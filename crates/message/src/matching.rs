//! Matches messages with receives.
//!
//! A message matches the oldest posted receive that accepts it, and a receive the oldest message that it accepts.
//! Posted receives are in hash tables, one for each set of ignored bits of the tag. Messages with one source and one
//! tag are in a hash table. All messages are in a list too, in order: a search for several tags or sources walks it,
//! and when the walk was long, later ones use an index. A number that grows with each receive decides which of two is
//! older.

mod classes;
mod indexes;
mod pattern;

use slotmap::{SlotMap, new_key_type};
use weft_base::PeerId;

use self::classes::Classes;
use self::indexes::Indexes;
pub use self::pattern::Match;
use self::pattern::{Exact, Pattern};
use crate::chains::{Chained, Chains};
use crate::hash::Seeded;
use crate::list::{Linked, Links, List};

new_key_type! {
    /// Names a posted receive.
    pub struct PostedId;
    /// Names an unexpected message.
    pub struct UnexpectedId;
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
    posted_classes: Classes<PostedId>,
    order: u64,
    unexpected: SlotMap<UnexpectedId, Unexpected<U>>,
    unexpected_exact: Chains<UnexpectedId>,
    unexpected_all: List<UnexpectedId, 1>,
    unexpected_indexes: Indexes<UnexpectedId>,
}

impl<P, U> Matcher<P, U> {
    /// Empty. Peers must not be able to guess the seed, or they can choose tags that make it slow.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            posted: SlotMap::with_key(),
            posted_classes: Classes::new(Seeded::new(seed)),
            order: 0,
            unexpected: SlotMap::with_key(),
            unexpected_exact: Chains::new(Seeded::new(seed.wrapping_add(1))),
            unexpected_all: List::default(),
            unexpected_indexes: Indexes::new(Seeded::new(seed.wrapping_add(2))),
        }
    }

    /// Posts a receive, which is younger than all others: from a source or from any; of these tags, or (`None`) of
    /// untagged messages.
    pub fn post(&mut self, source: Option<PeerId>, matching: Option<Match>, value: P) -> PostedId {
        let pattern = Pattern::new(source, matching);
        self.order += 1;
        let id = self.posted.insert(Posted { pattern, order: self.order, links: Links::default(), value });
        self.posted_classes.push_back(&mut self.posted, id, pattern);
        id
    }

    /// Removes a receive. `None` if it is not posted any more.
    pub fn unpost(&mut self, id: PostedId) -> Option<P> {
        let pattern = self.posted.get(id)?.pattern;
        self.posted_classes.remove(&mut self.posted, id, pattern);
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
        self.posted_classes.oldest(&self.posted, message, |posted| posted.order)
    }

    /// The oldest posted receive for which `is_it` holds. Walks all of them.
    pub fn find_posted_by(&self, mut is_it: impl FnMut(&P) -> bool) -> Option<PostedId> {
        let fitting = self.posted.iter().filter(|(_, posted)| is_it(&posted.value));
        fitting.min_by_key(|(_, posted)| posted.order).map(|(id, _)| id)
    }

    /// The posted receives for this source alone, oldest first. Walks all of them.
    #[must_use]
    pub fn posted_for(&self, source: PeerId) -> Vec<PostedId> {
        let of_source = self.posted.iter().filter(|(_, posted)| posted.pattern.exact.is_from(source));
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
        self.unexpected_indexes.push(exact, id);
        id
    }

    /// The oldest message that a receive accepts. It stays.
    pub fn find_unexpected(&mut self, source: Option<PeerId>, matching: Option<Match>) -> Option<UnexpectedId> {
        let pattern = Pattern::new(source, matching);
        if pattern.is_exact() {
            return self.unexpected_exact.first(&self.unexpected, pattern.exact);
        }
        if let Some(found) = self.unexpected_indexes.find(&self.unexpected, pattern) {
            return found;
        }
        let mut passed = 0;
        let found = in_order(&self.unexpected, self.unexpected_all.first())
            .inspect(|_| passed += 1)
            .find(|(_, exact)| pattern.takes(*exact))
            .map(|(id, _)| id);
        let all = in_order(&self.unexpected, self.unexpected_all.first());
        self.unexpected_indexes.make(pattern, passed, all);
        found
    }

    /// Removes a message. `None` if it is not there any more.
    pub fn take(&mut self, id: UnexpectedId) -> Option<U> {
        let exact = self.unexpected.get(id)?.exact;
        self.unexpected_exact.remove(&mut self.unexpected, id);
        self.unexpected_all.remove(&mut self.unexpected, id);
        let message = self.unexpected.remove(id)?;
        self.unexpected_indexes.taken(exact, id, self.unexpected.len());
        Some(message.value)
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

/// The messages from this one on, oldest first.
fn in_order<U>(
    messages: &SlotMap<UnexpectedId, Unexpected<U>>,
    first: UnexpectedId,
) -> impl Iterator<Item = (UnexpectedId, Exact)> {
    let next = |(id, _): &(UnexpectedId, Exact)| {
        let next = Linked::<_, 1>::next(&messages[*id]);
        messages.get(next).map(|message| (next, message.exact))
    };
    core::iter::successors(messages.get(first).map(|message| (first, message.exact)), next)
}

#[cfg(test)]
mod tests;
