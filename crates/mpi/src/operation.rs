//! What a program does to the windows of others, in terms of Weft's operations.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::slice;

use weft::window::{Block, Combine, Element, Layout, Request};
use weft_memory::Buffer;

use crate::abi::{Aint, Count, Handle, Op, abi};
use crate::datatype;
use crate::fault::Fault;
use crate::layout::{Made, Run, Walk, has_gaps, push};
use crate::report::COUNTS;
use crate::served::{Served, Side};

/// Operations of a window that are in flight, at most: further ones wait for the oldest.
pub(crate) const OPERATIONS: u32 = 4096;
/// Bytes of one of Weft's operations, at most: longer runs are cut. A multiple of each element's size.
const LONGEST: usize = 1 << 30;
/// This many bytes are copied when they are put; more stay where they are until they have been sent.
const COPIED: usize = 16 * 1024;

/// In place of an address: what belongs there is thrown away.
const NOWHERE: usize = 0;

/// Memory of the program, as a call names it.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) base: *mut u8,
    pub(crate) count: Count,
    pub(crate) kind: Handle,
}

/// A place in the window of a rank, as a call names it.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) rank: c_int,
    pub(crate) at: Aint,
    pub(crate) count: Count,
    pub(crate) kind: Handle,
}

/// An operation that may not be over yet.
pub(crate) struct UnderWay {
    pub(crate) side: Side,
    pub(crate) rank: usize,
    pub(crate) request: Request,
    /// Where in this process's memory what it gets goes: address, or [`NOWHERE`], and bytes.
    into: Vec<(usize, usize)>,
}

/// Lists that are used again and again.
#[derive(Default)]
pub(crate) struct Scratch {
    origin: Vec<Run>,
    theirs: Vec<Run>,
    pieces: Vec<Run>,
    packed: Vec<u8>,
}

impl Scratch {
    /// The runs of memory of the program, and of the window of a rank: how many bytes, and of what they are made. With
    /// `whole` pairs are taken with their gaps.
    fn resolve(
        &mut self,
        origin: Origin,
        target: Target,
        part: crate::served::Part,
        whole: bool,
    ) -> Result<(usize, Made), Fault> {
        let here = spread(origin.kind, origin.count, 0, whole, &mut self.origin)?;
        let wrong = || Fault::range(format!("displacement {}: no place in memory", target.at));
        let unit = isize::try_from(part.unit).map_err(|_| wrong())?;
        let start = target.at.checked_mul(unit).ok_or_else(wrong)?;
        let there = spread(target.kind, target.count, start, whole, &mut self.theirs)?;
        inside(&self.theirs, target.rank, part.bytes)?;
        let (from, to) = (total(&self.origin), total(&self.theirs));
        if from != to {
            let words = format!("{from} bytes here, and {to} bytes in the window of rank {}", target.rank);
            return Err(Fault { code: abi().classes.argument, words });
        }
        let is_alike = here == there || here == Made::Empty;
        Ok((to, if is_alike { there } else { Made::Mixed }))
    }

    /// The next elements of the program's memory, whole: the gaps in them are not read, and go out as zeros.
    ///
    /// # Safety
    /// As for [`Scratch::gather`].
    unsafe fn gather_elements(
        &mut self,
        walk: &mut Walk<'_>,
        base: *const u8,
        length: usize,
        element: Element,
    ) -> &[u8] {
        if !has_gaps(element) {
            // SAFETY: The caller's promise.
            return unsafe { self.gather(walk, base, length) };
        }
        let Self { packed, .. } = self;
        packed.clear();
        walk.take(length, |run| {
            for at in (0..run.length).step_by(element.size()) {
                let start = packed.len();
                packed.resize(start + element.size(), 0);
                for &(offset, length) in element.parts() {
                    // SAFETY: The caller's promise: the parts of an element can be read.
                    let part = unsafe { slice::from_raw_parts(base.offset(run.offset).add(at + offset), length) };
                    packed[start + offset..start + offset + length].copy_from_slice(part);
                }
            }
        });
        &self.packed
    }

