//! An endpoint in the engine: it takes what its queue pairs have completed, gives it to the messages' machine, and posts what that wants to be sent.

use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Clock, Network, PeerId, Time};
use weft_memory::Region;
use weft_message::{Machine, Terms};
use weft_rdmap::{CompletionKind, SendRequest, Status};

use super::EndpointSettings;
use super::joint::{Joint, copy_of, receive_of, send_of};
use super::link::{Link, LinkKey, Phase, Purpose};
use super::request::{
    Address, AtomicPost, Completed, EndpointError, EndpointFailure, Event, ReceivePost, SendPost, TransferPost,
};
use super::transfer::{Numbered, Transfer, UserAtomic, UserTransfer, Work, failure_of};
use crate::completion::{CompletionQueue, WorkCompletion};
use crate::connection::Ending;
use crate::engine::Engine;
use crate::error::ConnectionError;
use crate::listening::Waiting;
use crate::turnstile::Turnstile;

/// An application that has sent so many messages to one peer without looking for completions is in the middle of many: from then on they go out together.
const BURST: u32 = 4;
/// So many of them at a time.
const TOGETHER: u32 = 32;
/// Rounds of one visit: what is left then is done in the next turn.
const ROUNDS: usize = 8;
/// Completions taken at a time.
const BATCH: usize = 64;

/// An endpoint.
pub(crate) struct Core {
    pub(super) machine: Machine<Joint>,
    pub(super) joint: Joint,
    pub(super) settings: EndpointSettings,
    pub(super) address: Address,
    pub(super) listener: DefaultKey,
    pub(super) waiting: Arc<Waiting>,
    pub(super) completions: Arc<CompletionQueue>,
    pub(super) turnstile: Arc<Turnstile>,
    pub(super) links: Numbered<Box<Link>>,
    /// Links that are being opened.
    pub(super) opening: Vec<LinkKey>,
    /// Links whose end has shown.
    pub(super) ending: Vec<LinkKey>,
    /// Peers whose own connection is awaited, and until when.
    pub(super) awaited: Vec<(PeerId, Time)>,
    /// Links with something for the engine to send.
    rung: Vec<LinkKey>,
    /// Peers with packets for which there was no room.
    stalled: Vec<PeerId>,
    /// Peers to whom something is to be sent that was kept for a message to go out with.
    patient: Vec<PeerId>,
    taken: Vec<WorkCompletion>,
    packet: Vec<u8>,
    /// 8 bytes for the answer of each atomic work request.
    pub(super) cells: Cells,
    /// Something is to be sent that was held back, to go out with more.
    held_back: bool,
    /// When something has to happen by itself.
    pub(super) wake_at: Option<Time>,
    pub(super) closing: bool,
    /// Of the last hello.
    pub(super) serial: u64,
}

/// Memory for the answers of atomic work requests.
pub(super) struct Cells {
    pub(super) region: Region,
    pub(super) free: Vec<u32>,
}

/// Atomic work requests of an endpoint under way.
pub(super) const CELLS: u32 = 256;

impl Core {
    #[expect(clippy::too_many_arguments, reason = "each part is of its own type, and only `open` calls this")]
    pub(super) fn new(
        machine: Machine<Joint>,
        joint: Joint,
        settings: EndpointSettings,
        address: Address,
        listener: DefaultKey,
        waiting: Arc<Waiting>,
        completions: Arc<CompletionQueue>,
        turnstile: Arc<Turnstile>,
        region: Region,
    ) -> Self {
        let packet_bytes = settings.messages.packet_bytes as usize;
        Self {
            machine,
            joint,
            settings,
            address,
            listener,
            waiting,
            completions,
            turnstile,
            links: Numbered::default(),
            opening: Vec::new(),
            ending: Vec::new(),
            awaited: Vec::new(),
            rung: Vec::new(),
            stalled: Vec::new(),
            patient: Vec::new(),
            taken: Vec::with_capacity(BATCH),
            packet: vec![0; packet_bytes],
            cells: Cells { region, free: (0..CELLS).rev().collect() },
            held_back: false,
            wake_at: None,
            closing: false,
            serial: 0,
        }
    }

