//! What can go wrong: by the caller's fault ([`MemoryError`]) or by a peer's ([`RemoteFault`]).

use core::fmt;
use core::ptr::NonNull;

use weft_base::{DomainId, RegionId, Stag};

use crate::{Combine, Element, LocalRight, RemoteRight};

/// The caller requested something impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The region is not registered any more.
    Gone(RegionId),
    /// The slice came from a peer's STag, and remote access to the region has ended since.
    Invalidated(RegionId),
    /// A [`Region::view`](crate::Region::view) or [`Region::edit`](crate::Region::edit) is in progress.
    Borrowed(RegionId),
    /// A reference was requested, but peers may touch the region.
    Exposed(RegionId),
    /// Work in flight uses the region.
    InFlight {
        /// How many slices of it are pinned.
        pins: u64,
    },
    /// The region belongs to another protection domain.
    WrongDomain {
        /// The region.
        region: RegionId,
        /// The domain that asked.
        domain: DomainId,
    },
    /// The region was registered without this right.
    NotPermitted {
        /// The region.
        region: RegionId,
        /// The right.
        need: LocalRight,
    },
    /// A range reaches outside the region.
    OutOfBounds {
        /// Its first byte, counted from the start of the region.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// The bytes of the region.
        region_length: u64,
    },
    /// A slice and the bytes that go with it are not equally long.
    LengthMismatch {
        /// Bytes of the slice.
        slice: u64,
        /// Bytes that were given.
        given: u64,
    },
    /// An atomic access to an address that is not a multiple of its size.
    Misaligned {
        /// Where, counted from the start of the region.
        offset: u64,
        /// The size of the access, in bytes.
        size: u64,
    },
    /// Memory to be registered is not mapped, or peers are to write it and it is not writable.
    Unusable {
        /// Its first byte.
        address: u64,
        /// Bytes.
        length: u64,
        /// It was to be written.
        writable: bool,
    },
    /// The memory behind a slice has gone while work used it: it was unmapped, or its file was truncated.
    Fault {
        /// The first byte that was to be touched.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// An operation that elements of this type do not have.
    Inapplicable {
        /// The type.
        element: Element,
        /// The operation.
        operation: Combine,
    },
    /// A slice can't be longer than a message: 2^32 - 1 bytes.
    TooLong {
        /// Bytes that were requested.
        length: u64,
    },
    /// A list of more slices than there can be in one.
    ListTooLong {
        /// As many.
        most: usize,
    },
    /// A list of slices can't be an element of another one.
    NestedList,
    /// The tagged offset of the last byte would be beyond 64 bits.
    BaseWraps {
        /// The tagged offset of the first byte.
        base: u64,
        /// Bytes of the region.
        length: u64,
    },
    /// Another region has the STag that was chosen.
    StagInUse(Stag),
    /// There is no such protection domain.
    UnknownDomain(DomainId),
    /// The protection domain still has regions.
    DomainInUse {
        /// The domain.
        domain: DomainId,
        /// How many.
        regions: u32,
    },
    /// A limit of the registry is reached.
    Limit {
        /// Its name in [`Limits`](crate::Limits).
        name: &'static str,
        /// What it is set to.
        limit: u64,
    },
    /// The machine has no memory left.
    OutOfMemory {
        /// Bytes that were requested.
        length: u64,
    },
    /// The operating system gives no random numbers.
    NoRandomness,
}

