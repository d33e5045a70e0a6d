//! Finding the FPDUs of a stream whose bytes come in any order (RFC 5044 section 6 and appendix B).

use core::ops::Range;

use weft_base::StreamPosition;
use weft_wire::mpa::{MARKER_LENGTH, MarkerSpacing, marker_pointer};

use crate::shape::Grid;
use crate::{Deframer, Frame, FrameError, Peek};

mod fragments;
#[cfg(test)]
mod tests;

use fragments::{Fragment, Fragments, Start};

/// No FPDU is longer on the wire: a length field of 16 bits, a pad, a CRC, and the closest markers, rounded up.
pub const LARGEST_FPDU: u64 = 66_560;

/// What a [`Reassembler`] may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblerLimits {
    /// Bytes of parts of FPDUs that are more than [`LARGEST_FPDU`] beyond the first gap. As many as that may be kept
    /// before it, too, so that the stream always makes progress.
    pub bytes: usize,
    /// Parts of FPDUs, and stretches of whole ones, beyond the first gap.
    pub ranges: usize,
}

impl Default for ReassemblerLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, ranges: 256 }
    }
}

/// The receiving end of one direction of a stream that shows its bytes as they come. The lower layer gives their
/// positions; FPDUs are handed up at once, whole and verified, each once; what is not yet part of a whole one is kept.
///
/// An FPDU is found in the three ways of RFC 5044 section 6 and no other: behind all that came before it, by a marker
/// in it, or behind one that a marker found. One that only a marker points to is believed when its CRC is good; if it
/// isn't, the marker may be wrong, and what is there waits until the stream has come to it. So without CRCs, or without
/// markers, FPDUs are found in order only.
#[derive(Debug)]
pub struct Reassembler {
    grid: Grid,
    crc: bool,
    limits: ReassemblerLimits,
    /// All before it was handed up.
    next: u64,
    /// What was handed up beyond it: neither overlapping nor touching, in order.
    done: Vec<Range<u64>>,
    fragments: Fragments,
    /// FPDUs that were handed up before their turn.
    early: u64,
}

/// The result of a search for FPDUs in bytes of a stream.
struct Chained {
    /// How many of them were whole FPDUs, from the start on.
    used: usize,
    /// The first of them was no FPDU, though a marker pointed to it as one.
    is_doubtful: bool,
}

impl Reassembler {
    /// At the start of the stream, right after the start-up frames; `markers` and `crc` as in [`Deframer::new`].
    #[must_use]
    pub fn new(markers: Option<MarkerSpacing>, crc: bool, limits: ReassemblerLimits) -> Self {
        Self {
            grid: Grid::new(markers),
            crc,
            limits,
            next: 0,
            done: Vec::with_capacity(limits.ranges + 1),
            fragments: Fragments::new(limits.ranges),
            early: 0,
        }
    }

    /// Up to where all FPDUs have been handed up.
    #[must_use]
    pub const fn position(&self) -> StreamPosition {
        StreamPosition(self.next)
    }

    /// Bytes of parts of FPDUs that are kept.
    #[must_use]
    pub fn held(&self) -> usize {
        self.fragments.bytes()
    }

    /// FPDUs that were handed up before others that come before them.
    #[must_use]
    pub const fn early(&self) -> u64 {
        self.early
    }

