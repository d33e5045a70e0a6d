//! A NIC and a peer that breaks the rules: below RDMA (MPA), in the start-up, and by silence. What is wrong inside a
//! segment is tested in `weft-rdmap`; here a few of those show that the whole path reports them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{Gather, MessageNumber, Slice, Stag};
use weft_memory::{Access, Region};
use weft_mpa::{Extensions, MarkerSpacing, Offer};
use weft_nic::laboratory::Split;
use weft_nic::{CompletionQueue, ConnectionError, Listener, QueuePair, QueuePairAttributes, Settings, State, Verify};
use weft_rdmap::{ReceiveRequest, Status, StreamError, Violation};
use weft_simulate::{Behaviour, RawPeer, SimulatedNic, World, offer_of, with_split};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode};
use weft_wire::terminate::TerminateCode;

const REGION: usize = 70_000;
const FILL: u8 = 0x11;

/// A NIC with one queue pair that waits for a peer, receives posted, and a region that the peer may write.
struct Victim {
    world: World,
    nic: SimulatedNic,
    completions: Arc<CompletionQueue>,
    queue_pair: Arc<QueuePair>,
    listener: Listener,
    window: Region,
    inbox: Region,
}

const RECEIVES: u64 = 3;

impl Victim {
    fn new(settings: Settings, offer: Offer) -> Self {
        let world = World::new(5, Behaviour { segment_size: 65_483, ..Behaviour::default() });
        let nic = world.nic(settings);
        let domain = nic.registry().allocate_domain().unwrap();
        let completions = nic.create_completion_queue(16).unwrap();
        let attributes = QueuePairAttributes {
            domain,
            send_completions: Arc::clone(&completions),
            receive_completions: Arc::clone(&completions),
            send_depth: 4,
            receive_depth: 4,
            shared_receives: None,
        };
        let queue_pair = nic.create_queue_pair(&attributes).unwrap();
        let register = |access| nic.registry().register(domain, vec![FILL; REGION], access, 0).unwrap();
        let window = register(Access::REMOTE_WRITE);
        let inbox = register(Access::LOCAL_WRITE);
        for id in 0..RECEIVES {
            let sink = Gather::from(Slice { region: inbox.id(), offset: id * 100, length: 100 });
            nic.post_receive(&queue_pair, ReceiveRequest { id, sink }).unwrap();
        }
        let listener = nic.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4, offer_of(&offer)).unwrap();
        Self { world, nic, completions, queue_pair, listener, window, inbox }
    }

    fn raw(&self) -> RawPeer {
        RawPeer::connect(&self.world, self.listener.local_address()).unwrap()
    }

    /// A raw peer that has been accepted.
    fn connected(&self, offer: Offer) -> RawPeer {
        let mut peer = self.raw();
        peer.start(&self.nic, offer, || self.accept()).expect("the start-up is a good one");
        peer
    }

    fn accept(&self) {
        if let Ok(Some((request, _))) = self.listener.next_request() {
            self.nic.accept(request, &self.queue_pair, b"", None).unwrap();
        }
    }

    fn run_until_over(&self) {
        assert!(self.world.run(&[&self.nic], Duration::from_secs(100), || self.queue_pair.state().has_ended()));
    }

    /// After everything: each receive has ended exactly once, flushed, and nothing was written.
    fn assert_untouched(&self) {
        self.run_until_over();
        let mut ids = Vec::new();
        while let Some(completion) = self.completions.take() {
            assert_ne!(completion.status, Status::Success);
            ids.push(completion.id);
        }
        assert_eq!(ids, (0..RECEIVES).collect::<Vec<_>>());
        for region in [&self.window, &self.inbox] {
            assert!(region.to_vec().iter().all(|byte| *byte == FILL), "bytes were placed");
        }
    }

    fn stream_error(&self) -> StreamError {
        match self.queue_pair.error() {
            Some(ConnectionError::Stream(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn write_segment(stag: Stag, offset: u64, payload: &[u8]) -> Vec<u8> {
    segment(Opcode::Write, Target::Tagged { stag, offset }, payload)
}

fn send_segment(number: u32, payload: &[u8]) -> Vec<u8> {
    let target = Target::Untagged { word: 0, queue: 0, number: MessageNumber(number), offset: 0 };
    segment(Opcode::Send, target, payload)
}

fn segment(opcode: Opcode, target: Target, payload: &[u8]) -> Vec<u8> {
    let header = Header { last: true, control: Control { opcode }.emit(), target };
    let mut bytes = vec![0; header.length()];
    header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Each way of placing, and each split.
fn all_verify() -> impl Iterator<Item = Settings> {
    let whole = [Verify::BeforePlace, Verify::LargeInPlace].map(|verify| Settings { verify, ..Settings::default() });
    whole.into_iter().chain(Split::ALL.map(|split| with_split(Settings::default(), split)))
}

/// RFC 5044 section 8: a bad CRC ends the stream with layer 2, type 0, code 2, whatever else the damage would mean.
#[test]
fn a_bad_crc_ends_the_stream_and_says_so() {
    for settings in all_verify() {
        for damaged_at in [2, 3, 5, 12, 20, 40] {
            let victim = Victim::new(settings.clone(), Offer::default());
            let mut peer = victim.connected(Offer::default());
            let mut frame = peer.frame(&send_segment(1, &[7; 50]));
            frame[damaged_at] ^= 0x10;
            peer.send(&victim.nic, &frame);
            let terminate = peer.receive_terminate(&victim.nic).expect("a Terminate");
            assert_eq!(terminate.code, TerminateCode::MpaCrc, "damaged at {damaged_at}");
            assert!(peer.sees_end(&victim.nic));
            assert_eq!(victim.stream_error_after(), StreamError::Below(TerminateCode::MpaCrc));
        }
    }
}

impl Victim {
    fn stream_error_after(&self) -> StreamError {
        self.run_until_over();
        self.stream_error()
    }
}

/// The same for a frame so large that it is read straight into its place. Its bytes may have been written, inside of
/// what was granted, but nothing is delivered.
#[test]
fn a_large_frame_with_a_bad_crc_delivers_nothing() {
    for settings in all_verify() {
        for damaged_at in [3usize, 8, 15, 100, 60_000] {
            let victim = Victim::new(settings.clone(), Offer::default());
            let mut peer = victim.connected(Offer::default());
            let mut frame = peer.frame(&write_segment(victim.window.stag(), 0, &[9; 60_000]));
            frame[damaged_at] ^= 1;
            peer.send(&victim.nic, &frame);
            let terminate = peer.receive_terminate(&victim.nic).expect("a Terminate");
            assert_eq!(terminate.code, TerminateCode::MpaCrc, "damaged at {damaged_at}, {:?}", settings.verify);
            victim.run_until_over();
            if settings.verify == Verify::BeforePlace {
                victim.assert_untouched();
            }
        }
    }
}

/// It is there already when the rest of the large frame is read into its place, and its own header has not been parsed.
#[test]
fn what_comes_behind_a_large_frame_goes_to_no_region_before_its_header_is_seen() {
    const LENGTH: usize = 40_000;
    for settings in all_verify() {
        let victim = Victim::new(settings.clone(), Offer::default());
        let mut peer = victim.connected(Offer::default());
        let mut bytes = peer.frame(&write_segment(victim.window.stag(), 0, &[9; LENGTH]));
        for number in 1..=2 {
            bytes.extend(peer.frame(&send_segment(number, &[7; 50])));
        }
        peer.send(&victim.nic, &bytes);
        let mut taken = 0;
        let done = || {
            taken += usize::from(victim.completions.take().is_some());
            taken == 2
        };
        assert!(victim.world.run(&[&victim.nic], Duration::from_secs(1), done), "{:?}", settings.verify);
        let window = victim.window.to_vec();
        assert!(window[..LENGTH].iter().all(|byte| *byte == 9));
        assert!(window[LENGTH..].iter().all(|byte| *byte == FILL), "read too far, {:?}", settings.verify);
        let inbox = victim.inbox.to_vec();
        for start in [0, 100] {
            assert!(inbox[start..start + 50].iter().all(|byte| *byte == 7));
            assert!(inbox[start + 50..start + 100].iter().all(|byte| *byte == FILL));
        }
    }
}

/// RFC 5041 section 7.1: nothing is placed for an STag that was not granted; also when the frame is large.
#[test]
fn an_invalid_stag_places_nothing() {
    for settings in all_verify() {
        for length in [10, 60_000] {
            let victim = Victim::new(settings.clone(), Offer::default());
            let mut peer = victim.connected(Offer::default());
            let wrong = Stag(victim.window.stag().0 ^ 0x0100);
            peer.send_segment(&victim.nic, &write_segment(wrong, 0, &vec![9; length]));
            let terminate = peer.receive_terminate(&victim.nic).expect("a Terminate");
            assert_eq!(terminate.code, TerminateCode::TaggedInvalidStag);
            assert!(matches!(victim.stream_error_after(), StreamError::Violation(Violation::WriteTarget { .. })));
            victim.assert_untouched();
        }
    }
}

#[test]
fn a_write_past_the_end_places_nothing() {
    for settings in all_verify() {
        for length in [10, 60_000] {
            let victim = Victim::new(settings.clone(), Offer::default());
            let mut peer = victim.connected(Offer::default());
            let offset = (REGION - length + 1) as u64;
            peer.send_segment(&victim.nic, &write_segment(victim.window.stag(), offset, &vec![9; length]));
            assert_eq!(peer.receive_terminate(&victim.nic).unwrap().code, TerminateCode::TaggedBounds);
            victim.assert_untouched();
        }
    }
}

/// The region goes while a large frame is being read into it.
#[test]
fn a_region_that_is_invalidated_in_mid_frame_is_not_written_any_more() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.connected(Offer::default());
    let frame = peer.frame(&write_segment(victim.window.stag(), 0, &[9; 60_000]));
    peer.send(&victim.nic, &frame[..20_000]);
    victim.world.run(&[&victim.nic], Duration::from_secs(1), || false);
    assert!(victim.window.invalidate());
    let before = victim.window.to_vec();
    peer.send(&victim.nic, &frame[20_000..]);
    assert_eq!(peer.receive_terminate(&victim.nic).unwrap().code, TerminateCode::TaggedInvalidStag);
    assert_eq!(victim.window.to_vec(), before, "not a byte after the invalidation");
    victim.run_until_over();
}

/// RFC 5044 section 8, code 3.
#[test]
fn a_marker_that_points_elsewhere_ends_the_stream() {
    let offer = Offer { receive_markers: Some(MarkerSpacing::Standard), ..Offer::default() };
    let victim = Victim::new(Settings::default(), offer);
    let mut peer = victim.connected(Offer::default());
    let mut frame = peer.frame(&send_segment(1, &[7; 50]));
    // The first marker is right before the first FPDU. Its pointer is wrong, and the CRC is right for that.
    frame[3] = 4;
    let end = frame.len() - 4;
    let crc = weft_wire::Crc32c::of(&frame[..end]).to_le_bytes();
    frame[end..].copy_from_slice(&crc);
    peer.send(&victim.nic, &frame);
    assert_eq!(peer.receive_terminate(&victim.nic).unwrap().code, TerminateCode::MpaMarker);
    victim.assert_untouched();
}

#[test]
fn an_end_in_the_middle_of_a_frame_is_an_error() {
    for sent in [1, 10, 40] {
        let victim = Victim::new(Settings::default(), Offer::default());
        let mut peer = victim.connected(Offer::default());
        let frame = peer.frame(&send_segment(1, &[7; 50]));
        peer.send(&victim.nic, &frame[..sent]);
        peer.close();
        assert_eq!(victim.stream_error_after(), StreamError::Lost(weft_rdmap::Closed::MidFrame));
        victim.assert_untouched();
    }
}

#[test]
fn an_end_between_frames_is_a_good_end() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.connected(Offer::default());
    peer.close();
    victim.run_until_over();
    assert_eq!(victim.queue_pair.state(), State::Closed);
    assert_eq!(victim.queue_pair.error(), None);
    assert!(peer.sees_end(&victim.nic), "the NIC closes its direction too");
    victim.assert_untouched();
}

/// RFC 7306 operations that were not agreed are unexpected opcodes.
#[test]
fn extensions_that_were_not_agreed_are_refused() {
    let victim = Victim::new(Settings::default(), Offer { extensions: Extensions::all(), ..Offer::default() });
    let mut peer = victim.connected(Offer::default());
    let target = Target::Untagged { word: 0, queue: 0, number: MessageNumber::FIRST, offset: 0 };
    peer.send_segment(&victim.nic, &segment(Opcode::Immediate, target, &[1; 8]));
    assert_eq!(peer.receive_terminate(&victim.nic).unwrap().code, TerminateCode::OperationOpcode);
    victim.assert_untouched();
}

/// RFC 5044 section 7.1.2: a peer that does not speak MPA is closed; a slow one is, too, after a time.
#[test]
fn bad_start_ups_are_closed() {
    let mut no_key = b"GET / HTTP/1.1\r\n\r\n0000".to_vec();
    no_key.resize(40, b'x');
    let mut too_long = b"MPA ID Req Frame\x40\x01".to_vec();
    too_long.extend(513u16.to_be_bytes());
    let reply = b"MPA ID Rep Frame\x40\x01\x00\x00".to_vec();
    let revision_3 = b"MPA ID Req Frame\x40\x03\x00\x00".to_vec();
    for bytes in [no_key, too_long, reply, revision_3, b"M".to_vec(), Vec::new()] {
        let victim = Victim::new(Settings::default(), Offer::default());
        let mut peer = victim.raw();
        if !bytes.is_empty() {
            peer.send(&victim.nic, &bytes);
        }
        assert!(peer.sees_end(&victim.nic), "{bytes:?}");
        assert!(peer.received().is_empty(), "nothing is said to it");
        assert!(victim.listener.next_request().unwrap().is_none(), "the application does not see it");
    }
}

/// Silent peers can't use up a listener for ever, and are dropped for others when they have been silent for a while.
#[test]
fn silent_peers_do_not_fill_a_listener_for_ever() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let silent: Vec<RawPeer> = (0..4).map(|_| victim.raw()).collect();
    let before = Duration::from_millis(500);
    victim.world.run(&[&victim.nic], before, || false);
    let mut peer = victim.raw();
    let agreed = peer.start(&victim.nic, Offer::default(), || victim.accept());
    assert!(agreed.is_some(), "its turn came when the silent ones had had their time");
    let waited = victim.world.now().since(weft_base::Time::ZERO);
    assert!(waited > before, "and not before: {waited:?}");
    assert!(waited < Settings::default().start_timeout, "nor as late as if nobody else had come: {waited:?}");
    drop(silent);
}

/// RFC 5044 section 7.1.2, rule 4: nothing may follow the request before the reply.
#[test]
fn bytes_before_the_reply_end_the_start_up() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.raw();
    peer.send(&victim.nic, b"MPA ID Req Frame\x40\x01\x00\x00");
    let waits = || victim.listener.next_request().unwrap().is_some();
    assert!(victim.world.run(&[&victim.nic], Duration::from_secs(1), waits));
    peer.send(&victim.nic, b"too early");
    assert!(peer.sees_end(&victim.nic));
}

/// The same when they come with it, and when they have come and were not yet read: it does not depend on how the stream
/// is cut.
#[test]
fn bytes_behind_a_request_are_refused_whenever_they_come() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.raw();
    peer.send(&victim.nic, b"MPA ID Req Frame\x40\x01\x00\x00too early");
    assert!(peer.sees_end(&victim.nic));
    assert!(victim.listener.next_request().unwrap().is_none(), "the application does not see it");
}

