//! Queue pairs in virtual time: what becomes of requests that the event loop has not taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{DomainId, Gather, Slice, Stag};
use weft_memory::Access;
use weft_mpa::{Extensions, Offer};
use weft_nic::{CompletionQueue, PostError, Progress, QueuePair, QueuePairAttributes, Settings, State};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, RawPeer, SimulatedNic, World, offer_of};
use weft_wire::ddp::{Header, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{Control, Opcode};

/// A queue pair that a peer has connected to.
struct Connected {
    world: World,
    nic: SimulatedNic,
    domain: DomainId,
    completions: Arc<CompletionQueue>,
    queue_pair: Arc<QueuePair>,
    _peer: RawPeer,
}

fn attributes(domain: DomainId, completions: &Arc<CompletionQueue>) -> QueuePairAttributes {
    QueuePairAttributes {
        domain,
        send_completions: Arc::clone(completions),
        receive_completions: Arc::clone(completions),
        send_depth: 4,
        receive_depth: 4,
        shared_receives: None,
    }
}

fn send(nic: &SimulatedNic, queue_pair: &Arc<QueuePair>) {
    let operation = Operation::Send { payload: Payload::Gather(Gather::empty()), solicited: false, invalidate: None };
    nic.post_send(
        queue_pair,
        [SendRequest { id: 1, operation, signaled: true, fence: false, flags: RequestFlags::NONE }],
    )
    .unwrap();
}

impl Connected {
    /// The NIC's own thread would run it; there is none here.
    fn by(offer: Offer) -> Self {
        Self::run_by(Progress::Thread, offer)
    }

    fn run_by(progress: Progress, offer: Offer) -> Self {
        let world = World::new(5, Behaviour::default());
        let nic = world.nic(Settings { progress, ..Settings::default() });
        let domain = nic.registry().allocate_domain().unwrap();
        let completions = nic.create_completion_queue(16).unwrap();
        let queue_pair = nic.create_queue_pair(&attributes(domain, &completions)).unwrap();
        let listener = nic.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4, weft_nic::Offer::default()).unwrap();
        let mut peer = RawPeer::connect(&world, listener.local_address()).unwrap();
        let accept = || {
            if let Ok(Some((request, _))) = listener.next_request() {
                nic.accept(request, &queue_pair, b"", None).unwrap();
            }
        };
        peer.start(&nic, offer, accept).expect("the start-up is a good one");
        assert_eq!(queue_pair.state(), State::Ready);
        Self { world, nic, domain, completions, queue_pair, _peer: peer }
    }
}

#[test]
fn what_was_posted_and_not_taken_is_flushed_once_and_lets_go_of_its_memory() {
    let Connected { world, nic, domain, completions, queue_pair, .. } = Connected::by(Offer::default());
    let region = nic.registry().register(domain, vec![1; 300], Access::LOCAL_WRITE, 0).unwrap();
    for id in 0..3 {
        let payload = Payload::Gather(Gather::from(Slice { region: region.id(), offset: id * 100, length: 100 }));
        let operation = Operation::Send { payload, solicited: false, invalidate: None };
        nic.post_send(
            &queue_pair,
            [SendRequest { id, operation, signaled: false, fence: false, flags: RequestFlags::NONE }],
        )
        .unwrap();
    }
    nic.destroy_queue_pair(&queue_pair);
    world.run(&[&nic], Duration::from_secs(1), || false);
    for id in 0..3 {
        let completion = completions.take().expect("one for each");
        assert_eq!((completion.id, completion.status), (id, Status::Flushed));
    }
    assert!(completions.take().is_none(), "and no other");
    assert_eq!(region.deregister().map(|bytes| bytes.len()).ok(), Some(300), "nothing uses it any more");
}

/// An event loop that has handed the engine over, and posts before it sleeps.
#[test]
fn a_post_takes_the_engine_back_until_it_is_handed_over_again() {
    for (progress, takes_back) in [(Progress::Hybrid, true), (Progress::Caller, false), (Progress::Thread, false)] {
        let Connected { nic, queue_pair, .. } = &Connected::run_by(progress, Offer::default());
        nic.watch();
        assert!(!nic.watch_again(), "{progress:?}: it is handed over");
        send(nic, queue_pair);
        assert_eq!(nic.watch_again(), takes_back, "{progress:?}: the post may have taken it back");
        assert!(!nic.watch_again(), "{progress:?}: it is handed over again");
    }
}

#[test]
fn reads_are_posted_only_to_a_peer_that_takes_some() {
    for (ird, expected) in [(0, Err(PostError::NoReads)), (1, Ok(()))] {
        let Connected { nic, domain, queue_pair, .. } = &Connected::by(Offer { ird, ..Offer::default() });
        let region = nic.registry().register(*domain, vec![1; 8], Access::LOCAL_WRITE, 0).unwrap();
        let sink = Gather::from(region.slice(..).unwrap());
        let operation = Operation::Read { sink, source: RemoteTarget { stag: Stag(1), offset: 0 } };
        let posted = nic.post_send(
            queue_pair,
            [SendRequest { id: 1, operation, signaled: true, fence: false, flags: RequestFlags::NONE }],
        );
        assert_eq!(posted.map(drop).map_err(|failure| failure.error), expected, "the peer takes {ird}");
    }
}

/// What a peer receives in ten seconds to which a NIC has connected: a NIC that `says` something at once, and that
/// `hears` something at once.
fn opcodes_after(says: bool, hears: bool, extensions: Extensions) -> Vec<Opcode> {
    let world = World::new(6, Behaviour::default());
    let nic = world.nic(Settings { progress: Progress::Caller, ..Settings::default() });
    let domain = nic.registry().allocate_domain().unwrap();
    let completions = nic.create_completion_queue(16).unwrap();
    let queue_pair = nic.create_queue_pair(&attributes(domain, &completions)).unwrap();
    let offer = Offer { extensions, ..Offer::default() };
    let begin = |address| nic.connect(&queue_pair, address, None, offer_of(&offer), b"").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut peer = RawPeer::called(&world, address, &nic, offer, begin).expect("the start-up is a good one");
    world.run(&[&nic], Duration::from_millis(1), || queue_pair.state() == State::Ready);
    if says {
        send(&nic, &queue_pair);
    }
    if hears {
        let mut nothing = [0; UNTAGGED_LENGTH];
        let control = Control { opcode: Opcode::Write }.emit();
        let target = Target::Tagged { stag: Stag(0), offset: 0 };
        let length = Header { last: true, control, target }.emit(&mut nothing);
        peer.send_segment(&nic, &nothing[..length]);
    }
    world.run(&[&nic], Duration::from_secs(10), || false);
    assert_eq!(queue_pair.state(), State::Ready);
    core::iter::from_fn(|| peer.poll_segment())
        .map(|segment| Control::parse(Header::parse(&segment).unwrap().control).unwrap().opcode)
        .collect()
}

#[test]
fn a_peer_that_may_have_overlooked_what_came_first_is_nudged() {
    let none = Extensions::none();
    assert_eq!(opcodes_after(true, false, none), [Opcode::Send, Opcode::Write, Opcode::Write, Opcode::Write]);
    assert_eq!(opcodes_after(true, true, none), [Opcode::Send], "it has answered");
    assert_eq!(opcodes_after(false, false, none), [], "there was nothing to be overlooked");
    let another_weft = Extensions { large_fpdus: true, ..none };
    assert_eq!(opcodes_after(true, false, another_weft), [Opcode::Send], "it overlooks nothing");
}
