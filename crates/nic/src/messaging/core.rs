//! An endpoint in the engine: what it is made of, what it takes from its queue pairs for the messages' machine, and
//! what the application requests. `connect` has how its connections come about, `sending` what goes out, `ending` how
//! it ends and how failures are reported.

use std::collections::VecDeque;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Clock, DomainId, HostId, PeerId, Time};
use weft_memory::{Access, Region, Registry};
use weft_message::{Machine, Terms};
use weft_rdmap::{CompletionKind, Status, StreamError};

use super::Engine;
use super::atomic_post::AtomicPost;
use super::by_links::OwnLinks;
use super::host::{NicHost, copied, injected_bytes, receive_of, send_of};
use super::link::{Link, Purpose};
use super::peers::Peers;
use super::request::{
    Address, Completed, Completions, EndpointError, EndpointFailure, Event, Match, Peek, ReceivePost, SendPost,
    TransferPost, Warning,
};
use super::transfer::{Numbered, Transfer, UserAtomic, UserTransfer, Work, failure_of};
use super::unique_queue::UniqueQueue;
use super::waiting::{PendingTakeover, Unconfirmed};
use super::watched_links::WatchedLinks;
use super::{EndpointAttributes, EndpointSettings};
use crate::engine::EngineClient;
use crate::engine::listening::Waiting;
use crate::error::{ConnectionError, Error};
use crate::ids::LinkKey;
use crate::key::JobKey;
use crate::lower::Carrier;
use crate::offer::Offer;
use crate::queues::completion_queue::{CompletionQueue, WorkCompletion};
use crate::queues::event_count::EventCount;
use crate::queues::queue_pair::QueuePair;

/// An application that has sent this many messages to one peer without polling for completions is in the middle of
/// many: from then on they go out together.
const BURST: u32 = 4;
/// This many of them at a time.
const TOGETHER: u32 = 32;
/// Rounds of one visit: what is left then is done in the next turn.
const ROUNDS: usize = 8;
/// Completions taken at a time.
const BATCH: usize = 64;

/// An endpoint.
pub(crate) struct Core {
    /// Its number in the engine.
    pub(super) number: usize,
    pub(super) machine: Machine<NicHost>,
    pub(super) host: NicHost,
    pub(super) settings: EndpointSettings,
    pub(super) address: Address,
    /// Only its peers know its address, and none this.
    pub(super) seed: u64,
    pub(super) key: Option<JobKey>,
    pub(super) listener: DefaultKey,
    pub(super) waiting: Arc<Waiting>,
    pub(super) completions: Arc<CompletionQueue>,
    pub(super) event_count: Arc<EventCount>,
    pub(super) links: Numbered<Box<Link>>,
    /// Links that are being opened.
    pub(super) openings: WatchedLinks,
    /// When one of them may have taken too long.
    pub(super) late_at: Option<Time>,
    /// Links whose end has shown.
    pub(super) ending: WatchedLinks,
    /// Peers whose own connection is awaited, and until when, the earliest first. Some have connected since.
    pub(super) awaited: VecDeque<(PeerId, Time)>,
    /// Links to callers that have yet to prove that they have the key, the oldest first.
    pub(super) unproven: Vec<LinkKey>,
    /// Callers that were let in and have yet to confirm.
    pub(super) unconfirmed: Vec<Unconfirmed>,
    /// Callers that wait for the end of another connection.
    pub(super) doubted: Vec<PendingTakeover>,
    /// Links with something for the engine to send.
    pub(super) rung: UniqueQueue<LinkKey>,
    /// Peers with packets for which there was no room.
    pub(super) stalled: UniqueQueue<PeerId>,
    /// Peers to which something is to be sent that was kept for a message to go out with.
    pub(super) patient: UniqueQueue<PeerId>,
    taken: Vec<WorkCompletion>,
    pub(super) packet: Vec<u8>,
    /// 8 bytes for the answer of each atomic work request.
    pub(super) cells: Cells,
    /// Packets have come since it was attended to.
    has_arrivals: bool,
    /// Something is to be sent that was held back, to go out with more.
    pub(super) held_back: bool,
    /// When something has to happen by itself.
    pub(super) wake_at: Option<Time>,
    pub(super) closing: bool,
    /// Of the last hello.
    pub(super) serial: u64,
    /// The host that this runs on.
    pub(super) host_id: Option<HostId>,
    /// The links of that host when the endpoint was opened.
    pub(super) own_links: OwnLinks,
}

