//! A peer of Edge that is driven by hand: it sets up a connection as a NIC does, and then sends whatever segments and
//! frames a test wants.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_base::{
    DatagramBatch, DatagramOptions, DatagramPort as _, Ecn, Gather, LocalAddress, Network as _, Piece, PortError, Time,
};
use weft_edge::setup::{Call, Caller, Fresh, Key, Outcome, SetupTimes, Words};
use weft_edge::{Batch, Connection, Meta, Options, Segment, Settings, Sink, Source, Verdict};
use weft_memory::{Limits, Registry};
use weft_wire::edge::frame::{Frame, SegmentOptions, ddp_header_length};
use weft_wire::edge::packet::{Builder, Header};
use weft_wire::edge::{ConnectionId, Destination, destination};

use crate::datagram::SimulatedDatagramPort;
use crate::world::World;

/// Packets that a test writes itself have numbers from here on, so that none is one of the connection's.
const OWN_NUMBERS: u64 = 1 << 20;
/// Bytes that a batch of datagrams, and a receive buffer, has room for.
const BUFFER: usize = 256 << 10;

/// The peer. [`EdgePeer::drive`] is to be called again and again, as the NIC at the other end runs.
pub struct EdgePeer {
    world: World,
    port: SimulatedDatagramPort,
    remote: SocketAddr,
    caller: Caller,
    connection: Option<Connection>,
    /// DDP segments that wait to be sent.
    segments: VecDeque<Vec<u8>>,
    received: Received,
    next_number: u64,
}

/// Received segments of the other end, each of them acknowledged.
#[derive(Default)]
struct Received(Vec<Vec<u8>>);

impl Sink for Received {
    fn segment(&mut self, _: u64, ulpdu: &[u8], _: u32, _: Options) -> Verdict {
        self.0.push(ulpdu.to_vec());
        Verdict::Placed
    }
}

/// The segment that is sent next. One that was given out stays at the front until the next call.
struct Waiting<'a> {
    segments: &'a mut VecDeque<Vec<u8>>,
    given: bool,
}

impl Source for Waiting<'_> {
    fn next(&mut self, _: u32) -> Option<Segment<'_>> {
        if core::mem::take(&mut self.given) {
            self.segments.pop_front();
        }
        let ulpdu = self.segments.front()?;
        self.given = true;
        let (header, bytes) = ulpdu.split_at(ddp_header_length(ulpdu[0]));
        let (gather, options) = (Gather::empty(), Options::default());
        Some(Segment { header, bytes, gather, is_steady: false, ack_now: true, options })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.given {
            self.segments.pop_front();
        }
    }
}

impl EdgePeer {
    /// Calls the listener at `remote`, from a port at `local`.
    ///
    /// # Errors
    /// The port can't be had.
    ///
    /// # Panics
    /// Never: its keys are long enough.
    pub fn call(world: &World, local: SocketAddr, remote: SocketAddr) -> Result<Self, PortError> {
        let mut network = world.network(Registry::new(1, Limits::default()), &[]);
        let port = network.bind(local, DatagramOptions::default())?;
        let host = Key::new(&[1; 32]).expect("32 bytes are enough for a key");
        let fresh = Fresh { id: ConnectionId(0x7065_6572), nonce: [2; 16], seed: 3, secret: [4; 32] };
        let words = Words { private_data: b"by hand", inbound_reads: 16, outbound_reads: 16 };
        let call = Call { to: remote, fresh, key: None, host: &host, words, times: SetupTimes::default() };
        Ok(Self {
            world: world.clone(),
            port,
            remote,
            caller: Caller::new(&call, &Settings::default(), world.now()),
            connection: None,
            segments: VecDeque::new(),
            received: Received::default(),
            next_number: OWN_NUMBERS,
        })
    }

    /// The connection, once it is established.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Has this DDP segment sent, whatever it says: the bytes from its header on.
    pub fn send_segment(&mut self, ulpdu: &[u8]) {
        self.segments.push_back(ulpdu.to_vec());
    }

    /// The DDP segments that have come.
    #[must_use]
    pub fn received(&self) -> &[Vec<u8>] {
        &self.received.0
    }

    /// Sends a packet with this frame alone, past the connection: once, and none but a segment.
    pub fn send_frame(&mut self, frame: &Frame<'_>) {
        self.send_packet(|builder| builder.frame(frame));
    }

    /// Sends a packet with a segment at this position, past the connection, and once: as
    /// [`EdgePeer::send_segment`] otherwise.
    pub fn send_segment_at(&mut self, position: u64, ulpdu: &[u8]) {
        let (header, payload) = ulpdu.split_at(ddp_header_length(ulpdu[0]));
        self.send_packet(|builder| {
            builder.segment(position, None, &SegmentOptions::default(), header);
            builder.payload(payload);
        });
    }

    fn send_packet(&mut self, write: impl FnOnce(&mut Builder<'_>)) {
        let Some(connection) = &self.connection else { return };
        let number = self.next_number;
        self.next_number += 1;
        let header = Header { ack_now: true, key_phase: false, rail: 0, destination: connection.remote_id(), number };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, &header);
        write(&mut builder);
        builder.finish();
        self.say(&bytes);
    }

    /// Takes received datagrams, and sends what is due.
    pub fn drive(&mut self) {
        let (now, mut buffer, mut runs) = (self.world.now(), vec![0; BUFFER], Vec::new());
        // A port of a simulated world does not fail to receive.
        let _ = self.port.receive(&mut buffer, &mut runs);
        for run in runs {
            for datagram in buffer[run.range.clone()].chunks(run.segment_size as usize) {
                self.take(datagram, now);
            }
        }
        self.transmit(now);
    }

    fn take(&mut self, datagram: &[u8], now: Time) {
        let Some(connection) = &mut self.connection else {
            if let Some(Outcome::Accepted(established, _)) = self.caller.receive(datagram, self.remote, now) {
                self.connection = Some(Connection::new(&established, &Settings::default(), now));
            }
            return;
        };
        if matches!(destination(datagram), Ok(Destination::Connection(_))) {
            connection.receive(datagram, &Meta { from: self.remote, local: 0, ecn: 0, now }, &mut self.received);
        }
    }

    fn transmit(&mut self, now: Time) {
        let Some(connection) = &mut self.connection else {
            let mut hello = Vec::new();
            if self.caller.transmit(now, &mut hello) {
                self.say(&hello);
            }
            return;
        };
        if connection.next_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        let mut batch = Batch::new(32, BUFFER);
        let mut source = Waiting { segments: &mut self.segments, given: false };
        while connection.transmit(&mut source, now, &mut batch) {}
        drop(source);
        for datagram in batch.datagrams.clone() {
            let bytes = whole(&batch, &batch.pieces[datagram.pieces]);
            self.say(&bytes);
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        let from: Option<LocalAddress> = None;
        let segment_size = bytes.len().max(1) as u32;
        let batch = DatagramBatch { to: self.remote.into(), from, segment_size, ecn: Ecn::NotCapable };
        // What does not go is lost, as on any network.
        let _ = self.port.send(&batch, &[Piece::Bytes(bytes)]);
    }
}

/// The bytes of a datagram whose payload is all at hand.
fn whole(batch: &Batch, pieces: &[weft_edge::Piece]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        if let weft_edge::Piece::Bytes { start, length } = *piece {
            bytes.extend_from_slice(&batch.bytes[start as usize..][..length as usize]);
        }
    }
    bytes
}
