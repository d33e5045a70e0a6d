//! The fields of a record, one after the other.

use weft_base::{MAX_GATHER, Stag};

use super::{Envelope, MessageError, Parts, RemotePart, flag};
use crate::bytes::{read_u32, read_u64, write_u32, write_u64};

/// Reads fields one after the other.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl Reader<'_> {
    pub(super) fn advance(&mut self, length: usize) -> Result<usize, MessageError> {
        let at = self.at;
        if self.bytes.len() - at < length {
            return Err(MessageError::Short);
        }
        self.at += length;
        Ok(at)
    }

    pub(super) fn u32(&mut self) -> Result<u32, MessageError> {
        let at = self.advance(4)?;
        Ok(read_u32(self.bytes, at))
    }

    pub(super) fn u64(&mut self) -> Result<u64, MessageError> {
        let at = self.advance(8)?;
        Ok(read_u64(self.bytes, at))
    }

    pub(super) fn optional(&mut self, present: bool) -> Result<Option<u64>, MessageError> {
        if present { self.u64().map(Some) } else { Ok(None) }
    }

    pub(super) fn envelope(&mut self, flags: u8) -> Result<Envelope, MessageError> {
        Ok(Envelope { tag: self.optional(flags & flag::TAGGED != 0)?, data: self.optional(flags & flag::DATA != 0)? })
    }

    pub(super) fn parts(&mut self, count: u8) -> Result<Parts, MessageError> {
        if usize::from(count) > MAX_GATHER {
            return Err(MessageError::Parts(count));
        }
        (0..count)
            .map(|_| Ok(RemotePart { stag: Stag(self.u32()?), offset: self.u64()?, length: self.u64()? }))
            .collect()
    }
}

/// Writes fields one after the other.
pub(super) struct Writer<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) at: usize,
}

impl Writer<'_> {
    pub(super) fn u32(&mut self, value: u32) {
        write_u32(self.bytes, self.at, value);
        self.at += 4;
    }

    pub(super) fn u64(&mut self, value: u64) {
        write_u64(self.bytes, self.at, value);
        self.at += 8;
    }

    pub(super) fn optional(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.u64(value);
        }
    }

    pub(super) fn envelope(&mut self, envelope: &Envelope) {
        self.optional(envelope.tag);
        self.optional(envelope.data);
    }

    pub(super) fn parts(&mut self, parts: &Parts) {
        for part in parts {
            self.u32(part.stag.0);
            self.u64(part.offset);
            self.u64(part.length);
        }
    }
}