    /// Whether there may be something to do.
    fn has_work(&self, now: Time) -> bool {
        !self.completions.is_empty()
            || self.held_back
            || !self.opening.is_empty()
            || self.waiting.has_some()
            || !self.joint.to_connect.is_empty()
            || self.wake_at.is_some_and(|at| at <= now)
    }

    /// Does what there is to do. Returns whether there was anything.
    pub(crate) fn attend<N: Network, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        if !self.has_work(engine.now()) {
            return false;
        }
        self.held_back = false;
        // What was kept until now has waited long enough.
        self.stalled.append(&mut self.patient);
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut progress = self.take_completions(engine.now());
            progress |= self.meet(engine);
            progress |= self.look_at_openings(engine);
            progress |= self.bury(engine);
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

    /// When something has to happen by itself.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.wake_at
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

    fn take_packet(&mut self, key: LinkKey, slot: u16, completion: &WorkCompletion, now: Time) {
        let Some(link) = self.links.get(key.0) else { return };
        let peer = link.peer;
        let handled = if completion.kind == CompletionKind::ReceiveImmediate {
            self.report_remote_write(peer, completion.immediate);
            Some(self.machine.handle_other_packet(peer))
        } else {
            let (machine, joint) = (&mut self.machine, &mut self.joint);
            link.look_at_packet(slot, completion.length, |packet| machine.handle_packet(peer, packet, now, joint))
        };
        if let Some(link) = self.links.get_mut(key.0) {
            link.post_receive(slot);
        }
        if !matches!(handled, Some(Ok(()))) {
            // The peer does not keep to the protocol: nothing it says from now on can be relied on. (That a packet can't be looked at does not happen; but none is to be lost
            // without a word.)
            self.break_link(key);
        }
    }

