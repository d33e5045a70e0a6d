//! Reading a packet from front to back.

use super::EdgeError;
use crate::bytes::{read_u16, read_u32, read_u64};

/// What is left to read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], EdgeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(EdgeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], EdgeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(EdgeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], EdgeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, EdgeError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, EdgeError> {
        Ok(read_u16(self.take(2)?, 0))
    }

    pub(super) fn u32(&mut self) -> Result<u32, EdgeError> {
        Ok(read_u32(self.take(4)?, 0))
    }

    /// Six bytes.
    pub(super) fn u48(&mut self) -> Result<u64, EdgeError> {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(self.take(6)?);
        Ok(u64::from_be_bytes(bytes))
    }

    pub(super) fn u64(&mut self) -> Result<u64, EdgeError> {
        Ok(read_u64(self.take(8)?, 0))
    }

    /// Bytes behind a length of two bytes, at most `most`.
    pub(super) fn counted(&mut self, most: usize, what: &'static str) -> Result<&'a [u8], EdgeError> {
        let length = usize::from(self.u16()?);
        if length > most {
            return Err(EdgeError::Value(what));
        }
        self.take(length)
    }
}
