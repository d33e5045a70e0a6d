//! What a user asks for.

use core::fmt;
use std::collections::VecDeque;

use weft_base::{Gather, Slice, Stag};
use weft_wire::rdmap::AtomicCode;

use crate::FIRST_PLACES;
use crate::completion::{Completion, CompletionKind, Status};
use crate::inline::InlineBytes;
use crate::state::State;

/// A request to the peer.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// Chosen by the user, given back in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// Whether success makes a completion. An error always makes one.
    pub signaled: bool,
    /// Whether to wait until the reads and atomics before it have completed (RFC 5040 section 5.5, rule 12).
    pub fence: bool,
    /// What it asks of the order in which Writes are placed at the peer.
    pub flags: RequestFlags,
}

/// What a request asks of the order in which Writes are placed at the peer, beyond what holds for all of them: that
/// memory ends as if they had come in order, and that one of at most 8 bytes is seen no sooner than all that came
/// before it. They are MultiEdge's. A request whose flags the lower layer keeps anyway is like one without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags(u8);

impl RequestFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// A Write that may be placed as it comes: where others write to the same bytes, before it or behind it, either may
    /// be the last, and it waits for nothing though it be short. What is delivered (messages, atomics, completions of
    /// the peer) and short Writes without this flag still come behind it. Without effect on others than Writes.
    pub const UNORDERED: Self = Self(1);
    /// A Write that is not placed before all that was posted before it is in place. On others without effect: they
    /// are delivered in order.
    pub const BACKWARD_FENCE: Self = Self(2);
    /// No Write that is posted behind it is placed before it is in place, or delivered if it is no Write.
    pub const FORWARD_FENCE: Self = Self(4);

    /// Whether all of `flags` are among these.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These and others.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether there is a fence among them.
    #[must_use]
    pub const fn has_fence(self) -> bool {
        self.0 & (Self::BACKWARD_FENCE.0 | Self::FORWARD_FENCE.0) != 0
    }
}

impl SendRequest {
    /// Its completion when it ends with this status.
    #[must_use]
    pub fn completion(&self, status: Status) -> Completion {
        let length = if status == Status::Success { self.operation.length() } else { 0 };
        Completion {
            id: self.id,
            kind: self.operation.kind(),
            status,
            length,
            immediate: None,
            invalidated: None,
            solicited: false,
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Sends a message into the receive buffer that is next at the peer.
    Send {
        /// The message.
        payload: Payload,
        /// Asks the peer for an event.
        solicited: bool,
        /// Asks the peer to invalidate this STag of its own.
        invalidate: Option<Stag>,
    },
    /// Sends a message with immediate data, which the completion of the peer's receive has.
    SendImmediate {
        /// The message.
        payload: Payload,
        /// The immediate data.
        immediate: u32,
        /// Asks the peer for an event.
        solicited: bool,
    },
    /// Writes to the peer's memory.
    Write {
        /// The bytes.
        payload: Payload,
        /// Where they go.
        target: RemoteTarget,
    },
    /// Writes to the peer's memory, then uses up one of its receive requests with immediate data. One completion.
    WriteImmediate {
        /// The bytes.
        payload: Payload,
        /// Where they go.
        target: RemoteTarget,
        /// The immediate data.
        immediate: u64,
        /// Asks the peer for an event.
        solicited: bool,
    },
    /// Uses up one of the peer's receive requests with immediate data.
    Immediate {
        /// The immediate data.
        immediate: u64,
        /// Asks the peer for an event.
        solicited: bool,
    },
    /// Reads from the peer's memory, as many bytes as the sink has.
    Read {
        /// Where they go.
        sink: Gather,
        /// Where they are.
        source: RemoteTarget,
    },
    /// Changes 8 bytes of the peer's memory as one step.
    Atomic {
        /// How.
        code: AtomicCode,
        /// What to add or to put.
        data: u64,
        /// FetchAdd: the top bit of each field (0: one field of 64 bits). CompareSwap: the bits to exchange. Swap: not
        /// used.
        mask: u64,
        /// CompareSwap: what to compare with.
        compare: u64,
        /// CompareSwap: the bits to compare.
        compare_mask: u64,
        /// 8 bytes: takes what stood there before, in the byte order of this machine.
        sink: Slice,
        /// Which 8 bytes. Their address at the peer must be a multiple of 8.
        target: RemoteTarget,
    },
}

impl Operation {
    /// What its completion says that it was.
    #[must_use]
    pub fn kind(&self) -> CompletionKind {
        match self {
            Self::Send { .. } | Self::SendImmediate { .. } => CompletionKind::Send,
            Self::Write { .. } => CompletionKind::Write,
            Self::WriteImmediate { .. } => CompletionKind::WriteImmediate,
            Self::Immediate { .. } => CompletionKind::Immediate,
            Self::Read { .. } => CompletionKind::Read,
            Self::Atomic { code, .. } => CompletionKind::Atomic(*code),
        }
    }

    /// The bytes that it sends.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        match self {
            Self::Send { payload, .. }
            | Self::SendImmediate { payload, .. }
            | Self::Write { payload, .. }
            | Self::WriteImmediate { payload, .. } => Some(payload),
            Self::Immediate { .. } | Self::Read { .. } | Self::Atomic { .. } => None,
        }
    }

