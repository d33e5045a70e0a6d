//! Work requests, each written in one line.

use weft_base::{Gather, Slice, Stag};
use weft_nic::PostError;
use weft_rdmap::{AtomicCode, InlineBytes, MAX_INLINE, Operation, Payload, RequestFlags, SendRequest};

use super::memory_region::RemoteMemory;

/// A request to the peer: what to do, and how to report it. Signaled, not fenced and with id 0 by default.
///
/// ```
/// # use weft::verbs::{WorkRequest, RemoteMemory, Stag};
/// # let peer = RemoteMemory { stag: Stag(1), offset: 0 };
/// let request = WorkRequest::write_inline(b"now", peer).unwrap().id(7).unsignaled();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a work request does nothing until it is posted"]
pub struct WorkRequest {
    request: SendRequest,
}

impl WorkRequest {
    /// Sends the bytes of a slice as a message: the peer's oldest receive takes it.
    pub fn send(payload: Slice) -> Self {
        Self::of(Operation::Send { payload: Payload::Gather(payload.into()), solicited: false, invalidate: None })
    }

    /// Sends the bytes of several slices as one message.
    ///
    /// # Errors
    /// More than [`weft_base::MAX_GATHER`] slices ([`ProtectionDomain::list`](super::ProtectionDomain::list) takes
    /// more), or 2^32 bytes and more.
    pub fn send_gather(payload: &[Slice]) -> Result<Self, PostError> {
        let payload = Payload::Gather(gather(payload)?);
        Ok(Self::of(Operation::Send { payload, solicited: false, invalidate: None }))
    }

    /// Sends a few bytes that are copied now: no region is needed, and the bytes may be reused at once.
    ///
    /// # Errors
    /// More than [`MAX_INLINE`] bytes.
    pub fn send_inline(bytes: &[u8]) -> Result<Self, PostError> {
        Ok(Self::of(Operation::Send { payload: inline(bytes)?, solicited: false, invalidate: None }))
    }

    /// Writes the bytes of a slice into the peer's memory. The peer's application is not notified.
    pub fn write(payload: Slice, target: RemoteMemory) -> Self {
        Self::of(Operation::Write { payload: Payload::Gather(payload.into()), target: target.target() })
    }

    /// Writes the bytes of several slices, one after the other, into the peer's memory.
    ///
    /// # Errors
    /// More than [`weft_base::MAX_GATHER`] slices ([`ProtectionDomain::list`](super::ProtectionDomain::list) takes
    /// more), or 2^32 bytes and more.
    pub fn write_gather(payload: &[Slice], target: RemoteMemory) -> Result<Self, PostError> {
        Ok(Self::of(Operation::Write { payload: Payload::Gather(gather(payload)?), target: target.target() }))
    }

    /// Writes a few bytes that are copied now.
    ///
    /// # Errors
    /// More than [`MAX_INLINE`] bytes.
    pub fn write_inline(bytes: &[u8], target: RemoteMemory) -> Result<Self, PostError> {
        Ok(Self::of(Operation::Write { payload: inline(bytes)?, target: target.target() }))
    }

    /// Uses up the peer's oldest receive and hands 8 bytes to its completion (RFC 7306). Only between peers that agreed
    /// on extensions.
    pub fn immediate(data: u64) -> Self {
        Self::of(Operation::Immediate { immediate: data, solicited: false })
    }

    /// Reads from the peer's memory into a slice.
    pub fn read(sink: Slice, source: RemoteMemory) -> Self {
        Self::of(Operation::Read { sink: sink.into(), source: source.target() })
    }

    /// Reads from the peer's memory into several slices, one after the other.
    ///
    /// # Errors
    /// More than [`weft_base::MAX_GATHER`] slices ([`ProtectionDomain::list`](super::ProtectionDomain::list) takes
    /// more), or 2^32 bytes and more.
    pub fn read_scatter(sink: &[Slice], source: RemoteMemory) -> Result<Self, PostError> {
        Ok(Self::of(Operation::Read { sink: gather(sink)?, source: source.target() }))
    }

