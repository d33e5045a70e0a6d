//! The NIC as the messages' protocols see it.

use core::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::{DomainId, NoDigest, PeerId};
use weft_memory::{Access, Buffer, IoBuffer, Region, Registry};
use weft_message::{BufferId, CallId, Failure, Host, Parts, Received, RemotePart, Ticket};
use weft_rdmap::{Operation, Payload, RemoteTarget};

use super::buffer_pool::BufferPool;
use super::in_use::InUse;
use super::peers::Peers;
use super::request::{
    Completed, Completions, EndpointFailure, Event, Level, ReceivePost, SendPost, Undelivered, Warning,
};
use super::transfer::{Numbered, Transfer, Work, ensure_registered, gather_of, parts_of};
use super::unique_queue::UniqueQueue;
use crate::callback;
use crate::counters::Counters;

/// Injected messages up to this many bytes are kept in the request itself.
const SMALL: usize = 64;

/// This many sends at most have their memory exposed at a time, so that the memory table has room for others. Peers
/// announce where to write the messages of those beyond,
const MOST_EXPOSED: usize = 8192;
/// but for those that are longer than this: they are no work for one write.
const LONGEST_WRITTEN: u64 = 1 << 30;

/// A message on its way out.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) peer: PeerId,
    pub(super) context: u64,
    pub(super) op_flags: u32,
    tagged: bool,
    /// Bytes that count for [`NicHost::injected_bytes`].
    injected: u64,
    /// It waits for the peer's application.
    is_announced: bool,
    is_exposed: bool,
    /// Its memory was not there when it was needed.
    has_faulted: Cell<bool>,
    memory: Outgoing,
}

#[derive(Debug)]
enum Outgoing {
    /// A copy.
    Small { bytes: [u8; SMALL], length: u8 },
    /// What was lent, or a copy that is too long for the above.
    Lent(IoBuffer),
}

impl Outbound {
    pub(super) fn new(post: SendPost) -> Self {
        let length = post.memory.length();
        let memory = if !post.inject {
            Outgoing::Lent(post.memory)
        } else if length <= SMALL {
            let mut bytes = [0; SMALL];
            match post.memory.copy_out(0, &mut bytes[..length], &mut NoDigest) {
                Ok(()) => Outgoing::Small { bytes, length: length as u8 },
                // Fetching it will fail again, and with that the send.
                Err(_) => Outgoing::Lent(post.memory),
            }
        } else {
            Outgoing::Lent(copied(post.memory))
        };
        Self {
            peer: post.peer,
            context: post.context,
            op_flags: post.op_flags,
            tagged: post.tag.is_some(),
            injected: if post.inject { injected_bytes(length) } else { 0 },
            is_announced: false,
            is_exposed: false,
            has_faulted: Cell::new(false),
            memory,
        }
    }

    /// Whether the application counts it as sent, though it is not: its bytes are kept here.
    pub(super) fn is_kept(&self) -> bool {
        self.injected > 0 || matches!(self.memory, Outgoing::Small { .. })
    }

    pub(super) fn length(&self) -> u64 {
        match &self.memory {
            Outgoing::Small { length, .. } => u64::from(*length),
            Outgoing::Lent(memory) => memory.length() as u64,
        }
    }

    fn lent(&mut self) -> Result<&mut IoBuffer, Failure> {
        match &mut self.memory {
            Outgoing::Lent(memory) => Ok(memory),
            // Only what is short goes there, and what is short is not registered.
            Outgoing::Small { .. } => Err(Failure::NoMemory),
        }
    }
}

/// What an injected message of this length counts for [`NicHost::injected_bytes`]: those that are kept in the request
/// itself count nothing.
pub(super) const fn injected_bytes(length: usize) -> u64 {
    if length <= SMALL { 0 } else { length as u64 }
}

/// A copy of lent memory, for the lender wants it back at once. Memory that is not there stays what it is: the work
/// that needs it fails then.
pub(super) fn copied(memory: IoBuffer) -> IoBuffer {
    if memory.is_owned() {
        return memory;
    }
    let mut bytes = vec![0; memory.length()];
    match memory.copy_out(0, &mut bytes, &mut NoDigest) {
        Ok(()) => bytes.into(),
        Err(_) => memory,
    }
}

