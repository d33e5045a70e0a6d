//! One-sided work: what the application posts, and what the messages' protocols do.

use arrayvec::ArrayVec;
use weft_base::{Gather, MAX_GATHER, NoDigest, PeerId, Slice};
use weft_memory::{Access, Combine, Element, IoBuffer, MemoryError, Region, Registry};
use weft_message::{RemotePart, Ticket};
use weft_rdmap::{InlineBytes, Operation, Payload, RemoteTarget, Status, StreamError};
use weft_wire::rdmap::AtomicCode;

use super::atomic_post::AtomicPost;
use super::request::{Completed, EndpointFailure, Level, RemotePiece, RemotePlace, SendPost, TransferPost};
use crate::error::ConnectionError;

/// Long transfers are cut into requests of this many bytes.
const PIECE: u64 = 1 << 30;

/// Work that waits for its turn with a peer.
#[derive(Debug)]
pub(super) enum Work {
    /// A transfer of a message's protocol.
    Protocol { ticket: Ticket, operation: Operation },
    /// A transfer or atomic of the application.
    User { number: u32, fence: bool },
    /// A message that waits for what is before it.
    Send(Box<SendPost>),
}

impl Work {
    /// What is sent after it must arrive after it.
    pub(super) fn holds_packets(&self) -> bool {
        matches!(self, Self::Protocol { operation: Operation::Write { .. }, .. })
    }

    pub(super) fn is_user(&self) -> bool {
        !matches!(self, Self::Protocol { .. })
    }
}

/// What is kept of a transfer until all its work requests have completed.
#[derive(Debug)]
pub(super) enum Transfer {
    /// Of a message's protocol.
    Protocol(Ticket),
    /// A write or read of the application.
    User(Box<UserTransfer>),
    /// An atomic that is a work request, or a call.
    Atomic(Box<UserAtomic>),
}

/// A write or read of the application.
#[derive(Debug)]
pub(super) struct UserTransfer {
    pub(super) peer: PeerId,
    pub(super) reads: bool,
    pub(super) context: u64,
    pub(super) op_flags: u32,
    pub(super) memory: IoBuffer,
    pub(super) length: u64,
    place: RemotePlace,
    /// If there are any, instead of `place`.
    pieces: Vec<RemotePiece>,
    data: Option<u64>,
    level: Level,
    /// Bytes for which work requests were posted.
    posted: u64,
    /// Work requests for all bytes are posted.
    wrote_all: bool,
    /// All of its work requests are posted.
    pub(super) is_posted: bool,
    /// Work requests under way.
    pub(super) under_way: u32,
    pub(super) failure: Option<EndpointFailure>,
}

impl UserTransfer {
    pub(super) fn new(post: TransferPost, reads: bool) -> Self {
        Self {
            peer: post.peer,
            reads,
            context: post.context,
            op_flags: post.op_flags,
            length: post.memory.length() as u64,
            memory: post.memory,
            place: post.place,
            pieces: post.pieces,
            data: post.data,
            level: post.level,
            posted: 0,
            wrote_all: false,
            is_posted: false,
            under_way: 0,
            failure: None,
        }
    }

    /// The peer's memory for what arrives behind this many bytes: where it begins, and how many bytes are there in one
    /// piece.
    pub(super) fn place(&self, done: u64) -> (RemotePlace, u64) {
        let mut before = 0;
        for piece in &self.pieces {
            if done - before < piece.length {
                return (further(piece.place, done - before), piece.length - (done - before));
            }
            before += piece.length;
        }
        (further(self.place, done), self.length - done)
    }

    /// A write's immediate data.
    pub(super) fn immediate(&self) -> Option<u64> {
        self.data
    }

    /// Whether anything of it was posted.
    pub(super) fn is_begun(&self) -> bool {
        self.posted > 0 || self.wrote_all || self.under_way > 0
    }

    pub(super) fn completed(&self) -> Completed {
        if self.reads { Completed::Read } else { Completed::Write }
    }

    /// Whether its next work request uses up one of the peer's receive requests.
    pub(super) fn needs_credit(&self) -> bool {
        let (_, there) = self.place(self.posted);
        let left = self.length - self.posted;
        self.data.is_some() && !self.wrote_all && left <= PIECE && left <= there
    }

    /// The next work request, which is then taken as posted.
    pub(super) fn next(
        &mut self,
        registry: &Registry,
        domain: weft_base::DomainId,
    ) -> Result<Operation, EndpointFailure> {
        if self.wrote_all {
            // Its answer shows that what was written before has arrived: the peer takes both in this order (RFC 5040
            // section 5.5).
            self.is_posted = true;
            let (place, _) = self.place(0);
            let source = RemoteTarget { stag: place.stag, offset: place.offset };
            return Ok(Operation::Read { sink: Gather::empty(), source });
        }
        let (place, there) = self.place(self.posted);
        let length = there.min(PIECE);
        let target = RemoteTarget { stag: place.stag, offset: place.offset };
        let is_last = self.posted + length == self.length;
        let operation = if self.reads {
            let sink = self.gather(registry, domain, length)?;
            Operation::Read { sink, source: target }
        } else {
            let payload = self.payload(registry, domain, length)?;
            match self.data.filter(|_| is_last) {
                Some(immediate) => Operation::WriteImmediate { payload, target, immediate, solicited: false },
                None => Operation::Write { payload, target },
            }
        };
        self.posted += length;
        self.wrote_all = is_last;
        self.is_posted = is_last && (self.reads || self.level == Level::TransmitComplete);
        Ok(operation)
    }

