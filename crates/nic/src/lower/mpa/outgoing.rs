//! Frames on their way to the port: headers and small payloads in a buffer, bulk payload by reference.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use weft_base::{Piece, PortError, Segmented, Slice};

use crate::lower::mpa::staging::{BUFFER_BYTES, Pool};

/// Entries of a gather list that one call hands to the port.
const PIECES_PER_SEND: usize = 64;
/// No more frames are laid out while this many pieces wait.
const ENOUGH_PIECES: usize = 48;
/// No more frames are laid out while this many bytes wait: one good write. The kernel carries a MiB that it is given at
/// once in half the time that it takes for sixteen parts of it (`docs/lab-book/2026-11-24-long-calls.md`).
const ENOUGH_BYTES: usize = 1024 * 1024;
/// No more frames are laid out while this many wait: for small ones, too, a system call is then cheap.
const ENOUGH_FRAMES: usize = 512;
/// Pieces of one frame: header, slices, tail.
const PIECES_PER_FRAME: usize = weft_base::MAX_LISTED + 2;

#[derive(Clone, Copy, Debug)]
enum Queued {
    Bytes { start: usize, end: usize },
    Memory(Slice),
}

impl Queued {
    fn length(self) -> usize {
        match self {
            Self::Bytes { start, end } => end - start,
            Self::Memory(slice) => slice.length as usize,
        }
    }

    fn skip(&mut self, count: usize) {
        match self {
            Self::Bytes { start, .. } => *start += count,
            // A slice is at most 2^32 - 1 bytes long, and `count` is within it.
            Self::Memory(slice) => *slice = slice.part(count as u32, slice.length - count as u32),
        }
    }
}

/// An end of the queue, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    used: usize,
    waiting_bytes: usize,
    pieces: usize,
    last: Option<Queued>,
}

/// A frame that has not gone out whole.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    /// Bytes of it that are left.
    left: u32,
    /// Its payload is lent ([`Lending::lend`]).
    is_lent: bool,
}

/// What is kept of frames in a buffer. With room for all that may wait, these come from the pool as the buffer does.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pieces: VecDeque<Queued>,
    frames: VecDeque<Unsent>,
}

impl Lists {
    pub(crate) fn with_room() -> Self {
        Self {
            pieces: VecDeque::with_capacity(ENOUGH_PIECES + PIECES_PER_FRAME),
            frames: VecDeque::with_capacity(ENOUGH_FRAMES),
        }
    }
}

/// What waits to be sent on one connection.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    buffer: Option<Box<[u8]>>,
    used: usize,
    lists: Lists,
    waiting_bytes: usize,
    /// Bytes before the first frame that belong to none.
    others: usize,
    /// Frames with a lent payload that are queued, or out and not returned.
    lent: usize,
    /// Frames that have gone out whole, from the oldest on whose payload is still lent: for each of these, it and how
    /// many went after it before the next. They count when it is returned, for frames are counted in their order.
    kept: VecDeque<usize>,
}

