//! Where the bytes of a datatype are: runs without gaps, in the order in which MPI packs them.

use weft::window::Element;

/// Bytes without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Of the first byte, from where the datatype begins.
    pub(crate) offset: isize,
    pub(crate) length: usize,
}

/// Of what a datatype is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// Of nothing yet.
    Empty,
    /// All of one kind of element.
    Of(Element),
    /// Of several kinds, or of such as Weft does not have.
    Mixed,
}

impl Made {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Empty) | (Self::Empty, one) => one,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }
}

/// The bytes of one element of a datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) runs: Vec<Run>,
    /// From one element to the next.
    pub(crate) extent: isize,
    pub(crate) made: Made,
}

/// Whether there are bytes of an element that mean nothing.
pub(crate) fn has_gaps(element: Element) -> bool {
    element.parts().iter().map(|(_, length)| length).sum::<usize>() < element.size()
}

/// Runs that a datatype has at most.
pub(crate) const MOST_RUNS: usize = 1 << 24;

impl Layout {
    pub(crate) const fn empty(extent: isize) -> Self {
        Self { runs: Vec::new(), extent, made: Made::Empty }
    }

    /// Bytes without a gap.
    pub(crate) fn plain(size: usize, extent: isize, element: Option<Element>) -> Self {
        let made = element.map_or(Made::Mixed, Made::Of);
        let runs = if size == 0 { Vec::new() } else { vec![Run { offset: 0, length: size }] };
        Self { runs, extent, made }
    }

    /// One element of a predefined type. As a `whole` the gaps of a pair are part of it: what accumulates takes each
    /// element as one, and leaves its gaps alone.
    pub(crate) fn of(element: Element, whole: bool) -> Self {
        let size = element.size();
        if whole || !has_gaps(element) {
            return Self::plain(size, size as isize, Some(element));
        }
        let mut runs = Vec::new();
        for &(offset, length) in element.parts() {
            push(&mut runs, Run { offset: offset as isize, length });
        }
        Self { runs, extent: size as isize, made: Made::Of(element) }
    }

    /// Adds `count` elements of another type, the first one at `offset`. `None`: there are too many runs.
    pub(crate) fn add(&mut self, inner: &Self, offset: isize, count: usize) -> Option<()> {
        if count > 0 && !inner.runs.is_empty() {
            self.made = self.made.and(inner.made);
        }
        let mut runs = core::mem::take(&mut self.runs);
        let outcome = inner.repeat(offset, count, |run| push(&mut runs, run));
        self.runs = runs;
        outcome
    }

    /// The runs of `count` elements of which the first one is at `offset`: those that touch are not joined, but for
    /// elements that are one run without a gap between them.
    pub(crate) fn repeat(&self, offset: isize, count: usize, mut each: impl FnMut(Run) -> Option<()>) -> Option<()> {
        if let [run] = self.runs[..]
            && run.length as isize == self.extent
        {
            let length = run.length.checked_mul(count)?;
            return if length == 0 { Some(()) } else { each(Run { offset: offset.checked_add(run.offset)?, length }) };
        }
        for at in 0..count {
            let base = offset.checked_add(self.extent.checked_mul(isize::try_from(at).ok()?)?)?;
            for run in &self.runs {
                each(Run { offset: base.checked_add(run.offset)?, length: run.length })?;
            }
        }
        Some(())
    }
}

/// Adds a run behind others: to the last one, if it begins where that ends.
pub(crate) fn push(runs: &mut Vec<Run>, run: Run) -> Option<()> {
    if let Some(last) = runs.last_mut()
        && last.offset.checked_add_unsigned(last.length) == Some(run.offset)
    {
        last.length += run.length;
        return Some(());
    }
    if runs.len() >= MOST_RUNS {
        return None;
    }
    runs.push(run);
    Some(())
}

