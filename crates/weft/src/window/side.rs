//! One window at this rank: its machine, and what its actions become.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use weft_base::{PeerId, Slice, Time};
use weft_memory::IoBuffer;
use weft_nic::{RemotePlace, SendPost, TransferPost};
use weft_window::{Access, Action, Event, Message, OperationError, Request, Update, Window, WindowError};
use weft_wire::window::{Notice, Run};

use super::codec;
use super::error::Error;
use super::lock::{self, Attempt, Found};
use super::operation::{Context, Kind, Operation, Pending, Post, atomics};
use super::packed;
use super::state::SPARE;

/// One window at this rank.
pub(super) struct Side {
    id: u16,
    pub(super) machine: Window,
    rank: usize,
    /// Where the others' parts are; none while the window is made.
    pub(super) places: Vec<RemotePlace>,
    /// Their lock words.
    pub(super) words: Vec<RemotePlace>,
    /// Locks that this rank tries to get.
    pub(super) attempts: Vec<Attempt>,
    /// Where this rank's part is; nowhere while the window is made.
    pub(super) memory: Option<Slice>,
    /// Blocks of fewer bytes go packed.
    pub(super) pack_below: u32,
    pending: Vec<Option<Pending>>,
    under_way: usize,
    /// The results of gets that were not yet taken, each with the epoch of its request.
    pub(super) results: HashMap<Request, (u32, Vec<u8>)>,
    /// Messages with bytes for the next epoch: their sources, and their content.
    pub(super) early: Vec<(usize, Vec<u8>)>,
    /// By rank: operations of which the target is notified when they have completed.
    told: Vec<Told>,
    pub(super) is_created: bool,
    pub(super) has_fenced: bool,
    /// This rank is in the barrier after which the window is gone.
    pub(super) is_leaving: bool,
    pub(super) failed: Option<WindowError>,
    /// What this rank has seen of a failure.
    pub(super) cause: Option<Arc<Error>>,
}

/// Operations of an epoch of which the target is notified when they have completed: once for all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) under_way: u32,
    completed: u32,
}

/// What a side needs of its team to make posts.
pub(super) struct Posting<'a> {
    pub(super) peers: &'a [PeerId],
    pub(super) outbox: &'a mut VecDeque<Post>,
    pub(super) spare: &'a mut Vec<Vec<u8>>,
    pub(super) atomic_bytes: usize,
}

impl Posting<'_> {
    /// A message to a rank.
    pub(super) fn send(&mut self, to: usize, fence: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        write(&mut bytes);
        let post = SendPost::new(self.peers[to], bytes).context(Context::of(Kind::Send, 0).number());
        self.outbox.push_back(Post::Send(SendPost { fence, ..post }));
    }
}

impl Side {
    pub(super) fn new(id: u16, machine: Window, operations: u32, (rank, ranks): (usize, usize)) -> Self {
        Self {
            id,
            machine,
            rank,
            places: Vec::new(),
            words: Vec::new(),
            attempts: Vec::new(),
            memory: None,
            pack_below: 0,
            pending: (0..operations).map(|_| None).collect(),
            under_way: 0,
            results: HashMap::new(),
            early: Vec::new(),
            told: vec![Told::default(); ranks],
            is_created: false,
            has_fenced: false,
            is_leaving: false,
            failed: None,
            cause: None,
        }
    }

    /// Whether nothing moves. Deferred operations do not before the fence.
    pub(super) fn has_nothing_under_way(&self) -> bool {
        let is_deferred = |pending: &Pending| pending.parts == 0;
        self.under_way == 0 || self.machine.defers() && self.pending.iter().flatten().all(is_deferred)
    }

    /// Begins an operation, if the machine agrees.
    pub(super) fn begin(&mut self, operation: Operation, access: Access) -> Result<Request, Error> {
        let gets = matches!(operation.update(), None | Some(Update::Fetch { .. }));
        if gets && self.results.len() >= self.pending.len() {
            return Err(OperationError::TooMany(self.pending.len() as u32).into());
        }
        let request = match operation.update() {
            None => self.machine.get(access),
            Some(Update::Replace) if operation.is_message() => self.machine.put_message(access, operation.load()),
            Some(Update::Replace) => self.machine.put(access),
            Some(update) => self.machine.accumulate(access, update),
        }?;
        let (epoch, target) = (self.machine.epoch(), access.rank);
        let (is_atomic, operation) = (operation.is_atomic(), Some(operation));
        let (parts, tells, result, gather) = (0, false, None, None);
        let pending = Pending { request, epoch, target, operation, parts, is_atomic, tells, result, gather };
        if self.pending.len() <= request.index() {
            self.pending.resize_with(request.index() + 1, || None);
        }
        self.pending[request.index()] = Some(pending);
        self.under_way += 1;
        Ok(request)
    }

