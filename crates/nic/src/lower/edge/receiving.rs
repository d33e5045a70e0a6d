//! What a connection hands up: segments, each in its place before it is acknowledged.

use weft_base::NoDigest;
use weft_edge::{Options, Sink, Verdict};
use weft_memory::MemoryError;
use weft_rdmap::{Arrival, Demand, HEAD_LENGTH, Later, Placement, Verdict as Judgement, Violation};
use weft_wire::Crc32c;
use weft_wire::ddp::Header;

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
        if self.above.packet(arrival, ulpdu, self.io) {
            self.io.counters.received_frames += 1;
            return Verdict::Placed;
        }
        self.place(arrival, Demand { unordered: options.unordered, after: options.after }, ulpdu)
    }
}

impl<A: Above> Uphill<'_, '_, A> {
    fn fail(&mut self, error: ReceiveError) -> Verdict {
        self.handed.error = Some(error);
        Verdict::Fatal
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
            let counters = &mut *self.io.counters;
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