    /// Whether all that came was whole FPDUs without a gap: where a stream may end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.is_empty() && self.fragments.is_empty()
    }

    /// Takes bytes that belong at a position, and gives `give` each FPDU that they make whole, with where it begins and
    /// ends, verified. What came before is skipped. False: not all of it could be kept; it has to come again, whole.
    ///
    /// # Errors
    /// An FPDU is damaged, or contradicts another one: the stream is of no use any more.
    pub fn take(
        &mut self,
        position: StreamPosition,
        bytes: &[u8],
        give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>),
    ) -> Result<bool, FrameError> {
        let end = position.0 + bytes.len() as u64;
        let mut at = position.0;
        let mut all_kept = true;
        while let Some(missing) = self.first_missing(at..end) {
            at = missing.end;
            if self.is_full(&missing) {
                all_kept = false;
                continue;
            }
            let piece = (missing.start - position.0) as usize..(missing.end - position.0) as usize;
            self.add(missing.start, &bytes[piece], give)?;
            self.mend(give)?;
        }
        Ok(all_kept)
    }

    /// The first part of `wanted` that has not come.
    fn first_missing(&self, wanted: Range<u64>) -> Option<Range<u64>> {
        let mut start = wanted.start.max(self.next);
        loop {
            let done = self.done.iter().find(|range| range.contains(&start)).map(|range| range.end);
            let Some(end) = done.or_else(|| self.fragments.end_of(start)) else { break };
            start = end;
        }
        let done = self.done.iter().map(|range| range.start).find(|begin| *begin > start);
        let held = self.fragments.first_after(start);
        let end = [done, held].into_iter().flatten().fold(wanted.end, u64::min);
        (start < end).then_some(start..end)
    }

    /// Whether this may not be kept. What is within reach of the first gap always may.
    fn is_full(&self, piece: &Range<u64>) -> bool {
        if piece.end <= self.next + LARGEST_FPDU {
            return false;
        }
        let length = (piece.end - piece.start) as usize;
        self.fragments.bytes_from(self.next + LARGEST_FPDU) + length > self.limits.bytes
            || self.done.len() + self.fragments.len() + 2 > self.limits.ranges
    }

    /// Whether an FPDU begins there, for sure.
    fn is_start(&self, position: u64) -> bool {
        position == self.next || self.done.iter().any(|range| range.end == position)
    }

    /// A piece that was not there.
    fn add(
        &mut self,
        mut start: u64,
        mut piece: &[u8],
        give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>),
    ) -> Result<(), FrameError> {
        if let Some(mut before) = self.fragments.take_ending_at(start) {
            let missing = self.missing_of(&before, piece)?;
            let (now, rest) = piece.split_at(missing);
            before.bytes.extend_from_slice(now);
            self.settle(before, give)?;
            (start, piece) = (start + missing as u64, rest);
        }
        if piece.is_empty() {
            return Ok(());
        }
        let kind = if self.is_start(start) { Start::Chained } else { Start::Unknown };
        self.search(start, piece, kind, give)
    }

    /// How much of what comes behind a fragment belongs to it: what its FPDU is short of, or all, when that isn't
    /// known.
    fn missing_of(&self, fragment: &Fragment, behind: &[u8]) -> Result<usize, FrameError> {
        if fragment.kind != Start::Chained {
            return Ok(behind.len());
        }
        // The length field is in the first eight bytes, behind a marker.
        let mut head = [0; 8];
        let mut filled = 0;
        for (to, from) in head.iter_mut().zip(fragment.bytes.iter().chain(behind)) {
            *to = *from;
            filled += 1;
        }
        let missing = match self.at(fragment.start).peek(&head[..filled])? {
            Peek::More { .. } => behind.len(),
            Peek::Head(head) => head.wire_length - fragment.bytes.len().min(head.wire_length),
        };
        Ok(missing.min(behind.len()))
    }

    const fn at(&self, position: u64) -> Deframer {
        Deframer::at(self.grid, self.crc, StreamPosition(position))
    }

    /// Searches bytes anywhere in the stream for FPDUs, and keeps what is not part of a whole one.
    fn search(
        &mut self,
        start: u64,
        bytes: &[u8],
        kind: Start,
        give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>),
    ) -> Result<(), FrameError> {
        let (first, kind) = match kind {
            Start::Unknown => match self.marked_start(start, bytes) {
                Some(first) => (first, Start::Marked),
                None => {
                    self.fragments.keep(start, bytes, kind);
                    return Ok(());
                }
            },
            kind => (start, kind),
        };
        let (head, body) = bytes.split_at((first - start) as usize);
        let chained = self.chain(first, body, kind, give)?;
        if chained.is_doubtful {
            self.fragments.keep(start, bytes, Start::Doubtful);
            return Ok(());
        }
        self.fragments.keep(start, head, Start::Unknown);
        let kind = if chained.used > 0 { Start::Chained } else { kind };
        self.fragments.keep(first + chained.used as u64, &body[chained.used..], kind);
        Ok(())
    }

    /// The first FPDU that begins in these bytes and that a marker in them points to.
    fn marked_start(&self, start: u64, bytes: &[u8]) -> Option<u64> {
        let spacing = u64::from(self.grid.markers().filter(|_| self.crc)?.bytes());
        let end = start + bytes.len() as u64;
        let first = start.next_multiple_of(spacing);
        let markers = (first..end).step_by(spacing as usize);
        let mut starts = markers.filter_map(|at| {
            let marker = bytes[(at - start) as usize..].first_chunk::<MARKER_LENGTH>()?;
            let field = at.checked_sub(u64::from(marker_pointer(*marker)))?;
            // A marker right before the length field is part of the FPDU (RFC 5044 section 4.3).
            if field % spacing == MARKER_LENGTH as u64 { Some(field - MARKER_LENGTH as u64) } else { Some(field) }
        });
        starts.find(|found| *found >= start)
    }

    /// Hands up FPDU after FPDU, as long as they are whole. The first begins at `start`.
    fn chain(
        &mut self,
        start: u64,
        bytes: &[u8],
        mut kind: Start,
        give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>),
    ) -> Result<Chained, FrameError> {
        let mut used = 0;
        loop {
            let at = start + used as u64;
            match self.next_frame(at, &bytes[used..]) {
                Ok(None) => return Ok(Chained { used, is_doubtful: false }),
                Ok(Some(frame)) => {
                    let length = frame.wire_length();
                    let end = at + length as u64;
                    give(StreamPosition(at)..StreamPosition(end), frame);
                    self.early += u64::from(at != self.next);
                    self.note(at..end);
                    used += length;
                    kind = Start::Chained;
                }
                Err(error) if kind == Start::Chained => return Err(error),
                Err(_) => return Ok(Chained { used, is_doubtful: true }),
            }
        }
    }

    /// The FPDU that begins at `start`, when all of it is there.
    fn next_frame<'a>(&self, start: u64, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        let deframer = self.at(start);
        let Peek::Head(head) = deframer.peek(bytes)? else { return Ok(None) };
        if let Some(other) = self.done.iter().find(|range| range.start >= start && range.start < head.end.0) {
            return Err(FrameError::Overlap { start: head.start, other: StreamPosition(other.start) });
        }
        let Some(frame) = deframer.frame(&head, bytes) else { return Ok(None) };
        frame.verify()?;
        Ok(Some(frame))
    }

    /// Remembers what was handed up.
    fn note(&mut self, range: Range<u64>) {
        if range.start == self.next {
            self.next = range.end;
            if self.done.first().is_some_and(|first| first.start == self.next) {
                self.next = self.done.remove(0).end;
            }
            return;
        }
        let index = self.done.partition_point(|other| other.start < range.start);
        let joins_next = self.done.get(index).is_some_and(|next| next.start == range.end);
        let end = if joins_next { self.done.remove(index).end } else { range.end };
        match index
            .checked_sub(1)
            .and_then(|before| self.done.get_mut(before))
            .filter(|before| before.end == range.start)
        {
            Some(before) => before.end = end,
            None => self.done.insert(index, range.start..end),
        }
    }

    /// Searches a fragment that has grown, or of which more is known.
    fn settle(
        &mut self,
        fragment: Fragment,
        give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>),
    ) -> Result<(), FrameError> {
        let kind = if self.is_start(fragment.start) { Start::Chained } else { fragment.kind };
        if kind == Start::Doubtful {
            self.fragments.put(fragment);
            return Ok(());
        }
        self.search(fragment.start, &fragment.bytes, kind, give)?;
        self.fragments.recycle(fragment);
        Ok(())
    }

    /// Joins what touches, and continues where something has become known.
    fn mend(&mut self, give: &mut impl FnMut(Range<StreamPosition>, Frame<'_>)) -> Result<(), FrameError> {
        while !self.fragments.is_empty() {
            let known = self.fragments.find(|one| one.kind != Start::Chained && self.is_start(one.start));
            if let Some(index) = known {
                let fragment = self.fragments.remove(index);
                self.settle(fragment, give)?;
            } else if let Some(joined) = self.fragments.join() {
                self.settle(joined, give)?;
            } else {
                break;
            }
        }
        Ok(())
    }
}
