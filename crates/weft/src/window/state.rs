//! What a team knows, and what becomes of completions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use weft_base::{PeerId, Time};
use weft_collective::Collective;
use weft_memory::Registry;
use weft_nic::{Completed, EndpointError, EndpointFailure, Event, Level, SendPost};
use weft_window::{Message, Part, PeerError};
use weft_wire::window::{Notice, Packed};

use super::WindowOptions;
use super::codec::{self, Said};
use super::error::Error;
use super::operation::{Context, Kind, Post};
use super::packed;
use super::probes::{Awaited, Probes};
use super::side::{Posting, Side};
use crate::endpoint::Endpoint;

/// Posts that wait here until the endpoint takes them, before windows are polled for more.
const ROOM: usize = 256;
/// Buffers kept for small messages and puts, and how large they may be.
pub(super) const SPARE: usize = 256;
const SPARE_BYTES: usize = 4096;

/// What does not change.
pub(super) struct Surroundings {
    /// By rank.
    pub(super) peers: Vec<PeerId>,
    pub(super) ranks: HashMap<PeerId, usize>,
    /// Where this rank's memory is registered.
    pub(super) registry: Registry,
    /// Operand bytes of an atomic, at most: a multiple of each element's size.
    pub(super) atomic_bytes: usize,
    /// How many ranks share a processor where they are closest; 0: unknown.
    pub(super) crowd: usize,
    /// Posts that the endpoint may have at a time.
    pub(super) depth: usize,
}

impl Surroundings {
    pub(super) fn rank_of(&self, peer: PeerId) -> Option<usize> {
        self.ranks.get(&peer).copied()
    }
}

/// What a team knows.
pub(super) struct State {
    pub(super) sides: BTreeMap<u16, Side>,
    last_id: u16,
    pub(super) gather: Collective,
    pub(super) barrier: Collective,
    outbox: VecDeque<Post>,
    pub(super) spare: Vec<Vec<u8>>,
    under_way: usize,
    lost: Vec<Option<EndpointFailure>>,
    pub(super) probes: Probes,
    values: Vec<u64>,
    /// When the clock was read last.
    pub(super) now: Time,
}

