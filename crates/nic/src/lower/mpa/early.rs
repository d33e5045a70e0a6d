//! The way in where the port shows segments as they come (RFC 5044 section 6, ways 2 and 3, and appendix B): FPDUs are
//! found by markers in whatever arrives, placed at once, and delivered in order.
//!
//! [`Reassembler`] finds them, whole and with a good CRC, and keeps what is a part of one. The stream places what
//! arrives early and keeps what it needs to deliver it in its turn. What it can't take before its turn is kept here.
//! All of that follows a gap, so the window of the port bounds it.

use std::collections::VecDeque;

use weft_base::{Lending, NoDigest, Received, Segmented, StreamPosition};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Deframer, Frame, FrameError, Reassembler, ReassemblerLimits};
use weft_rdmap::{Arrival, HEAD_LENGTH, OrderConstraint, Placement, Verdict, Violation};

use super::bytes::Bytes;
use super::held::HeldGather;
use super::receive::count_received;
use super::staging::Pool;
use crate::lower::{Got, Io, ReceiveError, StreamSink};

/// FPDUs that a stream places before their turn. Further ones are kept.
pub(super) const REORDER_LIMIT: usize = 1024;
/// Receive requests that a stream takes for messages that come early.
pub(super) const RECEIVE_DEPTH: usize = 256;
/// Parts of FPDUs beyond the first gap. What is more stays with the port, within its window.
const LIMITS: ReassemblerLimits = ReassemblerLimits { bytes: 1 << 20, ranges: 1024 };
/// Buffers of kept FPDUs that are used again.
const SPARE: usize = 16;

/// Finds FPDUs, and brings what is in them to its place.
pub(super) struct EarlyReceiver {
    reassembler: Reassembler,
    /// Where in the peer's stream the first FPDU begins.
    base: u64,
    waiting: Waiting,
    /// The stream takes nothing more: what arrives is thrown away.
    is_over: bool,
}

/// ULPDUs that the stream can't take before their turn, by position.
#[derive(Default)]
struct Waiting {
    list: VecDeque<(Arrival, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.list.iter().map(|(_, ulpdu)| ulpdu.len()).sum()
    }

    fn keep(&mut self, arrival: Arrival, ulpdu: &Ulpdu<'_>) {
        let mut copy = self.spare.pop().unwrap_or_default();
        ulpdu.for_each(|piece| copy.extend_from_slice(piece));
        let at = self.list.partition_point(|(other, _)| other.start < arrival.start);
        self.list.insert(at, (arrival, copy));
    }

    fn recycle(&mut self, mut ulpdu: Vec<u8>) {
        if self.spare.len() < SPARE {
            ulpdu.clear();
            self.spare.push(ulpdu);
        }
    }
}

/// A ULPDU whose CRC was good.
enum Ulpdu<'a> {
    Frame(Frame<'a>),
    Kept(&'a [u8]),
}

impl Ulpdu<'_> {
    fn length(&self) -> u32 {
        match self {
            Self::Frame(frame) => frame.ulpdu_length(),
            Self::Kept(bytes) => bytes.len() as u32,
        }
    }

    fn contiguous(&self) -> Option<&[u8]> {
        match self {
            Self::Frame(frame) => frame.contiguous(),
            Self::Kept(bytes) => Some(bytes),
        }
    }

    fn for_each(&self, mut see: impl FnMut(&[u8])) {
        match self {
            Self::Frame(frame) => frame.ulpdu().for_each(see),
            Self::Kept(bytes) => see(bytes),
        }
    }

    /// Its first bytes, as many as a stream wants to see.
    fn head<'s>(&self, scratch: &'s mut [u8; HEAD_LENGTH]) -> &'s [u8] {
        let mut filled = 0;
        self.for_each(|piece| {
            let now = piece.len().min(HEAD_LENGTH - filled);
            scratch[filled..filled + now].copy_from_slice(&piece[..now]);
            filled += now;
        });
        &scratch[..filled]
    }

    /// Copies to its place what a placement is about.
    fn copy(&self, placement: &Placement, registry: &Registry) -> Result<(), MemoryError> {
        if placement.sink.is_empty() {
            return Ok(());
        }
        let mut skip = placement.header_length as usize;
        let mut left = placement.sink.length() as usize;
        let mut held = HeldGather::new(&placement.sink, registry)?;
        let mut copied = Ok(());
        self.for_each(|piece| {
            let (before, piece) = piece.split_at(skip.min(piece.len()));
            skip -= before.len();
            let now = &piece[..left.min(piece.len())];
            left -= now.len();
            copied = copied.and_then(|()| held.copy_in(now, &mut NoDigest));
        });
        copied
    }
}

impl EarlyReceiver {
    /// `None`: the port has bytes in order only, or there are no markers, or no CRCs to believe them by.
    pub(super) fn begin<P: Segmented + Lending>(bytes: &mut Bytes<P>, deframer: &Deframer) -> Option<Self> {
        let spacing = deframer.marker_spacing().filter(|_| deframer.crc())?;
        let position = bytes.port.begin_segments()?;
        bytes.shows_segments = true;
        // What followed the start-up is here already.
        let base = position.0 - bytes.staging.filled().len() as u64;
        let reassembler = Reassembler::new(Some(spacing), true, LIMITS);
        Some(Self { reassembler, base, waiting: Waiting::default(), is_over: false })
    }

    /// Forgets what is kept; nothing more is wanted.
    pub(super) fn clear(&mut self) {
        self.waiting = Waiting::default();
        self.is_over = true;
    }

    /// Bytes that are here and not in place.
    pub(super) fn kept_bytes(&self) -> u32 {
        (self.reassembler.held() + self.waiting.bytes()) as u32
    }

