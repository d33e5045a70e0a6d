//! One segment on its way through the first stage.

use arrayvec::ArrayVec;
use weft_base::{Digest, Gather, NoDigest};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Framer, Layout, MarkerInserter, Source};
use weft_rdmap::{HEAD_LENGTH, InlineBytes, Segment, SegmentPayload};

use super::super::held::HeldGather;
use super::block::FrameRecord;

/// A segment that has its place in the stream, and how far it has been fetched.
pub(super) struct Job {
    layout: Layout,
    /// The framer as it was before, for a frame that comes to nothing.
    before: Framer,
    marker_inserter: MarkerInserter,
    header: ArrayVec<u8, HEAD_LENGTH>,
    payload: Payload,
    /// Bytes of the ULPDU that have been fetched.
    fetched: usize,
}

enum Payload {
    None,
    Memory(Gather),
    Inline(InlineBytes),
}

impl Job {
    /// Gives a segment its place.
    pub(super) fn new(segment: &Segment<'_>, framer: &mut Framer) -> Self {
        let before = framer.clone();
        let layout = framer.frame(segment.length);
        let payload = match segment.payload {
            SegmentPayload::None => Payload::None,
            // What is summed up here is a copy in any case.
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => Payload::Memory(gather),
            SegmentPayload::Inline(bytes) => InlineBytes::new(bytes).map_or(Payload::None, Payload::Inline),
        };
        let header = segment.header.iter().copied().collect();
        Self { layout, before, marker_inserter: MarkerInserter::new(&layout), header, payload, fetched: 0 }
    }

    pub(super) fn laid(&self) -> FrameRecord {
        FrameRecord { layout: Some(self.layout), payload: self.layout.ulpdu_length() - self.header.len() as u32 }
    }

    /// Whether nothing of it has gone on.
    pub(super) fn is_new(&self) -> bool {
        self.marker_inserter.written() == 0 && self.fetched == 0
    }

    pub(super) fn before(&self) -> &Framer {
        &self.before
    }

    /// Whether its payload can be fetched now.
    pub(super) fn check(&self, registry: &Registry) -> Result<(), MemoryError> {
        match &self.payload {
            Payload::Memory(gather) => HeldGather::new(gather, registry).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether the whole FPDU has been woven.
    pub(super) fn is_woven(&self) -> bool {
        self.marker_inserter.is_done()
    }

    /// Whether the whole ULPDU has been fetched.
    pub(super) fn is_fetched(&self) -> bool {
        self.fetched == self.layout.ulpdu_length() as usize
    }

    /// Writes the next bytes of the FPDU, markers and all, with a hole for the CRC: a piece of payload, a marker, a
    /// piece of payload. Returns how many.
    pub(super) fn insert_markers(&mut self, registry: &Registry, out: &mut [u8]) -> Result<usize, MemoryError> {
        let wanted = out.len();
        let Self { marker_inserter, header, payload, fetched, .. } = self;
        match payload {
            Payload::None => {
                let mut source: &[u8] = &[];
                let Ok(count) = marker_inserter.insert_markers(header, &mut source, out);
                Ok(count)
            }
            Payload::Inline(bytes) => {
                let mut source = &bytes[*fetched..];
                let Ok(count) = marker_inserter.insert_markers(header, &mut source, out);
                *fetched = bytes.len() - source.len();
                Ok(count)
            }
            Payload::Memory(gather) => {
                let left = gather.length() - *fetched as u32;
                let now = gather.part(*fetched as u32, left.min(wanted as u32));
                let mut source = Held { gather: HeldGather::new(&now, registry)?, copied: 0 };
                let count = marker_inserter.insert_markers(header, &mut source, out)?;
                *fetched += source.copied;
                Ok(count)
            }
        }
    }

    /// Copies the next bytes of the ULPDU, in one run. Returns how many.
    pub(super) fn fetch(&mut self, registry: &Registry, out: &mut [u8]) -> Result<usize, MemoryError> {
        let header = &self.header[self.fetched.min(self.header.len())..];
        let (first, rest) = out.split_at_mut(header.len().min(out.len()));
        first.copy_from_slice(&header[..first.len()]);
        self.fetched += first.len();
        let skip = self.fetched - self.header.len().min(self.fetched);
        let count = match &self.payload {
            _ if self.fetched < self.header.len() => 0,
            Payload::None => 0,
            Payload::Inline(bytes) => {
                let count = rest.len().min(bytes.len() - skip);
                rest[..count].copy_from_slice(&bytes[skip..skip + count]);
                count
            }
            Payload::Memory(gather) => {
                let count = rest.len().min(gather.length() as usize - skip);
                registry.copy_out_gather(gather, skip as u32, &mut rest[..count], &mut NoDigest)?;
                count
            }
        };
        self.fetched += count;
        Ok(first.len() + count)
    }
}

/// A part of a gather list, and how much of it has been copied.
struct Held {
    gather: HeldGather,
    copied: usize,
}

impl Source for Held {
    type Error = MemoryError;

    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        self.gather.copy_out(out, digest)?;
        self.copied += out.len();
        Ok(())
    }
}