/// A call that is rejected because the application has not decided gets a rejection.
#[test]
fn who_was_not_decided_about_gets_a_rejection() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.raw();
    peer.send(&victim.nic, b"MPA ID Req Frame\x40\x01\x00\x00");
    assert!(peer.sees_end(&victim.nic));
    assert_eq!(peer.received(), b"MPA ID Rep Frame\x60\x01\x00\x00");
}

#[test]
fn an_undecided_request_is_rejected_after_a_time() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let mut peer = victim.raw();
    let agreed = peer.start(&victim.nic, Offer::default(), || {});
    assert!(agreed.is_none());
    assert!(peer.sees_end(&victim.nic));
}

/// A peer that stays silent after the connection is established costs nothing and does no harm; when the application
/// closes and the peer does not, the connection is broken after a time.
#[test]
fn a_peer_that_never_closes_is_left_after_a_time() {
    let victim = Victim::new(Settings::default(), Offer::default());
    let peer = victim.connected(Offer::default());
    victim.nic.close(&victim.queue_pair);
    victim.assert_untouched();
    drop(peer);
}

/// A region that is read goes in the middle of the response: not a byte of it is sent afterwards, where it lies ...
#[test]
fn a_region_that_is_invalidated_in_mid_response_is_not_sent_any_more() {
    let error = invalidate_in_mid_response(Access::REMOTE_READ | Access::STEADY, REGION);
    assert_eq!(error, StreamError::Below(TerminateCode::ProtectionInvalidStag));
}