    /// Takes all that has come, and places every FPDU that is whole then.
    pub(super) fn receive<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        let Self { reassembler, base, waiting, is_over } = self;
        let mut pass = Pass { above, io, waiting, is_over: *is_over, error: None };
        let staged = bytes.staging.filled().len();
        if staged > 0 {
            pass.take(reassembler, StreamPosition(0), bytes.staging.filled());
            bytes.staging.consume(staged);
        }
        let received = bytes.port.receive_segments(&mut |position, part| {
            let Some(position) = position.0.checked_sub(*base) else { return true };
            pass.take(reassembler, StreamPosition(position), part)
        })?;
        pass.bring_again();
        if let Received::Bytes(count) = received {
            count_received(count, pass.io);
        }
        let Pass { is_over, error, .. } = pass;
        if let Some(error) = error {
            return Err(error);
        }
        match received {
            Received::Nothing if staged == 0 => Ok(Got::Nothing),
            Received::End if !is_over => {
                Ok(Got::End { whole: self.reassembler.is_complete() && self.waiting.list.is_empty() })
            }
            _ if is_over => {
                self.clear();
                Ok(Got::Over)
            }
            _ => Ok(Got::Progress),
        }
    }
}

/// One turn.
struct Pass<'a, 'b, A, S> {
    above: &'a mut A,
    io: &'a mut Io<'b, S>,
    waiting: &'a mut Waiting,
    is_over: bool,
    error: Option<ReceiveError>,
}

impl<A: StreamSink, S> Pass<'_, '_, A, S> {
    const fn has_ended(&self) -> bool {
        self.is_over || self.error.is_some()
    }

    /// Takes bytes that belong at this position. False: they are to come again.
    fn take(&mut self, reassembler: &mut Reassembler, position: StreamPosition, bytes: &[u8]) -> bool {
        if self.has_ended() {
            return true;
        }
        let (kept, early) = (reassembler.held(), reassembler.early());
        let waiting = self.waiting.list.len();
        let taken = reassembler.take(position, bytes, &mut |range, frame| {
            let arrival = Arrival { start: range.start.0, end: range.end.0 };
            self.bring(arrival, frame);
        });
        let waits = (self.waiting.list.len() - waiting) as u64;
        self.io.counters.early_frames += (reassembler.early() - early).saturating_sub(waits);
        self.io.counters.kept_bytes += reassembler.held().saturating_sub(kept) as u64;
        taken.unwrap_or_else(|error| {
            self.refuse(error);
            true
        })
    }

    /// What was wrong first counts.
    fn refuse(&mut self, error: FrameError) {
        self.error.get_or_insert(error.into());
    }

    /// An FPDU, for the first time.
    fn bring(&mut self, arrival: Arrival, frame: Frame<'_>) {
        if self.has_ended() {
            return;
        }
        let ulpdu = Ulpdu::Frame(frame);
        if !self.place(arrival, &ulpdu) {
            self.io.counters.kept_bytes += u64::from(ulpdu.length());
            self.waiting.keep(arrival, &ulpdu);
        }
    }

    /// Those that wait, from the first on: the turn of some may have come.
    fn bring_again(&mut self) {
        while !self.has_ended()
            && let Some((arrival, ulpdu)) = self.waiting.list.pop_front()
        {
            if !self.place(arrival, &Ulpdu::Kept(&ulpdu)) {
                self.waiting.list.push_front((arrival, ulpdu));
                return;
            }
            self.waiting.recycle(ulpdu);
        }
    }

    /// Brings it to its place. False: the stream can't take it now.
    fn place(&mut self, arrival: Arrival, ulpdu: &Ulpdu<'_>) -> bool {
        if let Some(whole) = ulpdu.contiguous()
            && self.above.packet(arrival, whole, self.io.now, self.io.counters)
        {
            self.io.counters.received_frames += 1;
            return true;
        }
        let mut scratch = [0; HEAD_LENGTH];
        let head = ulpdu.head(&mut scratch);
        loop {
            let verdict = self.above.locate(arrival, OrderConstraint::default(), ulpdu.length(), head);
            let placement = match &verdict {
                Verdict::Place(placement) => placement,
                Verdict::Drop => return true,
                Verdict::Later(_) => return false,
                Verdict::Fatal(Violation::NotReceiving(_)) => {
                    self.is_over = true;
                    return true;
                }
                Verdict::Fatal(_) => return self.fail(ReceiveError::Judged),
            };
            if ulpdu.copy(placement, self.io.registry).is_err() {
                return self.blame(placement);
            }
            if !self.count(placement) {
                return true;
            }
        }
    }

    /// It is wrong: nothing more is to be done with it.
    fn fail(&mut self, error: ReceiveError) -> bool {
        self.error = Some(error);
        true
    }

    /// The memory has refused, perhaps because the peer may not write there any more.
    fn blame(&mut self, placement: &Placement) -> bool {
        let checked = self.above.stream().recheck(placement);
        match checked {
            Ok(()) => {
                self.above.stream().fail_placement(placement);
                self.fail(ReceiveError::Judged)
            }
            Err(None) => false,
            Err(Some(_)) => self.fail(ReceiveError::Judged),
        }
    }

    /// The payload is in place. Returns whether more of the segment is missing.
    fn count(&mut self, placement: &Placement) -> bool {
        let counters = &mut *self.io.counters;
        counters.received_frames += u64::from(!placement.is_partial);
        if !placement.sink.is_empty() {
            counters.placed_copied += 1;
            counters.placed_copied_bytes += u64::from(placement.sink.length());
        }
        if self.above.placed(placement, counters).is_err() {
            self.fail(ReceiveError::Judged);
            return false;
        }
        self.is_over = !self.above.stream().state().receives();
        placement.is_partial && !self.is_over
    }
}
