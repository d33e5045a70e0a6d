//! Descriptors of memory: protocol code handles these as a NIC handles DMA descriptors, and never touches what they
//! describe.

use crate::RegionId;

/// The most slices that a gather list holds in place.
pub const MAX_GATHER: usize = 4;

/// The most slices of a list that is in a gather list as one slice ([`RegionId::LIST`]): what a work request gathers
/// from or scatters to at most. NICs advertise 16 to 30 (`max_sge` of `ibv_query_device`).
pub const MAX_LISTED: usize = 16;

/// Whether a range of bytes passes the end of the 64-bit offsets. It may end right there: its last byte has an offset
/// then.
#[must_use]
pub const fn passes_end(offset: u64, length: u64) -> bool {
    length > 0 && offset.checked_add(length - 1).is_none()
}

/// A piece of a memory region. It gives no access by itself: only the `memory` and `driver` crates turn it into bytes,
/// and they check that the region still exists and that the slice lies inside it when they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The region.
    pub region: RegionId,
    /// Bytes from the start of the region.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Slice {
    /// The part that starts `skip` bytes in and has `length` bytes.
    ///
    /// # Panics
    /// When the part does not lie inside this slice: that is a bug of the caller, never of a peer.
    #[must_use]
    pub fn part(self, skip: u32, length: u32) -> Self {
        assert!(
            skip.checked_add(length).is_some_and(|end| end <= self.length),
            "part {skip}+{length} of a slice of {} bytes",
            self.length
        );
        Self { region: self.region, offset: self.offset + u64::from(skip), length }
    }
}

/// Up to [`MAX_GATHER`] slices that are one run of bytes to the protocol: what a work request gathers from or scatters
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    slices: [Slice; MAX_GATHER],
    count: u8,
}

impl Gather {
    const NOTHING: Slice = Slice { region: RegionId { index: u32::MAX, generation: 0 }, offset: 0, length: 0 };

    /// No slices, no bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { slices: [Self::NOTHING; MAX_GATHER], count: 0 }
    }

    /// These slices, in this order; empty ones are left out. `None` when there are more than [`MAX_GATHER`], when one
    /// of several is the name of a list, or when together they are longer than a message can be (2^32 - 1 bytes).
    #[must_use]
    #[inline]
    pub fn new(slices: &[Slice]) -> Option<Self> {
        if let [slice] = slices {
            return Some(Self::from(*slice));
        }
        Self::of_several(slices)
    }

    fn of_several(slices: &[Slice]) -> Option<Self> {
        let mut gather = Self::empty();
        let mut total = 0u32;
        for slice in slices.iter().filter(|slice| slice.length > 0) {
            total = total.checked_add(slice.length)?;
            gather.push(*slice)?;
        }
        if gather.count > 1 && gather.slices().iter().any(|slice| slice.region.is_list()) {
            return None;
        }
        Some(gather)
    }

    fn push(&mut self, slice: Slice) -> Option<()> {
        *self.slices.get_mut(usize::from(self.count))? = slice;
        self.count += 1;
        Some(())
    }

    /// The slices.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices[..usize::from(self.count)]
    }

    /// The same list, with each slice changed to another one of the same length.
    #[must_use]
    pub fn map(&self, change: impl Fn(Slice) -> Slice) -> Self {
        let mut changed = *self;
        changed.slices[..usize::from(self.count)].iter_mut().for_each(|slice| *slice = change(*slice));
        changed
    }

    /// Whether its slice is the name of a list, which is alone.
    #[must_use]
    #[inline]
    pub fn is_listed(&self) -> bool {
        self.slices().first().is_some_and(|slice| slice.region.is_list())
    }

    /// Bytes of all slices together.
    #[must_use]
    #[inline]
    pub fn length(&self) -> u32 {
        self.slices().iter().map(|slice| slice.length).sum()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The part that starts `skip` bytes in and has `length` bytes, which may span several slices.
    ///
    /// # Panics
    /// When the part does not lie inside: that is a bug of the caller, never of a peer.
    #[must_use]
    pub fn part(&self, mut skip: u32, mut length: u32) -> Self {
        let mut part = Self::empty();
        for slice in self.slices() {
            if length == 0 {
                break;
            }
            if skip >= slice.length {
                skip -= slice.length;
                continue;
            }
            let take = length.min(slice.length - skip);
            part.slices[usize::from(part.count)] = slice.part(skip, take);
            part.count += 1;
            skip = 0;
            length -= take;
        }
        assert!(length == 0, "a part reaches {length} bytes past the end of its gather list");
        part
    }
}

impl From<Slice> for Gather {
    #[inline]
    fn from(slice: Slice) -> Self {
        let mut gather = Self::empty();
        if slice.length > 0 {
            gather.slices[0] = slice;
            gather.count = 1;
        }
        gather
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(index: u32, offset: u64, length: u32) -> Slice {
        Slice { region: RegionId { index, generation: 1 }, offset, length }
    }

    #[test]
    fn a_part_spans_slices() {
        let gather = Gather::new(&[slice(0, 100, 10), slice(1, 0, 0), slice(2, 50, 10)]).unwrap();
        assert_eq!(gather.length(), 20);
        assert_eq!(gather.part(5, 10).slices(), &[slice(0, 105, 5), slice(2, 50, 5)]);
        assert_eq!(gather.part(10, 3).slices(), &[slice(2, 50, 3)]);
        assert!(gather.part(20, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn a_part_past_the_end_is_a_bug() {
        let _ = Gather::from(slice(0, 0, 4)).part(2, 3);
    }

    #[test]
    fn limits() {
        assert!(Gather::new(&[slice(0, 0, 1); MAX_GATHER]).is_some());
        assert!(Gather::new(&[slice(0, 0, 1); MAX_GATHER + 1]).is_none());
        let list = Slice { region: RegionId { index: 0, generation: RegionId::LIST }, offset: 0, length: 1 };
        assert!(Gather::new(&[slice(0, 0, 0), list]).is_some_and(|gather| gather.is_listed()));
        assert!(Gather::new(&[slice(0, 0, 1), list]).is_none(), "a list stands alone");
        assert_eq!(size_of::<Gather>(), 8 + MAX_GATHER * size_of::<Slice>(), "each work request has one");
        assert!(Gather::new(&[slice(0, 0, u32::MAX), slice(0, 0, 1)]).is_none(), "longer than a message can be");
    }
}
