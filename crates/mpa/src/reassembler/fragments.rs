//! Parts of FPDUs, by position.

use core::ops::Range;

/// What is known of the start of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing.
    Unknown,
    /// A marker says that an FPDU begins there.
    Marked,
    /// A marker was wrong. It is not read again.
    Doubtful,
    /// An FPDU begins there: all before it, or the one before it, was one.
    Chained,
}

/// Bytes that follow one another, of an FPDU that is not whole or whose start isn't known.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Start,
}

impl Fragment {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Fragments, in order. They never overlap.
#[derive(Debug)]
pub(super) struct Fragments {
    list: Vec<Fragment>,
    /// Memory of fragments that are no more, so that later fragments need no new memory.
    spare: Vec<Vec<u8>>,
    most_spare: usize,
}

impl Fragments {
    pub(super) fn new(ranges: usize) -> Self {
        Self { list: Vec::with_capacity(ranges + 2), spare: Vec::new(), most_spare: ranges.min(16) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.iter().map(|one| one.bytes.len()).sum()
    }

    /// Bytes at or behind a position.
    pub(super) fn bytes_from(&self, position: u64) -> usize {
        self.list.iter().map(|one| one.end().saturating_sub(one.start.max(position)) as usize).sum()
    }

    /// The end of the one that holds a position.
    pub(super) fn end_of(&self, position: u64) -> Option<u64> {
        let index = self.list.partition_point(|one| one.end() <= position);
        self.list.get(index).filter(|one| one.start <= position).map(Fragment::end)
    }

    /// Where the first begins behind a position.
    pub(super) fn first_after(&self, position: u64) -> Option<u64> {
        self.list.get(self.list.partition_point(|one| one.start <= position)).map(|one| one.start)
    }

    pub(super) fn find(&self, test: impl FnMut(&Fragment) -> bool) -> Option<usize> {
        self.list.iter().position(test)
    }

    pub(super) fn remove(&mut self, index: usize) -> Fragment {
        self.list.remove(index)
    }

    pub(super) fn take_ending_at(&mut self, position: u64) -> Option<Fragment> {
        let index = self.list.partition_point(|one| one.end() < position);
        let is_there = self.list.get(index).is_some_and(|one| one.end() == position);
        is_there.then(|| self.list.remove(index))
    }

    /// Keeps a copy, if there is anything to keep.
    pub(super) fn keep(&mut self, start: u64, bytes: &[u8], kind: Start) {
        if bytes.is_empty() {
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        self.put(Fragment { start, bytes: copy, kind });
    }

    pub(super) fn put(&mut self, fragment: Fragment) {
        let index = self.list.partition_point(|one| one.start < fragment.start);
        debug_assert!(self.list.get(index).is_none_or(|next| next.start >= fragment.end()), "fragments overlap");
        self.list.insert(index, fragment);
    }

    pub(super) fn recycle(&mut self, fragment: Fragment) {
        if self.spare.len() < self.most_spare {
            let mut bytes = fragment.bytes;
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Takes out two that touch, as one. What a marker says about the second is only given up for what is sure about
    /// the first.
    pub(super) fn join(&mut self) -> Option<Fragment> {
        let index = self.list.windows(2).position(|pair| {
            let [first, second] = pair else { return false };
            let may = match (first.kind, second.kind) {
                (Start::Chained, _) => true,
                (Start::Doubtful, _) => false,
                (_, second) => second == Start::Unknown,
            };
            may && first.end() == second.start
        })?;
        let Range { start, end } = index..index + 1;
        let second = self.list.remove(end);
        let mut first = self.list.remove(start);
        first.bytes.extend_from_slice(&second.bytes);
        self.recycle(second);
        Some(first)
    }
}
