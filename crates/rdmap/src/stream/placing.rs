//! Parts of segments, and which placements are out.

use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, queue};

use crate::FIRST_PLACES;
use crate::segment::{Arrival, Extent, SMALL};
use crate::violation::{HEAD_LENGTH, Violation};

/// A part of a segment, as a segment of its own.
pub(super) struct Cut {
    /// Its header, and behind it its payload if the whole segment has only a few bytes.
    pub(super) head: [u8; HEAD_LENGTH],
    /// Bytes of that.
    pub(super) known: usize,
    /// Bytes of it with its header.
    pub(super) length: u32,
    /// Bytes of payload before it.
    pub(super) skip: u32,
}

impl Cut {
    /// The part of `whole` that is `run`. Only messages that lie in memory are ever cut (RFC 5041 section 5.2).
    pub(super) fn of(whole: Arrival, run: Arrival, length: u32, head: &[u8]) -> Result<Self, Violation> {
        let overlap = Violation::Overlap { start: whole.start, end: whole.end };
        let mut header = Header::parse(head).map_err(|_| Violation::Short { length })?;
        let is_memory = match header.target {
            Target::Tagged { .. } => true,
            Target::Untagged { queue, .. } => {
                let opcode = Control::parse(header.control).map(|control| control.opcode);
                queue == queue::SEND && opcode.is_ok_and(|opcode| !is_immediate(opcode))
            }
        };
        let payload = length - header.length() as u32;
        let positions = u64::from(payload) + u64::from(header.last);
        if !is_memory || whole.end - whole.start < positions {
            return Err(overlap);
        }
        let skip = (run.start - whole.start).min(payload.into()) as u32;
        let end = (run.end - whole.start).min(payload.into()) as u32;
        header.last &= run.end == whole.end;
        match &mut header.target {
            Target::Tagged { offset, .. } => *offset = offset.wrapping_add(skip.into()),
            Target::Untagged { offset, .. } => *offset = offset.wrapping_add(skip),
        }
        let mut bytes = [0; HEAD_LENGTH];
        let header = header.emit(&mut bytes);
        let held =
            if payload as usize <= SMALL { head.get(header + skip as usize..header + end as usize) } else { None };
        let held = held.unwrap_or_default();
        bytes[header..header + held.len()].copy_from_slice(held);
        Ok(Self { head: bytes, known: header + held.len(), length: header as u32 + end - skip, skip })
    }
}

/// Whether the headers of two segments that have positions in common agree about them: that they are bytes of one
/// message, which belong to one place each, and where that message ends.
pub(super) fn agree(one: (Arrival, Header), other: (Arrival, Header)) -> bool {
    let origin = |(arrival, header): (Arrival, Header)| {
        let mut target = header.target;
        match &mut target {
            Target::Tagged { offset, .. } => *offset = offset.wrapping_sub(arrival.start),
            Target::Untagged { offset, .. } => *offset = offset.wrapping_sub(arrival.start as u32),
        }
        (header.control, target)
    };
    // The last position of a message is its end, which another segment must leave out or have as its own end.
    let ends_within = |(arrival, header): (Arrival, Header), (other, of_other): (Arrival, Header)| {
        !header.last || other.end < arrival.end || (other.end == arrival.end && of_other.last)
    };
    origin(one) == origin(other) && ends_within(one, other) && ends_within(other, one)
}

/// Which placements are out.
#[derive(Debug)]
pub(super) struct Placing {
    /// The running number of the last one.
    last: u64,
    /// Those that are out, if there may be several.
    out: Vec<Out>,
    /// None but the last counts.
    is_single: bool,
}

/// A placement that is out.
#[derive(Debug)]
struct Out {
    serial: u64,
    arrival: Arrival,
    /// What it changes, where Writes are ordered.
    extent: Option<Extent>,
}

impl Placing {
    pub(super) fn new(most: usize) -> Self {
        let is_single = most <= 1;
        Self { last: 0, out: Vec::with_capacity(if is_single { 0 } else { most.min(FIRST_PLACES) }), is_single }
    }

    /// Whether a placement of these positions must wait for others.
    #[inline]
    pub(super) fn is_crowded(&self, arrival: Arrival, most: usize) -> bool {
        !self.is_single && (self.out.len() >= most || self.out.iter().any(|out| out.arrival.overlaps(arrival)))
    }

    /// Whether one that is out changes some of these bytes.
    pub(super) fn touches(&self, extent: &Extent) -> bool {
        self.out.iter().any(|out| out.extent.is_some_and(|other| other.overlaps(extent)))
    }

    #[inline]
    pub(super) fn begin(&mut self, arrival: Arrival, extent: Option<Extent>) -> u64 {
        self.last += 1;
        if !self.is_single {
            self.out.push(Out { serial: self.last, arrival, extent });
        }
        self.last
    }

    #[inline]
    pub(super) fn is_under_way(&self, serial: u64) -> bool {
        if self.is_single { serial == self.last } else { self.out.iter().any(|out| out.serial == serial) }
    }

    /// A placement is back. Returns whether it was out.
    #[inline]
    pub(super) fn end(&mut self, serial: u64) -> bool {
        if self.is_single {
            return serial == self.last;
        }
        let at = self.out.iter().position(|out| out.serial == serial);
        at.map(|at| self.out.swap_remove(at)).is_some()
    }
}

pub(super) fn is_immediate(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Immediate | Opcode::ImmediateSolicited)
}
