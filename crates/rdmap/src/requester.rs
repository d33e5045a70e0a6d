//! Reads and atomics that the peer has yet to answer.

use std::collections::VecDeque;

use weft_base::{Gather, MessageNumber, Random, Stag};
use weft_wire::rdmap::queue;

use crate::FIRST_PLACES;
use crate::segment::ResponsePart;
use crate::violation::Violation;

/// A request that the peer has yet to answer.
#[derive(Debug)]
pub(crate) struct Outstanding {
    /// The request's running number; `None` for the read that says ready-to-receive.
    pub(crate) sequence: Option<u64>,
    pub(crate) awaits: Awaits,
}

#[derive(Debug)]
pub(crate) enum Awaits {
    /// A Read Response to this STag, which only this request knows: it names no region, so no Write can reach the sink,
    /// and nothing but this read's response fits it.
    Read { stag: Stag, sink: Gather, length: u32, placed: u32 },
    /// An Atomic Response with this identifier.
    Atomic { identifier: u32 },
}

/// Where the sink of a read begins, as announced to the peer.
pub(crate) const SINK_OFFSET: u64 = 0;

/// The outstanding requests, oldest first. The peer answers them in this order (RFC 5040 section 5.5, rule 20; RFC 7306
/// section 5.4, rule 8).
#[derive(Debug)]
pub(crate) struct Requester {
    outstanding: VecDeque<Outstanding>,
    ord: usize,
    random: Random,
    /// The next Atomic Response.
    number: MessageNumber,
    /// The identifier of the next atomic.
    identifier: u32,
}

impl Requester {
    pub(crate) fn new(ord: u16, seed: u64) -> Self {
        let ord = usize::from(ord);
        // One more for the read that says ready-to-receive.
        Self {
            outstanding: VecDeque::with_capacity(FIRST_PLACES.min(ord + 1)),
            ord,
            random: Random::new(seed),
            number: MessageNumber::FIRST,
            identifier: 0,
        }
    }

