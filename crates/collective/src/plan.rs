//! Who sends what to whom in each round.

use std::ops::Range;

use crate::SetupError;

/// The most ranks that a group may have.
pub const MAX_RANKS: usize = 1 << 16;

/// The most values (8 bytes each) that one operation may hold at a rank.
pub const MAX_VALUES: usize = 1 << 20;

/// How two values become one. All of them are associative and commutative, so the result does not depend on the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum, modulo 2^64.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bits that are in either.
    Or,
    /// Bits that are in both.
    And,
}

impl Operation {
    /// What `a` and `b` become.
    pub fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Sum => a.wrapping_add(b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Or => a | b,
            Self::And => a & b,
        }
    }
}

/// What is done together. All ranks of a group must name the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody goes on before all have come. Takes and gives no values.
    Barrier,
    /// Takes `block` values for each rank, in the order of ranks; gives this rank's block, combined over all ranks.
    ReduceScatter {
        /// Values for each rank.
        block: usize,
        /// How they are combined.
        operation: Operation,
    },
    /// Takes and gives `length` values, combined over all ranks.
    AllReduce {
        /// Values.
        length: usize,
        /// How they are combined.
        operation: Operation,
    },
    /// Takes `block` values; gives those of all ranks, in the order of ranks.
    AllGather {
        /// Values of each rank.
        block: usize,
    },
}

/// What becomes of a round's values where they arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    Replace,
    Combine(Operation),
}

/// One message out, one in.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) to: usize,
    pub(crate) from: usize,
    /// Values of the working room that go out.
    pub(crate) send: Range<usize>,
    /// Where in the working room as many come in.
    pub(crate) receive: Range<usize>,
    pub(crate) arrival: Arrival,
}

/// What one rank does in one operation. Its working room holds a block for each rank, its own first: block `j` is that
/// of rank `(rank + j) % ranks`.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: Vec<Round>,
    /// Values of one rank in the working room.
    pub(crate) block: usize,
    /// Values that the operation takes, and gives.
    pub(crate) takes: usize,
    pub(crate) gives: usize,
    /// Whether what it takes, and what it gives, is in the order of ranks rather than from this rank on.
    pub(crate) turn_in: bool,
    pub(crate) turn_out: bool,
}

impl Plan {
    pub(crate) fn new(kind: Kind, rank: usize, ranks: usize) -> Result<Self, SetupError> {
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(SetupError::Ranks(ranks));
        }
        if rank >= ranks {
            return Err(SetupError::NoSuchRank { rank, ranks });
        }
        let (block, takes, gives) = sizes(kind, ranks)?;
        let at = Place { rank, ranks, block };
        let rounds = match kind {
            Kind::Barrier | Kind::AllGather { .. } => at.gather().collect(),
            Kind::ReduceScatter { operation, .. } => at.scatter(operation).collect(),
            Kind::AllReduce { operation, .. } => at.scatter(operation).chain(at.gather()).collect(),
        };
        let turn_in = matches!(kind, Kind::ReduceScatter { .. } | Kind::AllReduce { .. });
        let turn_out = matches!(kind, Kind::AllGather { .. } | Kind::AllReduce { .. });
        Ok(Self { rounds, block, takes, gives, turn_in, turn_out })
    }
}

/// Values of a block, values taken, values given.
fn sizes(kind: Kind, ranks: usize) -> Result<(usize, usize, usize), SetupError> {
    let (length, block) = match kind {
        Kind::Barrier => (0, 0),
        Kind::ReduceScatter { block, .. } | Kind::AllGather { block } => (block, block),
        // The last blocks may be padded: what pads is combined only with what pads.
        Kind::AllReduce { length, .. } => (length, length.div_ceil(ranks)),
    };
    let all = block.checked_mul(ranks).filter(|&all| all <= MAX_VALUES);
    let all = all.ok_or(SetupError::TooLong { length, ranks })?;
    Ok(match kind {
        Kind::Barrier => (0, 0, 0),
        Kind::ReduceScatter { .. } => (block, all, block),
        Kind::AllReduce { .. } => (block, length, length),
        Kind::AllGather { .. } => (block, block, all),
    })
}

#[derive(Clone, Copy)]
struct Place {
    rank: usize,
    ranks: usize,
    block: usize,
}

impl Place {
    /// Bruck's all-gather: the blocks that are here go to the rank `step` below, which lacks them. Without values it is
    /// the dissemination barrier.
    fn gather(self) -> impl Iterator<Item = Round> {
        steps(self.ranks).map(move |step| Round {
            to: self.below(step),
            from: self.above(step),
            send: self.blocks(0, step),
            receive: self.blocks(step, step),
            arrival: Arrival::Replace,
        })
    }

    /// The same backwards: where a block would have been copied from is where it is added now.
    fn scatter(self, operation: Operation) -> impl Iterator<Item = Round> {
        steps(self.ranks).rev().map(move |step| Round {
            to: self.above(step),
            from: self.below(step),
            send: self.blocks(step, step),
            receive: self.blocks(0, step),
            arrival: Arrival::Combine(operation),
        })
    }

    fn above(self, step: usize) -> usize {
        (self.rank + step) % self.ranks
    }

    fn below(self, step: usize) -> usize {
        (self.rank + self.ranks - step) % self.ranks
    }

    /// The values of the blocks that move in the round of `step`, from block `first` on.
    fn blocks(self, first: usize, step: usize) -> Range<usize> {
        let count = step.min(self.ranks - step);
        first * self.block..(first + count) * self.block
    }
}

/// 1, 2, 4, ... below the number of ranks.
fn steps(ranks: usize) -> impl DoubleEndedIterator<Item = usize> {
    (0..ranks.next_power_of_two().trailing_zeros()).map(|round| 1 << round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_what_it_is_called() {
        let (a, b) = (0b1100, 0b1010);
        let results = [
            (Operation::Sum, 0b1_0110),
            (Operation::Min, 0b1010),
            (Operation::Max, 0b1100),
            (Operation::Or, 0b1110),
            (Operation::And, 0b1000),
        ];
        for (operation, result) in results {
            assert_eq!((operation.apply(a, b), operation.apply(b, a)), (result, result), "{operation:?}");
        }
        assert_eq!(Operation::Sum.apply(u64::MAX, 2), 1);
    }
}