/// A receive.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) context: u64,
    op_flags: u32,
    tagged: bool,
    /// The only peer that it takes messages from.
    source: Option<PeerId>,
    /// Its memory was not there when bytes came.
    has_faulted: bool,
    memory: IoBuffer,
}

impl Inbound {
    pub(super) fn new(post: ReceivePost) -> Self {
        Self {
            context: post.context,
            op_flags: post.op_flags,
            tagged: post.matching.is_some(),
            source: post.source,
            has_faulted: false,
            memory: post.memory,
        }
    }

    fn place(&mut self, offset: u64, bytes: &[u8]) {
        self.has_faulted |= self.memory.copy_in(offset as usize, bytes, &mut NoDigest).is_err();
    }
}

/// A peer's call that waits to be executed.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) body: Vec<u8>,
}

/// An answer that waits to be read.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) ticket: Ticket,
    pub(super) answer: Result<Vec<u8>, Failure>,
}

/// The NIC, for the machine of messages: it does at once what is only memory, and notes the rest for
/// [`super::core::Core`].
pub(super) struct NicHost {
    pub(super) registry: Registry,
    pub(super) domain: DomainId,
    sink: Arc<dyn Completions>,
    pub(super) peers: Peers,
    pub(super) transfers: Numbered<Transfer>,
    /// With the ids of the peers that may write there; 0: not known.
    buffers: Numbered<(Region, u64)>,
    /// Memory of such buffers that are not used now.
    spare: BufferPool,
    /// Peers with sends that are over, but for their memory.
    pub(super) in_use: UniqueQueue<PeerId>,
    /// Peers with work to be posted.
    pub(super) listed: VecDeque<PeerId>,
    pub(super) to_connect: UniqueQueue<PeerId>,
    pub(super) to_disconnect: UniqueQueue<PeerId>,
    /// Peers, each with the number of packets that are to be received at a time beyond the others.
    pub(super) to_widen: Vec<(PeerId, u16)>,
    /// Peers to which the protocol has promised what can't be done: their connections must end.
    pub(super) to_break: UniqueQueue<PeerId>,
    pub(super) calls: Vec<Called>,
    pub(super) answers: Vec<Answered>,
    /// Transfers of the messages' protocols for which there was no place in the memory table.
    pub(super) failed: Vec<Ticket>,
    /// Requests of the application that have not completed: sends, transfers, atomics.
    pub(super) sends_under_way: usize,
    /// Of these, sends that have gone out and wait for the peers' applications.
    pub(super) sends_announced: usize,
    sends_exposed: usize,
    /// Bytes of injected messages that have not completed.
    pub(super) injected_bytes: u64,
    pub(super) receives_posted: usize,
    /// What was not delivered, once the endpoint is being closed.
    pub(super) undelivered: Option<Undelivered>,
    /// What was counted since the engine has taken it over.
    pub(super) counts: Counts,
}

impl NicHost {
    pub(super) fn new(registry: Registry, domain: DomainId, sink: Arc<dyn Completions>, peers: Peers) -> Self {
        Self {
            registry,
            domain,
            sink,
            peers,
            transfers: Numbered::default(),
            buffers: Numbered::default(),
            spare: BufferPool::default(),
            in_use: UniqueQueue::default(),
            listed: VecDeque::new(),
            to_connect: UniqueQueue::default(),
            to_disconnect: UniqueQueue::default(),
            to_widen: Vec::new(),
            to_break: UniqueQueue::default(),
            calls: Vec::new(),
            answers: Vec::new(),
            failed: Vec::new(),
            sends_under_way: 0,
            sends_announced: 0,
            sends_exposed: 0,
            injected_bytes: 0,
            receives_posted: 0,
            undelivered: None,
            counts: Counts::default(),
        }
    }