    /// Adds to 8 bytes of the peer's memory; the old value comes into `sink`, which has 8 bytes (RFC 7306 section
    /// 5.1.1).
    pub fn fetch_add(sink: Slice, target: RemoteMemory, add: u64) -> Self {
        Self::atomic(AtomicCode::FetchAdd, sink, target, add, 0, (0, u64::MAX))
    }

    /// As [`WorkRequest::fetch_add`], field by field: each set bit of `boundaries` is the top bit of a field, over
    /// which nothing carries.
    pub fn fetch_add_fields(sink: Slice, target: RemoteMemory, add: u64, boundaries: u64) -> Self {
        Self::atomic(AtomicCode::FetchAdd, sink, target, add, boundaries, (0, u64::MAX))
    }

    /// Exchanges 8 bytes of the peer's memory; the old value comes into `sink`.
    pub fn swap(sink: Slice, target: RemoteMemory, new: u64) -> Self {
        Self::atomic(AtomicCode::Swap, sink, target, new, u64::MAX, (0, u64::MAX))
    }

    /// Exchanges 8 bytes of the peer's memory if they equal `expected`; the old value comes into `sink` (RFC 7306
    /// section 5.1.2).
    pub fn compare_swap(sink: Slice, target: RemoteMemory, expected: u64, new: u64) -> Self {
        Self::atomic(AtomicCode::CompareSwap, sink, target, new, u64::MAX, (expected, u64::MAX))
    }

    /// As [`WorkRequest::compare_swap`], where only the bits of `compare_mask` are compared and only those of
    /// `swap_mask` are exchanged.
    pub fn compare_swap_masked(
        sink: Slice,
        target: RemoteMemory,
        (expected, compare_mask): (u64, u64),
        (new, swap_mask): (u64, u64),
    ) -> Self {
        Self::atomic(AtomicCode::CompareSwap, sink, target, new, swap_mask, (expected, compare_mask))
    }

    fn atomic(
        code: AtomicCode,
        sink: Slice,
        target: RemoteMemory,
        data: u64,
        mask: u64,
        (compare, compare_mask): (u64, u64),
    ) -> Self {
        Self::of(Operation::Atomic { code, data, mask, compare, compare_mask, sink, target: target.target() })
    }

    const fn of(operation: Operation) -> Self {
        Self { request: SendRequest { id: 0, operation, signaled: true, fence: false, flags: RequestFlags::NONE } }
    }

    /// A number of the application's, given back in the completion.
    pub const fn id(mut self, id: u64) -> Self {
        self.request.id = id;
        self
    }

    /// No completion when it succeeds.
    pub const fn unsignaled(mut self) -> Self {
        self.request.signaled = false;
        self
    }

    /// Waits until the reads and atomics posted before it have completed.
    pub const fn fenced(mut self) -> Self {
        self.request.fence = true;
        self
    }

    /// Lets a Write be placed at the peer as it comes, whatever else is written to the same bytes before or behind it:
    /// either may be the last, and a short one waits for nothing. Everything else keeps its order: a message, an atomic
    /// or a short Write without this that is posted behind it comes behind it. Over iWARP and shared memory, where all
    /// comes in order, it changes nothing, nor does it on others than Writes.
    pub const fn unordered(self) -> Self {
        self.flagged(RequestFlags::UNORDERED)
    }

    /// A Write is not placed at the peer before everything that was posted before it is in place. Others wait for that
    /// anyway. Where several pieces of a large Write are polled, no piece is seen before what was posted earlier. A
    /// Send for which the peer has no receive holds it up.
    ///
    /// Over shared memory, and iWARP without markers, bytes are placed in the order of posting, so this changes
    /// nothing; with markers the request is refused ([`PostError::NoFences`]).
    pub const fn backward_fence(self) -> Self {
        self.flagged(RequestFlags::BACKWARD_FENCE)
    }

    /// No Write that is posted behind this request is placed at the peer before this one is in place, or delivered, if
    /// it is no Write. Otherwise as [`WorkRequest::backward_fence`].
    pub const fn forward_fence(self) -> Self {
        self.flagged(RequestFlags::FORWARD_FENCE)
    }

