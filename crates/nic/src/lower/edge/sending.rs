//! What a connection sends: the segments of its stream.

use std::collections::VecDeque;

use weft_base::Gather;
use weft_edge::{Segment, Source};
use weft_memory::Registry;
use weft_rdmap::SegmentPayload;

use crate::lower::StreamGuard;

/// The longest segment: a datagram's, with room for what stands before it.
const MOST: u32 = 60 * 1024;

/// Nothing to send.
pub(super) struct Nothing;

impl Source for Nothing {
    fn next(&mut self, _: u32) -> Option<Segment<'_>> {
        None
    }
}

/// The segments of a stream, and where each ends in the order of the connection.
pub(super) struct Segments<'a> {
    pub(super) stream: StreamGuard<'a>,
    pub(super) ends: &'a mut VecDeque<u64>,
    /// Where the next one starts.
    pub(super) next: &'a mut u64,
    pub(super) frames: u64,
    pub(super) registry: &'a Registry,
}

impl Source for Segments<'_> {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        let segment = self.stream.poll_transmit(budget.min(MOST))?;
        let control = segment.header[0];
        let header = weft_wire::edge::frame::ddp_header_length(control);
        let takes = u64::from(segment.length) - header as u64 + u64::from(control & 0x40 != 0);
        *self.next += takes;
        self.ends.push_back(*self.next);
        self.frames += 1;
        let (bytes, gather): (&[u8], Gather) = match segment.payload {
            SegmentPayload::None => (&[], Gather::empty()),
            // It was checked just now, and is pinned: it may have to be sent again when the peer's right has ended.
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => (&[], self.registry.as_pinned(&gather)),
            SegmentPayload::Inline(bytes) => (bytes, Gather::empty()),
        };
        Some(Segment { header: segment.header, bytes, gather, ack_now: segment.is_awaited })
    }
}
