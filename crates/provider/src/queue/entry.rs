//! Completions in libfabric's formats.

use weft::endpoint::PeerId;
use weft_libfabric::abi::{
    FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_UNSPEC, fi_cq_format,
    fi_cq_tagged_entry,
};

/// A completion with the fields of all formats. It begins with a [`fi_cq_tagged_entry`], and every shorter format is a
/// prefix of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Entry {
    /// The application's context of the operation.
    pub(crate) context: usize,
    pub(crate) flags: u64,
    /// Bytes received.
    pub(crate) length: usize,
    /// Their address, for receives of many messages; otherwise 0.
    pub(crate) buffer: usize,
    /// The peer's immediate data.
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: Source,
    /// Whether it is returned by `fi_cq_readerr`, with a [`super::Failure`].
    pub(crate) failed: bool,
}

const _: () = assert!(
    core::mem::offset_of!(Entry, source) == size_of::<fi_cq_tagged_entry>()
        && core::mem::offset_of!(Entry, tag) == core::mem::offset_of!(fi_cq_tagged_entry, tag)
);

impl Entry {
    /// One with a context and flags only.
    pub(crate) const fn new(context: usize, flags: u64) -> Self {
        Self { context, flags, length: 0, buffer: 0, data: 0, tag: 0, source: Source::NONE, failed: false }
    }
}

/// The source of a receive: a peer of one of the endpoints that report to a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(u64);

impl Source {
    /// No source, or an unknown one.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// `endpoint` is its index in [`super::Completions`].
    pub(crate) const fn new(endpoint: u32, peer: PeerId) -> Self {
        Self((endpoint as u64) << 32 | peer.0 as u64)
    }

    /// As a number, stored where its address is written later.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// From such a number.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The endpoint's index, and the peer.
    pub(crate) const fn parts(self) -> Option<(u32, PeerId)> {
        if self.0 == u64::MAX { None } else { Some(((self.0 >> 32) as u32, PeerId(self.0 as u32))) }
    }
}

/// The fields of a completion that the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Context,
    Message,
    Data,
    Tagged,
}

impl Format {
    /// The format that the application requests. An unspecified one is the shortest, which fits into any buffer.
    pub(crate) const fn new(format: fi_cq_format) -> Option<Self> {
        match format {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => Some(Self::Context),
            FI_CQ_FORMAT_MSG => Some(Self::Message),
            FI_CQ_FORMAT_DATA => Some(Self::Data),
            FI_CQ_FORMAT_TAGGED => Some(Self::Tagged),
            _ => None,
        }
    }

    /// Bytes of an entry.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Context => core::mem::offset_of!(fi_cq_tagged_entry, flags),
            Self::Message => core::mem::offset_of!(fi_cq_tagged_entry, buf),
            Self::Data => core::mem::offset_of!(fi_cq_tagged_entry, tag),
            Self::Tagged => size_of::<fi_cq_tagged_entry>(),
        }
    }

    /// Writes a completion as entry number `number` of an array.
    ///
    /// # Safety
    /// `array` must have room for that entry.
    pub(crate) unsafe fn write(self, array: *mut u8, number: usize, entry: &Entry) {
        let bytes = self.bytes();
        // SAFETY: The caller promises the room; an entry begins with the bytes of every format (asserted above), none
        // of which is padding.
        unsafe { core::ptr::copy_nonoverlapping((&raw const *entry).cast::<u8>(), array.add(number * bytes), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry = Entry {
        context: 0x11,
        flags: 0x22,
        length: 0x33,
        buffer: 0x44,
        data: 0x55,
        tag: 0x66,
        source: Source::NONE,
        failed: true,
    };

    #[test]
    fn formats_are_prefixes() {
        for (format, words) in [(Format::Context, 1), (Format::Message, 3), (Format::Data, 5), (Format::Tagged, 6)] {
            let mut out = [0xa5a5_u64; 14];
            assert_eq!(format.bytes(), words * 8);
            // SAFETY: Room for two of six words each.
            unsafe { format.write(out.as_mut_ptr().cast(), 1, &ENTRY) };
            assert!(out[..words].iter().all(|word| *word == 0xa5a5));
            assert_eq!(out[words..2 * words], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66][..words]);
            assert!(out[2 * words..].iter().all(|word| *word == 0xa5a5));
        }
        assert_eq!(Format::new(FI_CQ_FORMAT_UNSPEC), Some(Format::Context));
        assert_eq!(Format::new(5), None);
        assert_eq!(Format::new(-1), None);
    }

    #[test]
    fn sources_come_back() {
        assert_eq!(Source::new(3, PeerId(7)).parts(), Some((3, PeerId(7))));
        assert_eq!(Source::NONE.parts(), None);
    }
}