    /// Whether the machine has requested something that waits to be done.
    pub(super) fn has_asked(&self) -> bool {
        let nothing = self.calls.is_empty()
            && self.answers.is_empty()
            && self.to_connect.is_empty()
            && self.to_disconnect.is_empty()
            && self.to_widen.is_empty()
            && self.to_break.is_empty()
            && self.failed.is_empty();
        !nothing
    }

    /// Queues one-sided work with a peer. What the messages' protocols need goes before what the application posts:
    /// that may wait for a fence or a credit, and so for messages that are under way.
    pub(super) fn add_work(&mut self, peer: PeerId, work: Work) {
        let Some(known) = self.peers.get_mut(peer) else { return };
        let before = if work.is_user() { None } else { known.work.iter().position(Work::is_user) };
        known.work.insert(before.unwrap_or(known.work.len()), work);
        if !known.is_listed {
            known.is_listed = true;
            self.listed.push_back(peer);
        }
    }

    /// A request of the application with a peer is over.
    pub(super) fn finish(&mut self, peer: PeerId, event: Event) {
        self.sends_under_way -= 1;
        if let Some(known) = self.peers.get_mut(peer) {
            known.under_way = known.under_way.saturating_sub(1);
        }
        if let (Some(undelivered), Err(failure)) = (&mut self.undelivered, &event.outcome) {
            undelivered.requests += 1;
            undelivered.reason.get_or_insert_with(|| failure.clone());
        }
        self.complete(event);
    }

    /// Completes sends whose memory is not used any more: of each peer in the order in which they were sent. Returns
    /// whether there were any.
    pub(super) fn complete_unused(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.in_use.len() {
            let Some(peer) = self.in_use.pop() else { break };
            any |= self.complete_unused_of(peer);
        }
        any
    }

    fn complete_unused_of(&mut self, peer: PeerId) -> bool {
        let mut any = false;
        while let Some(known) = self.peers.get_mut(peer)
            && let Some(mut first) = known.in_use.pop_front()
        {
            if first.memory.unregister().is_err() {
                known.in_use.push_front(first);
                self.in_use.push(peer);
                break;
            }
            first.event.buffer = first.memory.into_buffer();
            self.finish(peer, first.event);
            any = true;
        }
        any
    }

    /// Reports an event to the application. The thread that runs the NIC holds the engine meanwhile.
    pub(super) fn complete(&self, event: Event) {
        callback::run(|| self.sink.complete(event));
    }

    /// Warns the application of what would else only show as a standstill.
    pub(super) fn warn(&self, warning: &Warning) {
        callback::run(|| self.sink.warn(warning));
    }

    /// What a failure of the messages' protocol means to the application.
    fn explain(&self, failure: Failure, peer: Option<PeerId>, room: u64) -> EndpointFailure {
        match failure {
            Failure::Truncated { length } => EndpointFailure::Truncated { length, room },
            Failure::Canceled => EndpointFailure::Canceled,
            Failure::NoMemory => EndpointFailure::NoMemory,
            Failure::Refused => EndpointFailure::Refused,
            Failure::PeerLost => self.why_lost(peer),
        }
    }

    /// Why nothing is possible with a peer.
    pub(super) fn why_lost(&self, peer: Option<PeerId>) -> EndpointFailure {
        peer.and_then(|peer| self.peers.get(peer))
            .and_then(|peer| peer.failure.clone())
            .unwrap_or(EndpointFailure::Lost(crate::error::ConnectionError::Closed))
    }
}

/// What is counted where the engine's counters are out of reach. The names are theirs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) endpoint_sends: u64,
    pub(super) endpoint_sent_bytes: u64,
    pub(super) endpoint_receives: u64,
    pub(super) endpoint_received_bytes: u64,
    pub(super) endpoint_transfers: u64,
    pub(super) endpoint_transfer_bytes: u64,
    pub(super) endpoint_atomics: u64,
    pub(super) endpoint_calls: u64,
    pub(super) endpoint_packets: u64,
}

