//! What a connection hands up: segments, each in its place before it is acknowledged.

use weft_base::NoDigest;
use weft_edge::{Options, Sink, Verdict};
use weft_memory::MemoryError;
use weft_rdmap::{Arrival, Demand, HEAD_LENGTH, Later, Placement, Verdict as Judgement, Violation};
use weft_wire::Crc32c;
use weft_wire::ddp::Header;

use super::kept::Kept;
use crate::lower::{Above, Io, ReceiveError};

/// What handing up has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handed {
    /// The stream takes nothing more: what comes is thrown away, and acknowledged, so that the peer can end.
    pub(super) is_over: bool,
    /// A message waits for a receive.
    pub(super) is_starved: bool,
    pub(super) error: Option<ReceiveError>,
}

/// Hands segments up to a stream.
pub(super) struct Uphill<'a, 'b, A> {
    pub(super) above: &'a mut A,
    pub(super) io: &'a mut Io<'b>,
    pub(super) handed: &'a mut Handed,
    /// The engine that serves the port has seen that the payload is good.
    pub(super) is_checked: bool,
    /// What comes before its turn is kept here, if it is not to be placed.
    pub(super) kept: Option<&'a mut Kept>,
}

/// Takes segments of which nobody wants to know any more.
pub(super) struct Discard;

impl Sink for Discard {
    fn segment(&mut self, _: u64, _: &[u8], _: u32, _: Options) -> Verdict {
        Verdict::Duplicate
    }
}

impl<A: Above> Sink for Uphill<'_, '_, A> {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict {
        if self.handed.is_over || self.handed.error.is_some() {
            return Verdict::Duplicate;
        }
        let Ok(header) = Header::parse(ulpdu) else { return self.fail(ReceiveError::Judged) };
        let payload = &ulpdu[header.length()..];
        if !self.is_checked && Crc32c::of(payload) != crc {
            return Verdict::BadPayload;
        }
        let arrival = Arrival { start: position, end: position + payload.len() as u64 + u64::from(header.last) };
        let demand = Demand { unordered: options.unordered, after: options.after };
        if self.kept.is_some() { self.in_order(arrival, demand, ulpdu) } else { self.hand_up(arrival, demand, ulpdu) }
    }
}

impl<A: Above> Uphill<'_, '_, A> {
    fn fail(&mut self, error: ReceiveError) -> Verdict {
        self.handed.error = Some(error);
        Verdict::Fatal
    }

    /// A segment whose payload is good.
    fn hand_up(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        if self.above.packet(arrival, ulpdu, self.io) {
            self.io.counters.received_frames += 1;
            return Verdict::Placed;
        }
        self.place(arrival, demand, ulpdu)
    }

    /// Hands a segment up if it is its turn, and then those that have waited for it. Otherwise it is kept, and
    /// acknowledged: the peer sends it no more. That all before a position is acknowledged still means that it is
    /// placed, for whatever came last has brought those behind it to their places.
    fn in_order(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        let next = self.above.stream().next_position();
        if let Some(kept) = self.kept.as_deref_mut().filter(|_| arrival.start > next) {
            return match kept.keep(arrival, demand, ulpdu) {
                None => Verdict::Later,
                Some(false) => Verdict::Duplicate,
                Some(true) => {
                    self.io.counters.kept_bytes += ulpdu.len() as u64;
                    Verdict::Placed
                }
            };
        }
        let verdict = self.hand_up(arrival, demand, ulpdu);
        if matches!(verdict, Verdict::Placed | Verdict::Duplicate) {
            self.hand_up_kept();
        }
        verdict
    }

    /// Hands up those kept segments whose turn has come.
    pub(super) fn hand_up_kept(&mut self) {
        while !self.handed.is_over && self.handed.error.is_none() {
            let next = self.above.stream().next_position();
            let Some(segment) = self.kept.as_deref_mut().and_then(|kept| kept.take(next)) else { return };
            let verdict = self.hand_up(segment.arrival, segment.demand, &segment.ulpdu);
            let Some(kept) = self.kept.as_deref_mut() else { return };
            if matches!(verdict, Verdict::Later | Verdict::NotReady) {
                // It has been acknowledged, so nobody brings it again: it is looked at again.
                self.handed.is_starved = true;
                return kept.put_back(segment);
            }
            kept.recycle(segment);
        }
    }

    fn place(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        let head = &ulpdu[..ulpdu.len().min(HEAD_LENGTH)];
        loop {
            let verdict = self.above.locate(arrival, demand, ulpdu.len() as u32, head);
            let placement = match &verdict {
                Judgement::Place(placement) => placement,
                Judgement::Drop => return Verdict::Duplicate,
                Judgement::Later(Later::NotReady) => {
                    self.handed.is_starved = true;
                    return Verdict::NotReady;
                }
                Judgement::Later(_) => return Verdict::Later,
                Judgement::Fatal(Violation::NotReceiving(_)) => {
                    self.handed.is_over = true;
                    return Verdict::Duplicate;
                }
                Judgement::Fatal(_) => return self.fail(ReceiveError::Judged),
            };
            if self.copy(ulpdu, placement).is_err() {
                let checked = self.above.stream().recheck(placement);
                return match checked {
                    Ok(()) => self.fail(ReceiveError::Memory),
                    Err(None) => Verdict::Later,
                    Err(_) => self.fail(ReceiveError::Judged),
                };
            }
            let (length, is_partial) = (placement.sink.length(), placement.is_partial);
            let is_early = arrival.start > self.above.stream().next_position();
            let counters = &mut *self.io.counters;
            counters.early_frames += u64::from(is_early && !is_partial);
            counters.received_frames += u64::from(!is_partial);
            counters.placed_copied += 1;
            counters.placed_copied_bytes += u64::from(length);
            if self.above.placed(placement, counters).is_err() {
                return self.fail(ReceiveError::Judged);
            }
            if !self.above.stream().state().receives() {
                self.handed.is_over = true;
                return Verdict::Placed;
            }
            if !is_partial {
                return Verdict::Placed;
            }
        }
    }

    fn copy(&self, ulpdu: &[u8], placement: &Placement) -> Result<(), MemoryError> {
        // What was in place before is not touched again.
        let mut rest = &ulpdu[placement.header_length as usize..];
        for slice in placement.sink.slices() {
            let (now, later) = rest.split_at(slice.length as usize);
            self.io.registry.copy_in(slice, now, &mut NoDigest)?;
            rest = later;
        }
        Ok(())
    }
}