    /// The next bytes of the program's memory, as they go out: where they lie, or packed.
    ///
    /// # Safety
    /// They can be read, and nothing writes them meanwhile.
    unsafe fn gather(&mut self, walk: &mut Walk<'_>, base: *const u8, length: usize) -> &[u8] {
        self.pieces.clear();
        walk.take(length, |run| self.pieces.push(run));
        if let [run] = self.pieces[..] {
            // SAFETY: The caller's promise.
            return unsafe { slice::from_raw_parts(base.offset(run.offset), run.length) };
        }
        self.packed.clear();
        for run in &self.pieces {
            // SAFETY: As above.
            self.packed.extend_from_slice(unsafe { slice::from_raw_parts(base.offset(run.offset), run.length) });
        }
        &self.packed
    }
}

fn total(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.length).sum()
}

/// The runs of `count` elements of a datatype from byte `offset` on.
fn spread(kind: Handle, count: Count, offset: isize, whole: bool, runs: &mut Vec<Run>) -> Result<Made, Fault> {
    runs.clear();
    let words = || format!("a count of {count}");
    let count = usize::try_from(count).map_err(|_| Fault { code: abi().classes.count, words: words() })?;
    let too_large = || Fault::kind(format!("{count} elements of a datatype: too many pieces, or they wrap"));
    if let Some(element) = abi().element(abi().handle(kind)).filter(|element| whole || !has_gaps(*element)) {
        let length = count.checked_mul(element.size()).ok_or_else(too_large)?;
        if length > 0 {
            runs.push(Run { offset, length });
        }
        return Ok(Made::Of(element));
    }
    let layout = datatype::layout(kind, whole)?;
    layout.repeat(offset, count, |run| push(runs, run)).ok_or_else(too_large)?;
    Ok(layout.made)
}

fn inside(runs: &[Run], rank: c_int, bytes: u64) -> Result<(), Fault> {
    let is_inside = |run: &&Run| {
        let start = u64::try_from(run.offset).ok();
        start.and_then(|start| start.checked_add(run.length as u64)).is_some_and(|end| end <= bytes)
    };
    match runs.iter().find(|run| !is_inside(run)) {
        None => Ok(()),
        Some(Run { offset, length }) => Err(Fault::range(format!(
            "{length} bytes from {offset} on in the window of rank {rank}, which has {bytes} bytes: not inside"
        ))),
    }
}

/// Runs that go as one operation, at most.
const MOST_TOGETHER: usize = 4096;

/// How many of the first runs go as one operation: short ones do, whose places a layout can name.
fn together(runs: &[Run]) -> usize {
    let (mut low, mut high) = (isize::MAX, isize::MIN);
    let fits = |run: &&Run| {
        (low, high) = (low.min(run.offset), high.max(run.offset + run.length as isize));
        run.length <= COPIED && high - low <= u32::MAX as isize
    };
    runs.iter().take(MOST_TOGETHER).take_while(fits).count().max(1)
}

/// Where runs lie: the first byte of all, and each from there on.
fn laid(runs: &[Run]) -> Result<(u64, Layout), Fault> {
    let base = runs.iter().map(|run| run.offset).min().unwrap_or(0);
    let block = |run: &Run| Block { offset: (run.offset - base) as u64, length: run.length as u32 };
    let layout = Layout::indexed(&runs.iter().map(block).collect::<Vec<Block>>());
    Ok((base as u64, layout.map_err(|error| Fault::kind(error.to_string()))?))
}

/// The pieces of a run that are one operation each: first byte and length.
fn cut(run: Run) -> impl Iterator<Item = (u64, usize)> {
    let start = run.offset as u64;
    (0..run.length).step_by(LONGEST).map(move |at| (start + at as u64, LONGEST.min(run.length - at)))
}

