//! Messages in several consecutive packets.

use weft_wire::message::Envelope;

use super::Machine;
use super::body::Body;
use super::incoming::Arrival;
use super::keys::IncomingKey;
use super::record::Incoming;
use super::terms::Violation;
use crate::host::Host;

impl<H: Host> Machine<H> {
    /// The first packet of a message in several packets.
    pub(super) fn on_start(
        &mut self,
        arrival: &mut Arrival,
        envelope: Envelope,
        acknowledge: Option<u64>,
        length: u64,
        bytes: &[u8],
        host: &mut H,
    ) -> Result<(), Violation> {
        let peer = arrival.peer;
        if self.peers.at(peer).streaming.is_some() {
            return Err(Violation("a message begins before the previous one is complete"));
        }
        let body = Body::Partial { bytes: Vec::new(), here: 0 };
        let key = self.note(Incoming::new(peer, envelope, length, acknowledge, body));
        let entry = self.peers.at(peer);
        entry.streaming = Some(key);
        entry.arriving += 1;
        if let Some(posted) = self.matcher.find_posted(peer, envelope.tag) {
            self.incoming[key].destination = Some(self.assign_posted(posted, length));
        } else {
            self.keep(arrival, key);
            if !self.incoming[key].is_held() {
                let bytes = self.pool.reserve(length as usize);
                self.incoming[key].body = Body::Partial { bytes, here: 0 };
            }
        }
        self.add(key, bytes, host)
    }

    /// A further packet of it.
    pub(super) fn on_more(&mut self, arrival: &mut Arrival, bytes: &[u8], host: &mut H) -> Result<(), Violation> {
        let Some(key) = self.peers.at(arrival.peer).streaming else {
            return Err(Violation("a further part of a message that has not begun"));
        };
        if self.incoming[key].is_held() {
            let packet = self.hold_packet(arrival);
            self.incoming[key].packets.push(packet);
        }
        self.add(key, bytes, host)
    }

    /// Stores the next bytes of a message behind those before them.
    fn add(&mut self, key: IncomingKey, bytes: &[u8], host: &mut H) -> Result<(), Violation> {
        let incoming = &mut self.incoming[key];
        let (length, peer) = (incoming.length, incoming.peer);
        let Body::Partial { bytes: kept, here } = &mut incoming.body else { return Ok(()) };
        let position = *here;
        if bytes.len() as u64 > length - position {
            return Err(Violation("more bytes of a message than it has"));
        }
        *here += bytes.len() as u64;
        let is_whole = *here == length;
        if let Some(destination) = incoming.destination {
            let fitting = destination.fitting(length).saturating_sub(position).min(bytes.len() as u64);
            if fitting > 0 {
                let receive = &mut self.receives[destination.receive].user;
                host.place(receive, destination.offset + position, &bytes[..fitting as usize]);
            }
        } else if !incoming.is_discarded {
            self.pool.append(kept, bytes);
        }
        if is_whole {
            let entry = self.peers.at(peer);
            entry.streaming = None;
            entry.arriving -= 1;
            if incoming.destination.is_some() || incoming.is_discarded {
                self.finish(key, Ok(()), host);
            } else {
                incoming.body = Body::Short(core::mem::take(kept));
            }
        }
        Ok(())
    }

    /// The received part of a message in several packets is not needed any more. The rest is stored elsewhere.
    pub(super) fn drop_partial(&mut self, key: IncomingKey) {
        if let Body::Partial { bytes, .. } = &mut self.incoming[key].body {
            self.pool.give_back(core::mem::take(bytes));
        }
        self.stop_keeping(key);
    }
}
