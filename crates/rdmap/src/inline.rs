//! Bytes that a request carries in itself.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// The most bytes a request may carry in itself, instead of naming memory.
pub const MAX_INLINE: usize = 128;

/// Up to [`MAX_INLINE`] bytes. They are copied with the request that they are in, as one block.
#[derive(Clone, Copy)]
pub struct InlineBytes {
    bytes: [u8; MAX_INLINE],
    length: u8,
}

const _: () = assert!(MAX_INLINE <= u8::MAX as usize);

impl InlineBytes {
    /// None.
    pub const EMPTY: Self = Self { bytes: [0; MAX_INLINE], length: 0 };

    /// A copy of these; `None` when there are more than [`MAX_INLINE`].
    #[must_use]
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut inline = Self::zeroed(bytes.len())?;
        inline.copy_from_slice(bytes);
        Some(inline)
    }

    /// `length` zeros; `None` when that is more than [`MAX_INLINE`].
    #[must_use]
    #[inline]
    pub fn zeroed(length: usize) -> Option<Self> {
        (length <= MAX_INLINE).then_some(Self { length: length as u8, ..Self::EMPTY })
    }
}

impl Deref for InlineBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl DerefMut for InlineBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for InlineBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_were_given_and_no_more_than_there_is_room_for() {
        let bytes: Vec<u8> = (0..=MAX_INLINE as u8).collect();
        for length in 0..=MAX_INLINE {
            assert_eq!(*InlineBytes::new(&bytes[..length]).unwrap(), bytes[..length]);
            assert_eq!(InlineBytes::zeroed(length).unwrap().len(), length);
        }
        assert!(InlineBytes::new(&bytes).is_none() && InlineBytes::zeroed(bytes.len()).is_none());
    }
}
