//! Operations that were begun, and their beginning.

use super::*;

/// What a deferred operation will be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deferred {
    Update(Request, Access, Update),
    Read(Request, Access),
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
struct Slot {
    serial: u32,
    is_read: bool,
    /// The rank whose part is locked for it.
    under_lock: Option<usize>,
}

/// Operations in flight.
#[derive(Debug)]
pub(super) struct Operations {
    /// None where it is free.
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    serial: u32,
    pub(super) active: u32,
    pub(super) reads: u32,
    /// Those that wait for the fence.
    pub(super) deferred: VecDeque<Deferred>,
}

impl Operations {
    pub(super) fn new(limit: u32) -> Self {
        let deferred = VecDeque::with_capacity(limit as usize);
        let (slots, free) = (vec![None; limit as usize], (0..limit).rev().collect());
        Self { slots, free, serial: 0, active: 0, reads: 0, deferred }
    }

    /// `grows`: further ones than the limit are taken, too.
    fn begin(&mut self, is_read: bool, under_lock: Option<usize>, grows: bool) -> Option<Request> {
        if grows && self.free.is_empty() {
            self.free.push(u32::try_from(self.slots.len()).ok()?);
            self.slots.push(None);
        }
        let slot = self.free.pop()?;
        self.serial = self.serial.wrapping_add(1);
        self.slots[slot as usize] = Some(Slot { serial: self.serial, is_read, under_lock });
        self.active += 1;
        self.reads += u32::from(is_read);
        Some(Request { slot, serial: self.serial })
    }

    pub(super) fn has(&self, request: Request) -> bool {
        let slot = self.slots.get(request.slot as usize).copied().flatten();
        slot.is_some_and(|slot| slot.serial == request.serial)
    }

    /// The rank whose part was locked for it. `None`: there was no such operation.
    pub(super) fn end(&mut self, request: Request) -> Option<Option<usize>> {
        if !self.has(request) {
            return None;
        }
        let slot = self.slots[request.slot as usize].take()?;
        self.free.push(request.slot);
        self.active -= 1;
        self.reads -= u32::from(slot.is_read);
        Some(slot.under_lock)
    }
}

impl Window {
    /// Puts bytes into the window of another rank, or of this one.
    ///
    /// # Errors
    /// [`OperationError`]; nothing has happened then.
    pub fn put(&mut self, access: Access) -> Result<Request, OperationError> {
        self.update(access, Update::Replace)
    }

    /// Puts bytes that the layer below will bring as messages of this `load`, as it may while an epoch is open: its
    /// target takes part then. Under [`Fence::Tagged`] such puts may come before their epoch has begun there
    /// ([`Window::is_early`](Self::is_early)), so that those which would be more than [`Load::EARLY`] wait for the
    /// fence, and it ends with a barrier; with the other fences this is a put.
    ///
    /// # Errors
    /// [`OperationError`]; nothing has happened then.
    pub fn put_message(&mut self, access: Access, load: Load) -> Result<Request, OperationError> {
        if self.kind != Fence::Tagged || self.step == Step::Closed {
            return self.put(access);
        }
        self.judge(access)?;
        let request = self.begin(false, access.rank)?;
        let target = &mut self.targets[access.rank];
        target.updates += 1;
        target.messages.add(load);
        let is_much = !target.messages.is_within(Load::EARLY);
        // A rank that sends this much will do it again: behind a barrier nothing is early.
        self.has_moved |= is_much;
        if is_much && self.defers() {
            self.operations.deferred.push_back(Deferred::Update(request, access, Update::Replace));
            return Ok(request);
        }
        let (update, epoch, last) = (Update::Replace, self.epoch, None);
        self.actions.push_back(Action::Deliver { request, access, update, epoch, last });
        Ok(request)
    }

    /// Combines bytes with those in the window of a rank.
    ///
    /// # Errors
    /// [`OperationError`]; nothing has happened then.
    pub fn accumulate(&mut self, access: Access, update: Update) -> Result<Request, OperationError> {
        self.update(access, update)
    }

