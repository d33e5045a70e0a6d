//! Sequence numbers of the wire, and positions that never wrap.

/// One direction of a connection: position 0 is its SYN, the first byte of the stream is at 1. Inside, everything is a
/// position of 64 bits, so that "before" is `<` (RFC 9293 section 3.4 compares modulo 2^32).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    initial: u32,
}

impl Numbering {
    pub(crate) const fn new(initial: u32) -> Self {
        Self { initial }
    }

    /// The number of a position.
    pub(crate) const fn number(self, position: u64) -> u32 {
        self.initial.wrapping_add(position as u32)
    }

    /// The position of a number, of those that it may have the one nearest to `near`; none when that would be before
    /// the SYN.
    pub(crate) const fn position(self, number: u32, near: u64) -> Option<u64> {
        let distance = number.wrapping_sub(self.number(near)).cast_signed();
        near.checked_add_signed(distance as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_positions_do_not() {
        let numbering = Numbering::new(u32::MAX - 1);
        assert_eq!([0, 1, 2, 3].map(|position| numbering.number(position)), [u32::MAX - 1, u32::MAX, 0, 1]);
        assert_eq!(numbering.position(1, 0), Some(3));
        assert_eq!(numbering.position(u32::MAX - 2, 0), None);
        let far = 5 << 32;
        assert_eq!(numbering.position(numbering.number(far - 9), far), Some(far - 9));
        assert_eq!(numbering.position(numbering.number(far + 9), far), Some(far + 9));
    }
}
