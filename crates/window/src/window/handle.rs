//! What has happened below, and at other ranks.

use super::operations::is_inside;
use super::*;

impl Window {
    /// An operation is over here: its source may be used again, or what it reads has come.
    ///
    /// # Errors
    /// When no such operation is in flight.
    pub fn handle_complete(&mut self, request: Request) -> Result<(), PeerError> {
        let under_lock = self.operations.end(request).ok_or(PeerError::NoRequest)?;
        if let Some(rank) = under_lock {
            self.passive[rank].end();
        }
        Ok(())
    }

    /// Everything that was written to rank `to` is placed there.
    ///
    /// # Errors
    /// When nothing was to be flushed.
    pub fn handle_flushed(&mut self, to: usize) -> Result<(), PeerError> {
        if self.end_flush(to) {
            return Ok(());
        }
        self.flushes = self.flushes.checked_sub(1).ok_or(PeerError::NoRequest)?;
        Ok(())
    }

    /// Whether an update that rank `from` has sent as a message may be placed: ask before each.
    ///
    /// # Errors
    /// When it may not, and why.
    pub fn check(&self, from: usize, epoch: u32, offset: u64, length: u32) -> Result<(), PeerError> {
        self.known(from)?;
        // Deferred operations move only when all ranks are in the fence.
        if !self.is_fencing() || epoch != self.epoch {
            return Err(PeerError::Epoch { here: self.epoch, found: epoch });
        }
        match is_inside(offset, length, self.settings.bytes) {
            true => Ok(()),
            false => Err(PeerError::Outside { offset, length }),
        }
    }

    /// Whether a message with bytes of an update belongs to the epoch after this one, which has not ended here: keep it
    /// until it has, if [`keep_early`](Self::keep_early) agrees. Only with [`Fence::Tagged`], and only while a fence is
    /// in progress.
    #[must_use]
    pub fn is_early(&self, epoch: u32) -> bool {
        let is_next = epoch == self.epoch.wrapping_add(1) && self.is_fencing();
        is_next && self.kind == Fence::Tagged && self.step != Step::Close
    }

    /// A message of rank `from` with this many bytes of payload [is early](Self::is_early) and is to be kept.
    ///
    /// # Errors
    /// With it the rank would have sent more than [`Load::EARLY`]: do not keep it. One that keeps to the protocol does
    /// not do so.
    pub fn keep_early(&mut self, from: usize, bytes: u32) -> Result<(), PeerError> {
        self.known(from)?;
        let parity = 1 - self.parity();
        let early = &mut self.inbox[parity].early[from];
        let mut all = *early;
        all.add(Load::message(bytes));
        if !all.is_within(Load::EARLY) {
            return Err(PeerError::TooEarly(all));
        }
        *early = all;
        Ok(())
    }

    /// Whether bytes of an update that rank `from` has sent as a message in an epoch that is open here may be placed:
    /// ask before each piece. With such updates a target takes part before its fence, or in it.
    ///
    /// # Errors
    /// When they may not, and why.
    pub fn check_open(&self, from: usize, epoch: u32, offset: u64, length: u32) -> Result<(), PeerError> {
        self.known(from)?;
        // A rank that has all of its own may find others in the next epoch already.
        let is_open = match self.step {
            Step::Create | Step::Closed | Step::Failed => false,
            Step::Close => self.side(epoch).is_ok(),
            _ => epoch == self.epoch,
        };
        if !is_open {
            return Err(PeerError::Epoch { here: self.epoch, found: epoch });
        }
        match is_inside(offset, length, self.settings.bytes) {
            true => Ok(()),
            false => Err(PeerError::Outside { offset, length }),
        }
    }

    /// An update that rank `from` has sent in this epoch is placed here.
    ///
    /// # Errors
    /// When `from` cannot have sent it.
    pub fn handle_placed(&mut self, from: usize, epoch: u32) -> Result<(), PeerError> {
        self.known(from)?;
        if self.step == Step::Closed {
            return self.handle_placed_between(from);
        }
        let side = self.side(epoch)?;
        self.inbox[side].placed += 1;
        Ok(())
    }