    /// Reads bytes from the window of a rank. They are those before this epoch, or anything that it makes of them.
    ///
    /// # Errors
    /// [`OperationError`]; nothing has happened then.
    pub fn get(&mut self, access: Access) -> Result<Request, OperationError> {
        self.judge(access)?;
        let request = self.begin(true, access.rank)?;
        if self.step == Step::Closed {
            self.actions.push_back(Action::Read { request, access });
            return Ok(request);
        }
        self.targets[access.rank].reads += 1;
        self.has_moved |= self.kind == Fence::Tagged;
        if self.defers() {
            self.operations.deferred.push_back(Deferred::Read(request, access));
        } else {
            self.actions.push_back(Action::Read { request, access });
        }
        Ok(request)
    }

    fn update(&mut self, access: Access, update: Update) -> Result<Request, OperationError> {
        self.judge(access)?;
        judge_elements(access, update)?;
        let request = self.begin(false, access.rank)?;
        if self.step == Step::Closed {
            let notice = (!self.holds(access.rank)).then_some(self.epoch);
            if notice.is_some() {
                self.active.count(access.rank);
            }
            self.actions.push_back(Action::Write { request, access, update, notice });
            return Ok(request);
        }
        self.targets[access.rank].updates += 1;
        self.has_moved |= self.kind == Fence::Tagged;
        if self.defers() {
            self.operations.deferred.push_back(Deferred::Update(request, access, update));
        } else {
            let notice = self.kind.needs_notices().then_some(self.epoch);
            self.actions.push_back(Action::Write { request, access, update, notice });
        }
        Ok(request)
    }

    /// Whether an operation waits for the fence.
    #[must_use]
    pub fn is_deferred(&self, request: Request) -> bool {
        let is = |deferred: &Deferred| match deferred {
            Deferred::Update(other, ..) | Deferred::Read(other, _) => *other == request,
        };
        self.operations.deferred.iter().any(is)
    }

    /// Whether what is begun now waits for the fence, unless it is a message and there are not too many.
    #[must_use]
    pub fn defers(&self) -> bool {
        let is_open = self.step != Step::Closed;
        is_open && (self.kind == Fence::TwoSided || self.kind == Fence::Tagged && !self.is_direct)
    }

    fn begin(&mut self, is_read: bool, rank: usize) -> Result<Request, OperationError> {
        let under_lock = self.holds(rank).then_some(rank);
        // An application that waited for room would wait for the fence, which it has yet to call.
        let grows = self.kind == Fence::Tagged && self.defers();
        let request = self.operations.begin(is_read, under_lock, grows);
        let request = request.ok_or(OperationError::TooMany(self.settings.operations))?;
        if under_lock.is_some() {
            self.passive[rank].begin();
        }
        Ok(request)
    }

    fn judge(&self, access: Access) -> Result<(), OperationError> {
        match self.step {
            Step::Open => {}
            Step::Closed if self.holds(access.rank) || self.active.has_started(access.rank) => {}
            Step::Create | Step::Closed => return Err(OperationError::NoEpoch),
            Step::Failed => return Err(OperationError::Failed),
            _ => return Err(OperationError::InFence),
        }
        let (rank, ranks) = (access.rank, self.ranks);
        let bytes = *self.sizes.get(rank).ok_or(OperationError::NoSuchRank { rank, ranks })?;
        if self.kind == Fence::Neighbour && self.step == Step::Open && !self.is_neighbour[rank] {
            return Err(OperationError::NotNeighbour(rank));
        }
        let (offset, length) = (access.offset, access.local.length);
        match is_inside(offset, length, bytes) {
            true => Ok(()),
            false => Err(OperationError::Outside { offset, length, bytes }),
        }
    }
}

pub(super) fn is_inside(offset: u64, length: u32, bytes: u64) -> bool {
    offset.checked_add(u64::from(length)).is_some_and(|end| end <= bytes)
}

fn judge_elements(access: Access, update: Update) -> Result<(), OperationError> {
    let (element, combine, is_plain) = match update {
        Update::Replace => return Ok(()),
        Update::Combine { element, combine } => (element, combine, combine.has_operand() && !combine.compares()),
        Update::Fetch { element, combine } => (element, combine, true),
    };
    let (offset, length) = (access.offset, access.local.length);
    let is_whole =
        offset.is_multiple_of(element.alignment() as u64) && (length as usize).is_multiple_of(element.size());
    match is_whole && combine.applies_to(element) && is_plain {
        true => Ok(()),
        false => Err(OperationError::Elements { offset, length }),
    }
}
