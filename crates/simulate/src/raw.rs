//! A peer without a NIC: it speaks MPA by hand, so that it can say what no NIC would say.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Backlog, Listener as _, Network, Piece, Port, PortError, PortOptions, ReceivePiece, Received};
use weft_memory::Registry;
use weft_mpa::{Agreement, Deframer, Framer, Initiator, Offer, Peek, Responder, Step};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, queue};
use weft_wire::terminate::Terminate;

use crate::network::{SimulatedNetwork, SimulatedPort};
use crate::world::{SimulatedNic, World};

/// What a NIC has to offer so that its MPA wants this.
#[must_use]
pub fn offer_of(mpa: &Offer) -> weft_nic::Offer {
    let Offer { receive_markers, crc, revision, ird, ord, negotiate_depths, ready_to_receive, extensions, .. } = *mpa;
    let max_private_data = mpa.max_private_data;
    let markers = receive_markers;
    let early = false;
    let mpa = weft_nic::MpaOffer {
        crc,
        markers,
        early,
        revision,
        negotiate_depths,
        ready_to_receive,
        extensions,
        max_private_data,
    };
    weft_nic::Offer { transport: weft_nic::Transport::Iwarp, ird, ord, mpa }
}

/// How long the raw peer waits in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

fn network(world: &World) -> SimulatedNetwork {
    let registry = Registry::new(1u64, weft_memory::Limits::default());
    SimulatedNetwork::new(world.clone(), registry, &[])
}

/// A raw peer of a NIC in the same world.
pub struct RawPeer {
    world: World,
    port: SimulatedPort,
    received: Vec<u8>,
    framer: Framer,
    deframer: Deframer,
    ended: bool,
    /// Bytes that were sent, and how many of these before the first FPDU.
    sent: u64,
    started_at: Option<u64>,
}

impl RawPeer {
    /// A stream to `address`, on which nothing has been sent.
    ///
    /// # Errors
    /// No acceptor listens there.
    pub fn connect(world: &World, address: SocketAddr) -> Result<Self, PortError> {
        let mut port = network(world).connect(address, PortOptions::default())?;
        port.poll_connected()?;
        Ok(Self::on(world.clone(), port))
    }

    /// A peer at `address`: `begin` has a NIC connect to it. `None` when it does not, or when MPA's start-up fails.
    pub fn called(
        world: &World,
        address: SocketAddr,
        nic: &SimulatedNic,
        offer: Offer,
        begin: impl FnOnce(SocketAddr),
    ) -> Option<Self> {
        let mut listener = network(world).listen(address, Backlog(1), PortOptions::default()).ok()?;
        begin(listener.local_address());
        let mut port = None;
        world.run(&[nic], PATIENCE, || {
            port = listener.accept().ok().flatten();
            port.is_some()
        });
        let mut peer = Self::on(world.clone(), port?);
        peer.answer(nic, offer).then_some(peer)
    }

    /// Goes through MPA's start-up as a responder.
    fn answer(&mut self, nic: &SimulatedNic, offer: Offer) -> bool {
        let mut state = Some(Responder::new(offer));
        let mut request = None;
        let world = self.world.clone();
        world.run(&[nic], PATIENCE, || {
            self.take();
            match state.take().map(|responder| responder.handle(&self.received)) {
                Some(Step::More(responder)) => state = Some(responder),
                Some(Step::Done((done, consumed))) => {
                    self.received.drain(..consumed);
                    request = Some(done);
                }
                _ => {}
            }
            state.is_none() || self.ended
        });
        let Some((agreement, reply)) = request.and_then(|request| request.accept(b"").ok()) else { return false };
        self.framer = agreement.framer();
        self.deframer = agreement.deframer();
        self.send(nic, &reply);
        true
    }

    fn on(world: World, port: SimulatedPort) -> Self {
        Self {
            world,
            port,
            received: Vec::new(),
            framer: Framer::new(None, true),
            deframer: Deframer::new(None, true),
            ended: false,
            sent: 0,
            started_at: None,
        }
    }

    /// Goes through MPA's start-up as an initiator. `None` when it came to nothing.
    pub fn start(&mut self, nic: &SimulatedNic, offer: Offer, meanwhile: impl FnMut()) -> Option<Agreement> {
        self.start_saying(nic, offer, b"", meanwhile)
    }