/// Memory for the answers of atomic work requests.
pub(super) struct Cells {
    pub(super) region: Region,
    pub(super) free: Vec<u32>,
}

/// Atomic work requests of an endpoint under way.
pub(super) const CELLS: u32 = 256;
/// Work requests of all connections of an endpoint together, at most.
const COMPLETIONS: usize = 1 << 18;
/// Connections that may wait at an endpoint to be decided.
const BACKLOG: u32 = 1024;

/// What an endpoint is opened with that is the NIC's.
pub(crate) struct Opening<'a> {
    /// The memory table.
    pub(crate) registry: &'a Registry,
    /// Counts what threads wait for.
    pub(crate) event_count: Arc<EventCount>,
    /// Memory that peers reach.
    pub(crate) domain: DomainId,
    /// What this side wants of every connection.
    pub(crate) offer: Offer,
    /// The host that this runs on.
    pub(crate) host: Option<HostId>,
}

impl Core {
    /// Opens an endpoint on an engine. Returns its number there, and its address.
    pub(crate) fn open_on<N: Carrier, C: Clock>(
        engine: &mut Engine<N, C>,
        opening: Opening<'_>,
        attributes: &EndpointAttributes,
        (id, seed): (u64, u64),
        sink: Arc<dyn Completions>,
    ) -> Result<(usize, Address), Error> {
        let EndpointAttributes { bind, paths, settings, key, .. } = attributes;
        let Opening { registry, event_count, domain, offer, host: host_id } = opening;
        let region = registry.register_zeroed(domain, CELLS as usize * 8, Access::LOCAL_WRITE, 0)?;
        let waiting = Arc::new(Waiting::new(Arc::clone(&event_count)));
        let completions = Arc::new(CompletionQueue::growing(COMPLETIONS, Arc::clone(&event_count)));
        let own_links = OwnLinks::new(engine.host_addresses(), &engine.settings.rails);
        let mut settings = settings.clone();
        settings.transport = own_links.own_transport(settings.transport);
        let offer = Offer { transport: settings.transport, ..offer };
        let (listener, local) = engine.listen_for(*bind, BACKLOG, offer, Arc::clone(&waiting))?;
        let address = Address { transport: Some(settings.transport), ..Address::bound(id, local, paths) };
        let number = engine.next_endpoint();
        let core = Self {
            number,
            machine: Machine::new(settings.messages.clone(), seed),
            host: NicHost::new(registry.clone(), domain, sink, Peers::new(&address, settings.peers)),
            packet: vec![0; settings.messages.packet_bytes as usize],
            settings,
            own_links,
            address: address.clone(),
            seed,
            key: key.clone(),
            listener,
            waiting,
            completions,
            openings: WatchedLinks::new(&event_count),
            late_at: None,
            ending: WatchedLinks::new(&event_count),
            event_count,
            links: Numbered::default(),
            awaited: VecDeque::new(),
            unproven: Vec::new(),
            unconfirmed: Vec::new(),
            doubted: Vec::new(),
            rung: UniqueQueue::default(),
            stalled: UniqueQueue::default(),
            patient: UniqueQueue::default(),
            taken: Vec::with_capacity(BATCH),
            cells: Cells { region, free: (0..CELLS).rev().collect() },
            has_arrivals: false,
            held_back: false,
            wake_at: None,
            closing: false,
            serial: 0,
            host_id,
        };
        engine.add_endpoint(Box::new(core));
        Ok((number, address))
    }

    /// Whether links are being opened, proved or ended, or a caller waits.
    fn has_changing_links(&self) -> bool {
        self.openings.have_news()
            || !self.unproven.is_empty()
            || !self.unconfirmed.is_empty()
            || self.ending.have_news()
            || !self.doubted.is_empty()
            || self.waiting.has_some()
    }