    /// Bytes of the message.
    pub(crate) fn length(&self) -> u32 {
        match self {
            Self::Read { sink, .. } => sink.length(),
            Self::Atomic { sink, .. } => sink.length,
            _ => self.payload().map_or(0, Payload::length),
        }
    }

    /// The memory it names, that is pinned while it is under way.
    #[must_use]
    pub fn memory(&self) -> &[Slice] {
        match self {
            Self::Read { sink, .. } => sink.slices(),
            Self::Atomic { sink, .. } => core::slice::from_ref(sink),
            _ => match self.payload() {
                Some(Payload::Gather(gather)) => gather.slices(),
                Some(Payload::Inline(_)) | None => &[],
            },
        }
    }

    /// The bytes of a Send or a Write of so many bytes at most.
    #[must_use]
    #[inline]
    pub fn short_payload(&self, most: u32) -> Option<&Payload> {
        match self {
            Self::Send { payload, .. } | Self::SendImmediate { payload, .. } | Self::Write { payload, .. } => {
                Some(payload).filter(|payload| payload.length() <= most)
            }
            _ => None,
        }
    }

    /// Whether the peer answers it, into the memory that it names: reads and atomics.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }

    /// Whether it is a message with bytes for a receive of the peer.
    pub(crate) fn is_send(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::SendImmediate { .. })
    }

    /// Whether it uses up a receive of the peer.
    pub(crate) fn takes_receive(&self) -> bool {
        self.is_send() || matches!(self, Self::WriteImmediate { .. } | Self::Immediate { .. })
    }

    pub(crate) fn needs_extensions(&self) -> bool {
        matches!(
            self,
            Self::SendImmediate { .. } | Self::WriteImmediate { .. } | Self::Immediate { .. } | Self::Atomic { .. }
        )
    }

    /// The peer's memory that it touches, and how many bytes of it.
    #[must_use]
    #[inline]
    pub fn remote(&self) -> Option<(RemoteTarget, u32)> {
        match self {
            Self::Send { .. } | Self::SendImmediate { .. } | Self::Immediate { .. } => None,
            Self::Write { target, .. } | Self::WriteImmediate { target, .. } | Self::Atomic { target, .. } => {
                Some((*target, self.length()))
            }
            Self::Read { source, .. } => Some((*source, self.length())),
        }
    }
}

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTarget {
    /// The region, as the peer has announced it.
    pub stag: Stag,
    /// The tagged offset in it.
    pub offset: u64,
}

/// The bytes of a message.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// In memory. It must not change before the completion.
    Gather(Gather),
    /// In the request itself.
    Inline(InlineBytes),
}

impl Payload {
    /// Bytes.
    #[must_use]
    #[inline]
    pub fn length(&self) -> u32 {
        match self {
            Self::Gather(gather) => gather.length(),
            Self::Inline(bytes) => bytes.len() as u32,
        }
    }
}

/// A buffer for a message of the peer.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest {
    /// Chosen by the user, given back in the completion.
    pub id: u64,
    /// Where the message goes.
    pub sink: Gather,
}

/// Where a stream takes receive requests from: a queue of its own, or one that is shared by several streams.
/// Whoever hands out a request hands over the pin of its memory with it.
pub trait ReceiveSource {
    /// The next request, if there is one that was promised to no stream.
    fn take(&mut self) -> Option<ReceiveRequest>;