    /// The peer gets an event when a Write is in place: as [`WorkRequest::with_immediate`] of 0 with
    /// [`WorkRequest::solicited`], so it uses up a receive there, whose completion has the length of the Write. One
    /// with immediate data keeps them. On a Send or immediate data it is [`WorkRequest::solicited`]; reads and atomics
    /// have no event at the peer, and this has no effect on them.
    pub fn notify(self) -> Self {
        match self.request.operation {
            Operation::Write { .. } => self.with_immediate(0).solicited(),
            _ => self.solicited(),
        }
    }

    const fn flagged(mut self, flags: RequestFlags) -> Self {
        self.request.flags = self.request.flags.with(flags);
        self
    }

    /// Asks for an event at the peer (a Send or immediate data; without effect on others).
    pub const fn solicited(mut self) -> Self {
        match &mut self.request.operation {
            Operation::Send { solicited, .. }
            | Operation::SendImmediate { solicited, .. }
            | Operation::Immediate { solicited, .. }
            | Operation::WriteImmediate { solicited, .. } => *solicited = true,
            _ => {}
        }
        self
    }

    /// A Send also ends the peer's registration `stag` for remote access, at the peer (without effect on others).
    pub const fn invalidate(mut self, stag: Stag) -> Self {
        if let Operation::Send { invalidate, .. } = &mut self.request.operation {
            *invalidate = Some(stag);
        }
        self
    }

    /// A Write also uses up the peer's oldest receive and hands it 8 bytes (RFC 7306; without effect on others).
    pub fn with_immediate(mut self, data: u64) -> Self {
        self.request.operation = match self.request.operation {
            Operation::WriteImmediate { payload, target, solicited, .. } => {
                Operation::WriteImmediate { payload, target, immediate: data, solicited }
            }
            Operation::Write { payload, target } => {
                Operation::WriteImmediate { payload, target, immediate: data, solicited: false }
            }
            other => other,
        };
        self
    }

    /// A Send also hands 32 bits to the completion of the peer's receive (an extension of Weft's own; without effect on
    /// others). It then invalidates nothing.
    pub fn with_message_immediate(mut self, data: u32) -> Self {
        self.request.operation = match self.request.operation {
            Operation::Send { payload, solicited, .. } | Operation::SendImmediate { payload, solicited, .. } => {
                Operation::SendImmediate { payload, immediate: data, solicited }
            }
            other => other,
        };
        self
    }

    #[inline]
    pub(super) fn request(&self) -> &SendRequest {
        &self.request
    }

    pub(super) fn into_request(self) -> SendRequest {
        self.request
    }
}

fn gather(slices: &[Slice]) -> Result<Gather, PostError> {
    Gather::new(slices).ok_or(PostError::TooLong)
}

fn inline(bytes: &[u8]) -> Result<Payload, PostError> {
    InlineBytes::new(bytes)
        .map(Payload::Inline)
        .ok_or(PostError::InlineTooLong { length: bytes.len(), most: MAX_INLINE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_carries_immediate_data() {
        let target = RemoteMemory { stag: Stag(1), offset: 0 };
        let write = || WorkRequest::write_inline(b"x", target).unwrap();
        let asked = |request: WorkRequest| match request.request.operation {
            Operation::WriteImmediate { immediate, solicited, .. } => Some((immediate, solicited)),
            _ => None,
        };
        assert_eq!(asked(write().notify()), Some((0, true)));
        assert_eq!(asked(write().notify().with_immediate(7)), Some((7, true)));
        assert_eq!(asked(write().with_immediate(7).notify()), Some((7, true)));
        let send = WorkRequest::send_inline(b"x").unwrap().notify();
        assert!(matches!(send.request.operation, Operation::Send { solicited: true, .. }));
        let both = write().backward_fence().unordered().request.flags;
        assert!(
            both.has_fence() && both.contains(RequestFlags::UNORDERED) && !both.contains(RequestFlags::FORWARD_FENCE)
        );
    }
}
