//! A lower layer that keeps no order: segments come late, doubled, out of order, several at a time, cut in two, or not
//! before they are retransmitted. There is no MPA in it.
//!
//! It represents every lower layer to come that is not a byte stream, and its code is short, so that it can be read as
//! an example of what such a layer does:
//!
//! - It numbers what it sends. Each segment starts where the one before ends, and is as long as its payload, one more
//!   if it is the last of its message (`span`): so what was cut in two has a place in the order as well, and so has a
//!   message without payload.
//! - It keeps each segment until the other end says that it is in place, in order, and only then calls
//!   [`weft_rdmap::Stream::handle_sent`]: acknowledged means placed. What is not acknowledged in time is retransmitted.
//! - It delivers segments as they come, wherever they belong. What the stream knows already is acknowledged again, what
//!   it can't take yet is offered again later. Neither ends anything.
//! - It says when the other end has sent its end of stream only when everything before that is in place.
//! - When the stream takes nothing more, what still comes is thrown away and acknowledged, so that the other end can
//!   end, too.
//! - Whatever waits for time to pass is named in [`Pollable::next_timeout`].
//!
//! The bytes themselves go over a simulated port. The disorder is made at the receiving end, by a seed, before segments
//! are delivered.

mod receiver;
mod record;
mod sender;
mod setup;
mod wire;

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Interest, Network, Port, PortError, PortOptions, Random, Time, Token};
use weft_nic::lower::{
    Accepted, DatagramKey, Datagrams, Drained, Got, Io, Pollable, Readiness, ReceiveError, Segments, SendError, Sent,
    Setup, Stack, StartStep, StreamCell, StreamSink, Undecided,
};
use weft_nic::offer::Role;
use weft_nic::{
    ConnectionError, LowerStartError, Offer, QueuePair, RequestInfo, StartError, StartMisuse, StartReason, Transport,
};
use weft_rdmap::Stream;
use weft_wire::ddp::Header;

use self::receiver::Receiver;
use self::record::Kind;
use self::sender::Sender;
use self::setup::{Hello, MOST_PRIVATE_DATA};
use self::wire::Wire;
use crate::network::{SimulatedNetwork, SimulatedPort};

/// The tag of networks whose streams have this lower layer.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle;

impl Stack<SimulatedNetwork<Self>> for Shuffle {
    type Lower = Shuffled;
    type Scratch = ();
}

/// A mistake in the lower layer, made on purpose, so that it shows whether the checkers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleFault {
    /// None.
    Nothing,
    /// Segments are acknowledged when they come, not when they are in place.
    AcknowledgeOnArrival,
    /// A duplicate segment is delivered as if it were new.
    DuplicateAsNew,
    /// Segments are delivered as if they had come in order.
    ArrivalOrder,
}

/// How much disorder there is.
#[derive(Clone, Copy, Debug)]
pub struct Disorder {
    /// Segments in flight.
    pub window: usize,
    /// Bytes of a segment, at most.
    pub max_ulpdu: u32,
    /// One segment in this many comes late; 0: none.
    pub late_one_in: u64,
    /// By at most this long.
    pub latest: Duration,
    /// One in this many comes twice.
    pub doubled_one_in: u64,
    /// One in this many does not come.
    pub lost_one_in: u64,
    /// One in this many comes in two parts.
    pub cut_one_in: u64,
    /// Segments are delivered at multiples of this time only, all that have come by then.
    pub batch: Duration,
    /// How long an acknowledgement is waited for, at first.
    pub patience: Duration,
    /// Segments that a stream places before their turn.
    pub reorder_limit: usize,
    /// Receive requests that a stream takes at a time.
    pub receive_depth: usize,
    /// A mistake.
    pub fault: ShuffleFault,
}

impl Disorder {
    /// The disorder of this seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5348_5546_464c_4521);
        let window = 1 << random.below(7);
        let mut one_in = || if random.one_in(4) { 0 } else { 2 + random.below(30) };
        let (late_one_in, doubled_one_in, lost_one_in, cut_one_in) = (one_in(), one_in(), one_in(), one_in());
        Self {
            window,
            max_ulpdu: [128, 300, 1448, 9000, 65_000][random.below(5) as usize],
            late_one_in,
            latest: Duration::from_micros(1 + random.below(2000)),
            doubled_one_in,
            lost_one_in,
            cut_one_in,
            batch: Duration::from_nanos(1 + random.below(2) * random.below(100_000)),
            patience: Duration::from_micros(200 + random.below(4000)),
            reorder_limit: 1 + random.below(2 * window as u64) as usize,
            receive_depth: 1 + random.below(64) as usize,
            fault: ShuffleFault::Nothing,
        }
    }
}

