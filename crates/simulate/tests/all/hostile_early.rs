//! A NIC whose ports show segments as they come, and a peer that chooses what comes, where, and in which order: what is
//! right is placed at once, what is wrong ends that connection and no other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{Gather, MessageNumber, Slice, Stag};
use weft_memory::{Access, Region};
use weft_nic::{CompletionQueue, ConnectionError, Counters, Listener, QueuePair, QueuePairAttributes, Settings, State};
use weft_rdmap::{Closed, ReceiveRequest, StreamError, Violation};
use weft_simulate::{Behaviour, RawPeer, Segments, SimulatedNic, World};
use weft_wire::ddp::{Header, Target};
use weft_wire::mpa::MarkerSpacing;
use weft_wire::rdmap::{Control, Opcode};
use weft_wire::terminate::TerminateCode;

const REGION: usize = 40_000;
const FILL: u8 = 0x11;
/// Payload of a frame that has markers in it, wherever it is.
const LENGTH: usize = 1400;

/// A NIC, a region that peers may write, and a listener.
struct Victim {
    world: World,
    nic: SimulatedNic,
    listener: Listener,
    window: Region,
    attributes: QueuePairAttributes,
}

/// A connection of it.
struct Call {
    peer: RawPeer,
    queue_pair: Arc<QueuePair>,
    completions: Arc<CompletionQueue>,
    inbox: Region,
}

impl Victim {
    fn new() -> Self {
        let world = World::new(5, Behaviour { segments: Segments::AsSent, ..Behaviour::default() });
        let nic = world.nic(Settings::default());
        let domain = nic.registry().allocate_domain().unwrap();
        let completions = nic.create_completion_queue(64).unwrap();
        let attributes = QueuePairAttributes {
            domain,
            send_completions: Arc::clone(&completions),
            receive_completions: completions,
            send_depth: 4,
            receive_depth: 8,
            shared_receives: None,
        };
        let window = nic.registry().register(domain, vec![FILL; REGION], Access::REMOTE_WRITE, 0).unwrap();
        let listener = nic.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4, weft_nic::Offer::default()).unwrap();
        Self { world, nic, listener, window, attributes }
    }

    /// A peer that was accepted, with three receives posted.
    fn call(&self) -> Call {
        let completions = self.nic.create_completion_queue(64).unwrap();
        let receive_completions = Arc::clone(&completions);
        let attributes = QueuePairAttributes { receive_completions, ..self.attributes.clone() };
        let queue_pair = self.nic.create_queue_pair(&attributes).unwrap();
        let inbox = self.nic.registry().register(attributes.domain, vec![FILL; 6000], Access::LOCAL_WRITE, 0).unwrap();
        for id in 0..3 {
            let sink = Gather::from(Slice { region: inbox.id(), offset: id * 2000, length: 2000 });
            self.nic.post_receive(&queue_pair, ReceiveRequest { id, sink }).unwrap();
        }
        let mut peer = RawPeer::connect(&self.world, self.listener.local_address()).unwrap();
        let agreed = peer.start(&self.nic, weft_mpa::Offer::default(), || {
            if let Ok(Some((request, _))) = self.listener.next_request() {
                self.nic.accept(request, &queue_pair, b"", None).unwrap();
            }
        });
        let agreed = agreed.expect("the start-up is a good one");
        assert_eq!(agreed.send_markers, Some(MarkerSpacing::Standard), "it asks for them by itself");
        Call { peer, queue_pair, completions, inbox }
    }

    fn counters(&self) -> Counters {
        self.nic.counters()
    }

    fn write(&self, offset: usize, payload: &[u8]) -> Vec<u8> {
        write(self.window.stag(), offset, payload)
    }

    fn window(&self, range: core::ops::Range<usize>) -> Vec<u8> {
        self.window.to_vec()[range].to_vec()
    }
}

impl Call {
    /// Frames around these segments, and the position of each.
    fn frames(&mut self, segments: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
        let mut position = 0;
        let mut frames = Vec::new();
        for segment in segments {
            let frame = self.peer.frame(segment);
            let start = position;
            position += frame.len() as u64;
            frames.push((start, frame));
        }
        frames
    }

    fn send(&mut self, victim: &Victim, (position, bytes): &(u64, Vec<u8>)) {
        self.peer.send_at(&victim.nic, *position, bytes);
    }

    fn received(&self) -> Vec<u64> {
        core::iter::from_fn(|| self.completions.take()).map(|completion| completion.id).collect()
    }

