//! Messages that one side writes into the other's memory, or reads from there.

use weft_base::PeerId;
use weft_wire::message::{Parts, Record, RemotePart};

use slotmap::KeyData;

use super::Machine;
use super::body::{Body, Event, Step};
use super::keys::{IncomingKey, SendKey, WRITE, id};
use super::record::{Destination, Incoming};
use super::terms::Violation;
use crate::host::{Failure, Host, Ticket};

/// The queue of messages left with their senders may have this many stale entries, and twice as many as there are
/// messages.
const MANY_STAYING: usize = 64;

/// A buffer has whole pages, so it costs as much.
const BUFFER_UNIT: u64 = 4096;

impl<H: Host> Machine<H> {
    /// A transfer of [`Host::read`] or [`Host::write`] has ended. A transfer that fails while its connection is open
    /// was refused by the NIC for reasons of this side: then it must abort the connection, for later packets would be
    /// taken as the end of a write that never happened.
    pub fn handle_transferred(&mut self, ticket: Ticket, outcome: Result<(), Failure>, host: &mut H) {
        if ticket.0 & WRITE == 0 {
            self.on_read(IncomingKey::from(KeyData::from_ffi(ticket.0)), outcome, host);
        } else {
            self.on_written(SendKey::from(KeyData::from_ffi(ticket.0 & !WRITE)), outcome, host);
        }
    }

    /// A peer asks to write an unexpected message: it gets a buffer, if there is one within the budget and that is not
    /// scarce. Otherwise it waits for a receive.
    pub(super) fn allocate(&mut self, key: IncomingKey, host: &mut H) {
        let incoming = &mut self.incoming[key];
        let Body::Asked { id: peers_id } = incoming.body else { return };
        let Some(cost) = incoming.length.max(1).checked_next_multiple_of(BUFFER_UNIT) else { return };
        // Longer ones wait for their receive, whether they are read or written.
        if incoming.length > self.settings.eager_bytes
            || incoming.is_held()
            || self.budget.is_scarce()
            || !self.budget.take(cost)
        {
            return;
        }
        let Some((buffer, sink)) = host.allocate(incoming.peer, incoming.length) else {
            self.budget.release(cost);
            return;
        };
        incoming.kept += cost;
        incoming.body = Body::Buffer { buffer, is_written: false };
        let peer = incoming.peer;
        self.clear(peer, key, peers_id, [sink].into_iter().collect());
    }

    /// A message that could not be accepted when it was announced may be later.
    pub(super) fn note_staying(&mut self, key: IncomingKey) {
        let incoming = &self.incoming[key];
        if !incoming.stays() || incoming.length > self.settings.eager_bytes {
            return;
        }
        if self.staying.len() > MANY_STAYING + 2 * self.incoming.len() {
            let incoming = &self.incoming;
            self.staying.retain(|key| incoming.get(*key).is_some_and(Incoming::stays));
        }
        self.staying.push_back(key);
    }

    /// Memory was freed: messages left with their senders are fetched, oldest first, until it is scarce again, so that
    /// a program that receives many of them one by one need not wait a round trip for each.
    pub(super) fn fetch_ahead(&mut self, host: &mut H) {
        while !self.budget.is_scarce()
            && let Some(key) = self.staying.front().copied()
        {
            let from = self.incoming.get(key).filter(|incoming| incoming.stays()).map(|incoming| incoming.peer);
            // While a connection is being lost, some of its messages still wait to be failed.
            if from.is_some_and(|peer| self.peers.at(peer).is_connected()) {
                self.allocate(key, host);
                if self.incoming[key].stays() {
                    return;
                }
            }
            self.staying.pop_front();
        }
    }

    fn clear(&mut self, peer: PeerId, key: IncomingKey, peers_id: u64, sink: Parts) {
        self.peers.at(peer).arriving += 1;
        self.peers.answer(peer, Record::Clear { id: peers_id, sink_id: id(key), sink }, Vec::new());
    }

