//! Order between Writes, where it was promised ([`StreamConfig::ordered_writes`](crate::StreamConfig)).
//!
//! Bulk is placed as it comes. By three rules memory ends with the contents that arrival in order gives, and no reader
//! sees a flag before what was written earlier:
//! 1. A Write never touches what newer ones have placed: [`Stream::arrange`] cuts it there.
//! 2. A Write of a few bytes, which may be a flag that is polled, and an atomic wait for their turn. The order keeps
//!    their bytes.
//! 3. What would touch the bytes of another that waits before it, or is being placed, is put off. So whatever is
//!    applied when its turn comes meets no newer bytes but those of the record.
//!
//! A Write whose sender needs no order ([`OrderConstraint::unordered`](crate::OrderConstraint)) has no part in any of
//! them.

use weft_base::{Gather, NoDigest, Slice};
use weft_memory::{AtomicOperation, MemoryError};
use weft_wire::ddp::{TAGGED_LENGTH, Target};

use super::Stream;
use crate::ahead::Run;
use crate::segment::{Effect, Extent, Placement, Received, SMALL, SmallWrite};
use crate::untagged::Missing;
use crate::violation::{Context, Violation};

impl Stream {
    /// Makes a placement one that keeps the order, or says why there is none now. `head` is as much of the segment as
    /// is in hand.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn arrange(&self, placement: &mut Placement, is_early: bool, head: &[u8]) -> Result<(), Missing> {
        let Some(extent) = placement.received.extent() else { return Ok(()) };
        if self.placing.touches(&extent) {
            return Err(Missing::Early);
        }
        let Effect::Write { address } = placement.received.effect else { return Ok(()) };
        if is_early && let Some(small) = small_write(&placement.received.context, address, head) {
            placement.received.effect = Effect::SmallWrite(small);
            placement.sink = Gather::empty();
            return Ok(());
        }
        if self.ahead.awaits(placement.arrival.start, &extent) {
            return Err(Missing::Early);
        }
        let run = self.ahead.first_run(placement.arrival.end, &extent);
        self.shorten(placement, &extent, run)
    }

    /// Leaves of a Write its first run: to be placed, or, where newer ones have been there, to count as placed.
    fn shorten(&self, placement: &mut Placement, extent: &Extent, run: Run) -> Result<(), Missing> {
        if run.length < extent.length {
            let Placement { arrival, received: Received { context, .. }, .. } = placement;
            let last = context.header.is_some_and(|header| header.last);
            if arrival.end - arrival.start < extent.length + u64::from(last) {
                let violation = Violation::Overlap { start: arrival.start, end: arrival.end };
                return Err(Missing::Violation(violation));
            }
            arrival.end = arrival.start + run.length;
            context.length = TAGGED_LENGTH as u32 + run.length as u32;
            if let Some(header) = &mut context.header {
                header.last = false;
            }
            placement.is_partial = true;
        }
        placement.sink = if run.is_covered { Gather::empty() } else { placement.sink.part(0, run.length as u32) };
        Ok(())
    }

    /// A segment was kept before its turn: what it means for those that come later, and precede it in the order.
    pub(super) fn note_early(&mut self, placement: &Placement) {
        match (placement.extent(), &placement.received.effect) {
            (Some(extent), Effect::Write { .. }) => self.ahead.add_placed(placement.arrival, extent),
            (Some(extent), _) => self.ahead.add_waiting(placement.arrival, extent),
            (None, _) => {}
        }
    }

    /// Writes what newer Writes have left of bytes whose turn it is. The order is past them already.
    pub(super) fn write_beneath(&self, slice: Slice, bytes: &[u8], mut extent: Extent) -> Result<(), MemoryError> {
        let mut at = 0;
        while extent.length > 0 {
            let Run { length, is_covered } = self.ahead.first_run(self.order.next(), &extent);
            if !is_covered {
                let now = &bytes[at as usize..][..length as usize];
                self.registry.copy_in(&slice.part(at, length as u32), now, &mut NoDigest)?;
            }
            at += length as u32;
            extent.address = extent.address.wrapping_add(length);
            extent.length -= length;
        }
        Ok(())
    }

    /// An atomic whose turn it is. Where newer Writes have changed its word already, it is done on what they left, and
    /// changes nothing of theirs: it then answers with what they have written, as a read may (RFC 5040 section 5.5).
    pub(super) fn atomic_in_order(
        &self,
        slice: Slice,
        operation: AtomicOperation,
        extent: Extent,
    ) -> Result<u64, MemoryError> {
        let untouched = Run { length: extent.length, is_covered: false };
        if !self.config.ordered_writes || self.ahead.first_run(self.order.next(), &extent) == untouched {
            return self.registry.atomic(&slice, operation);
        }
        let original = self.registry.atomic(&slice, AtomicOperation::FetchAdd { add: 0, mask: 0 })?;
        self.write_beneath(slice, &operation.apply(original).to_ne_bytes(), extent)?;
        Ok(original)
    }
}

impl Received {
    /// The bytes that it changes, now or when its turn comes, if it changes any that peers name.
    fn extent(&self) -> Option<Extent> {
        match self.effect {
            Effect::Write { .. } if self.unordered => None,
            Effect::Write { address } => {
                let length = u64::from(self.context.length.saturating_sub(TAGGED_LENGTH as u32));
                (length > 0).then_some(Extent { address, length })
            }
            Effect::SmallWrite(small) => Some(small.extent()),
            Effect::AtomicRequest { address, .. } => address.map(|address| Extent { address, length: 8 }),
            _ => None,
        }
    }
}

impl Placement {
    /// As of what was received; of a Write that newer ones cover, nothing.
    pub(super) fn extent(&self) -> Option<Extent> {
        let is_covered = matches!(self.received.effect, Effect::Write { .. }) && self.sink.is_empty();
        if is_covered { None } else { self.received.extent() }
    }
}

/// A Write short enough to be a flag. Alignment is not checked: the peer's offset does not show it, and one that is not
/// aligned waits without need, but not for long.
fn small_write(context: &Context, address: u64, head: &[u8]) -> Option<SmallWrite> {
    let Target::Tagged { stag, offset } = context.header?.target else { return None };
    let length = usize::try_from(context.length).ok()?.checked_sub(TAGGED_LENGTH).filter(|length| *length <= SMALL)?;
    let payload = head.get(TAGGED_LENGTH..TAGGED_LENGTH + length)?;
    let mut bytes = [0; SMALL];
    bytes[..length].copy_from_slice(payload);
    Some(SmallWrite { stag, offset, address, length: length as u8, bytes })
}