impl Served {
    /// MPI_Put. With `keep` the bytes are copied: the call has a request of its own, which is over at once.
    ///
    /// # Safety
    /// What the call names can be read until its epoch ends.
    pub(crate) unsafe fn put(&mut self, origin: Origin, target: Target, keep: bool) -> Result<(), Fault> {
        let Some(rank) = self.rank(target.rank)? else { return Ok(()) };
        let mut scratch = core::mem::take(&mut self.scratch);
        // SAFETY: The caller's promise.
        let outcome = scratch
            .resolve(origin, target, self.parts[rank], false)
            .and_then(|(bytes, _)| unsafe { self.put_runs(&mut scratch, origin, rank, keep) }.map(|()| bytes));
        self.scratch = scratch;
        COUNTS.puts.count(outcome?);
        Ok(())
    }

    unsafe fn put_runs(&mut self, scratch: &mut Scratch, origin: Origin, rank: usize, keep: bool) -> Result<(), Fault> {
        let (here, there) = (core::mem::take(&mut scratch.origin), core::mem::take(&mut scratch.theirs));
        let mut walk = Walk::new(&here);
        let side = self.side_of(rank);
        let mut left = &there[..];
        while let Some(count) = Some(together(left)).filter(|_| !left.is_empty()) {
            let (now, later) = left.split_at(count);
            left = later;
            if count > 1 {
                self.make_room()?;
                let (base, layout) = laid(now)?;
                // SAFETY: The caller's promise.
                let bytes = unsafe { scratch.gather(&mut walk, origin.base, total(now)) };
                let from = Layout::contiguous(layout.length());
                let request = self.window(side).put_layout(rank, base, &layout, bytes, &from)?;
                self.note(side, rank, request, Vec::new());
                continue;
            }
            // SAFETY: As above.
            unsafe { self.put_run(scratch, (&mut walk, origin.base, here.len() == 1), (side, rank), now[0], keep) }?;
        }
        (scratch.origin, scratch.theirs) = (here, there);
        Ok(())
    }