    /// Has `fill` fill the memory of the request that [`ReceiveSource::take`] would return
    /// ([`ReceiveSource::take_promised`] if `is_promised`), if it has room for `length` bytes, and takes the request if
    /// it says that it has. Returns its id. `None`: nothing has changed.
    fn fill_next(&mut self, length: u32, is_promised: bool, fill: impl FnOnce(&Gather) -> bool) -> Option<u64>
    where
        Self: Sized;

    /// Promises requests that wait to this stream: at least as many as are `wanted`, if there are as many that were
    /// promised to no stream; more of them only where [`ReceiveSource::is_generous`]. Returns how many.
    fn promise(&mut self, wanted: u32) -> u32;

    /// Whether all requests are for this stream, so that more may be promised than its peer wants just now.
    fn is_generous(&self) -> bool;

    /// The next request, for a stream that takes one of those that were promised to it.
    fn take_promised(&mut self) -> Option<ReceiveRequest>;
}

/// Receive requests of one stream in the order in which they were posted.
#[derive(Debug)]
pub struct ReceiveQueue {
    waiting: VecDeque<ReceiveRequest>,
    depth: usize,
    /// How many of them were promised.
    promised: usize,
}

impl ReceiveQueue {
    /// An empty queue for up to `depth` requests.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(depth.min(FIRST_PLACES)), depth, promised: 0 }
    }

    /// Adds a request. Its memory is pinned already.
    ///
    /// # Errors
    /// The queue is full. The pin stays with the caller then.
    pub fn post(&mut self, request: ReceiveRequest) -> Result<(), PostError> {
        if self.waiting.len() == self.depth {
            return Err(PostError::QueueFull { depth: self.depth });
        }
        self.waiting.push_back(request);
        Ok(())
    }

    /// Requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl ReceiveSource for ReceiveQueue {
    fn take(&mut self) -> Option<ReceiveRequest> {
        self.waiting.pop_front()
    }

    fn fill_next(&mut self, length: u32, is_promised: bool, fill: impl FnOnce(&Gather) -> bool) -> Option<u64> {
        let request = self.waiting.front()?;
        if length > request.sink.length() || !fill(&request.sink) {
            return None;
        }
        let taken = if is_promised { self.take_promised() } else { self.take() };
        taken.map(|request| request.id)
    }

    fn promise(&mut self, _: u32) -> u32 {
        let count = self.waiting.len() - self.promised;
        self.promised = self.waiting.len();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn is_generous(&self) -> bool {
        true
    }

    fn take_promised(&mut self) -> Option<ReceiveRequest> {
        self.promised = self.promised.saturating_sub(1);
        self.take()
    }
}

/// Why a request was not taken. Nothing has changed, and the pin of its memory stays with the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue holds as many requests as it may.
    QueueFull {
        /// As many.
        depth: usize,
    },
    /// The stream takes no requests any more.
    NotReady(State),
    /// Atomics and immediate data were not agreed with this peer.
    ExtensionsNotAgreed,
    /// Reads and atomics cannot be sent to this peer: none may be outstanding there (ORD is 0).
    NoReadsAgreed,
    /// The remote range passes the end of the 64-bit offsets.
    OffsetWraps {
        /// The tagged offset.
        offset: u64,
        /// Bytes from there.
        length: u32,
    },
    /// The sink of an atomic has not 8 bytes.
    InvalidAtomic {
        /// What it has.
        sink_length: u32,
    },
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { depth } => {
                write!(f, "the queue is full ({depth} requests): poll completions, or create it deeper")
            }
            Self::NotReady(state) => write!(f, "the stream takes no requests: it is {state}"),
            Self::ExtensionsNotAgreed => {
                f.write_str("atomics and immediate data were not agreed with this peer when it connected")
            }
            Self::NoReadsAgreed => {
                f.write_str("reads and atomics are not possible: ORD is 0; ask for more when connecting")
            }
            Self::OffsetWraps { offset, length } => {
                write!(f, "remote offset {offset:#x} and length {length} pass the end of the 64-bit offsets")
            }
            Self::InvalidAtomic { sink_length } => {
                write!(f, "the sink of an atomic must have 8 bytes, this one has {sink_length}")
            }
        }
    }
}

impl std::error::Error for PostError {}
