//! Copies between a slice and parts that belong one behind the other.

use weft_base::{Digest, NoDigest, Slice};

use super::Registry;
use crate::MemoryError;

impl Registry {
    /// Copies these parts, one behind the other, into a slice that has the length of all of them.
    ///
    /// # Errors
    /// The slice can't be touched (any more), or has another length: then parts may be there already.
    pub fn copy_in_parts<'a>(
        &self,
        slice: &Slice,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), MemoryError> {
        let parts = parts.into_iter();
        if slice.region.is_list() {
            return each_part(slice, parts.map(|part| (part.len(), part)), |slice, part| {
                self.copy_in(slice, part, &mut NoDigest)
            });
        }
        let (raw, mut places) = (self.resolve(slice)?, Places::new(slice));
        for part in parts {
            // A touch that faults is abandoned, and what the iterator owns with it: each is of one part alone.
            raw.place(places.take(part.len())?, part)?;
        }
        places.end()
    }

    /// Copies a slice into these parts, one behind the other, which have its length together. In the same pass it
    /// computes the digest of each part, and passes it to `report` with the value that is paired with the part.
    ///
    /// # Errors
    /// The slice can't be touched (any more), or has another length: then parts may be there already.
    pub fn copy_out_parts<'a, D: Digest + Default, T>(
        &self,
        slice: &Slice,
        parts: impl IntoIterator<Item = (&'a mut [u8], T)>,
        mut report: impl FnMut(T, D),
    ) -> Result<(), MemoryError> {
        let parts = parts.into_iter();
        if slice.region.is_list() {
            return each_part(slice, parts.map(|part| (part.0.len(), part)), |slice, (part, beside)| {
                let mut digest = D::default();
                self.copy_out(slice, part, &mut digest)?;
                report(beside, digest);
                Ok(())
            });
        }
        let (raw, mut places) = (self.resolve(slice)?, Places::new(slice));
        for (part, beside) in parts {
            let mut digest = D::default();
            // A touch of its own, as above.
            raw.copy_out(places.take(part.len())?, part, &mut digest)?;
            report(beside, digest);
        }
        places.end()
    }
}

/// The places of parts that lie behind each other in a slice.
struct Places {
    length: usize,
    taken: usize,
}

impl Places {
    const fn new(slice: &Slice) -> Self {
        Self { length: slice.length as usize, taken: 0 }
    }

    /// Where the next part begins, which has this length.
    #[inline]
    fn take(&mut self, length: usize) -> Result<usize, MemoryError> {
        let at = self.taken;
        if length > self.length - at {
            return Err(self.mismatch(at.saturating_add(length)));
        }
        self.taken += length;
        Ok(at)
    }

    /// There are no more parts.
    fn end(&self) -> Result<(), MemoryError> {
        if self.taken == self.length { Ok(()) } else { Err(self.mismatch(self.taken)) }
    }

    #[cold]
    const fn mismatch(&self, given: usize) -> MemoryError {
        MemoryError::LengthMismatch { slice: self.length as u64, given: given as u64 }
    }
}

/// Does something with each part of a slice that these lengths cut it into.
#[cold]
fn each_part<T>(
    slice: &Slice,
    parts: impl Iterator<Item = (usize, T)>,
    mut work: impl FnMut(&Slice, T) -> Result<(), MemoryError>,
) -> Result<(), MemoryError> {
    let mut places = Places::new(slice);
    for (length, part) in parts {
        work(&slice.part(places.take(length)? as u32, length as u32), part)?;
    }
    places.end()
}
