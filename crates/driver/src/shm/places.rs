//! Places of this process that the kernel writes to.

use arrayvec::ArrayVec;
use weft_base::{MAX_GATHER, PortError, Slice};
use weft_memory::{RawSlice, Registry};

/// The addresses of slices, as long as they are held.
pub(super) fn places(registry: &Registry, slices: &[Slice]) -> Result<(Held, Places), PortError> {
    let (mut held, mut places) = (Held::new(), Places::new());
    for slice in slices {
        let place = registry.resolve(slice).map_err(|_| PortError::Memory(slice.region))?;
        places.push(libc::iovec { iov_base: place.pointer().as_ptr().cast(), iov_len: place.length() });
        held.push(place);
    }
    Ok((held, places))
}

pub(super) type Held = ArrayVec<RawSlice, MAX_GATHER>;

pub(super) type Places = ArrayVec<libc::iovec, MAX_GATHER>;
