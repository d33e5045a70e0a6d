//! Who is at a datagram port and is not known there.

use weft_edge::setup::{Answering, Door, DoorSettings, Fresh, Key, Knock};
use weft_wire::edge::ConnectionId;
use weft_wire::edge::setup::NONCE_LENGTH;

use core::time::Duration;

use crate::key::JobKey;
use crate::lower::{DatagramPorts, Destination, Io, Stray};

use super::{Deciding, Edge, Phase};

/// How long a cookie is good.
const COOKIE_LIFETIME: Duration = Duration::from_secs(10);

/// The door of one port, and the key from which reset tokens are made.
pub struct EdgeDoor {
    pub(super) door: Door,
}

impl EdgeDoor {
    pub(super) fn new(host: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> Self {
        let of = |bytes: &[u8]| Key::new(bytes).expect("32 bytes are enough for a key");
        let settings = DoorSettings {
            key: key.map(setup_key),
            host: of(&host),
            secret: of(&secret),
            cookie_lifetime: COOKIE_LIFETIME,
        };
        Self { door: Door::new(settings) }
    }
}

/// What both ends of a connection prove that they have.
pub(super) fn setup_key(key: &JobKey) -> Key {
    Key::new(&key.of_lower(b"Edge")).expect("32 bytes are enough for a key")
}

/// What makes a connection unlike any other.
pub(super) fn fresh(ports: &mut dyn DatagramPorts) -> Fresh {
    let bytes = ports.secret_bytes();
    let number = |at: usize| bytes[at..at + 8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let nonce: [u8; NONCE_LENGTH] = core::array::from_fn(|at| bytes[16 + at]);
    // Zero means that there is none.
    Fresh { id: ConnectionId(number(0).max(1)), nonce, seed: number(8) }
}

/// For whom a datagram is.
pub(super) fn destination(datagram: &[u8]) -> Destination {
    match weft_wire::edge::destination(datagram) {
        Ok(weft_wire::edge::Destination::Connection(id)) => Destination::Own(id.0),
        Ok(weft_wire::edge::Destination::Setup { destination, source }) => match destination.0 {
            0 => Destination::Peer(source.0),
            own => Destination::Own(own),
        },
        Ok(weft_wire::edge::Destination::Reset { source }) => Destination::Forgotten(source.0),
        Err(_) => Destination::Nobody,
    }
}

/// Somebody calls, or speaks of a connection that is not known.
pub(super) fn knock(door: &mut EdgeDoor, stray: &Stray<'_>, io: &mut Io<'_>, answer: &mut Vec<u8>) -> Option<Edge> {
    let Stray { datagram, port, offer, is_crowded } = stray;
    match weft_wire::edge::destination(datagram.bytes).ok()? {
        weft_wire::edge::Destination::Connection(id) => {
            if let Some(reset) = door.door.reset(datagram.bytes, id) {
                answer.extend_from_slice(&reset);
            }
            None
        }
        weft_wire::edge::Destination::Reset { .. } => None,
        // An answer to a call that was given up: who let it in is told.
        weft_wire::edge::Destination::Setup { destination, .. } if destination != ConnectionId::default() => {
            if let Some(reset) = door.door.reset(datagram.bytes, destination) {
                answer.extend_from_slice(&reset);
            }
            None
        }
        weft_wire::edge::Destination::Setup { .. } => {
            let offer = (*offer)?;
            let knock = door.door.knock(datagram.bytes, datagram.from, *is_crowded, io.now, answer);
            let Knock::Call(visit) = knock else { return None };
            let answering = Answering::new(&visit, &door.door, fresh(io.datagrams));
            let deciding = Phase::Deciding(Box::new(Deciding { answering, offer, asked: false }));
            let mut edge = Edge::new(*port, datagram.from, deciding, io.now);
            edge.see_local(datagram.to, io);
            Some(edge)
        }
    }
}
