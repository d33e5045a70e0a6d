//! What can be wrong with a segment, sorted by blame, and the Terminate code of each.

use core::fmt;

use weft_base::{MessageNumber, Stag};
use weft_memory::RemoteFault;
use weft_wire::ddp;
use weft_wire::rdmap::{Opcode, ReadRequest};
use weft_wire::terminate::{Terminate, TerminateCode as Code, TerminatedSegment};

use crate::state::State;

/// How many bytes of a segment [`Stream::handle_segment`](crate::Stream::handle_segment) needs to see (or all, when it
/// is shorter): every message that RDMAP reads itself fits in them.
pub const HEAD_LENGTH: usize = 96;

/// Why a segment is not taken.
///
/// The first three blame no side and change nothing. All others end the stream, and have a [`Violation::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The stream takes no segments any more (RFC 5041 section 7.1: they are dropped silently).
    NotReceiving(State),

    // --- Malformed: the segment cannot be read.
    /// It overlaps others that came before, and is of a kind that is never cut.
    Overlap {
        /// Where it starts.
        start: u64,
        /// Where the next starts.
        end: u64,
    },
    /// It overlaps others that came before, and its header describes the same bytes otherwise: of another message, to
    /// another place, or with another end.
    Contradiction {
        /// Where it starts.
        start: u64,
        /// Where the next starts.
        end: u64,
    },
    /// Shorter than its own header.
    Short {
        /// Its bytes.
        length: u32,
    },
    /// Another version of DDP.
    DdpVersion {
        /// Which.
        version: u8,
        /// Whether the segment says that it is tagged.
        tagged: bool,
    },
    /// Another version of RDMAP.
    RdmapVersion(u8),
    /// An opcode that no message has.
    UnknownOpcode(u8),
    /// A message that RDMAP reads itself is shorter than it must be.
    MessageLength {
        /// Of which kind.
        opcode: Opcode,
        /// Its bytes.
        length: u32,
        /// What it must have.
        expected: u32,
    },
    /// An atomic operation that does not exist.
    AtomicCode(u8),

    // --- Out of place: well formed, but not here or not now.
    /// An opcode of RFC 7306, which was not agreed.
    NotAgreed(Opcode),
    /// A tagged segment with the opcode of an untagged message, or the reverse.
    Model(Opcode),
    /// No such queue, or not the queue of such messages.
    Queue {
        /// Of which kind.
        opcode: Opcode,
        /// QN.
        queue: u32,
    },
    /// Not the message whose turn it is on this queue.
    Number {
        /// QN.
        queue: u32,
        /// MSN.
        number: MessageNumber,
        /// Whose turn it is.
        expected: MessageNumber,
    },
    /// Not the part of the message whose turn it is.
    Offset {
        /// QN.
        queue: u32,
        /// MO.
        offset: u32,
        /// What should come.
        expected: u32,
    },
    /// A segment of a message contradicts the first one about what the message is.
    Inconsistent {
        /// What the message began as.
        first: Opcode,
        /// What this segment says.
        now: Opcode,
    },
    /// No receive request is posted for the message.
    NoBuffer {
        /// QN.
        queue: u32,
        /// MSN.
        number: MessageNumber,
    },
    /// A message for which no receive request was promised, where messages wait for that at their sender.
    NoCredit {
        /// MSN.
        number: MessageNumber,
        /// The first message that has no promise.
        limit: MessageNumber,
    },
    /// A receipt that takes back a promise, or promises more than half of all numbers.
    CreditLimit {
        /// The first message that it says may not come.
        limit: MessageNumber,
        /// The same of the receipt before it.
        least: MessageNumber,
    },
    /// A receipt that wants promises for messages that have come.
    CreditDemand {
        /// The first message that it wants none for.
        wanted: MessageNumber,
        /// The message that comes next.
        least: MessageNumber,
    },
    /// A receipt that takes back an acknowledgement, or acknowledges what was not sent.
    Acknowledgement {
        /// Messages that it acknowledges, of all that were sent.
        placed: u64,
        /// Those that were acknowledged before.
        least: u64,
        /// Those that were sent.
        most: u64,
    },
    /// The message is longer than its buffer.
    TooLong {
        /// QN.
        queue: u32,
        /// Where this segment ends in the message.
        end: u64,
        /// Bytes of the buffer.
        buffer: u32,
    },
    /// More reads and atomics at once than were agreed.
    TooManyRequests {
        /// As many were.
        ird: u16,
    },
    /// A Read Response that answers no outstanding read.
    UnknownSink(Stag),
    /// A Read Response that is not the next part of what was requested.
    ResponseRange {
        /// Where it starts.
        offset: u64,
        /// Its bytes.
        length: u32,
        /// Where the next part starts.
        expected: u64,
        /// How many bytes are missing.
        missing: u32,
    },
    /// A Read Response that ends too early, or does not end where it must.
    ResponseEnd {
        /// How many bytes are missing after it.
        missing: u32,
    },
    /// An Atomic Response that answers another request than the oldest.
    AtomicIdentifier {
        /// What it says.
        identifier: u32,
        /// The oldest request's.
        expected: u32,
    },

    // --- Not granted: memory that the peer may not use so.
    /// A Write outside what was granted.
    WriteTarget {
        /// The region it names.
        stag: Stag,
        /// Where in it.
        offset: u64,
        /// Bytes.
        length: u32,
        /// What is wrong.
        fault: RemoteFault,
    },
    /// A read of what was not granted, or is not any more.
    ReadSource {
        /// The region it names.
        stag: Stag,
        /// Where in it.
        offset: u64,
        /// Bytes.
        length: u32,
        /// What is wrong.
        fault: RemoteFault,
    },
    /// An atomic outside what was granted.
    AtomicTarget {
        /// The region it names.
        stag: Stag,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        fault: RemoteFault,
    },
    /// An atomic whose target is not aligned to 8 bytes.
    AtomicAlignment {
        /// The region it names.
        stag: Stag,
        /// Where in it.
        offset: u64,
    },
    /// An STag that the peer may not invalidate.
    Invalidate {
        /// Which.
        stag: Stag,
        /// Why.
        fault: RemoteFault,
    },
}

