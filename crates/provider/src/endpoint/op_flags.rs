//! Data for a request's completion, besides its context.

/// Passes with a request through the NIC, as `op_flags` of its post and its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpFlags(u32);

impl OpFlags {
    /// Its success is not reported.
    pub(super) const QUIET: Self = Self(1);
    /// A receive of many messages: its context is a key of [`super::many::Many`].
    pub(super) const MANY: Self = Self(2);
    /// An atomic operation that returns the old value.
    pub(super) const FETCHES: Self = Self(4);
    /// It has no context: a failure is the endpoint's.
    pub(super) const ANONYMOUS: Self = Self(8);

    /// It has a turn to be counted, in the bits above the other op flags.
    const HAS_TURN: Self = Self(16);
    const TURN_SHIFT: u32 = 8;
    /// The highest number of a turn: it wraps to 0.
    pub(super) const LAST_TURN: u32 = u32::MAX >> Self::TURN_SHIFT;

    /// These, if `condition`.
    pub(super) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }

    /// These and those.
    pub(super) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(super) const fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    /// These, with a turn.
    pub(super) const fn with_turn(self, turn: u32) -> Self {
        Self(self.0 | Self::HAS_TURN.0 | turn << Self::TURN_SHIFT)
    }

    /// The number of its turn, up to [`Self::LAST_TURN`], if it has one.
    pub(super) const fn turn(self) -> Option<u32> {
        if self.has(Self::HAS_TURN) { Some(self.0 >> Self::TURN_SHIFT) } else { None }
    }

    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_combine_and_come_back() {
        let op_flags = OpFlags::QUIET.and(OpFlags::MANY.when(false)).and(OpFlags::FETCHES.when(true));
        let op_flags = OpFlags::from_bits(op_flags.to_bits());
        assert!(op_flags.has(OpFlags::QUIET) && op_flags.has(OpFlags::FETCHES));
        assert!(!op_flags.has(OpFlags::MANY) && !op_flags.has(OpFlags::ANONYMOUS));
        assert_eq!(op_flags.turn(), None);
        let op_flags = op_flags.with_turn(OpFlags::LAST_TURN + 6);
        assert!(op_flags.has(OpFlags::QUIET) && !op_flags.has(OpFlags::MANY));
        assert_eq!(op_flags.turn(), Some(5));
    }
}