    /// A peer writes a message into its receive's memory.
    pub(super) fn clear_direct(&mut self, key: IncomingKey, destination: Destination, host: &mut H) {
        let incoming = &mut self.incoming[key];
        let Body::Asked { id: peers_id } = incoming.body else { return };
        let (peer, fitting) = (incoming.peer, destination.fitting(incoming.length));
        let receive = &mut self.receives[destination.receive];
        let sink = if fitting == 0 {
            Ok(Parts::new())
        } else {
            host.expose_sink(peer, &mut receive.user, destination.offset, fitting)
        };
        match sink {
            Ok(sink) => {
                incoming.body = Body::Direct;
                self.clear(peer, key, peers_id, sink);
            }
            Err(failure) => {
                incoming.acknowledge = Some(peers_id);
                self.finish(key, Err(failure), host);
            }
        }
    }

    fn find_incoming(&self, peer: PeerId, id: u64) -> Result<IncomingKey, Violation> {
        let key = IncomingKey::from(KeyData::from_ffi(id));
        let known = self.incoming.get(key).is_some_and(|incoming| incoming.peer == peer);
        if known { Ok(key) } else { Err(Violation("a record names a message that this side does not wait for")) }
    }

    /// A peer has written a message to its place.
    pub(super) fn on_message_written(&mut self, peer: PeerId, id: u64, host: &mut H) -> Result<(), Violation> {
        let key = self.find_incoming(peer, id)?;
        let incoming = &mut self.incoming[key];
        let step = incoming.body.on(Event::Written)?;
        let is_filled = step == Step::Fill;
        if let Body::Buffer { is_written, .. } = &mut incoming.body {
            *is_written = true;
        } else {
            self.conceal(key, host);
        }
        self.peers.at(peer).arriving -= 1;
        let incoming = &self.incoming[key];
        match incoming.destination {
            Some(destination) if is_filled => self.land(key, destination, host),
            None if is_filled && !incoming.is_discarded => {}
            _ => self.finish(key, Ok(()), host),
        }
        Ok(())
    }

    /// A peer no longer writes a message into its receive.
    pub(super) fn conceal(&mut self, key: IncomingKey, host: &mut H) {
        let incoming = &self.incoming[key];
        let Some(destination) = incoming.destination.filter(|destination| destination.fitting(incoming.length) > 0)
        else {
            return;
        };
        host.conceal_sink(&mut self.receives[destination.receive].user, destination.offset);
    }

    /// Reads the next pieces of a message. When none is left and all are here, it is finished.
    pub(super) fn read_on(&mut self, key: IncomingKey, host: &mut H) {
        let ticket = Ticket(id(key));
        let incoming = &mut self.incoming[key];
        let (peer, length) = (incoming.peer, incoming.length);
        let (Body::Source(reading), Some(destination)) = (&mut incoming.body, incoming.destination) else { return };
        let wanted = destination.fitting(length);
        let receive = &mut self.receives[destination.receive].user;
        while reading.failure.is_none()
            && reading.position < wanted
            && reading.under_way < usize::from(self.settings.fragments_under_way.max(1))
        {
            let Some(part) = reading.source.get(reading.part) else { break };
            let left = part.length - reading.part_offset;
            if left == 0 {
                reading.part += 1;
                reading.part_offset = 0;
                continue;
            }
            let length = left.min(wanted - reading.position).min(self.settings.fragment_bytes.max(1));
            let source = RemotePart { stag: part.stag, offset: part.offset + reading.part_offset, length };
            host.read(peer, ticket, receive, destination.offset + reading.position, source);
            reading.part_offset += length;
            reading.position += length;
            reading.under_way += 1;
        }
        if reading.under_way == 0 {
            let outcome = reading.failure.map_or(Ok(()), Err);
            self.peers.at(peer).arriving -= 1;
            self.finish(key, outcome, host);
        }
    }

    /// A piece of a message was read.
    fn on_read(&mut self, key: IncomingKey, outcome: Result<(), Failure>, host: &mut H) {
        let Some(incoming) = self.incoming.get_mut(key) else { return };
        let Body::Source(reading) = &mut incoming.body else { return };
        if reading.under_way == 0 {
            return;
        }
        reading.under_way -= 1;
        reading.failure = reading.failure.or(outcome.err());
        self.read_on(key, host);
    }
}
