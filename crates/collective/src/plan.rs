//! Which rank sends what to which in each round.

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
    /// No rank continues before all have come. Takes and gives no values.
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

/// How messages run among the ranks. All ranks of a group must name the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Every rank sends and takes a message in each of `log2(ranks)` rounds: shortest where each rank has a processor.
    #[default]
    Rounds,
    /// Up a tree and down again: `2 (ranks - 1)` messages in all, and most ranks wait once. Cheapest where ranks share
    /// processors: each wait is a change of threads there.
    Tree {
        /// The most children of a rank, at least one.
        fan: usize,
    },
}

/// What goes out in a round.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    /// The round in which it is taken in there.
    pub(crate) round: usize,
    /// Values of the working room.
    pub(crate) values: Range<usize>,
}

/// What comes in.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: usize,
    /// Where in the working room.
    pub(crate) values: Range<usize>,
    pub(crate) arrival: Arrival,
}

/// At most one message out, at most one in.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) send: Option<Outgoing>,
    pub(crate) receive: Option<Incoming>,
}

/// What one rank does in one operation. Its working room holds a block for each rank. In rounds its own is the first:
/// block `j` is that of rank `(rank + j) % ranks`; in a tree they are in the order of ranks.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: Vec<Round>,
    /// Values of one rank in the working room.
    pub(crate) block: usize,
    /// Where the values that the operation takes begin, and how many they are.
    pub(crate) starts: usize,
    pub(crate) takes: usize,
    /// The values that it gives.
    pub(crate) gives: Range<usize>,
    /// Whether what it takes, and what it gives, is in the order of ranks rather than from this rank on.
    pub(crate) turn_in: bool,
    pub(crate) turn_out: bool,
}

impl Plan {
    pub(crate) fn new(kind: Kind, shape: Shape, rank: usize, ranks: usize) -> Result<Self, SetupError> {
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(SetupError::Ranks(ranks));
        }
        if rank >= ranks {
            return Err(SetupError::NoSuchRank { rank, ranks });
        }
        let (block, takes, gives) = sizes(kind, ranks)?;
        match shape {
            Shape::Rounds => {
                let at = Place { rank, ranks, block };
                let rounds = match kind {
                    Kind::Barrier | Kind::AllGather { .. } => at.gather().collect(),
                    Kind::ReduceScatter { operation, .. } => at.scatter(operation).collect(),
                    Kind::AllReduce { operation, .. } => at.scatter(operation).chain(at.gather()).collect(),
                };
                let turn_in = matches!(kind, Kind::ReduceScatter { .. } | Kind::AllReduce { .. });
                let turn_out = matches!(kind, Kind::AllGather { .. } | Kind::AllReduce { .. });
                Ok(Self { rounds: numbered(rounds), block, starts: 0, takes, gives: 0..gives, turn_in, turn_out })
            }
            Shape::Tree { fan: 0 } => Err(SetupError::NoFan),
            Shape::Tree { fan } => {
                let rounds = Tree::find(rank, ranks, fan).rounds(kind, block);
                let starts = if matches!(kind, Kind::AllGather { .. }) { rank * block } else { 0 };
                let first = if matches!(kind, Kind::ReduceScatter { .. }) { rank * block } else { 0 };
                let gives = first..first + gives;
                Ok(Self { rounds, block, starts, takes, gives, turn_in: false, turn_out: false })
            }
        }
    }
}

/// Each message of a round is taken in in the same round there.
fn numbered(mut rounds: Vec<Round>) -> Vec<Round> {
    let sends = rounds.iter_mut().map(|round| round.send.as_mut());
    sends.enumerate().for_each(|(number, send)| send.into_iter().for_each(|send| send.round = number));
    rounds
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
        steps(self.ranks).map(move |step| {
            let receive = (self.above(step), self.blocks(step, step), Arrival::Replace);
            Self::round((self.below(step), self.blocks(0, step)), receive)
        })
    }

    /// The same backwards: where a block would have been copied from is where it is added now.
    fn scatter(self, operation: Operation) -> impl Iterator<Item = Round> {
        steps(self.ranks).rev().map(move |step| {
            let receive = (self.below(step), self.blocks(0, step), Arrival::Combine(operation));
            Self::round((self.above(step), self.blocks(step, step)), receive)
        })
    }

    fn round((to, out): (usize, Range<usize>), (from, values, arrival): (usize, Range<usize>, Arrival)) -> Round {
        let send = Some(Outgoing { to, round: 0, values: out });
        Round { send, receive: Some(Incoming { from, values, arrival }) }
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

/// A rank's place in a tree whose subtrees are ranks that follow each other, each below the first of them.
struct Tree {
    ranks: usize,
    /// The ranks of this one's subtree, itself the first.
    own: Range<usize>,
    /// The rank above, and which of its children this one is.
    parent: Option<(usize, usize)>,
    children: Vec<Range<usize>>,
    fan: usize,
}

impl Tree {
    fn find(rank: usize, ranks: usize, fan: usize) -> Self {
        let (mut own, mut parent) = (0..ranks, None);
        loop {
            let children = split(&own, fan);
            let below = children.iter().position(|child| child.contains(&rank));
            match below {
                None => return Self { ranks, own, parent, children, fan },
                Some(index) => (parent, own) = (Some((own.start, index)), children[index].clone()),
            }
        }
    }

    /// Children's blocks come in, all that is below goes up, what is of all comes down and is passed to the children.
    fn rounds(&self, kind: Kind, block: usize) -> Vec<Round> {
        let of = |ranks: &Range<usize>| ranks.start * block..ranks.end * block;
        let everything = || match kind {
            Kind::AllReduce { length, .. } => 0..length,
            _ => 0..block * self.ranks,
        };
        let up = |ranks: &Range<usize>| match kind {
            Kind::AllGather { .. } => of(ranks),
            _ => everything(),
        };
        let down = |ranks: &Range<usize>| match kind {
            Kind::ReduceScatter { .. } => of(ranks),
            _ => everything(),
        };
        let arrival = match kind {
            Kind::ReduceScatter { operation, .. } | Kind::AllReduce { operation, .. } => Arrival::Combine(operation),
            Kind::Barrier | Kind::AllGather { .. } => Arrival::Replace,
        };
        let take = |from, values, arrival| Round { send: None, receive: Some(Incoming { from, values, arrival }) };
        let give = |to, round, values| Round { send: Some(Outgoing { to, round, values }), receive: None };
        let mut rounds: Vec<Round> = self.children.iter().map(|child| take(child.start, up(child), arrival)).collect();
        if let Some((parent, index)) = self.parent {
            rounds.push(give(parent, index, up(&self.own)));
            rounds.push(take(parent, down(&self.own), Arrival::Replace));
        }
        // A child takes it in behind what its own children sent, and what it sent itself.
        rounds
            .extend(self.children.iter().map(|child| give(child.start, split(child, self.fan).len() + 1, down(child))));
        rounds
    }
}

/// The subtrees below the first of these ranks: at most `fan`, as large as each other.
fn split(ranks: &Range<usize>, fan: usize) -> Vec<Range<usize>> {
    let (first, below) = (ranks.start + 1, ranks.len() - 1);
    let parts = fan.min(below);
    (0..parts).map(|part| first + below * part / parts..first + below * (part + 1) / parts).collect()
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