impl MemoryError {
    pub(crate) fn fault(at: NonNull<u8>, length: usize) -> Self {
        Self::Fault { address: at.addr().get() as u64, length: length as u64 }
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(region) => write!(f, "{} is not registered any more", Named(region)),
            Self::Invalidated(region) => write!(f, "remote access to {} has ended", Named(region)),
            Self::Borrowed(region) => {
                write!(f, "{} is being viewed or edited; try again when that has ended", Named(region))
            }
            Self::Exposed(region) => write!(
                f,
                "peers may touch {}, so there can be no reference to its bytes; invalidate it first, or copy them",
                Named(region)
            ),
            Self::InFlight { pins } => {
                write!(f, "work in flight uses {pins} slices of the region; wait for its completions")
            }
            Self::WrongDomain { region, domain } => {
                write!(f, "{} does not belong to protection domain {}", Named(region), domain.0)
            }
            Self::NotPermitted { region, need } => {
                write!(f, "{} was registered without the right to {}", Named(region), verb(*need))
            }
            Self::OutOfBounds { offset, length, region_length } => {
                write!(f, "{length} bytes at offset {offset} reach outside a region of {region_length} bytes")
            }
            Self::LengthMismatch { slice, given } => write!(f, "a slice of {slice} bytes was given {given} bytes"),
            Self::Misaligned { offset, size } => {
                write!(f, "the address at offset {offset} is not a multiple of {size}, as an atomic access needs")
            }
            Self::Unusable { address, length, writable } => write!(
                f,
                "the {length} bytes at {address:#x} are not all mapped with the right to {} them; map them so, or \
                 ask for less",
                if *writable { "write" } else { "read" }
            ),
            Self::Fault { address, length } => write!(
                f,
                "some of the {length} bytes at {address:#x} are not there any more: they were unmapped, or their file \
                 was truncated, before the work that uses them was complete"
            ),
            Self::Inapplicable { element, operation } => {
                write!(f, "{element:?} does not have the operation {operation:?}")
            }
            Self::TooLong { length } => write!(f, "a slice of {length} bytes is longer than a message can be"),
            Self::ListTooLong { most } => write!(f, "a list has at most {most} slices: make several requests of it"),
            Self::NestedList => f.write_str("a list of slices is an element of another list: name its slices instead"),
            Self::BaseWraps { base, length } => {
                write!(f, "a region of {length} bytes whose first tagged offset is {base:#x} does not fit into 64 bits")
            }
            Self::StagInUse(stag) => {
                write!(f, "another region has the STag {:#x}; choose another, or deregister that one first", stag.0)
            }
            Self::UnknownDomain(domain) => write!(f, "there is no protection domain {}", domain.0),
            Self::DomainInUse { domain, regions } => {
                write!(f, "protection domain {} still has {regions} regions; deregister them first", domain.0)
            }
            Self::Limit { name, limit } => {
                write!(f, "the limit `{name}` of {limit} is reached; raise it in the settings, or release some")
            }
            Self::OutOfMemory { length } => write!(f, "no memory for {length} bytes"),
            Self::NoRandomness => f.write_str("the operating system gives no random numbers, so STags can't be chosen"),
        }
    }
}

impl std::error::Error for MemoryError {}

struct Named<'a>(&'a RegionId);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory region {}.{}", self.0.index, self.0.generation)
    }
}

const fn verb(need: LocalRight) -> &'static str {
    match need {
        LocalRight::Read => "read it locally",
        LocalRight::Write => "write it locally (LOCAL_WRITE)",
    }
}

/// A peer requested something that it was not granted. The segment's header says which peer requested what; here is
/// only what is wrong with it, one value for each code that RFC 5041 section 7.2 and RFC 5040 section 4.8 know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteFault {
    /// No region has this STag, or remote access to it has ended.
    InvalidStag,
    /// The region belongs to another protection domain than the stream.
    WrongDomain,
    /// The range reaches outside the region.
    OutOfBounds,
    /// The range passes the last tagged offset of 64 bits.
    OffsetWraps,
    /// The region was registered without this right.
    NotPermitted(RemoteRight),
    /// The region was registered for local use alone: peers have no right to it that could be ended.
    NoRights,
}

impl fmt::Display for RemoteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidStag => f.write_str("no region has this STag, or remote access to it has ended"),
            Self::WrongDomain => f.write_str("the STag belongs to another protection domain than the connection"),
            Self::OutOfBounds => f.write_str("the range reaches outside the region of this STag"),
            Self::OffsetWraps => f.write_str("the range passes the last tagged offset of 64 bits"),
            Self::NoRights => f.write_str("the region grants peers nothing"),
            Self::NotPermitted(RemoteRight::Read) => f.write_str("the region does not grant remote read"),
            Self::NotPermitted(RemoteRight::Write) => f.write_str("the region does not grant remote write"),
            Self::NotPermitted(RemoteRight::Atomic) => f.write_str("the region does not grant remote atomics"),
        }
    }
}

impl std::error::Error for RemoteFault {}
