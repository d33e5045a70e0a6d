//! What a window is made with, and which fence suits it.

use std::time::Duration;

use weft_collective::Shape;

use crate::{Carrier, Choice, Circumstances, CreateError, Fence, Order};

/// What a rank makes its part of a window with. The fence and the carrier must be alike at all ranks; sizes, neighbours
/// and limits may differ.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How epochs end.
    pub fence: Fence,
    /// How what all ranks must agree on runs among them. [`Fence::Auto`] picks it, too.
    pub shape: Shape,
    /// Bytes of this rank's memory in the window.
    pub bytes: u64,
    /// What the layer below promises.
    pub carrier: Carrier,
    /// The most operations that may be in flight at once; further ones are refused, but for those that wait for the
    /// fence under [`Fence::Tagged`].
    pub operations: u32,
    /// How long making the window, or a fence, may wait for other ranks before they are asked where they are.
    pub limit: Duration,
    /// How long they have then to answer.
    pub answer_limit: Duration,
    /// The ranks with which this rank shares the window under [`Fence::Neighbour`]: not this rank, and each must name
    /// the other. The other fences ignore them.
    pub neighbours: Vec<usize>,
    /// How many neighbours each rank has at most, for [`Fence::Auto`]: the same at all ranks. Zero: unknown;
    /// otherwise `neighbours` must be given, too.
    pub fan_out: usize,
    /// How many ranks share a processor, for [`Fence::Auto`]: the same at all ranks. Zero: unknown.
    pub crowd: usize,
    /// Whether the layer below sends small puts as messages ([`Window::put_message`](crate::Window::put_message)) and
    /// keeps those that come early, for [`Fence::Auto`].
    pub tags: bool,
}

impl Settings {
    /// Settings with a limit of 4096 operations and 60 s.
    #[must_use]
    pub fn new(fence: Fence, bytes: u64, carrier: Carrier) -> Self {
        let (limit, answer_limit) = (Duration::from_secs(60), Duration::from_secs(5));
        let (shape, operations, neighbours) = (Shape::Rounds, 4096, Vec::new());
        let (fan_out, crowd, tags) = (0, 0, false);
        Self { fence, shape, bytes, carrier, operations, limit, answer_limit, neighbours, fan_out, crowd, tags }
    }

    /// The fence that is used, and the shape.
    pub(crate) fn resolve(&self, rank: usize, ranks: usize) -> Result<Choice, CreateError> {
        let (neighbours, crowd) = (self.fan_out, self.crowd);
        let Self { carrier, tags, .. } = *self;
        let choice = match self.fence {
            Fence::Auto => Choice::of(&Circumstances { ranks, neighbours, crowd, carrier, tags }),
            fence => Choice { fence, shape: self.shape },
        };
        let fence = choice.fence;
        let carrier = self.carrier;
        if fence.needs_notices() && !carrier.notices {
            return Err(CreateError::NoNotices(fence));
        }
        if fence.is_one_sided() && carrier.order == Order::None && !carrier.flush {
            return Err(CreateError::NoOrder(fence));
        }
        if carrier.order == Order::Rails(0) {
            return Err(CreateError::NoRails);
        }
        let mut seen = vec![false; ranks];
        let is_wrong = |&&other: &&usize| other >= ranks || other == rank || std::mem::replace(&mut seen[other], true);
        match self.neighbours.iter().find(is_wrong) {
            Some(&other) => Err(CreateError::Neighbour { rank: other, ranks }),
            None => Ok(choice),
        }
    }

    /// Whether finishes must wait for a flush.
    pub(crate) fn flushes(&self, fence: Fence) -> bool {
        fence.is_one_sided() && self.carrier.order == Order::None
    }

    pub(crate) fn rails(&self) -> u16 {
        match self.carrier.order {
            Order::Rails(rails) => rails,
            Order::Whole | Order::None => 1,
        }
    }

    /// What must be alike, in one value.
    pub(crate) fn likeness(&self, Choice { fence, shape }: Choice) -> u64 {
        let order = match self.carrier.order {
            Order::Whole => 0,
            Order::Rails(rails) => 1 | u64::from(rails) << 8,
            Order::None => 2,
        };
        let fan = match shape {
            Shape::Rounds => 0,
            Shape::Tree { fan } => fan as u64,
        };
        let flags = u64::from(self.carrier.notices) << 8 | u64::from(self.carrier.flush) << 9;
        fence as u64 | flags | order << 16 | fan << 44
    }
}

/// What a rank promises at a fence, as MPI's asserts (MPI 4.0 section 12.5.1). None is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asserts {
    /// No operation was begun since the last fence, by any rank: all ranks give it, or none.
    pub no_precede: bool,
    /// No operation is begun before the next fence, by any rank: all ranks give it, or none.
    pub no_succeed: bool,
}
