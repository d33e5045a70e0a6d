//! Peers at a datagram port that have no connection.

use weft_edge::setup::{Acceptor, AcceptorSettings, Answering, Fresh, HelloOutcome, Key};
use weft_wire::edge::ConnectionId;
use weft_wire::edge::setup::{NONCE_LENGTH, Reject};

use core::time::Duration;

use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::lower::{CallOutcome, DatagramPorts, Destination, Io, Unmatched};
use crate::offer::{LowerStartError, StartError, StartReason};

use super::state::{Deciding, Edge, Phase};

/// How long a cookie is good.
const COOKIE_LIFETIME: Duration = Duration::from_secs(10);

/// The acceptor of one port, and the key from which reset tokens are made.
pub struct EdgeAcceptor {
    pub(super) inner: Acceptor,
    has_key: bool,
}

impl EdgeAcceptor {
    pub(super) fn new(host: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> Self {
        let of = |bytes: &[u8]| Key::new(bytes).expect("32 bytes are enough for a key");
        let settings = AcceptorSettings {
            key: key.map(setup_key),
            host: of(&host),
            secret: of(&secret),
            cookie_lifetime: COOKIE_LIFETIME,
        };
        Self { inner: Acceptor::new(settings), has_key: key.is_some() }
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
    let secret = core::array::from_fn(|at| bytes[32 + at]);
    // Zero means that there is none.
    Fresh { id: ConnectionId(number(0).max(1)), nonce, seed: number(8), secret }
}

/// Which connection a datagram is for.
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

/// How many of these datagrams are for the one that the first is for: one, if it is not a connection's packet.
pub(super) fn same_destination(datagrams: &[u8], size: usize) -> usize {
    weft_wire::edge::packets_in_row(datagrams, size).max(1)
}

/// Whose datagram it is that is quoted: a connection that the peer calls so, or a call of this name.
pub(super) fn quoted(datagram: &[u8]) -> Destination {
    match weft_wire::edge::destination(datagram) {
        Ok(weft_wire::edge::Destination::Connection(id)) => Destination::Forgotten(id.0),
        Ok(weft_wire::edge::Destination::Setup { destination: ConnectionId(0), source }) => Destination::Own(source.0),
        _ => Destination::Nobody,
    }
}

/// A peer calls, or names a connection that is not known.
pub(super) fn on_unmatched<S>(
    acceptor: &mut EdgeAcceptor,
    unmatched: &Unmatched<'_>,
    io: &mut Io<'_, S>,
    answer: &mut Vec<u8>,
) -> CallOutcome<Edge> {
    use weft_wire::edge::Destination as For;
    let Unmatched { datagram, port, offer, is_crowded } = unmatched;
    let called = match weft_wire::edge::destination(datagram.bytes) {
        Ok(For::Setup { destination, .. }) if destination == ConnectionId::default() => *offer,
        // Of a connection, or an answer to a call that was given up: the peer gets a reset.
        Ok(For::Connection(id) | For::Setup { destination: id, .. }) => {
            answer.extend(acceptor.inner.reset(datagram.bytes, id).into_iter().flatten());
            None
        }
        Ok(For::Reset { .. }) | Err(_) => None,
    };
    let Some(offer) = called else { return CallOutcome::Nothing };
    match acceptor.inner.on_hello(datagram.bytes, datagram.from, *is_crowded, io.now, answer) {
        HelloOutcome::Dropped | HelloOutcome::Answered => CallOutcome::Nothing,
        HelloOutcome::Refused(reason) => CallOutcome::Refused(refusal(reason, acceptor.has_key)),
        // It was recorded, and is replayed from elsewhere.
        HelloOutcome::Call(call) if !io.datagrams.note_call(call.name()) => CallOutcome::Nothing,
        HelloOutcome::Call(call) => {
            let answering = Answering::new(&call, &acceptor.inner, fresh(io.datagrams));
            let deciding = Phase::Deciding(Box::new(Deciding { answering, offer, asked: false }));
            let mut edge = Edge::new(*port, datagram.from, deciding);
            edge.see_local(datagram.to, io);
            CallOutcome::Call(edge)
        }
    }
}

/// The error that the listener reports for a caller that was refused.
fn refusal(reason: Reject, has_key: bool) -> ConnectionError {
    let words = match reason {
        Reject::Key if has_key => "the caller has no job key, as this side has",
        Reject::Key => "the caller wants a job key",
        Reject::OtherKey => "the caller has another job key than this side",
        _ => "the caller wants what this side does not understand: its Weft is of another age",
    };
    failed(StartReason::Incompatible, words)
}

pub(super) fn failed(reason: StartReason, words: &'static str) -> ConnectionError {
    ConnectionError::Start(StartError { reason, lower: LowerStartError::Other(words) })
}