    /// A message has come. Messages of one rank may come in any order.
    ///
    /// # Errors
    /// When a rank that keeps to the protocol cannot have sent it. It changed nothing.
    pub fn handle_message(&mut self, from: usize, message: Message<'_>) -> Result<(), PeerError> {
        self.known(from)?;
        match message {
            Message::Round { part, sequence, round, values } => {
                let machine = match part {
                    Part::Create => &mut self.create,
                    Part::Agree => &mut self.agree,
                    Part::Barrier => &mut self.barrier,
                };
                machine.handle(from, sequence, round as usize, values).map_err(PeerError::Collective)
            }
            Message::Finish { epoch, count } => self.handle_finish(from, epoch, count),
            Message::Ready { epoch } => self.handle_ready(from, epoch),
            Message::Post => self.handle_post(from),
            Message::Complete { count } => self.handle_completed(from, count),
            Message::Ask { epoch } => {
                let fenced = match epoch.wrapping_sub(self.epoch) {
                    0 => self.is_fencing() || self.step == Step::Create,
                    ahead => ahead > u32::MAX / 2,
                };
                self.send(from, Message::Answer { epoch, fenced });
                Ok(())
            }
            Message::Answer { epoch, fenced } => {
                if epoch == self.epoch && self.asked {
                    self.answers[from] = Some(fenced);
                }
                Ok(())
            }
            Message::Abort { rank } => {
                let rank = self.known(rank as usize)?;
                self.fail(WindowError::Told { by: from, rank });
                Ok(())
            }
        }
    }

    /// The layer below has lost a rank. The window fails, and tells the others.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn handle_lost(&mut self, rank: usize) -> Result<(), PeerError> {
        let rank = self.known(rank)?;
        self.fail(WindowError::Lost { rank, epoch: self.epoch });
        Ok(())
    }

    /// The time that [`next_timeout`](Self::next_timeout) named has come, perhaps. First the ranks are asked where they
    /// are; when their time to answer is over, too, the window fails and names the ranks that do not fence or do not
    /// answer.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some(deadline) = self.deadline.filter(|&deadline| deadline <= now) else { return };
        if self.asked {
            return self.blame();
        }
        self.asked = true;
        self.deadline = Some(deadline.max(now) + self.settings.answer_limit);
        self.answers.fill(None);
        self.answers[self.rank] = Some(true);
        let (rank, epoch) = (self.rank, self.epoch);
        (0..self.ranks).filter(|&to| to != rank).for_each(|to| self.send(to, Message::Ask { epoch }));
    }

    fn blame(&mut self) {
        let epoch = self.epoch;
        let ranks = self.answers.iter().filter(|&&answer| answer != Some(true)).count();
        let silent = self.answers.iter().position(Option::is_none);
        let late = silent.or_else(|| self.answers.iter().position(|&answer| answer == Some(false)));
        self.fail(match late {
            Some(rank) => WindowError::Late { rank, ranks, epoch, answers: silent.is_none() },
            None => WindowError::Stalled { epoch },
        });
    }

    fn handle_finish(&mut self, from: usize, epoch: u32, count: u32) -> Result<(), PeerError> {
        let side = self.side(epoch)?;
        let is_used = match self.kind {
            Fence::TwoSided | Fence::OneSided | Fence::OneSidedBarrier => true,
            Fence::Neighbour => self.is_neighbour[from],
            _ => false,
        };
        let most = if self.kind.is_one_sided() { self.settings.rails() } else { 1 };
        let inbox = &mut self.inbox[side];
        if !is_used || inbox.finished[from] >= most {
            return Err(PeerError::Unexpected(from));
        }
        inbox.finished[from] += 1;
        inbox.finishes += 1;
        inbox.announced += u64::from(count);
        Ok(())
    }

    fn handle_ready(&mut self, from: usize, epoch: u32) -> Result<(), PeerError> {
        let side = self.side(epoch)?;
        let is_used = self.kind == Fence::OneSided || self.kind == Fence::Neighbour && self.is_neighbour[from];
        let inbox = &mut self.inbox[side];
        if !is_used || from == self.rank || std::mem::replace(&mut inbox.ready[from], true) {
            return Err(PeerError::Unexpected(from));
        }
        inbox.readies += 1;
        Ok(())
    }

    fn known(&self, rank: usize) -> Result<usize, PeerError> {
        (rank < self.ranks).then_some(rank).ok_or(PeerError::NoSuchRank(rank))
    }

    /// Where something of an epoch is counted. Another rank can be one ahead, and only while this one is in the fence.
    fn side(&self, epoch: u32) -> Result<usize, PeerError> {
        match epoch.wrapping_sub(self.epoch) {
            0 => Ok(self.parity()),
            1 if self.is_fencing() => Ok(1 - self.parity()),
            _ => Err(PeerError::Epoch { here: self.epoch, found: epoch }),
        }
    }
}