    /// Does what the machine says, as far as `room` posts go.
    pub(super) fn pump(&mut self, posting: &mut Posting<'_>, room: usize) {
        if self.places.is_empty() {
            return;
        }
        while posting.outbox.len() < room {
            let Self { id, rank, machine, places, words, attempts, pending, told, under_way, .. } = self;
            let (id, rank) = (*id, *rank);
            let kind = machine.fence_kind();
            let Some(action) = machine.poll_action() else { break };
            let mut builder = PostBuilder { id, places, pending, told, posting };
            match action {
                // One that was too many to go as it was begun still is a message.
                Action::Write { request, access, notice: Some(epoch), .. }
                | Action::Deliver { request, access, epoch, .. }
                    if builder.message(request, access, epoch) =>
                {
                    // It was copied into the message.
                    *under_way -= 1;
                    let _ = machine.handle_complete(request);
                }
                Action::Write { request, access, notice, .. } => builder.update(request, access, notice, 0),
                Action::Deliver { request, access, epoch, last, .. } => {
                    let rides = builder.is_write(request);
                    builder.update(request, access, Some(epoch), if rides { last.unwrap_or(0) } else { 0 });
                    if let Some(count) = last.filter(|_| !rides) {
                        builder.send(access.rank, false, Message::Finish { epoch, count });
                    }
                }
                Action::Read { request, access } => builder.read(request, access),
                Action::Flush { to } => builder.flush(to),
                Action::Lock { to, exclusive } => {
                    attempts.push(Attempt::new(to, exclusive));
                    let context = Context::of_lock(id, 0, to);
                    builder.posting.outbox.push_back(lock::attempt(
                        rank,
                        builder.posting.peers[to],
                        words[to],
                        exclusive,
                        context,
                    ));
                }
                Action::Unlock { to, exclusive } => {
                    let context = Context::of_lock(id, 2, to);
                    builder.posting.outbox.push_back(lock::release(
                        rank,
                        builder.posting.peers[to],
                        words[to],
                        exclusive,
                        context,
                    ));
                }
                Action::Send { to, message, .. } => {
                    // What accumulates may be a call, which is no write that a message would come behind.
                    let is_behind = matches!(message, Message::Finish { .. }) && builder.told[to].under_way > 0;
                    let fence = is_behind && matches!(kind, super::Fence::OneSided | super::Fence::OneSidedBarrier);
                    builder.send(to, fence, message);
                }
            }
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Created => self.is_created = true,
                Event::Fenced { epoch } => {
                    self.has_fenced = true;
                    self.results.retain(|_, (asked, _)| *asked == epoch);
                }
                Event::Failed(error) => self.failed = Some(error),
            }
        }
    }

    /// One post of an operation has completed.
    pub(super) fn complete(&mut self, context: Context, result: Option<Vec<u8>>, posting: &mut Posting<'_>) {
        let Some(place) = self.pending.get_mut(context.index) else { return };
        let Some(pending) = place else { return };
        if let Some(bytes) = result {
            pending.take_part(context.part as usize, bytes, posting.atomic_bytes);
        }
        pending.parts -= 1;
        if pending.parts > 0 {
            return;
        }
        let Some(pending) = place.take() else { return };
        self.under_way -= 1;
        // It is pending, so the machine knows it.
        let _ = self.machine.handle_complete(pending.request);
        if pending.is_atomic {
            self.tell(&pending, posting);
        }
        if let Some(bytes) = pending.result {
            self.results.insert(pending.request, (pending.epoch, bytes));
        }
    }

    /// An atomic has completed. When none is in flight any more, the target is notified of those that it must count.
    fn tell(&mut self, pending: &Pending, posting: &mut Posting<'_>) {
        let told = &mut self.told[pending.target];
        told.under_way -= 1;
        told.completed += u32::from(pending.tells);
        if told.under_way > 0 || told.completed == 0 {
            return;
        }
        let (id, count) = (self.id, core::mem::take(&mut told.completed));
        posting.send(pending.target, false, |bytes| codec::emit_placed(id, pending.epoch, count, bytes));
    }

    /// An atomic on a lock word has completed.
    pub(super) fn locked(&mut self, context: Context, word: u64, now: Time, posting: &mut Posting<'_>) {
        let (to, part) = (context.index, context.part);
        if part == 2 {
            // The machine has requested it.
            let _ = self.machine.handle_unlocked(to);
        }
        let Some(at) = self.attempts.iter().position(|attempt| attempt.to == to).filter(|_| part == 0) else { return };
        let exclusive = self.attempts[at].exclusive;
        match lock::judge(word, exclusive) {
            Found::Free => {
                self.attempts.swap_remove(at);
                let _ = self.machine.handle_locked(to);
            }
            Found::Taken { by } => {
                self.attempts[at].wait(by, now);
                if !exclusive {
                    let (rank, context) = (self.rank, Context { part: 1, ..context });
                    posting.outbox.push_back(lock::release(rank, posting.peers[to], self.words[to], false, context));
                }
            }
        }
    }

    /// The ranks whose parts this one has locked.
    pub(super) fn held(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|rank| self.machine.holds(*rank)).collect()
    }

    /// Tries again what is due.
    pub(super) fn try_again(&mut self, now: Time, posting: &mut Posting<'_>) {
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.due.is_some_and(|due| due <= now)) {
            attempt.due = None;
            let (to, exclusive) = (attempt.to, attempt.exclusive);
            let context = Context::of_lock(self.id, 0, to);
            posting.outbox.push_back(lock::attempt(self.rank, posting.peers[to], self.words[to], exclusive, context));
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let attempts = self.attempts.iter().filter_map(|attempt| attempt.due);
        attempts.chain(self.machine.next_timeout()).min()
    }

    /// What this rank can say of a failure.
    pub(super) fn failure(&self) -> Option<Error> {
        let error = self.failed?;
        Some(Error::Failed { error, cause: self.cause.clone() })
    }
}