/// How far a set-up has come.
enum Phase {
    /// The port is being connected.
    Connecting { ours: Hello },
    /// The request is out.
    Requesting { ours: Hello },
    /// A request is awaited.
    Responding { offer: Offer },
    /// It is here; the application decides.
    Deciding { offer: Offer, theirs: Hello },
    /// Agreed: segments go and come.
    Agreed,
}

/// Whether the other end knows that nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    Wanted,
    Said,
}

/// Records received from the carrier.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    any: bool,
    /// Segments that are acknowledged.
    acknowledged: usize,
}

/// The lower layer of one connection.
pub struct Shuffled {
    wire: Wire,
    phase: Phase,
    sender: Sender,
    receiver: Receiver,
    closing: Closing,
    /// A turn has sent as much as one may.
    cut_short: bool,
    random: Random,
    disorder: Disorder,
}

/// The length of a segment in the order of the stream: its payload, and one more if it is the last of its message.
/// `None`: it is no DDP segment, or nothing.
fn span(ulpdu: &[u8]) -> Option<u64> {
    let header = Header::parse(ulpdu).ok()?;
    let length = (ulpdu.len() - header.length()) as u64 + u64::from(header.last);
    (length > 0).then_some(length)
}

impl Shuffled {
    fn new(port: SimulatedPort, phase: Phase) -> Self {
        let (disorder, mut random) = port.disorder();
        let receiver = Receiver::new(disorder, random.fork());
        let (wire, sender) = (Wire::new(port), Sender::new(disorder));
        Self { wire, phase, sender, receiver, closing: Closing::No, cut_short: false, random, disorder }
    }

    /// Sends acknowledgements, segments and the end of the stream until the carrier takes no more or `most` bytes have
    /// been sent.
    fn flush(&mut self, most: usize, io: &mut Io<'_, ()>) -> Result<Sent, PortError> {
        let mut count = 0;
        self.cut_short = false;
        self.sender.handle_time(io.now, &mut self.random);
        loop {
            count += self.wire.flush(io)?;
            self.cut_short = count >= most;
            if !self.wire.is_idle() || self.cut_short || !self.write_next(io) {
                return Ok(Sent { progress: count > 0, cut_short: self.cut_short });
            }
        }
    }

    /// Begins the next record, if there is one.
    fn write_next(&mut self, io: &mut Io<'_, ()>) -> bool {
        if core::mem::take(&mut self.receiver.acknowledgement_due) {
            self.wire.write(Kind::Acknowledge, self.receiver.next, &[]);
        } else if let Some((start, ulpdu)) = self.sender.pop_due(io.now) {
            io.counters.sent_frames += 1;
            self.wire.write(Kind::Segment, start, ulpdu);
        } else if self.closing == Closing::Wanted && self.sender.is_empty() {
            self.closing = Closing::Said;
            self.wire.write(Kind::Close, self.sender.next, &[]);
        } else {
            return false;
        }
        true
    }

    /// Takes the records received from the carrier.
    fn take(&mut self, io: &mut Io<'_, ()>) -> Result<Taken, PortError> {
        let mut taken = Taken { any: self.wire.fill(io)?, acknowledged: 0 };
        while let Some(record) = self.wire.next().map_err(|_| PortError::Reset)? {
            taken.any = true;
            match record.kind {
                Kind::Segment => self.receiver.take(record.position, record.body, io.now),
                Kind::Acknowledge => {
                    let gone = self.sender.handle_acknowledged(record.position, io.now);
                    taken.acknowledged += gone.ok_or(PortError::Reset)?;
                }
                Kind::Close => self.receiver.close_at = Some(record.position),
                Kind::Request | Kind::Accept | Kind::Reject => return Err(PortError::Reset),
            }
        }
        if self.wire.is_over {
            self.receiver.hurry(io.now);
        }
        Ok(taken)
    }

