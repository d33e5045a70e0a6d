//! The stages of a NIC that does part of the work of its host: small tasks joined by bounded rings of blocks.
//!
//! What runs where is [`Split`], after Balaji, Feng, Bhagvat, Panda, Thakur and Gropp (out-of-order iWARP, SC
//! 2007). On the way out:
//!
//! | split | on the caller | on the NIC's thread |
//! |---|---|---|
//! | offload, coupled | post | [`fetch::insert_markers`] -> [`checksum`] -> [`sending`] |
//! | offload, decoupled | post | [`fetch::fetch`] -> [`fetch::Processing`] -> [`checksum`] -> [`sending`] |
//! | assist | post, [`fetch::insert_markers`] | [`checksum`] -> [`sending`] |
//!
//! Each task polls the ring of the task before it, processes one block, and returns: the event loop of BIPng (Prylli,
//! Geoffray, Tourancheau, Westrelin). So a large message is cut through, and nothing ever blocks. [`Pipeline::run`]
//! polls the rings to choose the next task. On the way in, [`incoming`] does the same with what the socket has brought.
//!
//! Without a split none of this is used: there a frame is made in as few passes as there can be ([`super::send`]).

mod block;
mod checksum;
mod fetch;
mod host_stage;
mod incoming;
mod job;
mod pipeline;
mod sending;
mod stage;

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use weft_base::{Lending, NoDigest, Received, Segmented};
use weft_lock::{Mutex, Rank};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Frame, FrameHead, Peek};
use weft_rdmap::{Placement, Stream};

use self::host_stage::HostStage;
use self::incoming::Incoming;
use self::pipeline::Pipeline;
use self::stage::Stage;
use super::bytes::{Bytes, Framing};
use super::receive::{FrameReader, blame, copy_frame, count_copied, locate, place_in};
use super::staging::{Pool, Staging};
use crate::lower::{Got, Io, ReceiveError, SendError, Sent, StreamCell, StreamSink};
use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;
use crate::settings::laboratory::{Coupling, Split};

/// The split of the work between threads, if there is to be one.
pub(super) fn split(settings: &Settings) -> Option<Split> {
    Some(settings.laboratory.split).filter(|split| *split != Split::Host)
}

/// FPDUs both ways, by stages.
pub(super) struct Staged {
    pipeline: Pipeline,
    frames: FrameReader,
    crc: bool,
    /// A frame that is being received.
    incoming: Option<Incoming>,
    /// Its ULPDU without markers, where taking them out is a stage of its own.
    flat: Option<Vec<u8>>,
}

impl Staged {
    /// What carries this stream, and how the stream is held.
    pub(super) fn new(
        split: Split,
        framing: Framing,
        segment_size: u32,
        stream: Stream,
        queue_pair: &QueuePair,
    ) -> (Self, StreamCell) {
        let stage = Stage::new(framing.framer, framing.large_fpdus, segment_size);
        let pipeline = Pipeline::new(split, stage);
        let cell = if split == Split::Assist {
            let stream = Arc::new(Mutex::new(Rank::Stream, stream));
            queue_pair.set_caller_stage(Arc::new(HostStage {
                stage: Arc::clone(pipeline.stage()),
                stream: Arc::clone(&stream),
                block_ring: Arc::clone(pipeline.block_ring()),
                unfinished: AtomicBool::new(false),
            }));
            StreamCell::Shared(stream)
        } else {
            StreamCell::Own(Box::new(stream))
        };
        let flat = (split == Split::Offload(Coupling::Decoupled)).then(|| Vec::with_capacity(1 << 16));
        let frames = FrameReader::new(framing.deframer);
        (Self { pipeline, frames, crc: framing.crc, incoming: None, flat }, cell)
    }

    /// Whether everything has gone out.
    pub(super) fn is_empty(&self) -> bool {
        self.pipeline.is_empty()
    }

    /// Throws away what has not been sent.
    pub(super) fn clear(&mut self) {
        self.pipeline.clear();
    }

    pub(super) fn transmit<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Sent, SendError> {
        // The start-up's frames, which all come before.
        let mut progress = bytes.flush(io)?;
        if bytes.outgoing.is_empty() {
            progress |= self.pipeline.run(above, &mut bytes.port, io)?;
        }
        Ok(Sent { progress, cut_short: false })
    }

    pub(super) fn receive<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        match self.frames.read(&mut bytes.port, &mut bytes.staging, io)? {
            Received::Bytes(_) => self.process(&mut bytes.staging, above, io),
            Received::Nothing => Ok(Got::Nothing),
            Received::End => Ok(Got::End { whole: bytes.staging.filled().is_empty() }),
        }
    }

    fn process<A: StreamSink>(
        &mut self,
        staging: &mut Staging,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        loop {
            let bytes = staging.filled();
            let head = match self.frames.deframer.peek(bytes)? {
                Peek::More { .. } => return Ok(Got::Progress),
                Peek::Head(head) => head,
            };
            self.advance(&head, bytes);
            let Some(frame) = self.frames.deframer.frame(&head, bytes) else { return Ok(Got::Progress) };
            // A part of the next one would only have to be moved within staging.
            self.frames.note(head.ulpdu_length >= io.settings.direct_threshold);
            self.place(&head, &frame, bytes, above, io)?;
            self.frames.deframer.advance(&head);
            staging.consume(head.wire_length);
            io.counters.received_frames += 1;
            if !above.stream().state().receives() {
                staging.clear(io.scratch.as_mut());
                return Ok(Got::Over);
            }
        }
    }

    /// The received part of a frame goes through the stages that need not wait for the rest.
    fn advance(&mut self, head: &FrameHead, bytes: &[u8]) {
        let there = bytes.len().min(head.wire_length);
        let (crc, flat) = (self.crc, self.flat.as_mut());
        let incoming = self.incoming.get_or_insert_with(|| Incoming::new(head, crc));
        incoming.advance(&bytes[..there], flat);
    }

    /// A whole frame has gone through the stages: judge it, copy its payload to its place, count it.
    fn place<A: StreamSink>(
        &mut self,
        head: &FrameHead,
        frame: &Frame<'_>,
        bytes: &[u8],
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<(), ReceiveError> {
        if let Some(incoming) = self.incoming.take() {
            incoming.check()?;
        }
        let verdict = locate(above, head, bytes);
        let placement = place_in(&verdict)?;
        if self.copy(frame, placement, io.registry).is_err() {
            return Err(blame(above, placement));
        }
        count_copied(placement, above, io)
    }

    fn copy(&mut self, frame: &Frame<'_>, placement: &Placement, registry: &Registry) -> Result<(), MemoryError> {
        let Some(flat) = &mut self.flat else { return copy_frame(frame, placement, registry) };
        let copied = if placement.sink.is_empty() {
            Ok(())
        } else {
            let payload = &flat[placement.header_length as usize..];
            registry.copy_in_gather(&placement.sink, 0, payload, &mut NoDigest)
        };
        flat.clear();
        copied
    }
}