impl State {
    pub(super) fn new(gather: Collective, barrier: Collective, ranks: usize) -> Self {
        Self {
            sides: BTreeMap::new(),
            last_id: 0,
            gather,
            barrier,
            outbox: VecDeque::with_capacity(2 * ROOM),
            spare: Vec::with_capacity(SPARE),
            under_way: 0,
            lost: vec![None; ranks],
            probes: Probes::new(ranks),
            values: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// The id of the next window: all ranks make the same ones in the same order. 0 is the team itself.
    pub(super) fn next_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.sides.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    /// Why a rank is lost, if it is.
    pub(super) fn why_lost(&self, rank: usize) -> Option<EndpointFailure> {
        self.lost[rank].clone()
    }

    /// Does what one window wants done.
    pub(super) fn pump(&mut self, id: u16, around: &Surroundings, endpoint: &Endpoint) {
        self.place_early(id, &around.registry);
        loop {
            let Self { sides, outbox, spare, .. } = self;
            let mut posting = Posting { peers: &around.peers, outbox, spare, atomic_bytes: around.atomic_bytes };
            if let Some(side) = sides.get_mut(&id) {
                side.pump(&mut posting, ROOM);
            }
            if self.outbox.is_empty() {
                return;
            }
            self.post(around, endpoint);
            if !self.outbox.is_empty() {
                return;
            }
        }
    }

    /// Does what everybody wants done.
    pub(super) fn pump_all(&mut self, around: &Surroundings, endpoint: &Endpoint) {
        let Self { gather, barrier, outbox, spare, .. } = self;
        let mut posting = Posting { peers: &around.peers, outbox, spare, atomic_bytes: around.atomic_bytes };
        for (part, machine) in [(Part::Create, gather), (Part::Barrier, barrier)] {
            while let Some(transmit) = machine.poll_transmit() {
                let (sequence, round) = (transmit.sequence, transmit.round as u32);
                let message = Message::Round { part, sequence, round, values: transmit.values };
                posting.send(transmit.to, false, |bytes| codec::emit(0, message, bytes));
            }
        }
        self.post(around, endpoint);
        let mut next = self.sides.keys().next().copied();
        while let Some(id) = next {
            self.pump(id, around, endpoint);
            next = self.sides.range(id + 1..).next().map(|(id, _)| *id);
        }
    }

    fn post(&mut self, around: &Surroundings, endpoint: &Endpoint) {
        while self.under_way < around.depth {
            let Some(post) = self.outbox.pop_front() else { return };
            let (peer, posted) = match post {
                Post::Send(post) => (post.peer, endpoint.send(post)),
                Post::Write(post) => (post.peer, endpoint.write(post)),
                Post::Read(post) => (post.peer, endpoint.read(post)),
                Post::Atomic(post) => (post.peer, endpoint.atomic(*post)),
            };
            match posted {
                Ok(()) => self.under_way += 1,
                Err(error) => self.refuse(around.rank_of(peer), error),
            }
        }
    }

    /// The endpoint has not taken something. That ends whatever waits for it.
    fn refuse(&mut self, rank: Option<usize>, error: EndpointError) {
        if let Some(rank) = rank {
            self.fail(rank, Error::Endpoint(error));
        }
    }

    /// All windows fail because of a rank. One in its last barrier needs no rank but the one that it waits for, so that
    /// a connection which has ended says nothing about it.
    fn fail(&mut self, rank: usize, cause: Error) {
        let is_lost = matches!(cause, Error::Lost { .. });
        let cause = Arc::new(cause);
        let fails = |side: &&mut Side| side.failed.is_none() && !(is_lost && side.is_leaving);
        for side in self.sides.values_mut().filter(fails) {
            side.cause.get_or_insert_with(|| Arc::clone(&cause));
            // There is such a rank.
            let _ = side.machine.handle_lost(rank);
        }
    }

    fn lose(&mut self, rank: usize, why: EndpointFailure) {
        match why {
            EndpointFailure::Access | EndpointFailure::Operation | EndpointFailure::Refused => {
                self.fail(rank, Error::Refused { rank, why });
            }
            why => {
                self.lost[rank].get_or_insert_with(|| why.clone());
                self.fail(rank, Error::Lost { rank, why });
            }
        }
    }

    /// This rank gives up a window that others may still use.
    pub(super) fn abandon(&mut self, id: u16, rank: usize, around: &Surroundings, endpoint: &Endpoint) {
        let Self { sides, outbox, spare, .. } = self;
        let mut posting = Posting { peers: &around.peers, outbox, spare, atomic_bytes: around.atomic_bytes };
        if sides.get(&id).is_none_or(|side| !side.is_created || side.failed.is_some()) {
            return;
        }
        let message = Message::Abort { rank: rank as u32 };
        for to in (0..around.peers.len()).filter(|&to| to != rank) {
            posting.send(to, false, |bytes| codec::emit(id, message, bytes));
        }
        self.post(around, endpoint);
    }

    /// Probes ranks that are awaited, when it is time.
    pub(super) fn probe(&mut self, now: Time, awaited: Awaited, around: &Surroundings, endpoint: &Endpoint) {
        let due = self.probes.due(now, awaited, |rank| self.lost[rank].is_some());
        if due.is_empty() {
            return;
        }
        for rank in due {
            let mut bytes = Vec::new();
            codec::emit_probe(&mut bytes);
            let context = Context { part: 1, index: rank, ..Context::of(Kind::Send, 0) };
            let post = SendPost::new(around.peers[rank], bytes).level(Level::Delivered).context(context.number());
            self.outbox.push_back(Post::Send(post));
        }
        self.post(around, endpoint);
    }

    /// The connection to a rank has ended.
    pub(super) fn handle_end(&mut self, rank: usize, outcome: Result<(), EndpointFailure>) {
        match outcome {
            Err(EndpointFailure::Closed | EndpointFailure::Canceled) => {}
            Err(why) => self.lose(rank, why),
            Ok(()) => self.violate(rank, "an unexpected message".into()),
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.sides.values().filter_map(Side::next_timeout).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, around: &Surroundings, endpoint: &Endpoint) {
        self.now = now;
        let Self { sides, outbox, spare, .. } = self;
        let mut posting = Posting { peers: &around.peers, outbox, spare, atomic_bytes: around.atomic_bytes };
        for side in sides.values_mut() {
            side.machine.handle_timeout(now);
            side.try_again(now, &mut posting);
        }
        self.post(around, endpoint);
    }

    /// Takes a completion. Returns the buffer of a receive that is to be posted again.
    pub(super) fn handle(
        &mut self,
        event: Event,
        rank: Option<usize>,
        around: &Surroundings,
        endpoint: &Endpoint,
    ) -> Option<Vec<u8>> {
        let context = Context::parse(event.context);
        rank.into_iter().for_each(|rank| self.probes.meet(rank));
        let again = match event.completed {
            Completed::Receive => self.received(event, rank, &around.registry),
            Completed::RemoteWrite => {
                if let (Some(rank), Some(data)) = (rank, event.data) {
                    self.noticed(rank, Notice::of(data));
                }
                None
            }
            Completed::Send | Completed::Write | Completed::Read | Completed::Atomic => {
                self.under_way = self.under_way.saturating_sub(1);
                self.finished(event, context, rank, around);
                None
            }
        };
        // The windows that it has to do with are few, and asking one that has nothing to do costs little.
        self.pump_all(around, endpoint);
        again
    }

    fn finished(&mut self, event: Event, context: Context, rank: Option<usize>, around: &Surroundings) {
        let bytes = event.buffer;
        if (context.kind, context.part) == (Kind::Send, 1) {
            self.probes.finish(context.index);
        }
        if let Err(why) = event.outcome {
            return rank.into_iter().for_each(|rank| self.lose(rank, why.clone()));
        }
        let Self { sides, outbox, spare, .. } = self;
        let mut posting = Posting { peers: &around.peers, outbox, spare, atomic_bytes: around.atomic_bytes };
        let side = sides.get_mut(&context.window);
        match (context.kind, side) {
            (Kind::Flush, Some(side)) => drop(side.machine.handle_flushed(context.index)),
            (Kind::Lock, Some(side)) => {
                let word = bytes.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
                side.locked(context, word, self.now, &mut posting);
            }
            (Kind::Operation, Some(side)) => {
                let is_got = matches!(event.completed, Completed::Read | Completed::Atomic);
                let (got, given) = if is_got { (bytes, None) } else { (None, bytes) };
                side.complete(context, got.map(Vec::from), &mut posting);
                self.keep(given);
            }
            _ => self.keep(bytes),
        }
    }

    fn keep(&mut self, buffer: Option<weft_memory::Buffer>) {
        if let Some(buffer) = buffer.filter(|buffer| buffer.len() <= SPARE_BYTES && self.spare.len() < SPARE) {
            self.spare.push(buffer.into());
        }
    }

    fn received(&mut self, event: Event, rank: Option<usize>, registry: &Registry) -> Option<Vec<u8>> {
        let buffer = Vec::from(event.buffer?);
        match (event.outcome, rank) {
            (Err(EndpointFailure::Closed | EndpointFailure::Canceled), _) => return None,
            // A peer that is no rank has nothing to say.
            (_, None) => {}
            (Err(why), Some(rank)) => self.violate(rank, why.to_string()),
            (Ok(()), Some(rank)) => self.receive(rank, &buffer[..event.length as usize], registry),
        }
        Some(buffer)
    }

    fn receive(&mut self, from: usize, bytes: &[u8], registry: &Registry) {
        let mut values = core::mem::take(&mut self.values);
        match codec::parse(bytes, &mut values) {
            None => self.violate(from, format!("a message of {} bytes that says nothing", bytes.len())),
            Some((0, said)) => self.handle_team(from, &said),
            Some((id, Said::Packed { epoch, is_counted, packed })) => {
                match self.sides.get_mut(&id).filter(|side| side.machine.is_early(epoch)) {
                    // A message is at most as long as a receive.
                    Some(side) => match side.machine.keep_early(from, packed.bytes.len() as u32) {
                        Ok(()) => side.early.push((from, bytes.to_vec())),
                        Err(error) => self.violate(from, error.to_string()),
                    },
                    None => {
                        self.place_early(id, registry);
                        self.unpack((id, from), epoch, is_counted, &packed, registry);
                    }
                }
            }
            Some((id, said)) => {
                let outcome = match said {
                    Said::Message(message) => {
                        self.sides.get_mut(&id).map_or(Ok(()), |side| side.machine.handle_message(from, message))
                    }
                    Said::Placed { epoch, count } => self.placed(id, from, epoch, count),
                    Said::Nothing | Said::Packed { .. } => Ok(()),
                };
                self.judge(id, from, outcome);
            }
        }
        self.values = values;
    }

    fn handle_team(&mut self, from: usize, said: &Said<'_>) {
        let outcome = match *said {
            Said::Message(Message::Round { part: Part::Create, sequence, round, values }) => {
                self.gather.handle(from, sequence, round as usize, values)
            }
            Said::Message(Message::Round { part: Part::Barrier, sequence, round, values }) => {
                self.barrier.handle(from, sequence, round as usize, values)
            }
            Said::Nothing => return,
            _ => return self.violate(from, "a message for no window".into()),
        };
        if let Err(error) = outcome {
            self.violate(from, error.to_string());
        }
    }

    /// Places what came before its epoch, which has begun meanwhile.
    pub(super) fn place_early(&mut self, id: u16, registry: &Registry) {
        let is_due = |side: &&mut Side| side.machine.is_open() && !side.early.is_empty();
        let Some(side) = self.sides.get_mut(&id).filter(is_due) else { return };
        for (from, bytes) in core::mem::take(&mut side.early) {
            if let Some((_, Said::Packed { epoch, is_counted, packed })) = codec::parse(&bytes, &mut Vec::new()) {
                self.unpack((id, from), epoch, is_counted, &packed, registry);
            }
        }
    }

    /// Puts packed bytes into this rank's part of a window.
    fn unpack(
        &mut self,
        (id, from): (u16, usize),
        epoch: u32,
        is_counted: bool,
        packed: &Packed<'_>,
        registry: &Registry,
    ) {
        let Some(side) = self.sides.get_mut(&id).filter(|side| side.failed.is_none()) else { return };
        let machine = &mut side.machine;
        let Some(memory) = side.memory else { return self.violate(from, "bytes for a window that is not made".into()) };
        let check = |offset, length| machine.check_open(from, epoch, offset, length);
        if let Err(wrong) = packed::place(registry, memory, packed, check) {
            return self.violate(from, wrong.to_string());
        }
        if is_counted {
            let outcome = machine.handle_placed(from, epoch);
            self.judge(id, from, outcome);
        }
    }

    fn placed(&mut self, id: u16, from: usize, epoch: u32, count: u32) -> Result<(), PeerError> {
        if count > WindowOptions::MOST_OPERATIONS {
            return Err(PeerError::Unexpected(from));
        }
        let Some(side) = self.sides.get_mut(&id) else { return Ok(()) };
        (0..count).try_for_each(|_| side.machine.handle_placed(from, epoch))
    }

    fn noticed(&mut self, from: usize, notice: Notice) {
        let Some(side) = self.sides.get_mut(&notice.window) else { return };
        let epoch = notice.epoch_near(side.machine.epoch());
        let mut outcome = side.machine.handle_placed(from, epoch);
        if outcome.is_ok() && notice.count > 0 {
            outcome = side.machine.handle_message(from, Message::Finish { epoch, count: notice.count });
        }
        self.judge(notice.window, from, outcome);
    }

    fn judge(&mut self, id: u16, from: usize, outcome: Result<(), PeerError>) {
        // What comes to a window that has failed may be of any epoch.
        let has_failed = self.sides.get(&id).is_some_and(|side| side.failed.is_some());
        if let Err(error) = outcome
            && !has_failed
        {
            self.violate(from, error.to_string());
        }
    }

    fn violate(&mut self, rank: usize, what: String) {
        self.fail(rank, Error::Violation { rank, what });
    }
}

#[cfg(test)]
mod tests {
    use weft_nic::EndpointAttributes;
    use weft_window::{Asserts, Fence, Load};
    use weft_wire::window::Run;

    use super::*;
    use crate::group::Group;
    use crate::verbs;
    use crate::window::{Team, Window};

    /// A window in whose present epoch messages may come early, at each of two ranks.
    fn two_ranks(act: impl Fn(&Team, Window) + Send + Sync + Copy + 'static) {
        let ranks = Group::threads(2).unwrap().into_iter().map(|mut group| {
            std::thread::spawn(move || {
                let attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
                let team = Team::new(&verbs::Context::open().unwrap(), &mut group, &attributes).unwrap();
                let mut window = team.allocate(64, &WindowOptions::fence(Fence::Tagged)).unwrap();
                window.fence(Asserts::default()).unwrap();
                while !window.defers() {
                    window.fence(Asserts::default()).unwrap();
                }
                act(&team, window);
            })
        });
        ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap());
    }

    #[test]
    fn a_rank_that_sends_without_end_before_its_epoch_ends_the_window_and_is_named() {
        two_ranks(|team, mut window| {
            let (place, id) = (window.place.core.clone(), window.place.id);
            let core = place.enter();
            if team.rank() == 1 {
                let ended = core.wait_for(id, |_| None::<()>).unwrap_err();
                assert!(ended.to_string().contains("rank 1"), "{ended}");
                return;
            }
            let epoch = core.with(id, |side| {
                side.machine.fence(Asserts::default(), Time::ZERO).unwrap();
                side.machine.epoch()
            });
            let mut message = Vec::new();
            let run = Run { offset: 0, stride: 0, length: 8, count: 1 };
            packed::emit((id, epoch + 1), &[run], &[0xee; 8], true, &mut message);
            let receive = || core.state().receive(1, &message, &core.surroundings.registry);
            let kept = || core.with(id, |side| (side.early.len(), side.cause.is_some()));
            (0..Load::EARLY.messages).for_each(|_| receive());
            assert_eq!(kept(), (Load::EARLY.messages as usize, false));
            (0..1000).for_each(|_| receive());
            assert_eq!(kept(), (Load::EARLY.messages as usize, true));
            let ended = core.wait_for(id, |_| None::<()>).unwrap_err();
            let text = ended.to_string();
            assert!(text.contains("rank 1") && text.contains("before their epoch"), "{text}");
            let mut bytes = [0; 8];
            window.memory().read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [0; 8], "nothing of it was placed");
            assert!(window.fence(Asserts::default()).is_err());
        });
    }

    #[test]
    fn bytes_are_counted_too_and_those_that_others_send_are_their_own() {
        two_ranks(|team, window| {
            let (core, id) = (window.place.core.enter(), window.place.id);
            if team.rank() == 1 {
                core.wait_for(id, |_| None::<()>).unwrap_err();
                return;
            }
            let epoch = core.with(id, |side| {
                side.machine.fence(Asserts::default(), Time::ZERO).unwrap();
                side.machine.epoch()
            });
            let length = 2048;
            let mut message = Vec::new();
            let run = Run { offset: 0, stride: 0, length, count: 1 };
            packed::emit((id, epoch + 1), &[run], &vec![0; length as usize], true, &mut message);
            let most = Load::EARLY.bytes / length;
            let receive = |from| core.state().receive(from, &message, &core.surroundings.registry);
            (0..most).for_each(|_| receive(1));
            (0..most).for_each(|_| receive(0));
            assert_eq!(core.with(id, |side| (side.early.len(), side.cause.is_some())), (2 * most as usize, false));
            receive(1);
            assert_eq!(core.with(id, |side| (side.early.len(), side.cause.is_some())), (2 * most as usize, true));
        });
    }
}
