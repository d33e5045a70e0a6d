//! A NIC and a peer of Edge that sets up a connection as it should, and then says what no peer should: the connection
//! ends, with the reason that the standards have for it, and never hangs.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::Edge;
use weft_nic::{ConnectionError, QueuePair, QueuePairAttributes, Settings, State};
use weft_rdmap::{Closed, StreamError};
use weft_simulate::{Behaviour, EdgePeer, SimulatedNic, World};
use weft_wire::ddp::{Header, UNTAGGED_LENGTH};
use weft_wire::edge::frame::{Close, Frame};
use weft_wire::rdmap::{Control, ControlError, Opcode};
use weft_wire::terminate::Terminate;

const NIC: ([u8; 4], u16) = ([10, 0, 0, 1], 700);
const PEER: ([u8; 4], u16) = ([10, 0, 0, 2], 4000);
const SOON: Duration = Duration::from_secs(2);
/// The first bytes of an untagged and a tagged segment, each the last of its message.
const UNTAGGED: u8 = 0x41;
const TAGGED: u8 = 0xc1;
const WRITE: u8 = 0x40;
const SEND: u8 = 0x43;

struct Bench {
    world: World,
    nic: SimulatedNic<Edge>,
    queue_pair: Arc<QueuePair>,
    peer: EdgePeer,
}

impl Bench {
    fn new() -> Self {
        let world = World::new(1, Behaviour::default());
        let nic = world.nic_over::<Edge>(Settings::default(), &[]);
        let domain = nic.registry().allocate_domain().unwrap();
        let completions = nic.create_completion_queue(16).unwrap();
        let queue_pair = nic
            .create_queue_pair(&QueuePairAttributes {
                domain,
                send_completions: Arc::clone(&completions),
                receive_completions: completions,
                send_depth: 8,
                receive_depth: 8,
                shared_receives: None,
            })
            .unwrap();
        let listener = nic.listen(NIC.into(), 1, weft_nic::Offer::default()).unwrap();
        let mut peer = EdgePeer::call(&world, SocketAddr::from(PEER), NIC.into()).unwrap();
        assert!(world.run(&[&nic], SOON, || {
            if let Ok(Some((request, _))) = listener.next_request() {
                nic.accept(request, &queue_pair, b"", None).unwrap();
            }
            peer.drive();
            peer.connection().is_some() && queue_pair.state() == State::Ready
        }));
        Self { world, nic, queue_pair, peer }
    }

    /// Lets both work for a while, or until the queue pair has ended and the peer has been notified. Returns why it
    /// ended.
    fn run(&mut self) -> Option<ConnectionError> {
        let Self { world, nic, queue_pair, peer } = self;
        world.run(&[nic], SOON, || {
            peer.drive();
            queue_pair.state().has_ended() && !peer.received().is_empty()
        });
        self.queue_pair.state().has_ended().then(|| self.queue_pair.error()).flatten()
    }

    /// The numbers of the Terminate that the peer has got.
    fn told(&self) -> Option<(u8, u8, u8)> {
        self.peer.received().iter().find_map(|ulpdu| {
            let control = Control::parse(Header::parse(ulpdu).ok()?.control).ok()?;
            let terminate = Terminate::parse(&ulpdu[UNTAGGED_LENGTH..])?;
            (control.opcode == Opcode::Terminate).then(|| terminate.code.numbers())
        })
    }
}

/// A segment that begins with these bytes: zeros, and this many bytes of payload.
fn segment(first: u8, control: u8, payload: usize) -> Vec<u8> {
    let mut ulpdu = vec![0; weft_wire::edge::frame::ddp_header_length(first) + payload];
    ulpdu[..2].copy_from_slice(&[first, control]);
    ulpdu
}

/// The error that the peer gets for a segment with another DDP version (RFC 5041 section 7.2).
const fn version_code(first: u8) -> (u8, u8, u8) {
    if first & 0x80 == 0 { (1, 2, 6) } else { (1, 1, 4) }
}