/// Walks along runs: takes bytes from where it is.
pub(crate) struct Walk<'a> {
    runs: &'a [Run],
    /// Bytes of the first run that were taken.
    taken: usize,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(runs: &'a [Run]) -> Self {
        Self { runs, taken: 0 }
    }

    /// The pieces of the next `length` bytes; fewer at the end.
    pub(crate) fn take(&mut self, mut length: usize, mut each: impl FnMut(Run)) {
        while length > 0
            && let Some(run) = self.runs.first()
        {
            let piece = length.min(run.length - self.taken);
            each(Run { offset: run.offset + self.taken as isize, length: piece });
            length -= piece;
            self.taken += piece;
            if self.taken == run.length {
                (self.runs, self.taken) = (&self.runs[1..], 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pairs: &[(isize, usize)]) -> Vec<Run> {
        pairs.iter().map(|&(offset, length)| Run { offset, length }).collect()
    }

    #[test]
    fn elements_without_gaps_are_one_run() {
        let int = Layout::plain(4, 4, Some(Element::I32));
        let mut all = Layout::empty(40);
        all.add(&int, 8, 10).unwrap();
        assert_eq!((all.runs, all.made), (runs(&[(8, 40)]), Made::Of(Element::I32)));
    }

    #[test]
    fn gaps_of_pairs_are_left_out_but_where_they_are_taken_whole() {
        for (element, pieces) in [
            (Element::I16AndI32, runs(&[(0, 2), (4, 4)])),
            (Element::F64AndI32, runs(&[(0, 12)])),
            (Element::LongDoubleAndI32, runs(&[(0, 20)])),
            (Element::I32AndI32, runs(&[(0, 8)])),
        ] {
            let mut two = Layout::empty(0);
            two.add(&Layout::of(element, true), 0, 2).unwrap();
            assert_eq!(two.runs, runs(&[(0, 2 * element.size())]), "{element:?}");
            assert_eq!(Layout::of(element, false).runs, pieces, "{element:?}");
        }
    }

    #[test]
    fn a_vector_has_a_run_for_each_block() {
        let int = Layout::plain(4, 4, Some(Element::I32));
        let mut vector = Layout::empty(20);
        for block in 0..2 {
            vector.add(&int, block * 12, 2).unwrap();
        }
        assert_eq!(vector.runs, runs(&[(0, 8), (12, 8)]));
        // The second one begins where the first one ends.
        let mut two = Layout::empty(40);
        two.add(&vector, 0, 2).unwrap();
        assert_eq!(two.runs, runs(&[(0, 8), (12, 16), (32, 8)]));
    }

    #[test]
    fn other_kinds_and_none_are_told_apart() {
        let mut both = Layout::empty(12);
        both.add(&Layout::plain(8, 8, Some(Element::F64)), 0, 1).unwrap();
        both.add(&Layout::plain(4, 4, Some(Element::I32)), 8, 0).unwrap();
        assert_eq!(both.made, Made::Of(Element::F64));
        both.add(&Layout::plain(4, 4, Some(Element::I32)), 8, 1).unwrap();
        assert_eq!((both.made, both.runs), (Made::Mixed, runs(&[(0, 12)])));
    }

    #[test]
    fn what_overflows_is_refused() {
        let far = Layout { runs: runs(&[(0, 1)]), extent: isize::MAX, made: Made::Mixed };
        assert_eq!(Layout::empty(0).add(&far, 0, 3), None);
    }

    #[test]
    fn a_walk_cuts_runs_and_goes_on_behind() {
        let all = runs(&[(0, 4), (10, 4)]);
        let mut walk = Walk::new(&all);
        let mut take = |length| {
            let mut got = Vec::new();
            walk.take(length, |run| got.push((run.offset, run.length)));
            got
        };
        assert_eq!(take(3), [(0, 3)]);
        assert_eq!(take(3), [(3, 1), (10, 2)]);
        assert_eq!(take(9), [(12, 2)]);
        assert_eq!(take(1), []);
    }
}
