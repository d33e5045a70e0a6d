//! Locks: access to the window of a rank that takes no part in it.

use super::*;
use crate::LockError;

/// What this rank has of another's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Nothing,
    Asked,
    Held,
    /// It goes when what was done under it is placed.
    Leaving,
    Released,
}

/// Access to the part of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passive {
    hold: Hold,
    exclusive: bool,
    /// Operations in flight.
    active: u32,
    flushing: bool,
}

impl Passive {
    pub(super) fn is_held(self) -> bool {
        self.hold == Hold::Held
    }

    pub(super) fn is_nothing(self) -> bool {
        self.hold == Hold::Nothing
    }

    pub(super) fn begin(&mut self) {
        self.active += 1;
    }

    pub(super) fn end(&mut self) {
        self.active -= 1;
    }
}

impl Window {
    /// Asks for access to the part of a rank: with others that share it, or alone. [`holds`](Self::holds) says when
    /// operations there may begin.
    ///
    /// # Errors
    /// [`LockError`]; nothing has happened then.
    pub fn lock(&mut self, rank: usize, exclusive: bool) -> Result<(), LockError> {
        match self.step {
            Step::Create => return Err(LockError::NotCreated),
            Step::Failed => return Err(LockError::Failed),
            Step::Closed if self.active.is_nothing() => {}
            _ => return Err(LockError::InEpoch),
        }
        let passive = self.passive_of(rank)?;
        if passive.hold != Hold::Nothing {
            return Err(LockError::Twice(rank));
        }
        *passive = Passive { hold: Hold::Asked, exclusive, active: 0, flushing: false };
        self.actions.push_back(Action::Lock { to: rank, exclusive });
        Ok(())
    }

    /// Requests that everything done to the part of a rank under this lock is placed there: it is when
    /// [`is_flushed`](Self::is_flushed) says so.
    ///
    /// # Errors
    /// [`LockError`]; nothing has happened then.
    pub fn flush(&mut self, rank: usize) -> Result<(), LockError> {
        let passive = self.held(rank)?;
        if !std::mem::replace(&mut passive.flushing, true) {
            self.actions.push_back(Action::Flush { to: rank });
        }
        Ok(())
    }

    /// Gives the lock back, when everything that was done under it is placed: then [`is_free`](Self::is_free).
    ///
    /// # Errors
    /// [`LockError`]; nothing has happened then.
    pub fn unlock(&mut self, rank: usize) -> Result<(), LockError> {
        self.flush(rank)?;
        self.held(rank)?.hold = Hold::Leaving;
        Ok(())
    }

    /// Whether this rank has access to the part of a rank.
    #[must_use]
    pub fn holds(&self, rank: usize) -> bool {
        self.passive.get(rank).is_some_and(|passive| passive.is_held())
    }

    /// Whether everything that was done to the part of a rank is placed there, and what was read from it is here.
    #[must_use]
    pub fn is_flushed(&self, rank: usize) -> bool {
        self.passive.get(rank).is_some_and(|passive| !passive.flushing && passive.active == 0)
    }

    /// Whether this rank has no lock on the part of a rank, and waits for none.
    #[must_use]
    pub fn is_free(&self, rank: usize) -> bool {
        self.passive.get(rank).is_some_and(|passive| passive.is_nothing())
    }

    /// The requested lock is here.
    ///
    /// # Errors
    /// None was requested.
    pub fn handle_locked(&mut self, rank: usize) -> Result<(), PeerError> {
        self.change(rank, Hold::Asked, Hold::Held)
    }

    /// The lock that was given back is free.
    ///
    /// # Errors
    /// None was given back.
    pub fn handle_unlocked(&mut self, rank: usize) -> Result<(), PeerError> {
        self.change(rank, Hold::Released, Hold::Nothing)
    }

    fn change(&mut self, rank: usize, from: Hold, to: Hold) -> Result<(), PeerError> {
        let passive = self.passive.get_mut(rank).ok_or(PeerError::NoSuchRank(rank))?;
        if passive.hold != from {
            return Err(PeerError::NoRequest);
        }
        passive.hold = to;
        Ok(())
    }

    /// Whether that was a flush under a lock.
    pub(super) fn end_flush(&mut self, rank: usize) -> bool {
        self.passive.get_mut(rank).is_some_and(|passive| std::mem::replace(&mut passive.flushing, false))
    }

    /// Gives back the locks under which nothing is in flight any more.
    pub(super) fn release(&mut self) {
        if self.step != Step::Closed {
            return;
        }
        for (to, passive) in self.passive.iter_mut().enumerate() {
            if passive.hold == Hold::Leaving && !passive.flushing && passive.active == 0 {
                passive.hold = Hold::Released;
                self.actions.push_back(Action::Unlock { to, exclusive: passive.exclusive });
            }
        }
    }

    fn passive_of(&mut self, rank: usize) -> Result<&mut Passive, LockError> {
        let ranks = self.ranks;
        self.passive.get_mut(rank).ok_or(LockError::NoSuchRank { rank, ranks })
    }

    fn held(&mut self, rank: usize) -> Result<&mut Passive, LockError> {
        if self.step == Step::Failed {
            return Err(LockError::Failed);
        }
        let passive = self.passive_of(rank)?;
        if passive.is_held() { Ok(passive) } else { Err(LockError::NotHeld(rank)) }
    }
}
