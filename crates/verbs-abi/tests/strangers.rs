//! Calls of strangers at the port of a process: records that are cut, lengthened, changed, false or said again are
//! refused, and the queue pair that waits there still gets its peer.

#[allow(dead_code, reason = "loopback.rs uses the rest")]
mod ends;

use std::env;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::process::Command;

use weft::verbs::{
    Access, ConnectOptions, ConnectionError, Context, Error, ListenOptions, Offer, QueuePairOptions, StartError,
    StartReason, Transport,
};
use weft_base::Random;
use weft_verbs::abi::*;

use ends::{Device, End, PATIENCE};

/// The first of the ports of processes, and their number.
const PORTS: (u16, u32) = (0x6000, 4096);

/// What carries connections of the process.
const CARRIER: &str = "WEFT_VERBS_CARRIER";

/// A refusal, by its byte (`rendezvous/record.rs`).
const NOT_THERE: u8 = 1;
const OTHER: u8 = 2;
const DIFFERS: u8 = 3;
const STRANGER: u8 = 4;

fn octets(device: &Device) -> [u8; 16] {
    let [high, low] = device.gid.raw.map(u64::to_ne_bytes);
    [high, low].concat().try_into().unwrap()
}

fn address(device: &Device) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(octets(device))).to_canonical()
}

/// Takes messages from the queue pair `peer`, and sends to it.
fn connect_to(end: &End<'_>, peer: u32) {
    end.receive_from(peer);
    end.send_with(0);
}

/// A message arrives.
fn send(from: &End<'_>, to: &End<'_>) {
    assert_eq!(to.post_receive(1, to.entry(0, 64)), 0);
    assert_eq!(from.post(End::request(2, IBV_WR_SEND), from.entry(0, 9)), 0);
    to.expect(1, IBV_WC_SUCCESS);
    from.expect(2, IBV_WC_SUCCESS);
}