    /// Puts one run. `is_one`: the program's bytes lie in one piece.
    ///
    /// # Safety
    /// As for [`Served::put`].
    unsafe fn put_run(
        &mut self,
        scratch: &mut Scratch,
        (walk, base, is_one): (&mut Walk<'_>, *const u8, bool),
        (side, rank): (Side, usize),
        run: Run,
        keep: bool,
    ) -> Result<(), Fault> {
        for (offset, length) in cut(run) {
            self.make_room()?;
            // SAFETY: The caller's promise.
            let bytes = unsafe { scratch.gather(walk, base, length) };
            let window = self.window(side);
            let request = if keep || length <= COPIED {
                window.put(rank, offset, bytes)
            } else if is_one {
                // SAFETY: MPI leaves the bytes alone until the epoch ends, before which the operation is over. They
                // are only read.
                let lent = unsafe { Buffer::foreign(NonNull::from(bytes).cast(), length) };
                window.put_owned(rank, offset, lent)
            } else {
                window.put_owned(rank, offset, bytes.to_vec())
            }?;
            self.note(side, rank, request, Vec::new());
        }
        Ok(())
    }

    /// MPI_Get.
    ///
    /// # Safety
    /// What the call names can be written until its epoch ends.
    pub(crate) unsafe fn get(&mut self, origin: Origin, target: Target) -> Result<(), Fault> {
        let Some(rank) = self.rank(target.rank)? else { return Ok(()) };
        let mut scratch = core::mem::take(&mut self.scratch);
        let outcome = scratch.resolve(origin, target, self.parts[rank], false);
        let outcome = outcome.and_then(|(bytes, _)| self.get_runs(&scratch, origin, rank).map(|()| bytes));
        self.scratch = scratch;
        COUNTS.gets.count(outcome?);
        Ok(())
    }

    fn get_runs(&mut self, scratch: &Scratch, origin: Origin, rank: usize) -> Result<(), Fault> {
        let mut walk = Walk::new(&scratch.origin);
        let side = self.side_of(rank);
        let mut left = &scratch.theirs[..];
        while let Some(count) = Some(together(left)).filter(|_| !left.is_empty()) {
            let (now, later) = left.split_at(count);
            left = later;
            if count > 1 {
                self.make_room()?;
                let (base, layout) = laid(now)?;
                let request = self.window(side).get_layout(rank, base, &layout)?;
                self.note(side, rank, request, destinations(&mut walk, origin.base, total(now), Element::U8));
                continue;
            }
            self.get_run((&mut walk, origin.base), (side, rank), now[0])?;
        }
        Ok(())
    }

    fn get_run(
        &mut self,
        (walk, base): (&mut Walk<'_>, *mut u8),
        (side, rank): (Side, usize),
        run: Run,
    ) -> Result<(), Fault> {
        for (offset, length) in cut(run) {
            self.make_room()?;
            let request = self.window(side).get(rank, offset, length as u32)?;
            self.note(side, rank, request, destinations(walk, base, length, Element::U8));
        }
        Ok(())
    }

    /// MPI_Accumulate.
    ///
    /// # Safety
    /// What the call names can be read now.
    pub(crate) unsafe fn accumulate(&mut self, origin: Origin, target: Target, op: Handle) -> Result<(), Fault> {
        // SAFETY: The caller's promise.
        unsafe { self.combine(origin, None, target, op) }
    }

    /// MPI_Get_accumulate.
    ///
    /// # Safety
    /// As [`Served::accumulate`]; the result can be written until the epoch ends.
    pub(crate) unsafe fn fetch(
        &mut self,
        origin: Origin,
        result: Origin,
        target: Target,
        op: Handle,
    ) -> Result<(), Fault> {
        // SAFETY: The caller's promise.
        unsafe { self.combine(origin, Some(result), target, op) }
    }

    unsafe fn combine(
        &mut self,
        origin: Origin,
        result: Option<Origin>,
        target: Target,
        op: Handle,
    ) -> Result<(), Fault> {
        let Some(rank) = self.rank(target.rank)? else { return Ok(()) };
        let (combine, locates) = combine(op, result.is_some())?;
        // Without an operand, what the call says of it has no meaning.
        let origin = if combine == Combine::Read { result.unwrap_or(origin) } else { origin };
        let mut scratch = core::mem::take(&mut self.scratch);
        let outcome = scratch.resolve(origin, target, self.parts[rank], true).and_then(|(bytes, made)| {
            let element = element(made, combine, locates)?;
            let mut into = Vec::new();
            if let Some(result) = result {
                spread(result.kind, result.count, 0, true, &mut into)?;
                same(total(&into), bytes)?;
            }
            let kind = (element, combine);
            // SAFETY: The caller's promise.
            unsafe { self.combine_runs(&mut scratch, origin, result.map(|result| (result, into)), rank, kind) }?;
            Ok(bytes)
        });
        self.scratch = scratch;
        COUNTS.accumulates.count(outcome?);
        Ok(())
    }

    unsafe fn combine_runs(
        &mut self,
        scratch: &mut Scratch,
        origin: Origin,
        result: Option<(Origin, Vec<Run>)>,
        rank: usize,
        (element, combine): (Element, Combine),
    ) -> Result<(), Fault> {
        let (here, there) = (core::mem::take(&mut scratch.origin), core::mem::take(&mut scratch.theirs));
        let mut walk = Walk::new(&here);
        let mut results = result.as_ref().map(|(result, runs)| (result.base, Walk::new(runs)));
        let side = self.side_of(rank);
        for (offset, length) in there.iter().copied().flat_map(cut) {
            self.make_room()?;
            // SAFETY: The caller's promise. Without an operand these are the result's, which mean nothing.
            let bytes = unsafe { scratch.gather_elements(&mut walk, origin.base, length, element) };
            let window = self.window(side);
            let (request, into) = match &mut results {
                None => (window.accumulate(rank, offset, element, combine, bytes)?, Vec::new()),
                Some((base, walk)) => {
                    let request = window.fetch(rank, offset, element, combine, bytes)?;
                    (request, destinations(walk, *base, length, element))
                }
            };
            self.note(side, rank, request, into);
        }
        (scratch.origin, scratch.theirs) = (here, there);
        Ok(())
    }

    /// MPI_Compare_and_swap.
    ///
    /// # Safety
    /// Each of the pointers is one to an element of the datatype; the result can be written until the epoch ends.
    pub(crate) unsafe fn compare_and_swap(
        &mut self,
        (swap, compare, result): (*const u8, *const u8, *mut u8),
        target: Target,
    ) -> Result<(), Fault> {
        let Some(rank) = self.rank(target.rank)? else { return Ok(()) };
        let element = abi().element(abi().handle(target.kind));
        let element = element.ok_or_else(|| Fault::kind("no datatype whose elements can be compared".into()))?;
        let part = self.parts[rank];
        let start = target.at.checked_mul(part.unit as isize).unwrap_or(isize::MIN);
        inside(&[Run { offset: start, length: element.size() }], target.rank, part.bytes)?;
        self.make_room()?;
        // SAFETY: The caller's promise.
        let (swap, compare) =
            unsafe { (slice::from_raw_parts(swap, element.size()), slice::from_raw_parts(compare, element.size())) };
        let side = self.side_of(rank);
        let request = self.window(side).compare_and_swap(rank, start as u64, element, compare, swap)?;
        self.note(side, rank, request, vec![(result as usize, element.size())]);
        COUNTS.accumulates.count(element.size());
        Ok(())
    }

    fn note(&mut self, side: Side, rank: usize, request: Request, into: Vec<(usize, usize)>) {
        self.under_way.push_back(UnderWay { side, rank, request, into });
    }

    /// Sees to it that another operation may begin. Those that move in the fence can't be waited for, and need no room.
    fn make_room(&mut self) -> Result<(), Fault> {
        while self.under_way.len() >= OPERATIONS as usize {
            let Some(oldest) = self.under_way.pop_front() else { break };
            if self.window(oldest.side).defers() {
                self.under_way.push_front(oldest);
                break;
            }
            self.window(oldest.side).wait(oldest.request)?;
            self.take(oldest)?;
        }
        Ok(())
    }

    /// Takes what operations have got that are over, and forgets them.
    pub(crate) fn settle(&mut self, is_over: impl Fn(&UnderWay) -> bool) -> Result<(), Fault> {
        for _ in 0..self.under_way.len() {
            let Some(one) = self.under_way.pop_front() else { break };
            match is_over(&one) {
                true => self.take(one)?,
                false => self.under_way.push_back(one),
            }
        }
        Ok(())
    }

    /// Waits for all that was begun at a rank: a call with a request of its own gets what it asks for in the call.
    pub(crate) fn finish(&mut self, rank: c_int) -> Result<(), Fault> {
        let Some(rank) = self.rank(rank)? else { return Ok(()) };
        for _ in 0..self.under_way.len() {
            let Some(one) = self.under_way.pop_front() else { break };
            if one.rank == rank {
                self.window(one.side).wait(one.request)?;
                self.take(one)?;
            } else {
                self.under_way.push_back(one);
            }
        }
        Ok(())
    }

    /// Puts what an operation has got where the program wants it.
    fn take(&mut self, one: UnderWay) -> Result<(), Fault> {
        if one.into.is_empty() {
            return Ok(());
        }
        let request = one.request();
        let bytes = self.window(one.side).take(request);
        let mut bytes = bytes.as_deref().ok_or_else(|| Fault::other("what was got is not there".to_owned()))?;
        for (to, length) in one.into {
            let (piece, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            if to == NOWHERE {
                continue;
            }
            // SAFETY: The call has named this memory, and MPI leaves it to the operation until its epoch ends, which
            // is now.
            unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), to as *mut u8, piece.len()) };
        }
        Ok(())
    }
}