    fn payload(
        &mut self,
        registry: &Registry,
        domain: weft_base::DomainId,
        length: u64,
    ) -> Result<Payload, EndpointFailure> {
        let inline = usize::try_from(length).ok().and_then(InlineBytes::zeroed).filter(|_| self.posted == 0);
        let Some(mut bytes) = inline else {
            return Ok(Payload::Gather(self.gather(registry, domain, length)?));
        };
        self.memory.copy_out(0, &mut bytes, &mut NoDigest).map_err(|_| EndpointFailure::Fault)?;
        Ok(Payload::Inline(bytes))
    }

    fn gather(
        &mut self,
        registry: &Registry,
        domain: weft_base::DomainId,
        length: u64,
    ) -> Result<Gather, EndpointFailure> {
        if length == 0 {
            return Ok(Gather::empty());
        }
        let access = if self.reads { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        ensure_registered(&mut self.memory, registry, domain, access).map_err(|_| EndpointFailure::NoMemory)?;
        gather_of(self.memory.regions(), self.posted, length).ok_or(EndpointFailure::NoMemory)
    }
}

fn further(place: RemotePlace, bytes: u64) -> RemotePlace {
    RemotePlace { stag: place.stag, offset: place.offset.wrapping_add(bytes) }
}

/// An atomic operation of the application.
#[derive(Debug)]
pub(super) struct UserAtomic {
    pub(super) post: AtomicPost,
    /// Where the answer of a work request comes to: a cell of 8 bytes.
    pub(super) cell: Option<u32>,
}

impl UserAtomic {
    /// The operation of RFC 7306 that does this at the peer, if there is one.
    pub(super) fn native(&self) -> Option<(AtomicCode, u64, u64, u64, u64)> {
        let AtomicPost { element, operation, count, place, operand, compare, .. } = &self.post;
        if *count != 1 || !matches!(element, Element::U64 | Element::I64) || place.offset % 8 != 0 {
            return None;
        }
        let value = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
        match operation {
            Combine::Sum => Some((AtomicCode::FetchAdd, value(operand)?, 0, 0, 0)),
            Combine::Write => Some((AtomicCode::Swap, value(operand)?, 0, 0, 0)),
            Combine::SwapIfEqual => {
                Some((AtomicCode::CompareSwap, value(operand)?, u64::MAX, value(compare)?, u64::MAX))
            }
            _ => None,
        }
    }

    pub(super) fn operation(&self, sink: Slice) -> Option<Operation> {
        let (code, data, mask, compare, compare_mask) = self.native()?;
        let target = RemoteTarget { stag: self.post.place.stag, offset: self.post.place.offset };
        Some(Operation::Atomic { code, data, mask, compare, compare_mask, sink, target })
    }
}

/// Registers an I/O buffer, if it is not registered with these rights.
pub(super) fn ensure_registered(
    memory: &mut IoBuffer,
    registry: &Registry,
    domain: weft_base::DomainId,
    access: Access,
) -> Result<(), MemoryError> {
    if memory.regions().first().is_some_and(|region| region.access().contains(access)) {
        return Ok(());
    }
    memory.register(registry, domain, access).map(|_| ())
}

/// A range of memory that was registered in pieces. `None` when it reaches past their end, or is longer than a request
/// can be.
pub(super) fn gather_of(regions: &[Region], mut offset: u64, mut length: u64) -> Option<Gather> {
    let mut slices = ArrayVec::<Slice, MAX_GATHER>::new();
    for region in regions {
        if length == 0 {
            break;
        }
        if offset >= region.length() {
            offset -= region.length();
            continue;
        }
        let now = length.min(region.length() - offset);
        slices.push(region.slice(offset..offset + now).ok()?);
        offset = 0;
        length -= now;
    }
    if length > 0 { None } else { Gather::new(&slices) }
}

/// A range of memory that was registered in pieces, as peers name it.
pub(super) fn parts_of(regions: &[Region], mut offset: u64, mut length: u64) -> weft_message::Parts {
    let mut parts = weft_message::Parts::new();
    for region in regions {
        if offset >= region.length() {
            offset -= region.length();
            continue;
        }
        let now = length.min(region.length() - offset);
        if now > 0 {
            parts.push(RemotePart { stag: region.stag(), offset: region.base() + offset, length: now });
        }
        offset = 0;
        length -= now;
    }
    parts
}

/// Why a work request of the application has failed; `lost` is why the connection was.
pub(super) fn failure_of(status: Status, lost: impl FnOnce() -> EndpointFailure) -> Option<EndpointFailure> {
    match status {
        Status::Success => None,
        Status::RemoteAccess => Some(EndpointFailure::Access),
        Status::RemoteOperation => Some(EndpointFailure::Operation),
        _ => Some(lost()).map(|lost| if refuses_access(&lost) { EndpointFailure::Access } else { lost }),
    }
}

/// Whether the peer has ended the connection because of a place that it does not let us write to. Its Terminate does
/// not name the write that it is about (RFC 5040 section 4.8), so it holds for all that are under way.
const fn refuses_access(lost: &EndpointFailure) -> bool {
    use weft_wire::terminate::TerminateCode as Code;
    let EndpointFailure::Lost(ConnectionError::Stream(StreamError::Peer(terminate))) = lost else { return false };
    matches!(
        terminate.code,
        Code::TaggedInvalidStag | Code::TaggedBounds | Code::TaggedNotAssociated | Code::TaggedOffsetWrap
    )
}

/// Numbered things, with the numbers of those that are gone used again.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Numbered<T> {
    /// The number that the next one will have.
    pub(super) fn next_number(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.all.len() as u32)
    }

    pub(super) fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = Some(value);
            return number;
        }
        self.all.push(Some(value));
        self.all.len() as u32 - 1
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.all.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.all.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.all.iter().enumerate().filter_map(|(number, value)| value.as_ref().map(|value| (number as u32, value)))
    }
}