    /// Whether one more may be sent (RFC 5040 section 6.1: never more than were agreed).
    pub(crate) fn has_room(&self) -> bool {
        self.outstanding.len() < self.ord
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Outstanding> {
        self.outstanding.iter()
    }

    /// A read is being sent. Returns the STag of its sink.
    pub(crate) fn start_read(&mut self, sequence: Option<u64>, sink: Gather) -> Stag {
        let stag = self.fresh_stag();
        let length = sink.length();
        self.outstanding.push_back(Outstanding { sequence, awaits: Awaits::Read { stag, sink, length, placed: 0 } });
        stag
    }

    /// An atomic is being sent. Returns its identifier.
    pub(crate) fn start_atomic(&mut self, sequence: u64) -> u32 {
        let identifier = self.identifier;
        self.identifier = self.identifier.wrapping_add(1);
        self.outstanding.push_back(Outstanding { sequence: Some(sequence), awaits: Awaits::Atomic { identifier } });
        identifier
    }

    fn fresh_stag(&mut self) -> Stag {
        loop {
            let stag = Stag(self.random.next_u64() as u32);
            let taken =
                self.outstanding.iter().any(|o| matches!(o.awaits, Awaits::Read { stag: other, .. } if other == stag));
            if !taken {
                return stag;
            }
        }
    }

    /// Where a segment of a Read Response goes that may be of any outstanding read.
    pub(crate) fn locate_any(&self, part: &ResponsePart) -> Result<Gather, Violation> {
        let read = self.outstanding.iter().find_map(|outstanding| match &outstanding.awaits {
            Awaits::Read { stag, sink, length, .. } if *stag == part.stag => Some((sink, *length)),
            _ => None,
        });
        let (sink, length) = read.ok_or(Violation::UnknownSink(part.stag))?;
        let range_error = Violation::ResponseRange {
            offset: part.offset,
            length: part.length,
            expected: SINK_OFFSET,
            missing: length,
        };
        let skip = part.offset.checked_sub(SINK_OFFSET).and_then(|skip| u32::try_from(skip).ok()).ok_or(range_error)?;
        let fits = skip.checked_add(part.length).is_some_and(|end| end <= length);
        if fits { Ok(sink.part(skip, part.length)) } else { Err(range_error) }
    }

    /// Where the segment of a Read Response goes whose turn it is. It must continue the oldest request (RFC 5040
    /// section 5.2.2: STag, offset and length may be validated; here they are).
    pub(crate) fn locate_next(&self, part: &ResponsePart) -> Result<Gather, Violation> {
        let (stag, sink, length, placed) = match self.outstanding.front() {
            Some(Outstanding { awaits: Awaits::Read { stag, sink, length, placed }, .. }) => {
                (*stag, sink, *length, *placed)
            }
            _ => return Err(Violation::UnknownSink(part.stag)),
        };
        let missing = length - placed;
        // RFC 5041 section 5.2: the STag and offset of a segment of length zero are not checked.
        if part.length > 0 {
            let expected = SINK_OFFSET + u64::from(placed);
            if part.stag != stag {
                return Err(Violation::UnknownSink(part.stag));
            }
            if part.offset != expected || part.length > missing {
                let (offset, length) = (part.offset, part.length);
                return Err(Violation::ResponseRange { offset, length, expected, missing });
            }
        }
        let missing = missing - part.length;
        if part.last != (missing == 0) {
            return Err(Violation::ResponseEnd { missing });
        }
        Ok(sink.part(placed, part.length))
    }

    /// Whether this segment of a Read Response continues the oldest request. Its STag says so also where it has no
    /// bytes: what answers another read with none would pass for it else.
    pub(crate) fn is_due(&self, part: &ResponsePart) -> bool {
        let oldest = self.outstanding.front().map(|oldest| &oldest.awaits);
        matches!(oldest, Some(Awaits::Read { stag, .. }) if *stag == part.stag) && self.locate_next(part).is_ok()
    }

    /// The segment whose turn it was is in place. Returns the request when it has been answered.
    pub(crate) fn on_response(&mut self, part: &ResponsePart) -> Result<Option<Outstanding>, Violation> {
        self.locate_next(part)?;
        if let Some(Outstanding { awaits: Awaits::Read { placed, .. }, .. }) = self.outstanding.front_mut() {
            *placed += part.length;
        }
        Ok(if part.last { self.outstanding.pop_front() } else { None })
    }

    /// Whether an Atomic Response of this number may come now.
    pub(crate) fn check_atomic(&self, number: MessageNumber, identifier: u32) -> Result<(), Violation> {
        if number != self.number {
            return Err(Violation::Number { queue: queue::ATOMIC_RESPONSE, number, expected: self.number });
        }
        match self.outstanding.front() {
            Some(Outstanding { awaits: Awaits::Atomic { identifier: expected }, .. }) if *expected == identifier => {
                Ok(())
            }
            Some(Outstanding { awaits: Awaits::Atomic { identifier: expected }, .. }) => {
                Err(Violation::AtomicIdentifier { identifier, expected: *expected })
            }
            _ => Err(Violation::NoBuffer { queue: queue::ATOMIC_RESPONSE, number }),
        }
    }

    /// The Atomic Response whose turn it is was delivered. Returns the request it answers.
    pub(crate) fn on_atomic(
        &mut self,
        number: MessageNumber,
        identifier: u32,
    ) -> Result<Option<Outstanding>, Violation> {
        self.check_atomic(number, identifier)?;
        self.number = self.number.next();
        Ok(self.outstanding.pop_front())
    }

    /// How much of the answer that has begun to come is missing.
    pub(crate) fn missing(&self) -> u32 {
        match self.outstanding.front() {
            Some(Outstanding { awaits: Awaits::Read { length, placed, .. }, .. }) if *placed > 0 => length - placed,
            _ => 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.outstanding.clear();
    }
}