    /// As [`RawPeer::start`], with this private data.
    pub fn start_saying(
        &mut self,
        nic: &SimulatedNic,
        offer: Offer,
        private_data: &[u8],
        mut meanwhile: impl FnMut(),
    ) -> Option<Agreement> {
        let (initiator, request) = Initiator::start(offer, private_data).ok()?;
        self.send(nic, &request);
        let mut state = Some(initiator);
        let mut agreement = None;
        let world = self.world.clone();
        world.run(&[nic], PATIENCE, || {
            meanwhile();
            self.take();
            match state.take().map(|initiator| initiator.handle(&self.received)) {
                Some(Step::More(initiator)) => state = Some(initiator),
                Some(Step::Done((done, consumed))) => {
                    self.received.drain(..consumed);
                    agreement = Some(done);
                }
                _ => {}
            }
            state.is_none() || self.ended
        });
        let agreement = agreement?;
        self.framer = agreement.framer();
        self.deframer = agreement.deframer();
        Some(agreement)
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, nic: &SimulatedNic, bytes: &[u8]) {
        let mut rest = bytes;
        let world = self.world.clone();
        self.sent += bytes.len() as u64;
        world.run(&[nic], PATIENCE, || {
            match self.port.send(&[Piece::Bytes(rest)]) {
                Ok(count) => rest = &rest[count..],
                Err(_) => rest = &[],
            }
            rest.is_empty()
        });
    }

    /// Sends bytes of that position in the stream of FPDUs, whatever else is sent there, and before what precedes them.
    /// Only to a NIC that has begun to take segments as they come: [`Behaviour::segments`](crate::Behaviour).
    pub fn send_at(&mut self, nic: &SimulatedNic, position: u64, bytes: &[u8]) {
        let start = *self.started_at.get_or_insert(self.sent);
        self.port.send_at(start + position, bytes);
        let world = self.world.clone();
        world.run(&[nic], Duration::from_millis(1), || false);
    }

    /// A frame around a DDP segment, with a good CRC and the markers that are due.
    pub fn frame(&mut self, segment: &[u8]) -> Vec<u8> {
        let layout = self.framer.frame(segment.len() as u32);
        let mut bytes = vec![0; layout.length()];
        let mut nothing: &[u8] = &[];
        // Copying from a slice can't fail.
        let _ = layout.write(segment, &mut nothing, &mut bytes);
        bytes
    }

    /// Sends a DDP segment in a good frame.
    pub fn send_segment(&mut self, nic: &SimulatedNic, segment: &[u8]) {
        let frame = self.frame(segment);
        self.send(nic, &frame);
    }

    /// Closes its direction.
    pub fn close(&mut self) {
        self.port.close_send();
    }

    /// Waits for the next frame of the NIC and returns its segment; `None` when the NIC has closed, or says nothing.
    pub fn receive_segment(&mut self, nic: &SimulatedNic) -> Option<Vec<u8>> {
        let mut segment = None;
        let world = self.world.clone();
        world.run(&[nic], PATIENCE, || {
            self.take();
            segment = self.next_segment();
            segment.is_some() || self.ended
        });
        segment
    }

    /// The next frame of the NIC that is here, if one is.
    pub fn poll_segment(&mut self) -> Option<Vec<u8>> {
        self.take();
        self.next_segment()
    }

    /// Waits for the Terminate of the NIC, past whatever else it sends.
    pub fn receive_terminate(&mut self, nic: &SimulatedNic) -> Option<Terminate> {
        while let Some(segment) = self.receive_segment(nic) {
            let header = Header::parse(&segment).ok()?;
            let terminates = Control::parse(header.control).is_ok_and(|control| control.opcode == Opcode::Terminate);
            if terminates && matches!(header.target, Target::Untagged { queue: queue::TERMINATE, .. }) {
                return Terminate::parse(&segment[header.length()..]);
            }
        }
        None
    }

    /// Whether the NIC has closed or broken the stream; waits for it.
    pub fn sees_end(&mut self, nic: &SimulatedNic) -> bool {
        let world = self.world.clone();
        world.run(&[nic], PATIENCE, || {
            self.take();
            self.ended
        })
    }

    /// Everything that has come and was not understood yet.
    #[must_use]
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    fn next_segment(&mut self) -> Option<Vec<u8>> {
        let Ok(Peek::Head(head)) = self.deframer.peek(&self.received) else { return None };
        let frame = self.deframer.frame(&head, &self.received)?;
        assert_eq!(frame.verify(), Ok(()), "a NIC sends good frames");
        let segment: Vec<u8> = frame.ulpdu().flatten().copied().collect();
        self.deframer.advance(&head);
        self.received.drain(..head.wire_length);
        Some(segment)
    }

    fn take(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.port.receive(&mut [ReceivePiece::Staging(&mut buffer)]) {
                Ok(Received::Bytes(count)) => self.received.extend_from_slice(&buffer[..count]),
                Ok(Received::Nothing) => return,
                Ok(Received::End) | Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
    }
}