    fn break_link(&mut self, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key.0) {
            link.queue_pair.blame(ConnectionError::Protocol);
            link.is_broken = true;
            self.notice_end(key);
        }
    }

    pub(super) fn report_remote_write(&self, peer: PeerId, data: Option<u64>) {
        self.joint.sink.complete(Event {
            completed: Completed::RemoteWrite,
            context: 0,
            marks: 0,
            tagged: false,
            outcome: Ok(()),
            peer: Some(peer),
            length: 0,
            tag: 0,
            data,
            offset: 0,
            last: true,
            buffer: None,
        });
    }

    pub(super) fn notice_end(&mut self, key: LinkKey) {
        if !self.ending.contains(&key) {
            self.ending.push(key);
        }
    }

    fn take_transfer(&mut self, key: LinkKey, number: u32, status: Status) {
        let lost = self.links.get(key.0).and_then(|link| link.queue_pair.error());
        match self.joint.transfers.get_mut(number) {
            Some(Transfer::Protocol(ticket)) => {
                let ticket = *ticket;
                self.joint.transfers.remove(number);
                let outcome = if status == Status::Success { Ok(()) } else { Err(weft_message::Failure::PeerLost) };
                self.remember_failure(key);
                self.machine.handle_transferred(ticket, outcome, &mut self.joint);
            }
            Some(Transfer::User(transfer)) => {
                transfer.under_way -= 1;
                let lost = || EndpointFailure::Lost(lost.unwrap_or(ConnectionError::Abandoned));
                if let Some(failure) = failure_of(status, lost) {
                    transfer.failure.get_or_insert(failure);
                }
                if transfer.under_way == 0 && (transfer.is_posted || transfer.failure.is_some()) {
                    self.finish_transfer(number);
                }
            }
            Some(Transfer::Atomic(_)) => {
                let lost = || EndpointFailure::Lost(lost.unwrap_or(ConnectionError::Abandoned));
                let outcome = failure_of(status, lost).map_or(Ok(()), Err);
                self.finish_native_atomic(number, outcome);
            }
            None => {}
        }
    }

    /// Why the peer of a link was lost, for everything that fails because of it.
    fn remember_failure(&mut self, key: LinkKey) {
        let Some(link) = self.links.get(key.0) else { return };
        if let Some(error) = link.queue_pair.error()
            && let Some(peer) = self.joint.peers.get_mut(link.peer)
        {
            peer.failure = Some(EndpointFailure::Lost(error));
        }
    }

    /// A write or read of the application is over.
    pub(super) fn finish_transfer(&mut self, number: u32) {
        let Some(Transfer::User(transfer)) = self.joint.transfers.remove(number) else { return };
        let completed = transfer.completed();
        let UserTransfer { peer, context, marks, memory, length, failure, .. } = *transfer;
        self.machine.release(peer);
        self.joint.finish(
            peer,
            Event {
                completed,
                context,
                marks,
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

    // --- what is to be sent

    /// Posts what is to be posted, and has the engine send it.
    pub(super) fn flush<N: Network, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        loop {
            let mut progress = self.joint.has_asked() && self.follow(engine);
            progress |= !self.joint.listed.is_empty() && self.pump_listed();
            progress |= self.send_packets(engine);
            any |= progress;
            if !progress {
                break;
            }
        }
        self.joint.counts.move_to(&mut engine.counters);
        while let Some(key) = self.rung.pop() {
            let Some(link) = self.links.get_mut(key.0) else { continue };
            link.is_rung = false;
            if let Some(place) = link.queue_pair.connection() {
                engine.send_posted(place.key);
            }
        }
        any
    }

    /// Does what the messages' machine has asked for.
    fn follow<N: Network, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        // A peer may be both: the old connection makes way for the new one.
        while let Some(peer) = self.joint.to_disconnect.pop() {
            any = true;
            self.disconnect(peer, engine);
        }
        while let Some(peer) = self.joint.to_connect.pop() {
            any = true;
            self.open(peer, engine);
        }
        while let Some(peer) = self.joint.to_break.pop() {
            any = true;
            if let Some(key) = self.joint.peers.get(peer).and_then(|known| known.link) {
                self.break_link(key);
            }
        }
        while let Some(ticket) = self.joint.failed.pop() {
            any = true;
            self.machine.handle_transferred(ticket, Err(weft_message::Failure::NoMemory), &mut self.joint);
        }
        for called in core::mem::take(&mut self.joint.calls) {
            any = true;
            self.joint.counts.endpoint_calls += 1;
            let answer = super::atomic::execute(&self.joint.registry, self.joint.domain, &called.body);
            self.machine.answer(called.call, &answer);
        }
        for answered in core::mem::take(&mut self.joint.answers) {
            any = true;
            self.finish_call(answered);
        }
        any
    }

    fn pump_listed(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.joint.listed.len() {
            let Some(peer) = self.joint.listed.pop_front() else { break };
            any |= self.pump(peer);
            let Some(known) = self.joint.peers.get_mut(peer) else { continue };
            if known.work.is_empty() {
                known.is_listed = false;
            } else {
                self.joint.listed.push_back(peer);
            }
        }
        any
    }

    /// Posts one-sided work with a peer, as far as possible. Returns whether any was.
    fn pump(&mut self, peer: PeerId) -> bool {
        let mut any = false;
        loop {
            let Some(known) = self.joint.peers.get_mut(peer) else { return any };
            if known.is_self {
                let Some(work) = known.work.pop_front() else { return any };
                self.do_with_self(peer, work);
                any = true;
                continue;
            }
            let Some(link) = known.link.and_then(|key| self.links.get_mut(key.0)) else {
                if !known.work.is_empty() && !known.awaited {
                    self.joint.to_connect.push(peer);
                    return true;
                }
                return any;
            };
            if link.phase != Phase::Up || !link.has_place() {
                return any;
            }
            match known.work.front() {
                None => return any,
                // A connection that is about to be closed by agreement takes nothing new; another one will.
                Some(work) if work.is_user() && !self.machine.is_open(peer) => return any,
                Some(Work::Protocol { .. }) => {
                    let Some(Work::Protocol { ticket, operation }) = known.work.pop_front() else { return any };
                    let number = self.joint.transfers.add(Transfer::Protocol(ticket));
                    let id = Purpose::Transfer(number).id(link.key);
                    let request = SendRequest { id, operation, signaled: true, fence: false };
                    let taken = link.post(request);
                    Self::ring(&mut self.rung, link);
                    if !taken {
                        self.joint.transfers.remove(number);
                        self.joint.failed.push(ticket);
                    }
                }
                Some(Work::Send(post)) => {
                    if post.fence && known.under_way > 0 {
                        return any;
                    }
                    let Some(Work::Send(post)) = known.work.pop_front() else { return any };
                    known.under_way += 1;
                    self.machine.send(send_of(*post), &mut self.joint);
                }
                Some(Work::User { number, fence }) => {
                    let (number, fence) = (*number, *fence);
                    if fence && known.under_way > 0 && !self.is_begun(number) {
                        return any;
                    }
                    if !self.post_user(peer, number) {
                        return any;
                    }
                }
            }
            any = true;
        }
    }

    fn is_begun(&self, number: u32) -> bool {
        matches!(self.joint.transfers.get(number), Some(Transfer::User(transfer)) if transfer.is_begun())
    }

    pub(super) fn ring_for(&mut self, peer: PeerId) {
        let key = self.joint.peers.get(peer).and_then(|known| known.link);
        if let Some(link) = key.and_then(|key| self.links.get_mut(key.0)) {
            Self::ring(&mut self.rung, link);
        }
    }

    fn ring(rung: &mut Vec<LinkKey>, link: &mut Link) {
        if link.is_rung && !rung.contains(&link.key) {
            rung.push(link.key);
        }
    }

    /// Posts the next work request of the application's transfer or atomic at the head of a peer's work. Returns whether that went on.
    fn post_user(&mut self, peer: PeerId, number: u32) -> bool {
        match self.joint.transfers.get_mut(number) {
            Some(Transfer::User(transfer)) => {
                if transfer.needs_credit() && !self.machine.reserve_packet(peer) {
                    return false;
                }
                self.post_transfer(peer, number)
            }
            Some(Transfer::Atomic(_)) => self.post_atomic(peer, number),
            _ => {
                self.drop_head(peer);
                true
            }
        }
    }

    /// The work at the head of a peer's list is posted whole, or over.
    pub(super) fn drop_head(&mut self, peer: PeerId) {
        if let Some(known) = self.joint.peers.get_mut(peer) {
            known.work.pop_front();
        }
    }

    fn post_transfer(&mut self, peer: PeerId, number: u32) -> bool {
        let Some(known) = self.joint.peers.get_mut(peer) else { return false };
        let Some(link) = known.link.and_then(|key| self.links.get_mut(key.0)) else { return false };
        let Some(Transfer::User(transfer)) = self.joint.transfers.get_mut(number) else { return false };
        if !transfer.is_begun() {
            known.under_way += 1;
        }
        match transfer.next(&self.joint.registry, self.joint.domain) {
            Ok(operation) => {
                let id = Purpose::Transfer(number).id(link.key);
                let request = SendRequest { id, operation, signaled: true, fence: false };
                if link.post(request) {
                    transfer.under_way += 1;
                } else {
                    transfer.failure.get_or_insert(EndpointFailure::NoMemory);
                }
                Self::ring(&mut self.rung, link);
            }
            Err(failure) => {
                transfer.failure.get_or_insert(failure);
            }
        }
        let over = transfer.failure.is_some();
        if over || transfer.is_posted {
            known.work.pop_front();
        }
        if over && transfer.under_way == 0 {
            self.finish_transfer(number);
        }
        true
    }

    fn send_packets<N: Network, C: Clock>(&mut self, engine: &Engine<N, C>) -> bool {
        let mut any = false;
        // Those that stall again are put back behind.
        for _ in 0..self.stalled.len() {
            let peer = self.stalled.remove(0);
            any |= self.send_packets_to(peer, engine.now());
        }
        while let Some(peer) = self.machine.next_ready() {
            // The application has a message before it now, and may answer it at once.
            if engine.is_visited() && self.machine.is_patient(peer) {
                if !self.patient.contains(&peer) {
                    self.patient.push(peer);
                }
                self.held_back = true;
                continue;
            }
            any |= self.send_packets_to(peer, engine.now());
        }
        any
    }

    fn send_packets_to(&mut self, peer: PeerId, now: Time) -> bool {
        let mut any = false;
        loop {
            let Some(known) = self.joint.peers.get(peer) else { return any };
            if known.is_self {
                any |= self.send_to_self(peer, now);
                return any;
            }
            let Some(key) = known.link else { return any };
            let held = self.holds_packets(peer);
            let Some(link) = self.links.get_mut(key.0) else { return any };
            if held || !link.has_room() {
                self.stalled.push(peer);
                return any;
            }
            let (machine, joint) = (&mut self.machine, &mut self.joint);
            // A write that became due with this packet goes before it.
            if !link.post_packet(|packet| machine.poll_packet(peer, packet, now, joint)) {
                return any;
            }
            any = true;
            self.joint.counts.endpoint_packets += 1;
            Self::ring(&mut self.rung, link);
        }
    }

    fn send_to_self(&mut self, peer: PeerId, now: Time) -> bool {
        let mut any = false;
        let mut packet = core::mem::take(&mut self.packet);
        loop {
            if self.holds_packets(peer) {
                self.stalled.push(peer);
                break;
            }
            let Some(length) = self.machine.poll_packet(peer, &mut packet, now, &mut self.joint) else { break };
            any = true;
            // Our own packets are good.
            let _ = self.machine.handle_packet(peer, &packet[..length], now, &mut self.joint);
        }
        self.packet = packet;
        any
    }

    /// Whether a write must go before the next packet to a peer.
    fn holds_packets(&self, peer: PeerId) -> bool {
        self.joint.peers.get(peer).is_some_and(|known| known.work.iter().any(Work::holds_packets))
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

    // --- what the application asks for

    /// Checks what all requests to a peer have in common, and counts one more.
    fn admit(&mut self, peer: PeerId) -> Result<(), EndpointError> {
        if self.closing {
            return Err(EndpointError::Closed);
        }
        if self.joint.peers.get(peer).is_none() {
            return Err(EndpointError::UnknownPeer(peer));
        }
        if self.joint.sends_under_way >= self.settings.send_depth as usize {
            return Err(EndpointError::Again);
        }
        self.joint.sends_under_way += 1;
        Ok(())
    }

    pub(super) fn send<N: Network, C: Clock>(
        &mut self,
        mut post: SendPost,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        check_injected(post.inject, post.memory.length(), &self.settings)?;
        self.admit(post.peer)?;
        let peer = post.peer;
        self.joint.counts.endpoint_sends += 1;
        self.joint.counts.endpoint_sent_bytes += post.memory.length() as u64;
        let Some(known) = self.joint.peers.get_mut(peer) else { return Ok(()) };
        let waits = known.work.iter().any(Work::is_user) || (post.fence && known.under_way > 0);
        if waits {
            if post.inject {
                post.memory = copy_of(&post.memory);
                post.inject = false;
            }
            self.joint.add_work(peer, Work::Send(Box::new(post)));
        } else {
            known.under_way += 1;
            self.machine.send(send_of(post), &mut self.joint);
        }
        if self.is_in_burst(peer, engine) {
            self.held_back = true;
        } else {
            self.flush(engine);
        }
        Ok(())
    }

    /// Whether this message should wait for others to go out with: the application posts many, and will look for completions soon.
    fn is_in_burst<N: Network, C: Clock>(&mut self, peer: PeerId, engine: &Engine<N, C>) -> bool {
        if !engine.settings.progress.caller_runs() {
            return false;
        }
        let Some(key) = self.joint.peers.get(peer).and_then(|peer| peer.link) else { return false };
        let Some(link) = self.links.get_mut(key.0) else { return false };
        let turn = engine.turn_number();
        if link.burst.0 != turn {
            link.burst = (turn, 0);
        }
        link.burst.1 += 1;
        link.burst.1 > BURST && !link.burst.1.is_multiple_of(TOGETHER)
    }

    pub(super) fn receive<N: Network, C: Clock>(
        &mut self,
        post: ReceivePost,
        claim: Option<u64>,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        if self.closing {
            return Err(EndpointError::Closed);
        }
        if let Some(source) = post.source
            && self.joint.peers.get(source).is_none()
        {
            return Err(EndpointError::UnknownPeer(source));
        }
        if self.joint.receives_posted >= self.settings.receive_depth as usize {
            return Err(EndpointError::Again);
        }
        self.joint.receives_posted += 1;
        match claim {
            None => self.machine.receive(receive_of(post), &mut self.joint),
            Some(number) => {
                if self.machine.receive_claimed(number, receive_of(post), &mut self.joint).is_err() {
                    self.joint.receives_posted -= 1;
                    return Err(EndpointError::NotClaimed(number));
                }
            }
        }
        self.flush(engine);
        Ok(())
    }

    pub(super) fn transfer<N: Network, C: Clock>(
        &mut self,
        mut post: TransferPost,
        reads: bool,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        check_injected(post.inject, post.memory.length(), &self.settings)?;
        if reads && post.data.is_some() {
            return Err(EndpointError::Invalid("a read has no immediate data"));
        }
        if post.place.offset.checked_add(post.memory.length() as u64).is_none() {
            return Err(EndpointError::Invalid("a range that passes the end of the 64-bit offsets"));
        }
        self.admit(post.peer)?;
        if post.inject {
            post.memory = copy_of(&post.memory);
        }
        self.joint.counts.endpoint_transfers += 1;
        self.joint.counts.endpoint_transfer_bytes += post.memory.length() as u64;
        let (peer, fence) = (post.peer, post.fence);
        self.machine.hold(peer);
        let number = self.joint.transfers.add(Transfer::User(Box::new(UserTransfer::new(post, reads))));
        self.joint.add_work(peer, Work::User { number, fence });
        self.flush(engine);
        Ok(())
    }

    pub(super) fn atomic<N: Network, C: Clock>(
        &mut self,
        post: AtomicPost,
        engine: &mut Engine<N, C>,
    ) -> Result<(), EndpointError> {
        super::atomic::check(&post, self.settings.atomic_bytes)?;
        self.admit(post.peer)?;
        self.joint.counts.endpoint_atomics += 1;
        let (peer, fence) = (post.peer, post.fence);
        self.machine.hold(peer);
        let number = self.joint.transfers.add(Transfer::Atomic(Box::new(UserAtomic { post, cell: None })));
        self.joint.add_work(peer, Work::User { number, fence });
        self.flush(engine);
        Ok(())
    }

    pub(super) fn cancel(&mut self, context: u64) -> bool {
        self.machine.cancel_receive(|receive| receive.context == context, &mut self.joint)
            || self.machine.cancel_send(|send| send.context == context, &mut self.joint)
    }

    /// Whether nothing is left to be sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.joint.listed.is_empty()
            && self.stalled.is_empty()
            && self.patient.is_empty()
            && !self.held_back
            && self.links.iter().all(|(_, link)| {
                link.phase != Phase::Up || (link.queue_pair.sends_under_way() == 0 && !self.machine.is_busy(link.peer))
            })
    }

    /// Whether there is no connection, and nothing to be done with one.
    pub(super) fn is_idle(&self) -> bool {
        self.links.iter().next().is_none() && self.joint.listed.is_empty() && self.joint.to_connect.is_empty()
    }

    /// Ends all connections gracefully.
    pub(super) fn begin_end<N: Network, C: Clock>(&mut self, engine: &mut Engine<N, C>) {
        self.closing = true;
        engine.remove_listener(self.listener);
        for place in self.places() {
            engine.end_connection(place, Ending::Graceful);
        }
    }

    /// Whether all connections have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.links.iter().all(|(_, link)| link.queue_pair.state().has_ended())
    }

    /// Ends what is left: everything under way fails.
    pub(super) fn end<N: Network, C: Clock>(&mut self, engine: &mut Engine<N, C>) {
        for place in self.places() {
            engine.end_connection(place, Ending::Abrupt);
        }
        self.take_completions(engine.now());
        for peer in self.joint.peers.ids() {
            self.fail_all(peer, EndpointFailure::Closed, true);
            if self.machine.is_busy(peer) {
                // It was about to be closed by agreement, and what was to be sent meanwhile waits for another connection.
                self.lose_peer(peer, EndpointFailure::Closed, true);
            }
        }
        // Posted receives are over as well.
        while self.machine.cancel_receive(|_| true, &mut self.joint) {}
    }

    fn places(&self) -> Vec<DefaultKey> {
        self.links.iter().filter_map(|(_, link)| link.queue_pair.connection()).map(|place| place.key).collect()
    }

    /// Everything that is under way with a peer fails, and what waits for its turn.
    pub(super) fn fail_all(&mut self, peer: PeerId, failure: EndpointFailure, abrupt: bool) {
        let Some(known) = self.joint.peers.get_mut(peer) else { return };
        let work = core::mem::take(&mut known.work);
        self.lose_peer(peer, failure.clone(), abrupt);
        for work in work {
            match work {
                // The machine has given it up.
                Work::Protocol { .. } => {}
                Work::Send(post) => self.fail_send(*post, failure.clone()),
                Work::User { number, .. } => self.fail_transfer(number, failure.clone()),
            }
        }
    }

    /// The connection to a peer is gone. What the application asked for and was not begun still waits for its turn, and for another connection.
    pub(super) fn lose_peer(&mut self, peer: PeerId, failure: EndpointFailure, abrupt: bool) {
        let Some(known) = self.joint.peers.get_mut(peer) else { return };
        known.failure = Some(failure);
        known.work.retain(Work::is_user);
        self.machine.handle_lost(peer, abrupt, &mut self.joint);
        for answered in core::mem::take(&mut self.joint.answers) {
            self.finish_call(answered);
        }
    }

    fn fail_send(&mut self, post: SendPost, failure: EndpointFailure) {
        let peer = post.peer;
        if let Some(known) = self.joint.peers.get_mut(peer) {
            known.under_way += 1;
        }
        let event = Event {
            completed: Completed::Send,
            context: post.context,
            marks: post.marks,
            tagged: post.tag.is_some(),
            outcome: Err(failure),
            peer: Some(peer),
            length: post.memory.length() as u64,
            tag: 0,
            data: None,
            offset: 0,
            last: true,
            buffer: post.memory.into_buffer(),
        };
        self.joint.finish(peer, event);
    }

    fn fail_transfer(&mut self, number: u32, failure: EndpointFailure) {
        match self.joint.transfers.get_mut(number) {
            Some(Transfer::User(transfer)) => {
                transfer.failure.get_or_insert(failure);
                // What was posted of it completes by itself.
                if transfer.under_way == 0 {
                    let (peer, begun) = (transfer.peer, transfer.is_begun());
                    self.count_unbegun(peer, begun);
                    self.finish_transfer(number);
                }
            }
            Some(Transfer::Atomic(atomic)) => {
                let peer = atomic.post.peer;
                self.count_unbegun(peer, false);
                self.finish_atomic(number, Err(failure));
            }
            _ => {}
        }
    }

    /// What ends before it was begun is counted as begun, for its end.
    fn count_unbegun(&mut self, peer: PeerId, begun: bool) {
        if !begun && let Some(known) = self.joint.peers.get_mut(peer) {
            known.under_way += 1;
        }
    }
}

fn check_injected(inject: bool, length: usize, settings: &EndpointSettings) -> Result<(), EndpointError> {
    let most = u64::from(settings.inject_bytes);
    if inject && length as u64 > most {
        return Err(EndpointError::TooLong { what: "an injected message", length: length as u64, most });
    }
    Ok(())
}