/// The record that the peer `from` would send to `to`, as `rendezvous/record.rs` describes it.
fn record(device: &Device, from: u32, to: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(b"WEFTVRB\x01");
    bytes[8..24].copy_from_slice(&octets(device));
    bytes[24..40].copy_from_slice(&octets(device));
    for (at, word) in [(40, from), (44, to), (52, 1 << 31), (60, 77)] {
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    bytes[56] = IBV_QPT_RC as u8;
    bytes[57] = IBV_MTU_1024 as u8;
    bytes
}

/// What strangers call by.
fn transport() -> Transport {
    env::var(CARRIER).ok().and_then(|name| Transport::of_name(&name)).unwrap_or(Transport::Edge)
}

/// Calls the process of the queue pair `to` with these bytes: what it answers.
fn call(device: &Device, stranger: &Context, to: u32, bytes: &[u8]) -> Vec<u8> {
    let remote = SocketAddr::new(address(device), PORTS.0 + (to % PORTS.1) as u16);
    let domain = stranger.allocate_protection_domain().unwrap();
    let queue = stranger.create_completion_queue(16).unwrap();
    let options = QueuePairOptions { send_depth: 1, receive_depth: 1 };
    let queue_pair = domain.create_queue_pair_with(&queue, &queue, None, &options).unwrap();
    let offer = Offer { transport: transport(), ..ConnectOptions::default().offer };
    let local = Some(SocketAddr::new(address(device), 0));
    let options = ConnectOptions { local, private_data: bytes.to_vec(), offer, ..ConnectOptions::default() };
    match queue_pair.connect(remote, &options) {
        Err(Error::Connection(ConnectionError::Start(StartError {
            reason: StartReason::Rejected { private_data },
            ..
        }))) => private_data.to_vec(),
        other => panic!("the call with {bytes:?} came to {other:?}"),
    }
}

#[test]
fn strangers_are_refused_and_the_peer_is_not() {
    let device = Device::open();
    let stranger = Context::open().unwrap();
    let (mut one, mut other) = (End::new(&device), End::new(&device));
    // The one with the greater number waits for the call of the other.
    if one.number() < other.number() {
        (one, other) = (other, one);
    }
    one.initialize();
    other.initialize();
    connect_to(&one, other.number());
    let (from, to) = (other.number(), one.number());
    let right = record(&device, from, to);
    let refusal = |bytes: &[u8]| call(&device, &stranger, to, bytes);

    assert_eq!(refusal(&[]), [DIFFERS], "nothing");
    assert_eq!(refusal(&right[..63]), [DIFFERS], "cut");
    assert_eq!(refusal(&[&right[..], &[0]].concat()), [DIFFERS], "lengthened");
    assert_eq!(refusal(&[b'x'; 256]), [DIFFERS], "no record");
    let changed = |at: usize, bit: u8| {
        let mut bytes = right;
        bytes[at] ^= bit;
        bytes
    };
    assert_eq!(refusal(&changed(7, 2)), [DIFFERS], "of another version");
    assert_eq!(refusal(&changed(23, 1)), [STRANGER], "from another address");
    assert_eq!(refusal(&changed(39, 1)), [OTHER], "to another address");
    assert_eq!(refusal(&changed(42, 1)), [OTHER], "of another queue pair");
    assert_eq!(refusal(&changed(45, 1)), [NOT_THERE], "to no queue pair");
    assert_eq!(refusal(&changed(50, 1)), [DIFFERS], "with another PSN");
    assert_eq!(refusal(&changed(56, 1)), [DIFFERS], "of another type");
    // Whatever is changed of what it must fit. (A depth, the MTU and the random number are free.)
    let mut random = Random::new(9);
    for _ in 0..40 {
        let bytes = changed(random.below(52) as usize, 1 << random.below(8));
        assert_eq!(refusal(&bytes).len(), 1, "{bytes:?}");
    }

    connect_to(&other, one.number());
    send(&other, &one);
    // A third one waits, so that calls are answered: the record of the peer, said again, replaces nothing.
    let third = End::new(&device);
    third.initialize();
    connect_to(&third, third.number() ^ 1 << 20);
    for _ in 0..3 {
        assert_eq!(refusal(&right), [NOT_THERE], "replayed");
    }
    send(&one, &other);
}

/// Another process is where the peer should be, and answers for it: it is asked again until it is the peer.
#[test]
fn who_answers_in_place_of_the_peer_is_not_taken_for_it() {
    let device = Device::open();
    let stranger = Context::open().unwrap();
    let offer = Offer { transport: transport(), ..ListenOptions::default().offer };
    let options = ListenOptions { offer, ..ListenOptions::default() };
    let listens = |port| stranger.listen(SocketAddr::new(address(&device), port), &options).ok();
    let listener = (PORTS.0..).take(PORTS.1 as usize).find_map(listens).expect("a port is free");
    // The one with the smaller number calls.
    let peer = 4094 << 12 | u32::from(listener.local_address().port() - PORTS.0);
    let one = End::new(&device);
    assert!(one.number() < peer, "the last index is taken");
    one.initialize();
    one.receive_from(peer);
    // 69 seconds.
    one.send_with(24);
    assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 9)), 0);
    let right = record(&device, peer, one.number());
    let changed = |at: usize, bit: u8| {
        let mut bytes = right;
        bytes[at] ^= bit;
        bytes.to_vec()
    };
    let answers = [vec![], right[..63].to_vec(), changed(7, 2), changed(23, 1), changed(42, 1), changed(46, 1)];
    let answers = answers.into_iter().chain([changed(50, 1), changed(56, 1), right.to_vec()]);
    let domain = stranger.allocate_protection_domain().unwrap();
    let queue = stranger.create_completion_queue(16).unwrap();
    let memory = domain.allocate(64, Access::LOCAL_WRITE).unwrap();
    for answer in answers {
        let call = listener.accept(Some(PATIENCE)).expect("it calls again");
        assert_eq!(call.info().private_data.len(), right.len());
        assert!(one.poll().is_none(), "an answer that was none of the peer's was taken");
        let options = QueuePairOptions { send_depth: 1, receive_depth: 1 };
        let queue_pair = domain.create_queue_pair_with(&queue, &queue, None, &options).unwrap();
        queue_pair.post_receive(1, &[memory.slice(..).unwrap()]).unwrap();
        call.accept(&queue_pair, &answer).unwrap();
        if answer == right {
            one.expect(2, IBV_WC_SUCCESS);
        } else {
            assert!(stranger.wait_until(Some(PATIENCE), || queue_pair.state().has_ended()), "{answer:?} is taken");
        }
    }
}

/// A process has one carrier.
#[test]
fn so_it_is_over_the_other_carriers() {
    const NAMES: [&str; 2] =
        ["strangers_are_refused_and_the_peer_is_not", "who_answers_in_place_of_the_peer_is_not_taken_for_it"];
    for carrier in ["iwarp", "shm"] {
        for name in NAMES {
            let mut one = Command::new(env::current_exe().unwrap());
            one.args(["--exact", name]).env(CARRIER, carrier);
            let ended = one.output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains("1 passed"), "{carrier}: {said}");
        }
    }
}