/// What makes posts of actions.
pub(super) struct PostBuilder<'a, 'd> {
    pub(super) id: u16,
    pub(super) places: &'a [RemotePlace],
    pub(super) pending: &'a mut [Option<Pending>],
    pub(super) told: &'a mut [Told],
    pub(super) posting: &'a mut Posting<'d>,
}

impl PostBuilder<'_, '_> {
    pub(super) fn place(&self, access: Access) -> RemotePlace {
        let place = self.places[access.rank];
        RemotePlace { offset: place.offset.wrapping_add(access.offset), ..place }
    }

    pub(super) fn context(&self, request: Request) -> Context {
        Context { index: request.index(), ..Context::of(Kind::Operation, self.id) }
    }

    fn is_write(&self, request: Request) -> bool {
        let pending = self.pending[request.index()].as_ref();
        pending.and_then(|pending| pending.operation.as_ref()).is_some_and(Operation::is_write)
    }

    /// Posts a put that is one message, and whether it was one.
    fn message(&mut self, request: Request, access: Access, epoch: u32) -> bool {
        let Some(pending) = self.pending.get_mut(request.index()) else { return false };
        let is_message = matches!(pending, Some(Pending { operation: Some(Operation::Message(_)), .. }));
        let Some(Operation::Message(bytes)) = pending.take_if(|_| is_message).and_then(|pending| pending.operation)
        else {
            return false;
        };
        let id = self.id;
        let run = [Run { offset: access.offset, stride: 0, length: access.local.length, count: 1 }];
        // No run is empty.
        let runs = if bytes.is_empty() { &[] } else { &run[..] };
        self.posting.send(access.rank, false, |message| packed::emit((id, epoch), runs, &bytes, true, message));
        if self.posting.spare.len() < SPARE {
            self.posting.spare.push(bytes);
        }
        true
    }

    fn update(&mut self, request: Request, access: Access, notice: Option<u32>, count: u32) {
        let (place, context, id) = (self.place(access), self.context(request), self.id);
        let peer = self.posting.peers[access.rank];
        let Some(pending) = self.pending[request.index()].as_mut() else { return };
        match pending.operation.take() {
            Some(Operation::Put(bytes)) => {
                pending.parts = 1;
                let post = TransferPost::new(peer, bytes, place).context(context.number());
                let notice = notice.map(|epoch| Notice { window: id, epoch: epoch as u16, count }.data());
                self.posting.outbox.push_back(Post::Write(TransferPost { data: notice, ..post }));
            }
            Some(Operation::Strided(strided)) => self.update_laid(request, access, strided, notice, count),
            Some(operation) => {
                pending.tells = notice.is_some();
                let before = self.posting.outbox.len();
                if matches!(operation, Operation::Fetch { .. }) {
                    pending.result = Some(vec![0; access.local.length as usize]);
                }
                self.posting.outbox.extend(atomics(peer, place, operation, self.posting.atomic_bytes, context));
                pending.parts = (self.posting.outbox.len() - before) as u32;
                self.told[access.rank].under_way += 1;
            }
            None => {}
        }
    }

    fn read(&mut self, request: Request, access: Access) {
        let (place, context) = (self.place(access), self.context(request));
        let Some(pending) = self.pending[request.index()].as_mut() else { return };
        if let Some(Operation::Strided(strided)) = pending.operation.take() {
            return self.read_laid(request, access, &strided.layout);
        }
        pending.parts = 1;
        let sink = vec![0; access.local.length as usize];
        let post = TransferPost::new(self.posting.peers[access.rank], sink, place).context(context.number());
        self.posting.outbox.push_back(Post::Read(post));
    }

    /// A read of nothing: its answer comes when all writes before it are placed (RFC 5040 section 5.5).
    fn flush(&mut self, to: usize) {
        let context = Context { index: to, ..Context::of(Kind::Flush, self.id) }.number();
        let post = TransferPost::new(self.posting.peers[to], IoBuffer::empty(), self.places[to]).context(context);
        self.posting.outbox.push_back(Post::Read(post));
    }

    fn send(&mut self, to: usize, fence: bool, message: Message<'_>) {
        let id = self.id;
        self.posting.send(to, fence, |bytes| codec::emit(id, message, bytes));
    }
}
