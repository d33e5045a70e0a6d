//! The sending side: segments get their positions, and are kept until the other end says that they are in place.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{NoDigest, Random, Time};
use weft_memory::{MemoryError, Registry};
use weft_rdmap::{Segment, SegmentPayload, Stream};
use weft_wire::terminate::TerminateCode;

use super::{Disorder, span};

/// The patience grows to at most this many times its initial value.
const MOST_PATIENCE: u32 = 16;

/// A segment that was not acknowledged.
struct Kept {
    start: u64,
    end: u64,
    ulpdu: Vec<u8>,
    /// It is to be sent, for the first time or again.
    is_due: bool,
}

/// Takes segments and answers for them.
pub(super) struct Sender {
    kept: VecDeque<Kept>,
    /// Where the next segment starts.
    pub(super) next: u64,
    acknowledged: u64,
    /// When segments are retransmitted if nothing was acknowledged by then.
    again_at: Option<Time>,
    patience: Duration,
    disorder: Disorder,
}

impl Sender {
    pub(super) fn new(disorder: Disorder) -> Self {
        Self { kept: VecDeque::new(), next: 0, acknowledged: 0, again_at: None, patience: disorder.patience, disorder }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of the segments that were not acknowledged.
    pub(super) fn bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.ulpdu.len().max(1)).sum()
    }

    /// Gives up what was not acknowledged.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.again_at = None;
    }

    /// Takes segments from the stream while there is room in the window. Returns whether it took any.
    pub(super) fn take(&mut self, stream: &mut Stream, registry: &Registry) -> bool {
        let mut any = false;
        while self.kept.len() < self.disorder.window {
            let Some(segment) = stream.poll_transmit(self.disorder.max_ulpdu) else { break };
            any = true;
            let start = self.next;
            match copy(&segment, registry) {
                Ok(ulpdu) => {
                    self.next += span(&ulpdu).unwrap_or(1);
                    self.kept.push_back(Kept { start, end: self.next, ulpdu, is_due: true });
                }
                Err(_) => {
                    // The source of a read response is gone. The segment has no place in the order; the Terminate
                    // follows.
                    self.kept.push_back(Kept { start, end: start, ulpdu: Vec::new(), is_due: false });
                    stream.fail(TerminateCode::ProtectionInvalidStag);
                }
            }
        }
        let gone = self.settle();
        if gone > 0 {
            stream.handle_sent(gone);
        }
        any
    }

    /// The segment that is to be sent next: where it starts, and its bytes.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(u64, &[u8])> {
        let kept = self.kept.iter_mut().find(|kept| kept.is_due)?;
        kept.is_due = false;
        if self.again_at.is_none() {
            self.again_at = Some(now + self.patience);
        }
        Some((kept.start, &kept.ulpdu))
    }

    /// The other end has placed everything before this. Returns how many segments, in order, are acknowledged by that.
    /// `None`: it names what was never sent.
    pub(super) fn handle_acknowledged(&mut self, position: u64, now: Time) -> Option<usize> {
        if position > self.next {
            return None;
        }
        if position > self.acknowledged {
            self.acknowledged = position;
            self.patience = self.disorder.patience;
            self.again_at = Some(now + self.patience);
        }
        Some(self.settle())
    }

    fn settle(&mut self) -> usize {
        let gone = self.kept.iter().take_while(|kept| kept.end <= self.acknowledged).count();
        self.kept.drain(..gone);
        if self.kept.is_empty() {
            self.again_at = None;
        }
        gone
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.again_at
    }

    /// Has the oldest segments, and by chance some behind them, retransmitted when nothing was acknowledged for long.
    pub(super) fn handle_time(&mut self, now: Time, random: &mut Random) {
        if self.again_at.is_none_or(|at| at > now) || self.kept.is_empty() {
            return;
        }
        let again = 1 + random.below(self.kept.len() as u64) as usize;
        self.kept.iter_mut().take(again).filter(|kept| kept.end > kept.start).for_each(|kept| kept.is_due = true);
        self.patience = (self.patience * 2).min(self.disorder.patience * MOST_PATIENCE);
        self.again_at = Some(now + self.patience);
    }
}

/// The bytes of a segment.
fn copy(segment: &Segment<'_>, registry: &Registry) -> Result<Vec<u8>, MemoryError> {
    let mut ulpdu = segment.header.to_vec();
    match &segment.payload {
        SegmentPayload::None => {}
        SegmentPayload::Inline(bytes) => ulpdu.extend_from_slice(bytes),
        SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => {
            for slice in gather.slices() {
                let start = ulpdu.len();
                ulpdu.resize(start + slice.length as usize, 0);
                registry.copy_out(slice, &mut ulpdu[start..], &mut NoDigest)?;
            }
        }
    }
    debug_assert_eq!(ulpdu.len(), segment.length as usize);
    Ok(ulpdu)
}
