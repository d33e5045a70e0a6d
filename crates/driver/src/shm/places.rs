//! Places of this process that the kernel writes to.

use arrayvec::ArrayVec;
use weft_base::{MAX_LISTED, PortError, Slice};
use weft_memory::{MemoryError, RawSlice, Registry};

/// The addresses of slices, valid as long as this holds them: of a list, those of its slices.
#[derive(Default)]
pub(super) struct Places {
    held: ArrayVec<RawSlice, MAX_LISTED>,
    pub(super) vectors: Vectors,
}

pub(super) type Vectors = ArrayVec<libc::iovec, MAX_LISTED>;

impl Places {
    /// Adds the places of these slices. (They are long, and so not returned.)
    ///
    /// # Errors
    /// Memory that is not there any more.
    pub(super) fn add(&mut self, registry: &Registry, slices: &[Slice]) -> Result<(), PortError> {
        for slice in slices {
            let added =
                if slice.region.is_list() { self.add_list(registry, slice) } else { self.push(registry, slice) };
            added.map_err(|_| PortError::Memory(slice.region))?;
        }
        Ok(())
    }

    #[cold]
    fn add_list(&mut self, registry: &Registry, list: &Slice) -> Result<(), MemoryError> {
        registry.pieces(list)?.iter().try_for_each(|piece| self.push(registry, piece))
    }

    fn push(&mut self, registry: &Registry, slice: &Slice) -> Result<(), MemoryError> {
        let place = registry.resolve(slice)?;
        self.vectors.push(libc::iovec { iov_base: place.pointer().as_ptr().cast(), iov_len: place.length() });
        self.held.push(place);
        Ok(())
    }
}
