//! Which fence suits a group, and how what its ranks agree on runs among them.

use weft_collective::Shape;

use crate::{Carrier, Fence};

/// What [`Choice::of`] goes by: the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Ranks of the group.
    pub ranks: usize,
    /// The most neighbours of a rank; 0: unknown.
    pub neighbours: usize,
    /// How many ranks share a processor where they are closest; 0: unknown.
    pub crowd: usize,
    /// What the layer below promises.
    pub carrier: Carrier,
    /// Whether it sends small puts as messages and keeps those that come early.
    pub tags: bool,
}

/// What [`Fence::Auto`] picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How epochs end.
    pub fence: Fence,
    /// How what all ranks agree on runs among them.
    pub shape: Shape,
}

/// The most children of a rank on an oversubscribed host. With fewer, more ranks wait twice.
const FAN: usize = 64;

impl Choice {
    /// What is best there, as `weft perf fence --auto-table` shows it (`docs/lab-book/2026-11-25-fences.md`): where
    /// ranks share processors each wait costs a change of threads, so what goes by a tree, and waits once, is best
    /// whatever the neighbours; where each has its own it is what has the fewest messages one after the other.
    ///
    /// Asserts come with each fence and need no choice here: [`Fence::Counted`] and [`Fence::Tagged`] act on them.
    #[must_use]
    pub fn of(circumstances: &Circumstances) -> Self {
        let Circumstances { ranks, neighbours, crowd, carrier, tags } = *circumstances;
        let rounds = ranks.next_power_of_two().trailing_zeros() as usize;
        let is_crowd = crowd > 1;
        let fence = match carrier.notices {
            false => Fence::TwoSided,
            true if !is_crowd && neighbours > 0 && neighbours < rounds => Fence::Neighbour,
            true if tags => Fence::Tagged,
            true => Fence::Counted,
        };
        let shape = if is_crowd { Shape::Tree { fan: FAN } } else { Shape::Rounds };
        Self { fence, shape }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;

    const ROUNDS: Shape = Shape::Rounds;
    const TREE: Shape = Shape::Tree { fan: FAN };

    /// The table of `docs/measuring.md`: ranks, ranks on a processor, neighbours, and what is best there.
    const TABLE: [(usize, usize, usize, Fence, Shape); 17] = [
        (2, 1, 0, Fence::Tagged, ROUNDS),
        (8, 1, 0, Fence::Tagged, ROUNDS),
        (64, 1, 0, Fence::Tagged, ROUNDS),
        (1024, 1, 0, Fence::Tagged, ROUNDS),
        (4, 1, 2, Fence::Tagged, ROUNDS),
        (8, 1, 2, Fence::Neighbour, ROUNDS),
        (64, 1, 2, Fence::Neighbour, ROUNDS),
        (64, 1, 8, Fence::Tagged, ROUNDS),
        (1024, 1, 4, Fence::Neighbour, ROUNDS),
        (1024, 1, 16, Fence::Tagged, ROUNDS),
        (64, 0, 0, Fence::Tagged, ROUNDS),
        (4, 2, 0, Fence::Tagged, TREE),
        (8, 4, 0, Fence::Tagged, TREE),
        (8, 4, 2, Fence::Tagged, TREE),
        (32, 16, 0, Fence::Tagged, TREE),
        (64, 32, 2, Fence::Tagged, TREE),
        (64, 32, 8, Fence::Tagged, TREE),
    ];

    #[test]
    fn what_is_picked_is_what_the_table_says() {
        let carrier = Carrier { order: Order::Whole, notices: true, flush: true };
        for (ranks, crowd, neighbours, fence, shape) in TABLE {
            let here = Circumstances { ranks, neighbours, crowd, carrier, tags: true };
            assert_eq!(Choice::of(&here), Choice { fence, shape }, "{here:?}");
        }
    }

    #[test]
    fn what_the_layer_below_cannot_do_is_not_picked() {
        let carrier = Carrier { order: Order::None, notices: true, flush: false };
        let with = Circumstances { ranks: 64, neighbours: 2, crowd: 0, carrier, tags: false };
        assert_eq!(Choice::of(&with).fence, Fence::Neighbour);
        assert_eq!(Choice::of(&Circumstances { neighbours: 0, ..with }).fence, Fence::Counted);
        assert_eq!(Choice::of(&Circumstances { crowd: 2, ..with }).fence, Fence::Counted);
        let carrier = Carrier { notices: false, ..carrier };
        assert_eq!(Choice::of(&Circumstances { carrier, tags: true, ..with }).fence, Fence::TwoSided);
    }
}
