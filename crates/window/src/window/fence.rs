//! How an epoch ends, step by step.

use super::operations::Deferred;
use super::*;

/// This many fences in a row that end epochs of messages still have a barrier: what does not go as a message comes
/// again, mostly.
const QUIET: u32 = 4;

impl Window {
    pub(super) fn begin_fence(&mut self) {
        self.barrier_needed = true;
        if !self.ends {
            // Nothing can be in flight to any rank. What will be must not come before its target is here.
            self.barrier_needed = self.kind != Fence::TwoSided;
            return self.begin_close();
        }
        self.step = match self.kind {
            Fence::TwoSided => Step::Drain,
            _ => Step::Finish,
        };
        if self.settings.flushes(self.kind) {
            for to in (0..self.ranks).filter(|&to| self.targets[to].updates > 0) {
                self.flushes += 1;
                self.actions.push_back(Action::Flush { to });
            }
        }
    }

    /// Goes as far as it can. Whether it went at all.
    pub(super) fn advance(&mut self) -> bool {
        let mut went = false;
        self.release();
        self.advance_active();
        while self.advance_once() {
            went = true;
        }
        went
    }

    fn advance_once(&mut self) -> bool {
        match self.step {
            Step::Create if !self.create.is_active() => self.compare(),
            Step::Finish if self.may_finish() => self.finish(),
            Step::Drain if self.has_drained() => self.begin_agree(),
            Step::Agree if !self.agree.is_active() => self.end_agree(),
            Step::Issue if self.operations.reads == 0 => self.finish_reads(),
            Step::Arrive if self.has_arrived() => self.begin_close(),
            Step::Close if self.has_closed() => self.leave(),
            _ => return false,
        }
        true
    }

    fn compare(&mut self) {
        let given = self.create.result().expect("it has ended");
        let own = self.settings.likeness(Choice { fence: self.kind, shape: self.shape });
        let unlike = given.chunks_exact(2).position(|pair| pair[1] != own);
        self.sizes.iter_mut().zip(given.chunks_exact(2)).for_each(|(size, pair)| *size = pair[0]);
        match unlike {
            Some(rank) => self.fail(WindowError::Unlike { rank }),
            None => {
                self.step = Step::Closed;
                self.deadline = None;
                self.event = Some(Event::Created);
            }
        }
    }

    /// A neighbour that was read from says that it is ready when it has all finishes, and may be written to by its
    /// other neighbours then: the finish must not come before the gets are over.
    fn may_finish(&self) -> bool {
        self.flushes == 0 && (self.kind != Fence::Neighbour || self.operations.reads == 0)
    }

    fn finish(&mut self) {
        let epoch = self.epoch;
        if self.kind.is_one_sided() {
            let rails = matches!(self.settings.carrier.order, crate::Order::Rails(_)).then(|| self.settings.rails());
            for to in (0..self.ranks).filter(|&to| self.targets[to].updates > 0) {
                let message = Message::Finish { epoch, count: self.targets[to].updates };
                match rails {
                    None => self.actions.push_back(Action::Send { to, rail: None, message }),
                    Some(rails) => {
                        self.actions.extend((0..rails).map(|rail| Action::Send { to, rail: Some(rail), message }))
                    }
                }
            }
        }
        if self.kind == Fence::Neighbour {
            for to in (0..self.ranks).filter(|&to| self.is_neighbour[to]) {
                let message = Message::Finish { epoch, count: self.targets[to].updates };
                self.actions.push_back(Action::Send { to, rail: None, message });
            }
            self.expected = self.settings.neighbours.len() as u64;
            self.step = Step::Arrive;
        } else {
            self.step = Step::Drain;
        }
    }

    /// What must be over here before the others learn what to expect. With counts it is nothing, as they wait for what
    /// was written and the barrier for the rest; without that barrier, it is gets, whose targets may then change what
    /// is read.
    fn has_drained(&self) -> bool {
        match self.kind {
            Fence::TwoSided | Fence::Tagged => true,
            Fence::Counted => self.operations.reads == 0 || !self.asserts.no_succeed,
            _ => self.operations.active == 0,
        }
    }

    fn begin_agree(&mut self) {
        let follows = u64::from(!self.asserts.no_succeed) | u64::from(self.has_moved) << 32;
        self.scratch.clear();
        let targets = self.targets.iter().map(|target| match self.kind {
            Fence::TwoSided => u64::from(target.updates + target.reads > 0),
            Fence::RemoteImmediate | Fence::Counted | Fence::Tagged => u64::from(target.updates),
            _ => u64::from(target.updates > 0),
        });
        match self.kind {
            Fence::RemoteImmediate => self.scratch.extend(targets.chain([follows])),
            _ => self.scratch.extend(targets.flat_map(|count| [count, follows])),
        }
        self.agree.start(&self.scratch).expect("the values are as many as it takes, and the last has ended");
        self.step = Step::Agree;
    }