impl Violation {
    /// What the Terminate says. `None` when the stream continues.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        Some(match *self {
            Self::NotReceiving(_) => return None,
            // No code of RFC 5041 section 7.2 speaks of a header that is cut short.
            Self::Short { .. } | Self::Overlap { .. } | Self::Contradiction { .. } => Code::OperationUnspecified,
            Self::DdpVersion { tagged: true, .. } => Code::TaggedVersion,
            Self::DdpVersion { tagged: false, .. } => Code::UntaggedVersion,
            Self::RdmapVersion(_) => Code::OperationVersion,
            // RFC 7306 section 5.2.1, rule 4, wants an error for an unknown atomic code, and names none: the nearest is
            // the opcode's.
            Self::UnknownOpcode(_)
            | Self::NotAgreed(_)
            | Self::Model(_)
            | Self::Inconsistent { .. }
            | Self::AtomicCode(_) => Code::OperationOpcode,
            Self::MessageLength { .. }
            | Self::ResponseEnd { .. }
            | Self::AtomicIdentifier { .. }
            | Self::CreditLimit { .. }
            | Self::CreditDemand { .. }
            | Self::Acknowledgement { .. } => Code::OperationUnspecified,
            Self::Queue { .. } => Code::UntaggedQueue,
            Self::Number { .. } => Code::UntaggedNumberRange,
            Self::Offset { .. } => Code::UntaggedOffset,
            Self::NoBuffer { .. } | Self::NoCredit { .. } | Self::TooManyRequests { .. } => Code::UntaggedNoBuffer,
            Self::TooLong { .. } => Code::UntaggedTooLong,
            Self::UnknownSink(_) => Code::TaggedInvalidStag,
            Self::ResponseRange { .. } => Code::TaggedBounds,
            Self::WriteTarget { fault, .. } => tagged_code(fault),
            Self::ReadSource { fault, .. } | Self::AtomicTarget { fault, .. } => protection_code(fault),
            // RFC 7306 section 8.2.
            Self::AtomicAlignment { .. } => Code::OperationStreamCatastrophic,
            Self::Invalidate { fault, .. } => invalidate_code(fault),
        })
    }

    /// The Terminate for this, with as much of the segment as RFC 5040 figure 10 wants. `read`: what the segment
    /// requested, if it is a read request.
    pub(crate) fn terminate(&self, context: &Context, read: Option<ReadRequest>) -> Option<Terminate> {
        let code = self.code()?;
        let (layer, kind, _) = code.numbers();
        // Figure 10: the DDP header and the segment length go with all but local catastrophic errors and those of the
        // stream below; the read request with remote protection errors of RDMAP only.
        let with_header = layer <= 1 && kind != 0;
        let with_read = layer == 0 && kind == 1;
        let segment = context.header.filter(|_| with_header).map(|header| TerminatedSegment {
            length: u16::try_from(context.length).unwrap_or(u16::MAX),
            header,
            read_request: read.filter(|_| with_read),
        });
        Some(Terminate { code, segment })
    }
}

/// RFC 5041 section 7.2. It has no code for missing rights: of the checks in section 7.1 it is the second one that
/// fails (a buffer that allows placement), whose code is that of the STag.
fn tagged_code(fault: RemoteFault) -> Code {
    match fault {
        RemoteFault::InvalidStag | RemoteFault::NotPermitted(_) | RemoteFault::NoRights => Code::TaggedInvalidStag,
        RemoteFault::WrongDomain => Code::TaggedNotAssociated,
        RemoteFault::OutOfBounds => Code::TaggedBounds,
        RemoteFault::OffsetWraps => Code::TaggedOffsetWrap,
    }
}

/// RFC 5040 section 4.8, figure 9.
fn protection_code(fault: RemoteFault) -> Code {
    match fault {
        RemoteFault::InvalidStag => Code::ProtectionInvalidStag,
        RemoteFault::NotPermitted(_) | RemoteFault::NoRights => Code::ProtectionRights,
        RemoteFault::WrongDomain => Code::ProtectionNotAssociated,
        RemoteFault::OutOfBounds => Code::ProtectionBounds,
        RemoteFault::OffsetWraps => Code::ProtectionOffsetWrap,
    }
}