    /// The connection ends with this code, both sides know it, and another one still works.
    fn ends_alone(mut self, victim: &Victim, code: TerminateCode) {
        assert_eq!(self.peer.receive_terminate(&victim.nic).expect("a Terminate").code, code);
        let (world, nic) = (&victim.world, &victim.nic);
        assert!(world.run(&[nic], Duration::from_secs(100), || self.queue_pair.state().has_ended()));
        match self.queue_pair.error() {
            Some(ConnectionError::Stream(StreamError::Below(below))) => assert_eq!(below, code),
            other => panic!("{other:?}"),
        }
        let mut other = victim.call();
        let frames = other.frames(&[send(1, &[5; LENGTH]), send(2, &[6; LENGTH])]);
        other.send(victim, &frames[1]);
        other.send(victim, &frames[0]);
        assert_eq!(other.received(), [0, 1]);
    }
}

fn write(stag: Stag, offset: usize, payload: &[u8]) -> Vec<u8> {
    segment(Opcode::Write, Target::Tagged { stag, offset: offset as u64 }, payload)
}

fn send(number: u32, payload: &[u8]) -> Vec<u8> {
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

/// With a CRC that fits what it is now.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let end = frame.len() - 4;
    let crc = weft_wire::Crc32c::of(&frame[..end]).to_le_bytes();
    frame[end..].copy_from_slice(&crc);
    frame
}

#[test]
fn what_comes_first_is_in_place_first_and_delivered_in_its_turn() {
    let victim = Victim::new();
    let mut call = victim.call();
    let segments = [send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH]), send(2, &[3; LENGTH])];
    let frames = call.frames(&segments);
    call.send(&victim, &frames[2]);
    assert_eq!(call.inbox.to_vec()[2000..2000 + LENGTH], [3; LENGTH], "in the buffer of the second message");
    call.send(&victim, &frames[1]);
    assert_eq!(victim.window(0..LENGTH), [2; LENGTH]);
    assert_eq!((call.received(), victim.counters().early_frames), (vec![], 2));
    call.send(&victim, &frames[0]);
    assert_eq!((call.received(), victim.counters().kept_bytes), (vec![0, 1], 0));
    assert_eq!(victim.counters().received_frames, 3);
}

#[test]
fn a_late_write_does_not_undo_a_newer_one_and_no_flag_comes_early() {
    let victim = Victim::new();
    let mut call = victim.call();
    let segments = [victim.write(0, &[1; LENGTH]), victim.write(700, &[2; LENGTH]), victim.write(5000, &[9; 8])];
    let frames = call.frames(&segments);
    call.send(&victim, &frames[1]);
    call.send(&victim, &frames[2]);
    assert_eq!(victim.window(700..700 + LENGTH), [2; LENGTH]);
    assert_eq!(victim.window(5000..5008), [FILL; 8], "what may be polled waits");
    call.send(&victim, &frames[0]);
    assert_eq!(victim.window(0..700), [1; 700]);
    assert_eq!(victim.window(700..700 + LENGTH), [2; LENGTH]);
    assert_eq!(victim.window(5000..5008), [9; 8]);
}

#[test]
fn parts_of_frames_are_kept_until_they_are_whole() {
    let victim = Victim::new();
    let mut call = victim.call();
    let frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    let all: Vec<u8> = frames.iter().flat_map(|(_, frame)| frame.iter().copied()).collect();
    let cut = frames[1].0 as usize + 600;
    call.send(&victim, &(cut as u64, all[cut..].to_vec()));
    assert_eq!(victim.window(0..LENGTH), [FILL; LENGTH]);
    assert_eq!(victim.counters().kept_bytes, (all.len() - cut) as u64);
    call.send(&victim, &(100, all[100..cut].to_vec()));
    assert_eq!(victim.window(0..LENGTH), [2; LENGTH], "its markers have told where it begins");
    assert_eq!(call.received(), []);
    call.send(&victim, &(0, all[..100].to_vec()));
    assert_eq!(call.received(), [0]);
}

#[test]
fn a_marker_that_points_nowhere_finds_nothing_and_ends_the_connection_in_its_turn() {
    let victim = Victim::new();
    let mut call = victim.call();
    let mut frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    let marker = frames[1].0.next_multiple_of(512) - frames[1].0;
    frames[1].1[marker as usize + 3] ^= 0x20;
    frames[1].1 = sealed(core::mem::take(&mut frames[1].1));
    call.send(&victim, &frames[1]);
    assert_eq!(call.queue_pair.state(), State::Ready, "judgement waits");
    call.send(&victim, &frames[0]);
    assert_eq!(victim.window(0..LENGTH), [FILL; LENGTH]);
    call.ends_alone(&victim, TerminateCode::MpaMarker);
}

#[test]
fn a_length_that_reaches_over_what_was_found_ends_the_connection() {
    let victim = Victim::new();
    let mut call = victim.call();
    let mut frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    call.send(&victim, &frames[1]);
    assert_eq!(victim.window(0..LENGTH), [2; LENGTH]);
    // Behind the first marker.
    frames[0].1[4..6].copy_from_slice(&3000_u16.to_be_bytes());
    call.send(&victim, &frames[0]);
    call.ends_alone(&victim, TerminateCode::MpaMarker);
}