impl Counts {
    pub(super) fn move_to(&mut self, counters: &mut Counters) {
        let counts = core::mem::take(self);
        counters.endpoint_sends += counts.endpoint_sends;
        counters.endpoint_sent_bytes += counts.endpoint_sent_bytes;
        counters.endpoint_receives += counts.endpoint_receives;
        counters.endpoint_received_bytes += counts.endpoint_received_bytes;
        counters.endpoint_transfers += counts.endpoint_transfers;
        counters.endpoint_transfer_bytes += counts.endpoint_transfer_bytes;
        counters.endpoint_atomics += counts.endpoint_atomics;
        counters.endpoint_calls += counts.endpoint_calls;
        counters.endpoint_packets += counts.endpoint_packets;
    }
}

impl Host for NicHost {
    type Send = Outbound;
    type Receive = Inbound;

    fn connect(&mut self, peer: PeerId) {
        self.to_connect.push(peer);
    }

    fn disconnect(&mut self, peer: PeerId) {
        self.to_disconnect.push(peer);
    }

    fn make_room(&mut self, peer: PeerId, packets: u16) {
        self.to_widen.push((peer, packets));
    }

    fn fetch(&mut self, send: &Outbound, offset: u64, out: &mut [u8]) {
        let offset = offset as usize;
        match &send.memory {
            Outgoing::Small { bytes, .. } => out.copy_from_slice(&bytes[offset..offset + out.len()]),
            Outgoing::Lent(memory) => {
                if memory.copy_out(offset, out, &mut NoDigest).is_err() && !send.has_faulted.replace(true) {
                    // The message was begun, or is to be, and can't be completed: the peer learns of it by the
                    // connection's end.
                    self.to_break.push(send.peer);
                }
            }
        }
    }

    fn place(&mut self, receive: &mut Inbound, offset: u64, bytes: &[u8]) {
        receive.place(offset, bytes);
    }

    fn expose_source(&mut self, _: PeerId, send: &mut Outbound) -> Result<Parts, Failure> {
        if self.sends_exposed >= MOST_EXPOSED && send.length() <= LONGEST_WRITTEN {
            return Ok(Parts::new());
        }
        let memory = send.lent()?;
        // The sender does not change it until the receiver reports that it has the message.
        let access = Access::REMOTE_READ | Access::STEADY;
        ensure_registered(memory, &self.registry, self.domain, access).map_err(|_| Failure::NoMemory)?;
        self.sends_exposed += usize::from(!core::mem::replace(&mut send.is_exposed, true));
        let memory = send.lent()?;
        Ok(parts_of(memory.regions(), 0, memory.length() as u64))
    }

    fn conceal_source(&mut self, send: &mut Outbound) {
        self.sends_exposed -= usize::from(core::mem::take(&mut send.is_exposed));
        if let Ok(memory) = send.lent() {
            // Answers to reads hold it no longer than they are sent.
            let _ = memory.unregister();
        }
    }

    fn expose_sink(&mut self, _: PeerId, receive: &mut Inbound, offset: u64, length: u64) -> Result<Parts, Failure> {
        // Other bytes of it may be another message's, or the application's to keep.
        let (registry, range) = (&self.registry, (offset as usize, length as usize));
        let regions = receive
            .memory
            .register_range(registry, self.domain, Access::REMOTE_WRITE, range, offset)
            .map_err(|_| Failure::NoMemory)?;
        Ok(parts_of(regions, 0, length))
    }

    fn conceal_sink(&mut self, receive: &mut Inbound, offset: u64) {
        let _ = receive.memory.unregister_range(offset);
    }

    fn read(&mut self, peer: PeerId, ticket: Ticket, receive: &mut Inbound, offset: u64, source: RemotePart) {
        let registered = ensure_registered(&mut receive.memory, &self.registry, self.domain, Access::LOCAL_WRITE);
        let sink = registered.ok().and_then(|()| gather_of(receive.memory.regions(), offset, source.length));
        let Some(sink) = sink else {
            self.failed.push(ticket);
            return;
        };
        let source = RemoteTarget { stag: source.stag, offset: source.offset };
        self.add_work(peer, Work::Protocol { ticket, operation: Operation::Read { sink, source } });
    }

