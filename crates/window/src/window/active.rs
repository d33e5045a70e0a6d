//! Post, start, complete and wait (MPI 4.0 section 12.5.2): epochs between some ranks, without the others.

use super::*;
use crate::ActiveError;

/// Where the access of this rank to others is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    #[default]
    None,
    /// The targets must post first.
    Starting,
    Started,
    /// What was begun must end.
    Completing,
}

/// The state between this rank and another.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// It has posted, and this rank has not started there since.
    has_posted: bool,
    /// This rank accesses it, and has begun this many updates there.
    is_target: bool,
    updates: u32,
    /// This rank is exposed to it; this many of its updates are placed, and this many there were when it has completed.
    is_origin: bool,
    placed: u32,
    announced: Option<u32>,
}

/// Epochs between some ranks.
#[derive(Debug)]
pub(super) struct Active {
    access: Access,
    is_exposed: bool,
    sides: Vec<Side>,
}

impl Active {
    pub(super) fn new(ranks: usize) -> Self {
        Self { access: Access::None, is_exposed: false, sides: vec![Side::default(); ranks] }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.access == Access::None && !self.is_exposed
    }

    /// Whether operations there may begin.
    pub(super) fn has_started(&self, rank: usize) -> bool {
        self.access == Access::Started && self.sides.get(rank).is_some_and(|side| side.is_target)
    }

    pub(super) fn count(&mut self, rank: usize) {
        self.sides[rank].updates += 1;
    }

    fn first_unposted(&self) -> Option<usize> {
        self.sides.iter().position(|side| side.is_target && !side.has_posted)
    }

    fn first_incomplete(&self) -> Option<usize> {
        self.sides.iter().position(|side| side.is_origin && side.announced != Some(side.placed))
    }
}

impl Window {
    /// Exposes this rank's part to the origins: they may access it once they have started.
    ///
    /// # Errors
    /// [`ActiveError`]; nothing has happened then.
    pub fn post(&mut self, origins: &[usize]) -> Result<(), ActiveError> {
        self.check_active(origins)?;
        if self.active.is_exposed {
            return Err(ActiveError::Twice);
        }
        self.active.is_exposed = true;
        for &to in origins {
            let side = &mut self.active.sides[to];
            (side.is_origin, side.placed, side.announced) = (true, 0, None);
            self.send(to, Message::Post);
        }
        Ok(())
    }

    /// Begins to access the targets, as soon as all of them have posted: then [`has_started`](Self::has_started).
    ///
    /// # Errors
    /// [`ActiveError`]; nothing has happened then.
    pub fn start(&mut self, targets: &[usize]) -> Result<(), ActiveError> {
        self.check_active(targets)?;
        if self.active.access != Access::None {
            return Err(ActiveError::Twice);
        }
        self.active.access = Access::Starting;
        targets.iter().for_each(|&to| (self.active.sides[to].is_target, self.active.sides[to].updates) = (true, 0));
        Ok(())
    }

    /// Ends the access to the targets, when what was begun there is over here: then
    /// [`has_completed`](Self::has_completed).
    ///
    /// # Errors
    /// [`ActiveError`]; nothing has happened then.
    pub fn complete(&mut self) -> Result<(), ActiveError> {
        if self.active.access != Access::Started {
            return Err(if self.step == Step::Failed { ActiveError::Failed } else { ActiveError::NotStarted });
        }
        self.active.access = Access::Completing;
        Ok(())
    }

    /// Ends the exposure of this rank's part, if all origins have completed and what they did is here. Whether it has
    /// ended.
    ///
    /// # Errors
    /// [`ActiveError`]; nothing has happened then.
    pub fn end_exposure(&mut self) -> Result<bool, ActiveError> {
        if !self.active.is_exposed {
            return Err(if self.step == Step::Failed { ActiveError::Failed } else { ActiveError::NotPosted });
        }
        if self.active.first_incomplete().is_some() {
            return Ok(false);
        }
        self.active.is_exposed = false;
        self.active.sides.iter_mut().for_each(|side| side.is_origin = false);
        Ok(true)
    }

    /// Whether operations at the targets may begin.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.active.access == Access::Started
    }

    /// Whether no target is accessed.
    #[must_use]
    pub fn has_completed(&self) -> bool {
        self.active.access == Access::None
    }

    /// The first target that has not posted, while this rank starts; else the first origin that has not completed.
    #[must_use]
    pub fn waiting_for(&self) -> Option<usize> {
        match self.active.access {
            Access::Starting => self.active.first_unposted(),
            _ => self.active.first_incomplete(),
        }
    }

    /// Advances what has been requested.
    pub(super) fn advance_active(&mut self) {
        if self.active.access == Access::Starting && self.active.first_unposted().is_none() {
            self.active.access = Access::Started;
            self.active.sides.iter_mut().filter(|side| side.is_target).for_each(|side| side.has_posted = false);
        }
        // The targets may change what is read when they are notified.
        if self.active.access == Access::Completing && self.operations.active == 0 && self.step == Step::Closed {
            self.active.access = Access::None;
            for to in 0..self.ranks {
                if std::mem::replace(&mut self.active.sides[to].is_target, false) {
                    let count = self.active.sides[to].updates;
                    self.send(to, Message::Complete { count });
                }
            }
        }
    }

    pub(super) fn handle_post(&mut self, from: usize) -> Result<(), PeerError> {
        match std::mem::replace(&mut self.active.sides[from].has_posted, true) {
            true => Err(PeerError::Unexpected(from)),
            false => Ok(()),
        }
    }

    pub(super) fn handle_completed(&mut self, from: usize, count: u32) -> Result<(), PeerError> {
        let side = &mut self.active.sides[from];
        if !side.is_origin || side.announced.is_some() || count < side.placed {
            return Err(PeerError::Unexpected(from));
        }
        side.announced = Some(count);
        Ok(())
    }

    /// Between epochs of fences only what is exposed here can be written with a notice.
    pub(super) fn handle_placed_between(&mut self, from: usize) -> Result<(), PeerError> {
        let side = &mut self.active.sides[from];
        if !side.is_origin || side.announced.is_some_and(|count| side.placed >= count) {
            return Err(PeerError::Unexpected(from));
        }
        side.placed += 1;
        Ok(())
    }

    fn check_active(&self, ranks: &[usize]) -> Result<(), ActiveError> {
        match self.step {
            Step::Create => return Err(ActiveError::NotCreated),
            Step::Failed => return Err(ActiveError::Failed),
            Step::Closed => {}
            _ => return Err(ActiveError::InEpoch),
        }
        if !self.settings.carrier.notices {
            return Err(ActiveError::NoNotices);
        }
        for (at, &rank) in ranks.iter().enumerate() {
            if rank >= self.ranks || ranks[..at].contains(&rank) {
                return Err(ActiveError::Rank { rank, ranks: self.ranks });
            }
        }
        match self.passive.iter().position(|passive| !passive.is_nothing()) {
            Some(rank) => Err(ActiveError::Locked(rank)),
            None => Ok(()),
        }
    }
}