#[test]
fn a_length_that_falls_short_is_damage() {
    let victim = Victim::new();
    let mut call = victim.call();
    let mut frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    frames[0].1[4..6].copy_from_slice(&300_u16.to_be_bytes());
    call.send(&victim, &frames[1]);
    call.send(&victim, &frames[0]);
    assert_eq!(call.received(), [0, 1, 2], "flushed");
    assert_eq!(call.inbox.to_vec(), [FILL; 6000]);
    call.ends_alone(&victim, TerminateCode::MpaCrc);
}

/// What came first counts, and what says otherwise of the same bytes leaves a frame that is neither.
#[test]
fn segments_that_contradict_each_other_end_the_connection() {
    let victim = Victim::new();
    let mut call = victim.call();
    let frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    let mut other = frames[1].1.clone();
    other[100..400].fill(7);
    let other = sealed(other);
    call.send(&victim, &(frames[1].0, frames[1].1[..800].to_vec()));
    call.send(&victim, &(frames[1].0, other));
    call.send(&victim, &frames[0]);
    assert_eq!(victim.window(0..LENGTH), [FILL; LENGTH], "neither is placed");
    call.ends_alone(&victim, TerminateCode::MpaCrc);
}

#[test]
fn a_frame_that_comes_again_with_other_bytes_changes_nothing() {
    let victim = Victim::new();
    let mut call = victim.call();
    let frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    call.send(&victim, &frames[1]);
    let mut other = frames[1].1.clone();
    other[100..400].fill(7);
    call.send(&victim, &(frames[1].0, sealed(other)));
    assert_eq!(victim.window(0..LENGTH), [2; LENGTH]);
    call.send(&victim, &frames[0]);
    assert_eq!((call.received(), call.queue_pair.state()), (vec![0], State::Ready));
}

#[test]
fn what_breaks_a_rule_before_its_turn_is_judged_in_its_turn() {
    let victim = Victim::new();
    let mut call = victim.call();
    let wrong = Stag(victim.window.stag().0 ^ 0x0100);
    let frames = call.frames(&[send(1, &[1; LENGTH]), write(wrong, 0, &[2; LENGTH])]);
    call.send(&victim, &frames[1]);
    assert_eq!((call.queue_pair.state(), victim.counters().early_frames), (State::Ready, 0));
    assert!(victim.counters().kept_bytes >= LENGTH as u64);
    call.send(&victim, &frames[0]);
    assert_eq!(call.received()[0], 0, "what came before it counts");
    assert_eq!(call.peer.receive_terminate(&victim.nic).unwrap().code, TerminateCode::TaggedInvalidStag);
    assert!(victim.world.run(&[&victim.nic], Duration::from_secs(100), || call.queue_pair.state().has_ended()));
    let error = call.queue_pair.error();
    let Some(ConnectionError::Stream(StreamError::Violation(Violation::WriteTarget { .. }))) = error else {
        panic!("{error:?}")
    };
}

/// More than a stream places before their turn, and small ones, which wait for it.
#[test]
fn so_many_that_come_early_are_all_there_in_the_end() {
    let victim = Victim::new();
    let mut call = victim.call();
    let mut segments = vec![send(1, &[1; LENGTH])];
    segments.extend((0..1500).map(|n| victim.write(n * 20, &[n as u8; 20])));
    segments.extend((0..300).map(|n| victim.write(30_000 + n * 8, &[n as u8; 8])));
    let frames = call.frames(&segments);
    for run in frames[1..].chunks(50).rev() {
        let bytes = run.iter().flat_map(|(_, frame)| frame.iter().copied()).collect();
        call.send(&victim, &(run[0].0, bytes));
    }
    assert_eq!((call.received(), call.queue_pair.state()), (vec![], State::Ready));
    call.send(&victim, &frames[0]);
    assert_eq!((call.received(), call.queue_pair.state()), (vec![0], State::Ready));
    assert!((0..1500).all(|n| victim.window(n * 20..n * 20 + 20) == [n as u8; 20]));
    assert!((0..300).all(|n| victim.window(30_000 + n * 8..30_008 + n * 8) == [n as u8; 8]));
}

#[test]
fn an_end_with_something_missing_is_in_the_middle_of_a_frame() {
    let victim = Victim::new();
    let mut call = victim.call();
    let frames = call.frames(&[send(1, &[1; LENGTH]), victim.write(0, &[2; LENGTH])]);
    call.send(&victim, &frames[1]);
    call.peer.close();
    assert!(victim.world.run(&[&victim.nic], Duration::from_secs(100), || call.queue_pair.state().has_ended()));
    assert_eq!(call.queue_pair.error(), Some(ConnectionError::Stream(StreamError::Lost(Closed::MidFrame))));
}
