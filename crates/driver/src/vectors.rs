//! Pieces as the vectors of one system call.

use arrayvec::ArrayVec;
use weft_base::{Piece, PortError, ReceivePiece, Slice};
use weft_memory::{RawSlice, Registry};

/// How many pieces go into one system call (the kernel takes up to 1024). More take another call.
pub(crate) const PIECES: usize = 128;

/// Addresses for one system call, and what keeps the memory behind them in place meanwhile.
pub(crate) struct Vectors<'a> {
    vectors: ArrayVec<libc::iovec, PIECES>,
    held: ArrayVec<RawSlice, PIECES>,
    registry: &'a Registry,
    bytes: usize,
}

impl<'a> Vectors<'a> {
    pub(crate) fn new(registry: &'a Registry) -> Self {
        Self { vectors: ArrayVec::new(), held: ArrayVec::new(), registry, bytes: 0 }
    }

    /// Takes the bytes that the next call sends. They must stay where they are until then, as those of [`Vectors::resolve`] do.
    pub(crate) fn gather(&mut self, pieces: &[Piece<'_>]) -> Result<(), PortError> {
        for piece in pieces {
            match piece {
                // The system call only reads, for all that its argument is not const.
                Piece::Bytes(bytes) => self.push(bytes.as_ptr().cast_mut(), bytes.len()),
                Piece::Memory(slice) => self.resolve(slice)?,
            }
        }
        Ok(())
    }

    /// Takes the places that the next call fills.
    pub(crate) fn scatter(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<(), PortError> {
        for piece in pieces {
            match piece {
                ReceivePiece::Staging(staging) => self.push(staging.as_mut_ptr(), staging.len()),
                ReceivePiece::Memory(slice) => self.resolve(slice)?,
            }
        }
        Ok(())
    }

    fn resolve(&mut self, slice: &Slice) -> Result<(), PortError> {
        let held = self.registry.resolve(slice).map_err(|_| PortError::Memory(slice.region))?;
        self.push(held.pointer().as_ptr(), held.length());
        self.held.push(held);
        Ok(())
    }

    fn push(&mut self, pointer: *mut u8, length: usize) {
        if length > 0 {
            self.vectors.push(libc::iovec { iov_base: pointer.cast(), iov_len: length });
            self.bytes += length;
        }
    }

    /// Bytes of all together.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [libc::iovec] {
        &mut self.vectors
    }
}