/// ... and where it is copied first, but for what was copied before that.
#[test]
fn a_region_that_may_change_is_not_sent_any_more_once_it_is_invalidated_in_mid_response() {
    let error = invalidate_in_mid_response(Access::REMOTE_READ, 64 * REGION);
    assert!(matches!(error, StreamError::Violation(Violation::ReadSource { .. })), "{error:?}");
}

fn invalidate_in_mid_response(access: Access, length: usize) -> StreamError {
    let victim = Victim::new(Settings::default(), Offer::default());
    let domain = victim.queue_pair.domain();
    let secret = victim.nic.registry().register(domain, vec![0x77; length], access, 0).unwrap();
    let mut peer = victim.connected(Offer::default());
    let request = weft_wire::rdmap::ReadRequest {
        sink_stag: Stag(9),
        sink_offset: 0,
        length: length as u32,
        source_stag: secret.stag(),
        source_offset: 0,
    };
    let target = Target::Untagged { word: 0, queue: 1, number: MessageNumber::FIRST, offset: 0 };
    victim.world.set_behaviour(Behaviour { capacity: 5000, segment_size: 65_483, ..Behaviour::default() });
    peer.send_segment(&victim.nic, &segment(Opcode::ReadRequest, target, &request.emit()));
    victim.world.run(&[&victim.nic], Duration::from_secs(1), || false);
    secret.fill_with(|_| 0x78).unwrap();
    assert!(secret.invalidate());
    assert!(peer.sees_end(&victim.nic));
    assert!(!peer.received().contains(&0x78), "bytes were sent after the invalidation");
    victim.stream_error_after()
}