impl Outgoing {
    /// Whether everything has gone out.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.pieces.is_empty()
    }

    /// Whether another frame with up to `copied` bytes in the buffer may be laid out.
    pub(crate) fn has_room(&self, copied: usize) -> bool {
        self.lists.pieces.len() < ENOUGH_PIECES
            && self.lists.frames.len() < ENOUGH_FRAMES
            && self.waiting_bytes < ENOUGH_BYTES
            && self.used + copied <= BUFFER_BYTES
    }

    /// Frames with a lent payload that are not returned.
    #[inline]
    pub(crate) const fn lent(&self) -> usize {
        self.lent
    }

    /// Writes up to `most` bytes with `write`, which says how many there were, and queues them.
    pub(crate) fn write(&mut self, most: usize, pool: &mut Pool, write: impl FnOnce(&mut [u8]) -> usize) {
        self.try_write(most, pool, |out| Some(write(out)));
    }

    /// The same with a `write` that may find that there is nothing to be queued. Returns how many bytes were.
    pub(crate) fn try_write(
        &mut self,
        most: usize,
        pool: &mut Pool,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        if self.lists.pieces.capacity() == 0 {
            self.lists = pool.take_lists();
        }
        let buffer = self.buffer.get_or_insert_with(|| pool.take());
        let start = self.used;
        let Some(count) = write(&mut buffer[start..start + most]) else {
            if self.is_empty() {
                self.give_back(pool);
            }
            return None;
        };
        debug_assert!(count <= most);
        let end = start + count;
        self.used = end;
        self.waiting_bytes += count;
        match self.lists.pieces.back_mut() {
            Some(Queued::Bytes { end: last, .. }) if *last == start => *last = end,
            _ => self.lists.pieces.push_back(Queued::Bytes { start, end }),
        }
        Some(count)
    }

    /// Queues payload by reference.
    pub(crate) fn gather(&mut self, slices: &[Slice]) {
        for slice in slices {
            self.lists.pieces.push_back(Queued::Memory(*slice));
            self.waiting_bytes += slice.length as usize;
        }
    }

    /// Where the queue ends now.
    pub(crate) fn mark(&self) -> Mark {
        let (used, waiting_bytes) = (self.used, self.waiting_bytes);
        Mark { used, waiting_bytes, pieces: self.lists.pieces.len(), last: self.lists.pieces.back().copied() }
    }

    /// Takes back what was queued since `mark`, of which nothing has been sent.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.used = mark.used;
        self.waiting_bytes = mark.waiting_bytes;
        self.lists.pieces.truncate(mark.pieces);
        if let (Some(last), Some(before)) = (self.lists.pieces.back_mut(), mark.last) {
            *last = before;
        }
    }

    /// What was queued since the last call is `length` bytes that are no frame: start-up frames, which all come before
    /// the first one.
    pub(crate) fn end_other(&mut self, length: usize) {
        self.others += length;
    }

    /// What was queued since the last call is a frame of `length` bytes.
    pub(crate) fn end_frame(&mut self, length: usize) {
        // A frame has at most 2^16 bytes and what MPA adds.
        self.lists.frames.push_back(Unsent { left: length as u32, is_lent: false });
    }

    /// The same, of a frame whose payload is lent.
    pub(crate) fn end_lent_frame(&mut self, length: usize) {
        self.lists.frames.push_back(Unsent { left: length as u32, is_lent: true });
        self.lent += 1;
    }

    /// The oldest `runs` lent payloads have been returned. Returns how many frames are over by this; `None`: fewer have
    /// gone out.
    pub(crate) fn take_returned(&mut self, runs: usize) -> Option<usize> {
        if runs > self.kept.len() {
            return None;
        }
        self.lent -= runs;
        Some(self.kept.drain(..runs).sum())
    }

    /// Sends as much as the port takes in one call. Returns the bytes taken and how many frames
    /// are over by this: gone out whole, with those before them.
    pub(crate) fn send<P: Segmented>(&mut self, port: &mut P, pool: &mut Pool) -> Result<(usize, usize), PortError> {
        let mut list = ArrayVec::<Piece<'_>, PIECES_PER_SEND>::new();
        let buffer = self.buffer.as_deref().unwrap_or(&[]);
        for queued in self.lists.pieces.iter().take(PIECES_PER_SEND) {
            list.push(match *queued {
                Queued::Bytes { start, end } => Piece::Bytes(&buffer[start..end]),
                Queued::Memory(slice) => Piece::Memory(slice),
            });
        }
        let others = u32::try_from(self.others).ok().filter(|others| *others > 0);
        let taken =
            port.send_units(&list, &mut others.into_iter().chain(self.lists.frames.iter().map(|frame| frame.left)))?;
        drop(list);
        self.forget(taken);
        let frames = self.count_frames(taken);
        if self.lists.pieces.is_empty() {
            self.used = 0;
            self.give_back(pool);
        }
        Ok((taken, frames))
    }

    /// Drops everything unsent.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.lists.pieces.clear();
        self.lists.frames.clear();
        self.kept.clear();
        self.lent = 0;
        self.others = 0;
        self.waiting_bytes = 0;
        self.used = 0;
        self.give_back(pool);
    }

    fn give_back(&mut self, pool: &mut Pool) {
        if let Some(buffer) = self.buffer.take() {
            pool.give(buffer);
        }
        if self.lists.frames.is_empty() && self.lists.pieces.capacity() > 0 {
            pool.give_lists(core::mem::take(&mut self.lists));
        }
    }

    fn forget(&mut self, mut taken: usize) {
        self.waiting_bytes -= taken;
        while let Some(front) = self.lists.pieces.front_mut() {
            if taken < front.length() {
                if taken > 0 {
                    front.skip(taken);
                }
                return;
            }
            taken -= front.length();
            self.lists.pieces.pop_front();
        }
        assert_eq!(taken, 0, "the port took more bytes than it was given");
    }

    fn count_frames(&mut self, mut taken: usize) -> usize {
        let others = taken.min(self.others);
        self.others -= others;
        taken -= others;
        let mut whole = 0;
        while let Some(frame) = self.lists.frames.front_mut() {
            if frame.left as usize > taken {
                frame.left -= taken as u32;
                break;
            }
            taken -= frame.left as usize;
            let is_lent = frame.is_lent;
            self.lists.frames.pop_front();
            match self.kept.back_mut() {
                _ if is_lent => self.kept.push_back(1),
                Some(after) => *after += 1,
                None => whole += 1,
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weft_base::{Port, ReceivePiece, Received, RegionId};

    use super::*;

    /// Takes at most `room` bytes and remembers them; payload by reference shows as its offset.
    struct Taker {
        room: usize,
        taken: Vec<u8>,
    }

    impl Segmented for Taker {}

    impl Port for Taker {
        fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
            let before = self.taken.len();
            for piece in pieces {
                let bytes: Vec<u8> = match piece {
                    Piece::Bytes(bytes) => bytes.to_vec(),
                    Piece::Memory(slice) => {
                        (slice.offset..slice.offset + u64::from(slice.length)).map(|byte| byte as u8).collect()
                    }
                };
                let room = before + self.room - self.taken.len();
                self.taken.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Ok(self.taken.len() - before)
        }

        fn receive(&mut self, _: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
            Ok(Received::Nothing)
        }

        fn poll_connected(&mut self) -> Result<bool, PortError> {
            Ok(true)
        }

        fn segment_size(&self) -> u32 {
            1448
        }

        fn local_address(&self) -> Result<SocketAddr, PortError> {
            Err(PortError::Reset)
        }

        fn remote_address(&self) -> SocketAddr {
            SocketAddr::from(([127, 0, 0, 1], 1))
        }

        fn close_send(&mut self) {}

        fn abort(&mut self) {}
    }

    fn queue(outgoing: &mut Outgoing, pool: &mut Pool, bytes: &[u8]) {
        outgoing.write(bytes.len(), pool, |out| {
            out.copy_from_slice(bytes);
            bytes.len()
        });
    }

    fn memory(offset: u64, length: u32) -> Slice {
        Slice { region: RegionId { index: 0, generation: 0 }, offset, length }
    }

    #[test]
    fn bytes_leave_in_order_and_frames_are_counted_when_they_are_whole() {
        for room in 1..12 {
            let (mut outgoing, mut pool) = (Outgoing::default(), Pool::default());
            let mut taker = Taker { room, taken: Vec::new() };
            queue(&mut outgoing, &mut pool, &[250, 251]);
            outgoing.end_other(2);
            queue(&mut outgoing, &mut pool, &[1, 2, 3]);
            outgoing.gather(&[memory(10, 4)]);
            queue(&mut outgoing, &mut pool, &[4]);
            outgoing.end_frame(8);
            queue(&mut outgoing, &mut pool, &[5, 6]);
            outgoing.end_frame(2);
            let mut ends = Vec::new();
            while !outgoing.is_empty() {
                let (taken, frames) = outgoing.send(&mut taker, &mut pool).unwrap();
                assert!(taken > 0);
                ends.extend(std::iter::repeat_n(taker.taken.len(), frames));
            }
            assert_eq!(taker.taken, [250, 251, 1, 2, 3, 10, 11, 12, 13, 4, 5, 6]);
            assert_eq!(ends.len(), 2);
            assert!((10..10 + room).contains(&ends[0]) && ends[1] == 12, "{ends:?}");
        }
    }

    #[test]
    fn frames_behind_a_lent_payload_count_when_it_is_returned() {
        let (mut outgoing, mut pool) = (Outgoing::default(), Pool::default());
        let mut taker = Taker { room: 100, taken: Vec::new() };
        for (byte, is_lent) in [(1, false), (2, true), (3, false), (4, false), (5, true), (6, false)] {
            queue(&mut outgoing, &mut pool, &[byte]);
            if is_lent { outgoing.end_lent_frame(1) } else { outgoing.end_frame(1) }
        }
        assert_eq!(outgoing.lent(), 2);
        assert_eq!(outgoing.take_returned(1), None, "it has not gone out");
        assert_eq!(outgoing.send(&mut taker, &mut pool), Ok((6, 1)));
        assert!(outgoing.is_empty());
        assert_eq!(outgoing.take_returned(0), Some(0));
        assert_eq!(outgoing.take_returned(3), None);
        assert_eq!((outgoing.take_returned(1), outgoing.lent()), (Some(3), 1));
        queue(&mut outgoing, &mut pool, &[7]);
        outgoing.end_frame(1);
        assert_eq!(outgoing.send(&mut taker, &mut pool), Ok((1, 0)));
        assert_eq!((outgoing.take_returned(1), outgoing.lent()), (Some(3), 0));
        queue(&mut outgoing, &mut pool, &[8]);
        outgoing.end_frame(1);
        assert_eq!(outgoing.send(&mut taker, &mut pool), Ok((1, 1)));
    }

    #[test]
    fn what_is_taken_back_never_leaves() {
        let (mut outgoing, mut pool) = (Outgoing::default(), Pool::default());
        let mut taker = Taker { room: 100, taken: Vec::new() };
        queue(&mut outgoing, &mut pool, &[1, 2]);
        outgoing.end_frame(2);
        let mark = outgoing.mark();
        queue(&mut outgoing, &mut pool, &[3]);
        outgoing.gather(&[memory(50, 3)]);
        outgoing.take_back(mark);
        outgoing.end_frame(0);
        queue(&mut outgoing, &mut pool, &[7]);
        outgoing.end_frame(1);
        assert_eq!(outgoing.send(&mut taker, &mut pool), Ok((3, 3)));
        assert_eq!(taker.taken, [1, 2, 7]);
    }
}