fn check_terminated(bench: &mut Bench, code: (u8, u8, u8), what: &str) {
    let error = bench.run();
    let is_violation = matches!(error, Some(ConnectionError::Stream(StreamError::Violation(_))));
    assert!(is_violation, "{what}: {error:?}, {:?}", bench.queue_pair.state());
    assert_eq!(bench.told(), Some(code), "{what}");
}

#[test]
fn a_segment_of_another_ddp_version_is_answered_by_a_terminate() {
    for first in (0..=u8::MAX).filter(|first| first & 3 != 1) {
        for payload in [0, 8] {
            let mut bench = Bench::new();
            bench.peer.send_segment(&segment(first, SEND, payload));
            check_terminated(&mut bench, version_code(first), &format!("{first:#04x}, {payload} bytes"));
        }
    }
}

/// Any value of RDMAP's control byte (RFC 5040 section 4.8).
#[test]
fn a_segment_of_another_rdmap_version_or_opcode_is_answered_by_a_terminate() {
    for control in 0..=u8::MAX {
        let code = match Control::parse(control) {
            Ok(_) => continue,
            Err(ControlError::Version(_)) => (0, 2, 5),
            Err(ControlError::Opcode(_)) => (0, 2, 6),
        };
        for first in [UNTAGGED, TAGGED] {
            let mut bench = Bench::new();
            bench.peer.send_segment(&segment(first, control, 8));
            check_terminated(&mut bench, code, &format!("{first:#04x} {control:#04x}"));
        }
    }
}

/// What comes before its turn may be damaged by what comes before it; it is judged in its turn.
#[test]
fn an_unreadable_segment_is_judged_in_its_turn() {
    for (first, control, code) in [(0x40, SEND, (1, 2, 6)), (0xc2, WRITE, (1, 1, 4)), (UNTAGGED, 0x83, (0, 2, 5))] {
        let mut bench = Bench::new();
        bench.peer.send_segment_at(1, &segment(first, control, 8));
        assert_eq!(bench.run().map(|error| error.to_string()), None, "{first:#04x}: its turn has not come");
        // A Write without bytes: it takes one position.
        bench.peer.send_segment_at(0, &segment(TAGGED, WRITE, 0));
        bench.peer.send_segment_at(1, &segment(first, control, 8));
        check_terminated(&mut bench, code, &format!("{first:#04x} {control:#04x}"));
    }
}

#[test]
fn an_unreadable_segment_is_judged_where_a_part_of_it_is_in_place() {
    for (first, control, code) in [(0x40, SEND, (1, 2, 6)), (0xc2, WRITE, (1, 1, 4)), (UNTAGGED, 0x83, (0, 2, 5))] {
        let mut bench = Bench::new();
        bench.peer.send_segment_at(5, &segment(TAGGED, WRITE, 0));
        bench.run();
        bench.peer.send_segment_at(0, &segment(first, control, 20));
        check_terminated(&mut bench, code, &format!("{first:#04x} {control:#04x}"));
    }
}

/// A peer closes when all that it has sent is acknowledged. One that names an end which nothing has reached is not
/// taken to have closed in good order.
#[test]
fn a_close_that_names_an_end_which_nothing_has_reached_is_an_error() {
    for (end, expected) in [(0, None), (1, Some(Closed::MidFrame)), (1000, Some(Closed::MidFrame))] {
        let mut bench = Bench::new();
        bench.peer.send_frame(&Frame::Close(Close { abortive: false, end, reason: &[] }));
        let error = bench.run();
        let expected = expected.map(|how| ConnectionError::Stream(StreamError::Lost(how)).to_string());
        assert_eq!(error.map(|error| error.to_string()), expected, "end {end}");
        assert!(bench.queue_pair.state().has_ended(), "end {end}: {:?}", bench.queue_pair.state());
    }
}