/// RFC 5040 figure 9 has "cannot be invalidated" twice: as a protection error where the STag is not the stream's to
/// touch, as an operation error where there is nothing to invalidate.
fn invalidate_code(fault: RemoteFault) -> Code {
    match fault {
        RemoteFault::WrongDomain | RemoteFault::NotPermitted(_) | RemoteFault::NoRights => {
            Code::ProtectionCannotInvalidate
        }
        _ => Code::OperationCannotInvalidate,
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap { start, end } => {
                write!(f, "segment {start}..{end} overlaps others, and is of a kind that comes whole")
            }
            Self::Contradiction { start, end } => {
                write!(
                    f,
                    "segment {start}..{end} says something else of bytes that came before: another message or place"
                )
            }
            Self::NotReceiving(state) => write!(f, "no segments are taken: the stream is {state}"),
            Self::Short { length } => write!(f, "a segment of {length} bytes is shorter than its header"),
            Self::DdpVersion { version, .. } => write!(f, "DDP version {version}, only 1 is known"),
            Self::RdmapVersion(version) => write!(f, "RDMAP version {version}, only 1 is known"),
            Self::UnknownOpcode(code) => write!(f, "no message has opcode {code}"),
            Self::MessageLength { opcode, length, expected } => {
                write!(f, "{opcode:?} of {length} bytes, it must have {expected} in one segment")
            }
            Self::AtomicCode(code) => write!(f, "no atomic operation has code {code}"),
            Self::NotAgreed(opcode) => write!(f, "{opcode:?}, but the extensions of RFC 7306 were not agreed"),
            Self::Model(opcode) => write!(f, "{opcode:?} in the wrong kind of segment (tagged or untagged)"),
            Self::Queue { opcode, queue } => write!(f, "{opcode:?} on queue {queue}"),
            Self::Number { queue, number, expected } => {
                write!(f, "message {} on queue {queue}, the next is {}", number.0, expected.0)
            }
            Self::Offset { queue, offset, expected } => {
                write!(f, "message offset {offset} on queue {queue}, the next is {expected}")
            }
            Self::Inconsistent { first, now } => write!(f, "a message that began as {first:?} goes on as {now:?}"),
            Self::NoBuffer { queue, number } => {
                write!(
                    f,
                    "no receive request for message {} on queue {queue}: post more before the peer sends",
                    number.0
                )
            }
            Self::NoCredit { number, limit } => write!(
                f,
                "message {} on queue 0 came without a credit: receives were promised for those before {}",
                number.0, limit.0
            ),
            Self::CreditLimit { limit, least } => write!(
                f,
                "a receipt says that messages before {} may be sent, which is less than {} before, or 2^31 ahead",
                limit.0, least.0
            ),
            Self::CreditDemand { wanted, least } => write!(
                f,
                "a receipt wants receives for messages before {}, of which all have come: the next is {}",
                wanted.0, least.0
            ),
            Self::Acknowledgement { placed, least, most } => {
                write!(f, "a receipt acknowledges {placed} messages: {most} were sent, and {least} acknowledged before")
            }
            Self::TooLong { queue, end, buffer } => {
                write!(f, "a message of at least {end} bytes on queue {queue}, its buffer has {buffer}")
            }
            Self::TooManyRequests { ird } => write!(f, "more than {ird} reads and atomics at once (IRD)"),
            Self::UnknownSink(stag) => write!(f, "a Read Response to {stag}, which no outstanding read names"),
            Self::ResponseRange { offset, length, expected, missing } => write!(
                f,
                "a Read Response of {length} bytes at {offset:#x}, the next is at {expected:#x} and {missing} bytes \
                 are missing"
            ),
            Self::ResponseEnd { missing } => {
                write!(f, "a Read Response whose last flag does not agree: {missing} bytes are missing")
            }
            Self::AtomicIdentifier { identifier, expected } => {
                write!(f, "an Atomic Response to request {identifier:#x}, the oldest is {expected:#x}")
            }
            Self::WriteTarget { stag, offset, length, fault } => {
                write!(f, "a Write of {length} bytes at {offset:#x} of {stag}: {fault}")
            }
            Self::ReadSource { stag, offset, length, fault } => {
                write!(f, "a read of {length} bytes at {offset:#x} of {stag}: {fault}")
            }
            Self::AtomicTarget { stag, offset, fault } => write!(f, "an atomic at {offset:#x} of {stag}: {fault}"),
            Self::AtomicAlignment { stag, offset } => {
                write!(f, "an atomic at {offset:#x} of {stag}, which is not aligned to 8 bytes")
            }
            Self::Invalidate { stag, fault } => write!(f, "{stag} cannot be invalidated: {fault}"),
        }
    }
}

impl std::error::Error for Violation {}

/// What a Terminate says about the segment that it blames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Its header; `None` when it cannot be read.
    pub(crate) header: Option<ddp::Header>,
    /// Bytes of the segment.
    pub(crate) length: u32,
}