    /// The same, and tells the stream what is acknowledged.
    fn take_for<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, ()>) -> Result<bool, PortError> {
        let taken = self.take(io)?;
        if taken.acknowledged > 0 {
            above.stream().handle_sent(taken.acknowledged);
        }
        Ok(taken.any)
    }

    /// How a turn of receiving has ended.
    fn end(&self) -> Option<Got> {
        if self.receiver.has_ended() {
            return Some(Got::End { whole: true });
        }
        self.wire.is_over.then_some(Got::End { whole: false })
    }
}

impl Setup<SimulatedNetwork<Shuffle>, ()> for Shuffled {
    type Opening = Hello;

    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Hello, StartMisuse> {
        check_length(private_data)?;
        Ok(Hello::new(offer, private_data))
    }

    fn connect(
        network: &mut SimulatedNetwork<Shuffle>,
        remote: SocketAddr,
        options: PortOptions,
        ours: Hello,
        _: Option<DatagramKey>,
        _: &mut Io<'_, ()>,
    ) -> Result<Self, PortError> {
        Ok(Self::new(network.connect(remote, options)?, Phase::Connecting { ours }))
    }

    fn respond(port: SimulatedPort, offer: Offer) -> Self {
        Self::new(port, Phase::Responding { offer })
    }

    fn timed_out(waited_for: Duration) -> StartError {
        let lower = LowerStartError::Other("the peer did not answer in time");
        StartError { reason: StartReason::TimedOut { waited_for }, lower }
    }

    fn drive_start(&mut self, io: &mut Io<'_, ()>) -> Result<StartStep, ConnectionError> {
        if let Phase::Connecting { ours } = &self.phase {
            let remote = self.wire.port.remote_address();
            let connected = self.wire.port.poll_connected();
            if !connected.map_err(|error| ConnectionError::Connect { remote, error })? {
                return Ok(StartStep::Idle);
            }
            self.wire.write(Kind::Request, 0, &ours.emit());
            self.phase = Phase::Requesting { ours: ours.clone() };
        }
        let any = self.wire.flush(io).and_then(|sent| Ok(sent > 0 || self.wire.fill(io)?));
        match (any.map_err(ConnectionError::Port)?, self.read_start()?) {
            (true, StartStep::Idle) => Ok(StartStep::Progress),
            (_, step) => Ok(step),
        }
    }

    fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. })
    }

    fn request(&self) -> Option<RequestInfo> {
        let Phase::Deciding { theirs, .. } = &self.phase else { return None };
        let remote = self.wire.port.remote_address();
        Some(RequestInfo {
            remote,
            local: self.wire.port.local_address().unwrap_or(remote),
            mpa_revision: None,
            peer_ird: theirs.ird,
            peer_ord: theirs.ord,
            private_data: theirs.private_data.clone(),
        })
    }

    fn accept(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        _: &mut Io<'_, ()>,
    ) -> Result<Accepted, Undecided> {
        let Phase::Deciding { offer, theirs } = &self.phase else { return Err(Undecided::Gone) };
        check_length(private_data).map_err(Undecided::Misuse)?;
        let (ird, ord) = depths.unwrap_or((offer.ird, offer.ord));
        let ours = Hello::new(&Offer { ird, ord, ..*offer }, private_data);
        let terms = self.agree(Role::Responder, &ours, theirs);
        self.wire.write(Kind::Accept, 0, &ours.emit());
        self.phase = Phase::Agreed;
        Ok(Accepted::Stands(terms))
    }

    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_, ()>) -> Result<Drained, Undecided> {
        let Phase::Deciding { offer, .. } = &self.phase else { return Err(Undecided::Gone) };
        check_length(private_data).map_err(Undecided::Misuse)?;
        self.wire.write(Kind::Reject, 0, &Hello::new(offer, private_data).emit());
        self.phase = Phase::Agreed;
        Ok(self.drain(io))
    }

    fn fail_start(&mut self, _: &ConnectionError, _: &mut Io<'_, ()>) -> Drained {
        self.wire.port.abort();
        Drained::Over
    }

    fn establish(&mut self, stream: Stream, _: &QueuePair, _: &mut Io<'_, ()>) -> StreamCell {
        StreamCell::Own(Box::new(stream))
    }
}