    fn write(&mut self, peer: PeerId, ticket: Ticket, send: &mut Outbound, offset: u64, sink: RemotePart) {
        let (registry, domain) = (self.registry.clone(), self.domain);
        let payload = send.lent().ok().and_then(|memory| {
            ensure_registered(memory, &registry, domain, Access::LOCAL_READ).ok()?;
            gather_of(memory.regions(), offset, sink.length).map(Payload::Gather)
        });
        let Some(payload) = payload else {
            self.failed.push(ticket);
            // The notice that the write is done would be sent behind it.
            self.to_break.push(peer);
            return;
        };
        let target = RemoteTarget { stag: sink.stag, offset: sink.offset };
        self.add_work(peer, Work::Protocol { ticket, operation: Operation::Write { payload, target } });
    }

    fn allocate(&mut self, peer: PeerId, length: u64) -> Option<(BufferId, RemotePart)> {
        // Memory that was used before costs no faults; its STag is a new one each time.
        let size = usize::try_from(length).ok()?.checked_next_multiple_of(Buffer::PAGE)?.max(Buffer::PAGE);
        let id = self.peers.get(peer).map_or(0, |peer| peer.id);
        let buffer = match self.spare.take(size, id) {
            Some(buffer) => buffer,
            None => Buffer::zeroed(size).ok()?,
        };
        let region = self.registry.register(self.domain, buffer, Access::REMOTE_WRITE, 0).ok()?;
        let part = RemotePart { stag: region.stag(), offset: region.base(), length };
        Some((BufferId(u64::from(self.buffers.add((region, id)))), part))
    }

    fn unload(&mut self, buffer: BufferId, receive: &mut Inbound, offset: u64, length: u64) {
        let Some((region, _)) = self.buffers.get(buffer.0 as u32) else { return };
        let mut chunk = [0; 4096];
        let mut done = 0;
        while done < length {
            let now = (length - done).min(chunk.len() as u64) as usize;
            // Inside of the region, which is this endpoint's own.
            let _ = region.read(done, &mut chunk[..now]);
            receive.place(offset + done, &chunk[..now]);
            done += now as u64;
        }
    }

    fn free(&mut self, buffer: BufferId) {
        let Some((region, id)) = self.buffers.remove(buffer.0 as u32) else { return };
        // What the peer still writes there comes too late: then the memory goes when that is over.
        if let Ok(buffer) = region.deregister() {
            self.spare.keep(buffer, id);
        }
    }

    fn announced(&mut self, send: &mut Outbound) {
        self.sends_announced += usize::from(!core::mem::replace(&mut send.is_announced, true));
    }

    fn sent(&mut self, send: Outbound, outcome: Result<(), Failure>) {
        let Outbound { peer, context, op_flags, tagged, injected, is_announced, is_exposed, .. } = send;
        self.sends_announced -= usize::from(is_announced);
        self.sends_exposed -= usize::from(is_exposed);
        self.injected_bytes -= injected;
        let length = send.length();
        let outcome = outcome.map_err(|failure| self.explain(failure, Some(peer), 0));
        let outcome = if send.has_faulted.get() { Err(EndpointFailure::Fault) } else { outcome };
        let completed = Completed::Send;
        let mut event = Event {
            completed,
            context,
            op_flags,
            tagged,
            outcome,
            peer: Some(peer),
            length,
            tag: 0,
            data: None,
            offset: 0,
            last: true,
            buffer: None,
        };
        if let Outgoing::Lent(mut memory) = send.memory {
            if memory.unregister().is_err()
                && let Some(known) = self.peers.get_mut(peer)
            {
                // The peer has it, but its acknowledgement has not come: a lower layer may send it again.
                known.in_use.push_back(InUse { event, memory });
                return self.in_use.push(peer);
            }
            event.buffer = memory.into_buffer();
        }
        self.finish(peer, event);
    }

