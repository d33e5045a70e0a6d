//! The machine that follows a plan.

use crate::plan::{Arrival, Plan, Round};
use crate::{Kind, PeerError, SetupError, Shape, StartError};

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// The rank that it goes to.
    pub to: usize,
    /// The operation that it belongs to: as [`Collective::handle`] wants it there.
    pub sequence: u32,
    /// The round of the operation, likewise.
    pub round: usize,
    /// What it carries; none in a barrier.
    pub values: &'a [u64],
}

/// One rank's part in a collective operation that may be repeated.
///
/// To use it: [`start`](Self::start), then [`poll_transmit`](Self::poll_transmit) until it gives nothing, and again
/// after each message that was given to [`handle`](Self::handle). When [`is_active`](Self::is_active) is false the
/// result is in [`result`](Self::result). There is no time limit inside: a caller that has one names
/// [`waiting_for`](Self::waiting_for) when it ends.
#[derive(Debug)]
pub struct Collective {
    plan: Plan,
    rank: usize,
    /// The operation that is in progress, or comes next.
    sequence: u32,
    active: bool,
    /// Rounds whose message was handed out, and rounds whose message was taken in.
    sent: usize,
    taken: usize,
    /// The working room.
    values: Vec<u64>,
    /// Messages not yet taken in: those of even and of odd operations.
    arrived: [Arrived; 2],
}

/// The messages of one operation, of each round one.
#[derive(Debug)]
struct Arrived {
    has: Vec<bool>,
    values: Vec<Vec<u64>>,
}

impl Arrived {
    fn new(rounds: &[Round]) -> Self {
        let length = |round: &Round| round.receive.as_ref().map_or(0, |receive| receive.values.len());
        let values = rounds.iter().map(|round| vec![0; length(round)]).collect();
        Self { has: vec![false; rounds.len()], values }
    }
}

impl Collective {
    /// The part of `rank` in a group of `ranks`, in rounds.
    ///
    /// # Errors
    /// When there is no such rank, or a limit ([`MAX_RANKS`](crate::MAX_RANKS), [`MAX_VALUES`](crate::MAX_VALUES)) is
    /// passed.
    pub fn new(kind: Kind, rank: usize, ranks: usize) -> Result<Self, SetupError> {
        Self::shaped(kind, Shape::Rounds, rank, ranks)
    }

    /// The part of `rank` in a group of `ranks`.
    ///
    /// # Errors
    /// As [`Collective::new`], or for a tree without children.
    pub fn shaped(kind: Kind, shape: Shape, rank: usize, ranks: usize) -> Result<Self, SetupError> {
        let plan = Plan::new(kind, shape, rank, ranks)?;
        let arrived = [Arrived::new(&plan.rounds), Arrived::new(&plan.rounds)];
        let values = vec![0; plan.block * ranks];
        Ok(Self { plan, rank, sequence: 0, active: false, sent: 0, taken: 0, values, arrived })
    }

    /// Whether an operation is in progress.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// How many operations have ended here, modulo 2^32.
    pub fn ended(&self) -> u32 {
        self.sequence
    }

    /// What the last operation gave. `None` while one is in progress; zeros before the first.
    pub fn result(&self) -> Option<&[u64]> {
        (!self.active).then(|| &self.values[self.plan.gives.clone()])
    }

    /// The rank whose message is the next that is needed, if one is.
    pub fn waiting_for(&self) -> Option<usize> {
        let round = self.plan.rounds.get(self.taken).filter(|_| self.active)?;
        let from = round.receive.as_ref()?.from;
        (!self.arrived[self.parity()].has[self.taken]).then_some(from)
    }

    /// Begins the next operation with this rank's values.
    ///
    /// # Errors
    /// When the last one is in progress, or the number of values is not what the operation takes.
    pub fn start(&mut self, values: &[u64]) -> Result<(), StartError> {
        if self.active {
            return Err(StartError::Active);
        }
        if values.len() != self.plan.takes {
            return Err(StartError::Length { expected: self.plan.takes, found: values.len() });
        }
        self.values.fill(0);
        self.values[self.plan.starts..][..values.len()].copy_from_slice(values);
        if self.plan.turn_in {
            self.values.rotate_left(self.rank * self.plan.block);
        }
        (self.active, self.sent, self.taken) = (true, 0, 0);
        self.advance();
        Ok(())
    }

    /// The next message to send, if one may go now.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.advance();
        if !self.active || self.sent > self.taken {
            return None;
        }
        let send = self.plan.rounds.get(self.sent)?.send.as_ref()?;
        self.sent += 1;
        let values = &self.values[send.values.clone()];
        Some(Transmit { to: send.to, sequence: self.sequence, round: send.round, values })
    }

    /// Takes a message of rank `from`, at any time and in any order.
    ///
    /// # Errors
    /// When no rank that keeps to the plan can have sent it. Nothing has changed then.
    pub fn handle(&mut self, from: usize, sequence: u32, round: usize, values: &[u64]) -> Result<(), PeerError> {
        let side = self.side(sequence)?;
        let rounds = self.plan.rounds.len();
        let plan = self.plan.rounds.get(round).and_then(|round| round.receive.as_ref());
        let plan = plan.ok_or(PeerError::Round { rounds, found: round })?;
        if from != plan.from {
            return Err(PeerError::Sender { expected: plan.from, found: from });
        }
        let expected = plan.values.len();
        if values.len() != expected {
            return Err(PeerError::Length { expected, found: values.len() });
        }
        if self.arrived[side].has[round] {
            return Err(PeerError::Twice { round });
        }
        self.arrived[side].has[round] = true;
        self.arrived[side].values[round].copy_from_slice(values);
        self.advance();
        Ok(())
    }

    fn parity(&self) -> usize {
        (self.sequence % 2) as usize
    }

    /// Where messages of an operation are kept. A peer can be one operation ahead, and only while this rank is in one.
    fn side(&self, sequence: u32) -> Result<usize, PeerError> {
        match sequence.wrapping_sub(self.sequence) {
            0 => Ok(self.parity()),
            1 if self.active => Ok(1 - self.parity()),
            _ => Err(PeerError::Sequence { here: self.sequence, found: sequence }),
        }
    }

    /// Takes in what has arrived, in the order of rounds; a round's own message goes out before.
    fn advance(&mut self) {
        if !self.active {
            return;
        }
        let side = self.parity();
        while let Some(round) = self.plan.rounds.get(self.taken) {
            if self.sent == self.taken {
                if round.send.is_some() {
                    return;
                }
                self.sent += 1;
            }
            if let Some(receive) = &round.receive {
                if !self.arrived[side].has[self.taken] {
                    return;
                }
                let came = &self.arrived[side].values[self.taken];
                let here = &mut self.values[receive.values.clone()];
                match receive.arrival {
                    Arrival::Replace => here.copy_from_slice(came),
                    Arrival::Combine(operation) => {
                        here.iter_mut().zip(came).for_each(|(here, &came)| *here = operation.apply(*here, came));
                    }
                }
            }
            self.taken += 1;
        }
        self.end(side);
    }

    fn end(&mut self, side: usize) {
        if self.plan.turn_out {
            self.values.rotate_right(self.rank * self.plan.block);
        }
        self.arrived[side].has.fill(false);
        self.active = false;
        self.sequence = self.sequence.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests;
