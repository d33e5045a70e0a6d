//! What a receiver does that must have everything in order before it copies it to its place
//! ([`OutOfOrder::Copy`](crate::laboratory::OutOfOrder)).

use weft_edge::{Options, Sink, Verdict};
use weft_rdmap::{Arrival, OrderConstraint};

use super::reorder_buffer::ReorderBuffer;
use crate::lower::edge::receiving::SegmentSink;
use crate::lower::edge::state::{Edge, Handed, Intake, Phase};
use crate::lower::{Io, StreamSink};

/// Hands segments up to a stream in their turn, and keeps those that come before it.
pub(in crate::lower::edge) struct InOrder<'k, 'a, 'b, A, S> {
    pub(in crate::lower::edge) sink: SegmentSink<'a, 'b, A, S>,
    pub(in crate::lower::edge) kept: &'k mut ReorderBuffer,
}

impl<A: StreamSink, S> Sink for InOrder<'_, '_, '_, A, S> {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict {
        match self.sink.check(position, ulpdu, crc, options) {
            Ok((arrival, constraint)) => self.take(arrival, constraint, ulpdu),
            Err(verdict) => verdict,
        }
    }
}

impl<A: StreamSink, S> InOrder<'_, '_, '_, A, S> {
    /// Hands a segment up if it is its turn, and then those that have waited for it. Otherwise it is kept, and
    /// acknowledged: the peer sends it no more. That all before a position is acknowledged still means that it is
    /// placed, for whatever came last has brought those behind it to their places.
    fn take(&mut self, arrival: Arrival, constraint: OrderConstraint, ulpdu: &[u8]) -> Verdict {
        if arrival.start > self.sink.above.stream().next_position() {
            return match self.kept.keep(arrival, constraint, ulpdu) {
                None => Verdict::Later,
                Some(false) => Verdict::Duplicate,
                Some(true) => {
                    self.sink.io.counters.kept_bytes += ulpdu.len() as u64;
                    Verdict::Placed
                }
            };
        }
        let verdict = self.sink.hand_up(arrival, constraint, ulpdu);
        if matches!(verdict, Verdict::Placed | Verdict::Duplicate) {
            self.hand_up_kept();
        }
        verdict
    }

    /// Hands up those kept segments whose turn has come.
    fn hand_up_kept(&mut self) {
        while !self.sink.handed.is_over && self.sink.handed.error.is_none() {
            let next = self.sink.above.stream().next_position();
            let Some(segment) = self.kept.take(next) else { return };
            let verdict = self.sink.hand_up(segment.arrival, segment.constraint, &segment.ulpdu);
            if matches!(verdict, Verdict::Later | Verdict::NotReady) {
                // It has been acknowledged, so the peer does not retransmit it: it is kept, and offered again.
                self.sink.handed.is_starved = true;
                return self.kept.put_back(segment);
            }
            self.kept.recycle(segment);
        }
    }
}

impl Edge {
    /// Tries the first of the kept segments again, if its turn had come and it could not be taken. Returns whether it
    /// still can't.
    pub(in crate::lower::edge) fn retry_kept<A: StreamSink, S>(&mut self, above: &mut A, io: &mut Io<'_, S>) -> bool {
        let Phase::Running(running) = &mut self.phase else { return false };
        let Intake::Laboratory(kept) = &mut running.intake else { return false };
        if !core::mem::take(&mut kept.is_stuck) {
            return false;
        }
        let (mut handed, now) = (Handed::default(), io.now);
        let sink = SegmentSink { above, io, handed: &mut handed, is_checked: true };
        InOrder { sink, kept }.hand_up_kept();
        let is_stuck = kept.is_stuck;
        self.settle(handed, now);
        is_stuck
    }
}