impl Segments<()> for Shuffled {
    fn transmit<A: StreamSink>(&mut self, above: &mut A, most: usize, io: &mut Io<'_, ()>) -> Result<Sent, SendError> {
        let mut progress = self.take_for(above, io)?;
        if self.wire.is_over && self.receiver.discards && !self.sender.is_empty() {
            // No side is left to acknowledge it.
            return Err(PortError::Reset.into());
        }
        loop {
            let took = self.sender.take(&mut above.stream(), io.registry);
            let sent = self.flush(most, io)?;
            progress |= took || sent.progress;
            if !took || sent.cut_short {
                return Ok(Sent { progress, ..sent });
            }
        }
    }

    fn receive<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, ()>) -> Result<Got, ReceiveError> {
        let any = self.take_for(above, io).map_err(ReceiveError::Port)?;
        let handed = self.receiver.deliver(above, io)?;
        let sent = self.flush(usize::MAX, io).map_err(ReceiveError::Port)?;
        if handed.over {
            return Ok(Got::Over);
        }
        let any = any || handed.progress || sent.progress;
        Ok(self.end().unwrap_or(if any { Got::Progress } else { Got::Nothing }))
    }

    fn clear_unsent(&mut self, _: &mut Io<'_, ()>) {
        self.sender.clear();
    }

    fn clear_received(&mut self, _: &mut Io<'_, ()>) {
        self.receiver.discard();
    }

    fn close_send(&mut self) {
        if self.closing == Closing::No {
            self.closing = Closing::Wanted;
        }
    }

    fn abort(&mut self, _: &mut Io<'_, ()>) {
        self.wire.port.abort();
    }

    fn drain(&mut self, io: &mut Io<'_, ()>) -> Drained {
        self.receiver.discard();
        Segments::<()>::close_send(self);
        let Ok(taken) = self.take(io) else { return Drained::Over };
        let Ok(sent) = self.flush(usize::MAX, io) else { return Drained::Over };
        let said = self.closing == Closing::Said && self.wire.is_idle();
        match said && self.receiver.close_at.is_some() || self.wire.is_over {
            true => Drained::Over,
            false if taken.any || sent.progress => Drained::Progress,
            false => Drained::Idle,
        }
    }

    fn unacknowledged(&self) -> usize {
        self.sender.bytes()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.wire.port.local_address().ok()
    }

    fn remote_address(&self) -> SocketAddr {
        self.wire.port.remote_address()
    }

    fn transport(&self) -> Transport {
        Transport::Iwarp
    }
}

impl Pollable<SimulatedNetwork<Shuffle>> for Shuffled {
    const MEASURES_TIME: bool = true;

    fn readiness(&self, _: Time) -> Readiness {
        Readiness::polled(!self.wire.is_idle() || !self.sender.is_empty() || self.closing == Closing::Wanted)
    }

    fn next_timeout(&self) -> Option<Time> {
        [self.sender.next_timeout(), self.receiver.next_timeout()].into_iter().flatten().min()
    }

    fn arm(
        &mut self,
        network: &mut SimulatedNetwork<Shuffle>,
        _: usize,
        token: Token,
        interest: Interest,
    ) -> Result<(), PortError> {
        // What waits to be acknowledged does not wait for room.
        let has_more = !self.wire.is_idle() || self.cut_short || matches!(self.phase, Phase::Connecting { .. });
        let interest = Interest { writable: interest.writable && has_more, least: 1, ..interest };
        network.arm_port(&mut self.wire.port, token, interest)
    }

    fn check_peer(&mut self, now: Time) -> Result<(), PortError> {
        self.wire.port.check_peer(now)
    }

    fn received_bytes(&self) -> u32 {
        0
    }
}

impl Datagrams<()> for Shuffled {
    type Acceptor = ();
    type Leaving = ();

    fn acceptor(_: [u8; 32], _: [u8; 32], _: Option<&weft_nic::JobKey>) {}
}

fn check_length(private_data: &[u8]) -> Result<(), StartMisuse> {
    if private_data.len() <= MOST_PRIVATE_DATA {
        return Ok(());
    }
    Err(StartMisuse::PrivateDataTooLong { given: private_data.len(), limit: MOST_PRIVATE_DATA })
}