    /// Polls those links.
    fn check_links<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        // A caller that has confirmed and calls again is not one that has not.
        let mut any = self.check_unconfirmed(engine);
        any |= self.meet(engine);
        any |= self.check_openings(engine);
        any |= self.check_unproven(engine);
        any | self.reap(engine)
    }

    fn attend_rounds<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        self.held_back = false;
        // What was kept until now has waited long enough.
        self.stalled.append(&mut self.patient);
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut progress = self.take_completions(engine.now());
            progress |= self.host.complete_unused();
            progress |= self.has_changing_links() && self.check_links(engine);
            if self.waiting.is_short() {
                let limit = self.waiting.take_shortage();
                self.host.warn(&Warning::NoDescriptors { limit });
            }
            progress |= self.expire(engine);
            progress |= self.flush(engine);
            any |= progress;
            if !progress {
                return any;
            }
        }
        self.held_back = true;
        any
    }

    // --- what has completed below

    pub(super) fn take_completions(&mut self, now: Time) -> bool {
        let mut taken = core::mem::take(&mut self.taken);
        let mut any = false;
        while self.completions.take_into(&mut taken, BATCH) > 0 {
            any = true;
            for completion in taken.drain(..) {
                self.take_completion(&completion, now);
            }
        }
        self.taken = taken;
        any
    }

    fn take_completion(&mut self, completion: &WorkCompletion, now: Time) {
        let (key, purpose) = Purpose::of(completion.id);
        let good = completion.status == Status::Success;
        if !good {
            self.notice_end(key);
        }
        match purpose {
            Purpose::Receive(slot) if good => self.take_packet(key, slot, completion, now),
            Purpose::Packet(Some(slot)) => {
                if let Some(link) = self.links.get_mut(key.0) {
                    link.free_slot(slot);
                }
            }
            Purpose::Transfer(number) => self.take_transfer(key, number, completion.status),
            Purpose::Receive(_) | Purpose::Packet(None) => {}
        }
    }

    /// What came on a link before it was established.
    pub(super) fn take_early(&mut self, key: LinkKey, now: Time) {
        while let Some(completion) = self.links.get_mut(key.0).and_then(|link| link.early.pop_front()) {
            self.take_completion(&completion, now);
        }
    }

    fn take_packet(&mut self, key: LinkKey, slot: u16, completion: &WorkCompletion, now: Time) {
        let Some(link) = self.links.get_mut(key.0) else { return };
        if link.phase.is_early() {
            // It is read when it is known whose it is. There are no more than receive requests.
            link.early.push_back(*completion);
            return self.openings.note_packet(key);
        }
        let peer = link.peer;
        if !link.is_heard() || self.is_leaving(key, peer) {
            return;
        }
        let Some(link) = self.links.get_mut(key.0) else { return };
        let handled = if completion.kind == CompletionKind::ReceiveImmediate {
            self.report_remote_write(peer, u64::from(completion.length), completion.immediate);
            Some(self.machine.handle_other_packet(peer))
        } else {
            let (machine, host) = (&mut self.machine, &mut self.host);
            let handle = |packet: &[u8]| machine.handle_packet(peer, packet, now, host);
            link.inspect_packet(slot, completion.length, &mut self.packet, handle)
        };
        if let Some(link) = self.links.get_mut(key.0) {
            link.post_receive(slot);
        }
        if !matches!(handled, Some(Ok(()))) {
            // The peer does not keep to the protocol: nothing it sends from now on can be relied on. (That a packet
            // can't be read does not happen; but none is to be lost silently.)
            self.break_link(key);
        }
    }

    /// Whether an earlier packet of this turn has agreed to close this connection. Later packets are dropped: with
    /// them the peer may return credits, sent before it knew; the machine has no connection then, or the next one.
    fn is_leaving(&self, key: LinkKey, peer: PeerId) -> bool {
        self.host.to_disconnect.contains(peer) && self.host.peers.get(peer).is_some_and(|known| known.link == Some(key))
    }

    pub(super) fn break_link(&mut self, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key.0) {
            link.queue_pair.blame(ConnectionError::Protocol);
            link.is_broken = true;
            self.notice_end(key);
        }
    }

    pub(super) fn report_remote_write(&self, peer: PeerId, length: u64, data: Option<u64>) {
        self.host.complete(Event {
            completed: Completed::RemoteWrite,
            context: 0,
            op_flags: 0,
            tagged: false,
            outcome: Ok(()),
            peer: Some(peer),
            length,
            tag: 0,
            data,
            offset: 0,
            last: true,
            buffer: None,
        });
    }

    fn take_transfer(&mut self, key: LinkKey, number: u32, status: Status) {
        let failure = failure_of(status, || self.why_ended(key));
        match self.host.transfers.get_mut(number) {
            Some(Transfer::Protocol(ticket)) => {
                let ticket = *ticket;
                self.host.transfers.remove(number);
                let outcome = if status == Status::Success { Ok(()) } else { Err(weft_message::Failure::PeerLost) };
                self.remember_failure(key);
                self.machine.handle_transferred(ticket, outcome, &mut self.host);
            }
            Some(Transfer::User(transfer)) => {
                transfer.under_way -= 1;
                if let Some(failure) = failure {
                    transfer.failure.get_or_insert(failure);
                }
                if transfer.under_way == 0 && (transfer.is_posted || transfer.failure.is_some()) {
                    self.finish_transfer(number);
                }
            }
            Some(Transfer::Atomic(_)) => self.finish_native_atomic(number, failure.map_or(Ok(()), Err)),
            None => {}
        }
    }

    /// Why what was under way on a link has failed.
    fn why_ended(&self, key: LinkKey) -> EndpointFailure {
        let link = self.links.get(key.0);
        match link.and_then(|link| link.queue_pair.error()) {
            // It was ended here.
            None | Some(ConnectionError::Abandoned | ConnectionError::Stream(StreamError::Aborted)) if self.closing => {
                EndpointFailure::Closed
            }
            Some(error) => EndpointFailure::Lost(error),
            None => self.host.why_lost(link.map(|link| link.peer)),
        }
    }

    /// Why the peer of a link was lost, for everything that fails because of it.
    fn remember_failure(&mut self, key: LinkKey) {
        let Some(link) = self.links.get(key.0) else { return };
        if let Some(error) = link.queue_pair.error()
            && let Some(peer) = self.host.peers.get_mut(link.peer)
        {
            peer.failure = Some(EndpointFailure::Lost(error));
        }
    }

    /// A write or read of the application is over.
    pub(super) fn finish_transfer(&mut self, number: u32) {
        let Some(Transfer::User(transfer)) = self.host.transfers.remove(number) else { return };
        let completed = transfer.completed();
        let UserTransfer { peer, context, op_flags, memory, length, failure, .. } = *transfer;
        self.machine.release(peer);
        self.host.finish(
            peer,
            Event {
                completed,
                context,
                op_flags,
                tagged: false,
                outcome: failure.map_or(Ok(()), Err),
                peer: Some(peer),
                length,
                tag: 0,
                data: None,
                offset: 0,
                last: true,
                buffer: memory.into_buffer(),
            },
        );
    }

    /// What this endpoint grants to its peers.
    pub(super) fn terms(&self) -> Terms {
        let settings = &self.settings.messages;
        Terms {
            packet_bytes: settings.packet_bytes,
            data_credits: settings.data_credits,
            control_credits: settings.control_credits,
        }
    }

    // --- what the application requests

    /// The number of the peer with this address, which is new or known.
    pub(crate) fn find_peer(&mut self, address: &Address) -> Result<PeerId, EndpointError> {
        self.forget_some();
        self.host.peers.find_or_add(address)
    }

    pub(crate) fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.host.peers.get(peer).map(|peer| peer.address.clone())
    }

    /// Whether a peer runs on this host, once it has announced where it runs.
    pub(crate) fn is_on_this_host(&self, peer: PeerId) -> Option<bool> {
        Some(self.host.peers.get(peer)?.host? == self.host_id?)
    }

    /// The oldest unexpected message that matches. With `claim` it is set aside under that number.
    pub(crate) fn peek(&mut self, source: Option<PeerId>, matching: Option<Match>, claim: Option<u64>) -> Option<Peek> {
        self.machine.peek(source, matching, claim)
    }

    /// Throws away the oldest unexpected message that matches.
    pub(crate) fn discard<N: Carrier, C: Clock>(
        &mut self,
        source: Option<PeerId>,
        matching: Option<Match>,
        engine: &mut Engine<N, C>,
    ) -> Option<Peek> {
        let found = self.machine.discard(source, matching, &mut self.host);
        self.flush(engine);
        found
    }

    /// Throws away the message that was set aside under this number.
    pub(crate) fn discard_claimed<N: Carrier, C: Clock>(
        &mut self,
        claim: u64,
        engine: &mut Engine<N, C>,
    ) -> Result<Peek, EndpointError> {
        let found = self.machine.discard_claimed(claim, &mut self.host);
        self.flush(engine);
        found.ok_or(EndpointError::NotClaimed(claim))
    }

    /// Checks what all requests to a peer have in common, and counts one more.
    fn admit(&mut self, peer: PeerId) -> Result<(), EndpointError> {
        if self.closing {
            return Err(EndpointError::Closed);
        }
        let Some(known) = self.host.peers.get_mut(peer) else { return Err(EndpointError::UnknownPeer(peer)) };
        known.is_asked = true;
        // What waits for the peers' applications must not keep what is sent next from them: they may wait for that
        // first.
        let (under_way, announced) = (self.host.sends_under_way, self.host.sends_announced);
        if under_way - announced >= self.settings.send_depth as usize
            || announced >= self.settings.announced_depth as usize
        {
            return Err(EndpointError::Again);
        }
        self.host.sends_under_way += 1;
        Ok(())
    }

    pub(crate) fn send<N: Carrier, C: Clock>(
        &mut self,
        mut post: SendPost,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        check_injected(post.inject, post.memory.length(), &self.settings)?;
        let injected = if post.inject { injected_bytes(post.memory.length()) } else { 0 };
        if injected > 0 && self.host.injected_bytes + injected > self.settings.injected_bytes {
            return Err(EndpointError::Again);
        }
        self.admit(post.peer)?;
        self.host.injected_bytes += injected;
        let peer = post.peer;
        if post.memory.length() as u64 > self.settings.messages.stream_bytes {
            self.renew_round_trip(peer, engine);
        }
        self.host.counts.endpoint_sends += 1;
        self.host.counts.endpoint_sent_bytes += post.memory.length() as u64;
        let Some(known) = self.host.peers.get_mut(peer) else { return Ok(()) };
        let waits = known.work.iter().any(Work::is_user) || (post.fence && known.under_way > 0);
        if waits {
            if post.inject {
                post.memory = copied(post.memory);
            }
            self.host.add_work(peer, Work::Send(Box::new(post)));
        } else {
            known.under_way += 1;
            self.machine.send(send_of(post), &mut self.host);
        }
        if self.is_in_burst(peer, engine) {
            self.held_back = true;
        } else {
            self.flush(engine);
        }
        Ok(())
    }

    /// Whether this message should wait for others to go out with: the application posts many, and will poll for
    /// completions soon.
    fn is_in_burst<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &Engine<N, C>) -> bool {
        if !engine.settings.progress.caller_runs() {
            return false;
        }
        let Some(key) = self.host.peers.get(peer).and_then(|peer| peer.link) else { return false };
        let Some(link) = self.links.get_mut(key.0) else { return false };
        let turn = engine.turn_number();
        if link.burst.0 != turn {
            link.burst = (turn, 0);
        }
        link.burst.1 += 1;
        link.burst.1 > BURST && !link.burst.1.is_multiple_of(TOGETHER)
    }

    pub(crate) fn receive<N: Carrier, C: Clock>(
        &mut self,
        post: ReceivePost,
        claim: Option<u64>,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        if self.closing {
            return Err(EndpointError::Closed);
        }
        let full = self.host.receives_posted >= self.settings.receive_depth as usize;
        if let Some(source) = post.source {
            let known = self.host.peers.get_mut(source).ok_or(EndpointError::UnknownPeer(source))?;
            known.has_receives |= !full;
        }
        if full {
            return Err(EndpointError::Again);
        }
        self.host.receives_posted += 1;
        match claim {
            None => self.machine.receive(receive_of(post), &mut self.host),
            Some(number) => {
                if self.machine.receive_claimed(number, receive_of(post), &mut self.host).is_err() {
                    self.host.receives_posted -= 1;
                    return Err(EndpointError::NotClaimed(number));
                }
            }
        }
        self.flush(engine);
        Ok(())
    }

    pub(crate) fn transfer<N: Carrier, C: Clock>(
        &mut self,
        mut post: TransferPost,
        reads: bool,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        check_injected(post.inject, post.memory.length(), &self.settings)?;
        if reads && post.data.is_some() {
            return Err(EndpointError::Invalid("a read has no immediate data"));
        }
        let length = post.memory.length() as u64;
        post.pieces.retain(|piece| piece.length > 0);
        let sum = post.pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.length));
        if !post.pieces.is_empty() && sum != Some(length) {
            return Err(EndpointError::Invalid("the pieces of the peer's memory have another length than this side's"));
        }
        let past = |place: super::request::RemotePlace, length| weft_base::passes_end(place.offset, length);
        let is_past = if post.pieces.is_empty() {
            past(post.place, length)
        } else {
            post.pieces.iter().any(|piece| past(piece.place, piece.length))
        };
        if is_past {
            return Err(EndpointError::Invalid("a range that passes the end of the 64-bit offsets"));
        }
        self.admit(post.peer)?;
        if post.inject {
            post.memory = copied(post.memory);
        }
        self.host.counts.endpoint_transfers += 1;
        self.host.counts.endpoint_transfer_bytes += post.memory.length() as u64;
        let (peer, fence) = (post.peer, post.fence);
        self.machine.hold(peer);
        let number = self.host.transfers.add(Transfer::User(Box::new(UserTransfer::new(post, reads))));
        self.host.add_work(peer, Work::User { number, fence });
        self.flush(engine);
        Ok(())
    }

    pub(crate) fn atomic<N: Carrier, C: Clock>(
        &mut self,
        post: AtomicPost,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        post.check(self.settings.atomic_bytes)?;
        self.admit(post.peer)?;
        self.host.counts.endpoint_atomics += 1;
        let (peer, fence) = (post.peer, post.fence);
        self.machine.hold(peer);
        let number = self.host.transfers.add(Transfer::Atomic(Box::new(UserAtomic { post, cell: None })));
        self.host.add_work(peer, Work::User { number, fence });
        self.flush(engine);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, context: u64) -> bool {
        self.machine.cancel_receive(|receive| receive.context == context, &mut self.host)
            || self.machine.cancel_send(|send| send.context == context, &mut self.host)
    }
}

