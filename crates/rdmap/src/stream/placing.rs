//! Parts of segments, and which placements are out.

use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, queue};

use crate::segment::Arrival;
use crate::violation::{HEAD_LENGTH, Violation};

/// A part of a segment, as a segment of its own.
pub(super) struct Cut {
    /// Its header, and nothing behind it.
    pub(super) head: [u8; HEAD_LENGTH],
    pub(super) header: usize,
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
        if !is_memory || whole.end - whole.start != positions {
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
        Ok(Self { head: bytes, header, length: header as u32 + end - skip, skip })
    }
}

/// Which placements are out.
#[derive(Debug)]
pub(super) struct Placing {
    /// The running number of the last one.
    last: u64,
    /// Of each that is out, if there may be several: its number, and its positions.
    out: Vec<(u64, Arrival)>,
    /// None but the last counts.
    is_single: bool,
}

impl Placing {
    pub(super) fn new(most: usize) -> Self {
        let is_single = most <= 1;
        Self { last: 0, out: Vec::with_capacity(if is_single { 0 } else { most }), is_single }
    }

    /// Whether a placement of these positions must wait for others.
    #[inline]
    pub(super) fn is_crowded(&self, arrival: Arrival, most: usize) -> bool {
        !self.is_single && (self.out.len() >= most || self.out.iter().any(|(_, other)| other.overlaps(arrival)))
    }

    #[inline]
    pub(super) fn begin(&mut self, arrival: Arrival, most: usize) -> u64 {
        self.last += 1;
        if most > 1 {
            self.out.push((self.last, arrival));
        }
        self.last
    }

    #[inline]
    pub(super) fn is_under_way(&self, serial: u64) -> bool {
        if self.is_single { serial == self.last } else { self.out.iter().any(|(out, _)| *out == serial) }
    }

    /// A placement is back. Returns whether it was out.
    #[inline]
    pub(super) fn end(&mut self, serial: u64) -> bool {
        if self.is_single {
            return serial == self.last;
        }
        let at = self.out.iter().position(|(out, _)| *out == serial);
        at.map(|at| self.out.swap_remove(at)).is_some()
    }
}

pub(super) fn is_immediate(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Immediate | Opcode::ImmediateSolicited)
}
