//! A gather list that is copied piece by piece: for frames with markers, whose payload is cut every 508 bytes.

use arrayvec::ArrayVec;
use weft_base::{Digest, Gather, MAX_GATHER};
use weft_memory::{MemoryError, RawSlice, Registry};

/// The slices of a gather list, looked up once and held, and how far they have been copied.
pub(super) struct HeldGather {
    slices: ArrayVec<RawSlice, MAX_GATHER>,
    /// Those of a list, behind the others.
    listed: Vec<RawSlice>,
    at: usize,
    offset: usize,
}

impl HeldGather {
    pub(super) fn new(gather: &Gather, registry: &Registry) -> Result<Self, MemoryError> {
        // Each into its place: collected as one result, all of them would be moved twice for each frame.
        let mut this = Self { slices: ArrayVec::new(), listed: Vec::new(), at: 0, offset: 0 };
        match gather.slices() {
            [list] if gather.is_listed() => {
                for slice in registry.pieces(list)? {
                    this.listed.push(registry.resolve(&slice)?);
                }
            }
            slices => {
                for slice in slices {
                    this.slices.push(registry.resolve(slice)?);
                }
            }
        }
        Ok(this)
    }

    /// Copies the next bytes into memory.
    ///
    /// # Errors
    /// They are not there any more.
    pub(super) fn copy_in<D: Digest>(&mut self, mut bytes: &[u8], digest: &mut D) -> Result<(), MemoryError> {
        while !bytes.is_empty() {
            let count = self.next(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.present().copy_in(self.offset, now, digest)?;
            self.offset += count;
            bytes = later;
        }
        Ok(())
    }

    /// Copies the next bytes out of memory.
    ///
    /// # Errors
    /// They are not there any more.
    pub(super) fn copy_out<D: Digest>(&mut self, mut out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        while !out.is_empty() {
            let count = self.next(out.len());
            let (now, later) = out.split_at_mut(count);
            self.present().copy_out(self.offset, now, digest)?;
            self.offset += count;
            out = later;
        }
        Ok(())
    }

    /// How many of the next `wanted` bytes lie in one slice, which is the present one afterwards.
    fn next(&mut self, wanted: usize) -> usize {
        if self.offset == self.present().length() {
            self.at += 1;
            self.offset = 0;
        }
        wanted.min(self.present().length() - self.offset)
    }

    fn present(&self) -> &RawSlice {
        self.slices.get(self.at).unwrap_or_else(|| &self.listed[self.at - self.slices.len()])
    }
}