impl EngineClient for Core {
    /// Does what there is to do. Returns whether there was anything.
    #[inline]
    fn has_work(&self, now: Time) -> bool {
        self.has_arrivals
            || !self.completions.is_empty()
            || self.held_back
            || self.openings.have_news()
            || self.ending.have_news()
            || !self.unproven.is_empty()
            || !self.unconfirmed.is_empty()
            || self.waiting.has_some()
            || self.waiting.is_short()
            || !self.host.to_connect.is_empty()
            || !self.stalled.is_empty()
            || !self.host.in_use.is_empty()
            || self.wake_at.is_some_and(|at| at <= now)
    }

    fn attend<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let has_arrivals = core::mem::take(&mut self.has_arrivals);
        let any = self.attend_rounds(engine);
        if any || has_arrivals {
            // What has completed may be what another thread sleeps for.
            self.event_count.turn();
        }
        any
    }

    /// When something has to happen by itself.
    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    /// A packet has come on this connection; its memory is lent for this call alone. Returns whether it was taken; else
    /// it must come as those do for which there are receive requests.
    fn take_arrival(&mut self, key: LinkKey, queue_pair: &Arc<QueuePair>, packet: &[u8], now: Time) -> bool {
        self.has_arrivals = true;
        // What came before it goes before it.
        self.take_completions(now);
        let Some(link) = self.links.get(key.0).filter(|link| link.takes(queue_pair, packet.len())) else {
            return false;
        };
        let peer = link.peer;
        if !link.is_heard() || self.is_leaving(key, peer) {
            return true;
        }
        let handled = self.machine.handle_packet(peer, packet, now, &mut self.host);
        if handled.is_err() {
            // As above.
            self.break_link(key);
        }
        true
    }
}

fn check_injected(inject: bool, length: usize, settings: &EndpointSettings) -> Result<(), EndpointError> {
    let most = u64::from(settings.inject_bytes);
    if inject && length as u64 > most {
        return Err(EndpointError::TooLong { what: "an injected message", length: length as u64, most });
    }
    Ok(())
}