    fn end_agree(&mut self) {
        let given = self.agree.result().expect("it has ended");
        let (expected, follow) = match self.kind {
            Fence::RemoteImmediate => (given[self.rank], given[self.ranks]),
            _ => (given[0], given[1]),
        };
        let (moved, follow) = (follow >> 32, follow & u64::from(u32::MAX));
        if follow != 0 && follow != self.ranks as u64 {
            return self.fail(WindowError::UnlikeAsserts { epoch: self.epoch });
        }
        self.barrier_needed = match self.kind {
            Fence::TwoSided => false,
            Fence::Counted => follow != 0,
            Fence::Tagged => {
                self.quiet = if moved > 0 { 0 } else { self.quiet.saturating_add(1) };
                moved > 0 || follow != 0 && self.quiet < QUIET
            }
            _ => true,
        };
        let finishes = if self.kind.is_one_sided() { u64::from(self.settings.rails()) } else { 1 };
        self.expected = expected.saturating_mul(finishes);
        self.step = Step::Arrive;
        match self.kind {
            Fence::TwoSided => self.issue(),
            Fence::Tagged => self.move_deferred(),
            _ => {}
        }
    }

    /// All ranks are in the fence: what was kept back can't be too early anywhere.
    fn move_deferred(&mut self) {
        let notice = Some(self.epoch);
        while let Some(deferred) = self.operations.deferred.pop_front() {
            self.actions.push_back(match deferred {
                Deferred::Read(request, access) => Action::Read { request, access },
                Deferred::Update(request, access, update) => Action::Write { request, access, update, notice },
            });
        }
    }

    /// All ranks are in the fence: a rank that takes a message in is in the same epoch.
    fn issue(&mut self) {
        self.step = Step::Issue;
        let epoch = self.epoch;
        while let Some(deferred) = self.operations.deferred.pop_front() {
            let action = match deferred {
                Deferred::Read(request, access) => Action::Read { request, access },
                Deferred::Update(request, access, update) => {
                    let last = self.count_down(access.rank);
                    Action::Deliver { request, access, update, epoch, last }
                }
            };
            self.actions.push_back(action);
        }
    }

    /// How many updates there were when this is the last to a target that is not read from.
    fn count_down(&mut self, to: usize) -> Option<u32> {
        let target = &mut self.targets[to];
        target.gone += 1;
        (target.gone == target.updates && target.reads == 0).then_some(target.updates)
    }

    /// A rank that was read from is notified when that is over.
    fn finish_reads(&mut self) {
        let epoch = self.epoch;
        for to in (0..self.ranks).filter(|&to| self.targets[to].reads > 0) {
            let message = Message::Finish { epoch, count: self.targets[to].updates };
            self.actions.push_back(Action::Send { to, rail: None, message });
        }
        self.step = Step::Arrive;
    }

    fn has_arrived(&self) -> bool {
        let inbox = &self.inbox[self.parity()];
        let all = match self.kind {
            Fence::RemoteImmediate | Fence::Counted | Fence::Tagged => inbox.placed == self.expected,
            Fence::OneSided | Fence::OneSidedBarrier => inbox.finishes == self.expected,
            _ => inbox.finishes == self.expected && inbox.placed == inbox.announced,
        };
        all && self.operations.active == 0
    }

    /// This rank has all. Operations of the next epoch must not reach one that has not.
    fn begin_close(&mut self) {
        self.step = Step::Close;
        let epoch = self.epoch;
        match self.kind {
            Fence::OneSided | Fence::Neighbour if self.ends => {
                for to in 0..self.ranks {
                    if to != self.rank && (self.kind == Fence::OneSided || self.is_neighbour[to]) {
                        self.send(to, Message::Ready { epoch });
                    }
                }
            }
            _ if self.barrier_needed => self.barrier.start(&[]).expect("the last barrier has ended"),
            _ => {}
        }
    }

    fn has_closed(&self) -> bool {
        let inbox = &self.inbox[self.parity()];
        match self.kind {
            Fence::OneSided if self.ends => inbox.readies == self.ranks - 1,
            Fence::Neighbour if self.ends => inbox.readies == self.settings.neighbours.len(),
            _ => !self.barrier.is_active(),
        }
    }

    fn leave(&mut self) {
        let parity = self.parity();
        self.inbox[parity].clear();
        self.targets.fill(Target::default());
        (self.is_direct, self.has_moved) = (self.barrier_needed, false);
        self.event = Some(Event::Fenced { epoch: self.epoch });
        self.epoch = self.epoch.wrapping_add(1);
        self.step = if self.asserts.no_succeed { Step::Closed } else { Step::Open };
        (self.deadline, self.asked) = (None, false);
        self.answers.fill(None);
    }

    pub(super) fn parity(&self) -> usize {
        (self.epoch % 2) as usize
    }
}
