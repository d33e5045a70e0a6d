//! Flags of operations, as in fi_endpoint(3) and the manual pages of the operations.

use weft::endpoint::Level;
use weft_libfabric::abi::{
    FI_CLAIM, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_DISCARD, FI_FENCE, FI_INJECT, FI_INJECT_COMPLETE,
    FI_MATCH_COMPLETE, FI_MORE, FI_MULTI_RECV, FI_PEEK, FI_PRIORITY, FI_REMOTE_CQ_DATA, FI_TRANSMIT_COMPLETE,
};

use super::op_flags::OpFlags;
use crate::errno::Errno;

/// Completion levels. `FI_COMMIT_COMPLETE` is not supported.
const LEVELS: u64 = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_MATCH_COMPLETE | FI_DELIVERY_COMPLETE;
/// Valid flags of an operation that this side begins.
pub(super) const TRANSMIT: u64 =
    LEVELS | FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_PRIORITY | FI_REMOTE_CQ_DATA;
/// Valid flags of a receive.
pub(super) const RECEIVE: u64 = LEVELS | FI_COMPLETION | FI_MORE | FI_MULTI_RECV;
/// Valid flags of a tagged receive.
pub(super) const TAGGED_RECEIVE: u64 = LEVELS | FI_COMPLETION | FI_MORE | FI_PEEK | FI_CLAIM | FI_DISCARD;

/// Refuses unknown flags.
pub(super) const fn check(flags: u64, known: u64) -> Result<(), Errno> {
    if flags & !known == 0 { Ok(()) } else { Err(Errno::BAD_FLAGS) }
}

/// The meaning of the flags of an operation that this side begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transmit {
    pub(super) op_flags: OpFlags,
    pub(super) inject: bool,
    pub(super) level: Level,
    pub(super) fence: bool,
}

impl Transmit {
    /// With `selective`, only operations with `FI_COMPLETION` are reported.
    #[inline]
    pub(super) const fn new(flags: u64, selective: bool) -> Self {
        Self {
            op_flags: OpFlags::QUIET.when(selective && flags & FI_COMPLETION == 0),
            inject: flags & FI_INJECT != 0,
            level: level(flags),
            fence: flags & FI_FENCE != 0,
        }
    }

    /// Adjusts the level of a write or an atomic. Most programs take a count of a write counter as proof that the write
    /// is in the peer's memory: Sandia OpenSHMEM releases its locks by that, without a level. So on an endpoint with
    /// such a counter an operation without a level completes when the peer has placed it.
    #[inline]
    pub(super) const fn counted(self, flags: u64, counts_writes: bool) -> Self {
        if counts_writes && flags & LEVELS == 0 { Self { level: Level::Delivered, ..self } } else { self }
    }

    /// Of calls that inject: their success is not reported, and they have no context.
    #[inline]
    pub(super) const fn injected(flags: u64) -> Self {
        Self { op_flags: OpFlags::QUIET.and(OpFlags::ANONYMOUS), inject: true, ..Self::new(flags, false) }
    }
}

/// Match-complete means that the peer has a receive for the message (fi_tagged(3)); a message in the receive's memory
/// has been matched, so delivery-complete implies it. Transmit-complete means that the peer has the operation, whatever
/// happens to this side (fi_cq(3)). That the stream below has accepted the bytes does not imply that, only an answer of
/// the peer does; so it waits for the same as delivery-complete. Without a level fi_endpoint(3) leaves the meaning to
/// the provider: the memory may be reused.
#[inline]
const fn level(flags: u64) -> Level {
    if flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_TRANSMIT_COMPLETE) == 0 {
        Level::TransmitComplete
    } else {
        Level::Delivered
    }
}

#[cfg(test)]
mod tests {
    use weft_libfabric::abi::FI_COMMIT_COMPLETE;

    use super::*;

    #[test]
    fn selective_completions_are_quiet_unless_asked_for() {
        let quiet = |flags, selective| Transmit::new(flags, selective).op_flags.has(OpFlags::QUIET);
        assert!(quiet(0, true));
        assert!(!quiet(FI_COMPLETION, true) && !quiet(0, false));
        assert!(Transmit::injected(FI_COMPLETION).op_flags.has(OpFlags::QUIET));
    }

    #[test]
    fn a_write_that_is_counted_is_in_place() {
        let level = |flags, counts_writes| Transmit::new(flags, false).counted(flags, counts_writes).level;
        assert_eq!(level(0, true), Level::Delivered);
        assert_eq!(level(FI_COMPLETION, true), Level::Delivered);
        assert_eq!(level(0, false), Level::TransmitComplete);
        assert_eq!(level(FI_INJECT_COMPLETE, true), Level::TransmitComplete, "it names its level");
        assert_eq!(Transmit::injected(0).counted(0, true).level, Level::Delivered);
    }

    #[test]
    fn levels() {
        for (flags, level) in [
            (0, Level::TransmitComplete),
            (FI_INJECT_COMPLETE, Level::TransmitComplete),
            (FI_TRANSMIT_COMPLETE, Level::Delivered),
            (FI_MATCH_COMPLETE, Level::Delivered),
            (FI_INJECT_COMPLETE | FI_DELIVERY_COMPLETE, Level::Delivered),
        ] {
            assert_eq!(Transmit::new(flags, false).level, level);
        }
        for flags in [FI_COMMIT_COMPLETE, FI_PEEK] {
            assert_eq!(check(flags, TRANSMIT), Err(Errno::BAD_FLAGS));
        }
    }
}