/// Where the next bytes go in this process's memory. Gaps of elements are not written.
fn destinations(walk: &mut Walk<'_>, base: *mut u8, length: usize, element: Element) -> Vec<(usize, usize)> {
    let mut list = Vec::with_capacity(1);
    walk.take(length, |run| {
        let start = base as usize + run.offset as usize;
        if !has_gaps(element) {
            return list.push((start, run.length));
        }
        for at in (0..run.length).step_by(element.size()) {
            let mut end = 0;
            for &(offset, length) in element.parts() {
                list.extend([(NOWHERE, offset - end), (start + at + offset, length)]);
                end = offset + length;
            }
            list.push((NOWHERE, element.size() - end));
        }
    });
    list
}

fn same(result: usize, bytes: usize) -> Result<(), Fault> {
    let words = || format!("a result of {result} bytes, for {bytes} bytes of the window");
    if result == bytes { Ok(()) } else { Err(Fault { code: abi().classes.argument, words: words() }) }
}

/// What an operation of MPI is for Weft, and whether it is one of pairs.
fn combine(op: Handle, fetches: bool) -> Result<(Combine, bool), Fault> {
    match abi().op(abi().handle(op)) {
        Some(Op::Combine(combine)) => Ok((combine, false)),
        Some(Op::Locate(combine)) => Ok((combine, true)),
        Some(Op::Replace) => Ok((Combine::Write, false)),
        Some(Op::Nothing) if fetches => Ok((Combine::Read, false)),
        _ => Err(no_operation("none of MPI's own, or MPI_NO_OP where nothing is fetched")),
    }
}