    fn received(&mut self, receive: &mut Inbound, what: Option<Received>, outcome: Result<(), Failure>, last: bool) {
        let room = receive.memory.length() as u64;
        let peer = what.map(|what| what.source).or(receive.source);
        let outcome = outcome.map_err(|failure| self.explain(failure, peer, room));
        let outcome = if receive.has_faulted { outcome.and(Err(EndpointFailure::Fault)) } else { outcome };
        if let Some(what) = what {
            self.counts.endpoint_receives += 1;
            self.counts.endpoint_received_bytes += what.length;
        }
        let buffer = if last {
            self.receives_posted -= 1;
            core::mem::replace(&mut receive.memory, IoBuffer::empty()).into_buffer()
        } else {
            None
        };
        self.complete(Event {
            completed: Completed::Receive,
            context: receive.context,
            op_flags: receive.op_flags,
            tagged: receive.tagged,
            outcome,
            peer,
            length: what.map_or(0, |what| what.length),
            tag: what.map_or(0, |what| what.tag),
            data: what.and_then(|what| what.data),
            offset: what.map_or(0, |what| what.offset),
            last,
            buffer,
        });
    }

    fn called(&mut self, _: PeerId, call: CallId, body: &[u8]) {
        self.calls.push(Called { call, body: body.to_vec() });
    }

    fn answered(&mut self, ticket: Ticket, answer: Result<&[u8], Failure>) {
        self.answers.push(Answered { ticket, answer: answer.map(<[u8]>::to_vec) });
    }
}

/// What a send is to the machine of messages.
pub(super) fn send_of(post: SendPost) -> weft_message::Send<Outbound> {
    let (peer, tag, data, delivery) = (post.peer, post.tag, post.data, post.level == Level::Delivered);
    let user = Outbound::new(post);
    weft_message::Send { peer, tag, data, length: user.length(), delivery, user }
}

/// What a receive is to the machine of messages.
pub(super) fn receive_of(post: ReceivePost) -> weft_message::Receive<Inbound> {
    let (source, matching, many) = (post.source, post.matching, post.many);
    let length = post.memory.length() as u64;
    weft_message::Receive { source, matching, length, many, user: Inbound::new(post) }
}

#[cfg(test)]
mod tests {
    use weft_base::Stag;
    use weft_memory::{Limits, RemoteRight};

    use super::*;
    use crate::messaging::request::Address;

    struct Nobody;

    impl Completions for Nobody {
        fn complete(&self, _: Event) {}
    }

    fn host() -> NicHost {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let own = Address { id: 1, ..Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], 1))) };
        NicHost::new(registry, domain, Arc::new(Nobody), Peers::new(&own, 4))
    }

    fn can_write(host: &NicHost, stag: Stag, offset: u64, length: u32) -> bool {
        host.registry.check_remote(host.domain, stag, offset, length, RemoteRight::Write).is_ok()
    }

    #[test]
    fn a_peer_writes_its_message_and_nothing_else_of_a_receive() {
        let mut host = host();
        for many in [None, Some(100)] {
            let post = ReceivePost { many, ..ReceivePost::new(vec![0; 9000]) };
            let mut receive = Inbound::new(post);
            // The bytes before it are another peer's message, those behind it will be.
            let place = host.expose_sink(PeerId(1), &mut receive, 17, 2000).unwrap()[0];
            let other = host.expose_sink(PeerId(2), &mut receive, 2017, 10).unwrap()[0];
            assert!(can_write(&host, place.stag, place.offset, 2000) && can_write(&host, other.stag, other.offset, 10));
            assert!(!can_write(&host, place.stag, place.offset, 2001));
            assert!(!can_write(&host, place.stag, place.offset.wrapping_sub(1), 1));
            // What this side reads into it is nothing that a peer may write.
            let source = RemotePart { stag: Stag(1), offset: 0, length: 100 };
            host.read(PeerId(3), Ticket(1), &mut receive, 3000, source);
            let region = &receive.memory.regions()[0];
            assert!(!can_write(&host, region.stag(), region.base() + 3000, 1));
            host.conceal_sink(&mut receive, 17);
            assert!(!can_write(&host, place.stag, place.offset, 1) && can_write(&host, other.stag, other.offset, 10));
        }
    }
}