fn no_operation(words: &str) -> Fault {
    Fault { code: abi().classes.op, words: format!("an operation that accumulates cannot have: {words}") }
}

/// What the elements are for Weft. What is only moved may be anything.
fn element(made: Made, combine: Combine, locates: bool) -> Result<Element, Fault> {
    match made {
        Made::Of(element) if locates && !element.is_pair() => Err(no_operation("MINLOC or MAXLOC, of no pairs")),
        Made::Of(element) if !locates && element.is_pair() && matches!(combine, Combine::Min | Combine::Max) => {
            Err(no_operation("MIN or MAX, of pairs"))
        }
        Made::Of(element) => Ok(element),
        Made::Empty | Made::Mixed if matches!(combine, Combine::Read | Combine::Write) => Ok(Element::U8),
        Made::Empty => Ok(Element::U8),
        Made::Mixed => Err(Fault::kind(
            "elements that cannot be combined: of several kinds, unlike here and there, or of a kind that Weft does \
             not have (MPI_REAL16): let the library serve this window, with the info key weft=off"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_named() {
        let runs = [Run { offset: 0, length: 8 }, Run { offset: 96, length: 8 }];
        assert!(inside(&runs, 1, 104).is_ok());
        let fault = inside(&runs, 1, 100).unwrap_err();
        assert!(fault.words.starts_with("8 bytes from 96 on in the window of rank 1"), "{}", fault.words);
        assert!(inside(&[Run { offset: -1, length: 1 }], 0, 100).is_err());
        assert!(inside(&[Run { offset: isize::MAX, length: usize::MAX }], 0, u64::MAX).is_err());
    }

    #[test]
    fn short_runs_go_together_and_where_they_lie_is_kept() {
        let run = |offset, length| Run { offset, length };
        let runs = [run(96, 8), run(0, 4), run(40, 4), run(200, COPIED + 1), run(8, 8)];
        assert_eq!((together(&runs), together(&runs[3..]), together(&runs[4..])), (3, 1, 1));
        assert_eq!(together(&[run(0, 8), run(1 << 33, 8)]), 1);
        assert_eq!(together(&vec![run(0, 8); 2 * MOST_TOGETHER]), MOST_TOGETHER);
        let (base, layout) = laid(&runs[..3]).unwrap();
        let blocks: Vec<_> = layout.blocks().iter().map(|block| (block.offset, block.length)).collect();
        assert_eq!((base, blocks), (0, vec![(96, 8), (0, 4), (40, 4)]));
    }

    #[test]
    fn long_runs_are_cut() {
        let pieces: Vec<_> = cut(Run { offset: 3, length: LONGEST + 5 }).collect();
        assert_eq!(pieces, [(3, LONGEST), (3 + LONGEST as u64, 5)]);
    }

    #[test]
    fn errors_of_weft_have_classes() {
        use weft::window::{Error, OperationError};
        let fault: Fault = Error::Operation(OperationError::NoSuchRank { rank: 9, ranks: 2 }).into();
        assert_eq!(fault.code, abi().classes.rank);
    }
}
