//! Two hosts in user space on the loopback device, in this process.

use std::io;
use std::sync::Arc;

use weft_base::{Network, Waker};
use weft_driver::PacketSocket;
use weft_memory::Limits;

use super::*;
use crate::LinkNetwork;
use crate::stack::Stack;

struct Nobody;

impl Waker for Nobody {
    fn wake(&self) {}
}

/// Others use the loopback at the same time.
fn link(host: u8) -> LinkSettings {
    let [.., one, two] = std::process::id().to_be_bytes();
    format!("lo=10.{one}.{two}.{host}/24").parse().unwrap()
}

/// The same with an address of IPv6, or with one that means something on this link alone.
fn link_v6(network: &str, host: u8) -> LinkSettings {
    format!("lo={network}{:x}:{host:x}/64", std::process::id() & 0xffff).parse().unwrap()
}

fn ip(host: u8) -> IpAddr {
    link(host).first().unwrap()
}

fn registry() -> Registry {
    Registry::new(1, Limits::default())
}

fn open_with(stack: &Shared, settings: &LinkSettings, port: u16) -> Result<RawPort, PortError> {
    let local = SocketAddr::new(settings.first().unwrap(), port);
    RawPort::open(stack.clone(), registry(), settings, local, &DatagramOptions::default())
}

/// A host and a port of it; `None` where the right is missing.
fn open(host: u8) -> Option<(Shared, RawPort)> {
    open_link(&link(host))
}

fn open_link(settings: &LinkSettings) -> Option<(Shared, RawPort)> {
    let stack = match Stack::new(settings.clone(), Arc::new(Nobody)) {
        Ok(stack) => Shared::new(stack),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let port = open_with(&stack, settings, 0).unwrap();
    Some((stack, port))
}

fn batch(to: &RawPort, segment_size: u32) -> DatagramBatch {
    DatagramBatch { to: to.local_address(), from: None, segment_size, ecn: Ecn::Capable0 }
}

/// All that comes, as soon as there are this many.
fn receive(stacks: [&Shared; 2], port: &mut RawPort, wanted: usize) -> Vec<Vec<u8>> {
    let limits = port.limits();
    let mut buffer = vec![0; limits.receive_bytes as usize * limits.received as usize];
    let mut all = Vec::new();
    for _ in 0..10_000_000 {
        let mut received = Vec::new();
        port.receive(&mut buffer, &mut received).unwrap();
        all.extend(received.into_iter().map(|one| buffer[one.range].to_vec()));
        if all.len() >= wanted {
            return all;
        }
        stacks.iter().for_each(|stack| stack.lock().drive());
    }
    panic!("{} of {wanted} came", all.len());
}

#[test]
fn datagrams_find_their_neighbour_and_batches_are_cut() {
    let pairs =
        [[1, 2].map(link), [1, 2].map(|host| link_v6("fd77::", host)), [1, 2].map(|host| link_v6("fe80::", host))];
    pairs.iter().for_each(pass_datagrams);
}

fn pass_datagrams([one, other]: &[LinkSettings; 2]) {
    let (Some((here, mut one)), Some((there, mut other))) = (open_link(one), open_link(other)) else { return };
    assert_eq!(one.limits().receive_bytes as usize, (one.frames.mtu() - header_length(one.local.ip())).min(65_535));
    let stacks = [&here, &there];
    // The first one waits for the neighbour's answer.
    assert_eq!(
        one.send(&batch(&other, 9), &[Piece::Bytes(b"knock"), Piece::Bytes(b"over")]),
        Ok(DatagramSent::Taken(1))
    );
    assert_eq!(receive(stacks, &mut other, 1), [b"knockover"]);
    // The host that got the question has learnt the address of the asker.
    assert_eq!(other.send(&batch(&one, 9), &[Piece::Bytes(b"who")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(receive(stacks, &mut one, 1), [b"who"]);
    // The ring has room for few frames of the loopback, which are long.
    let bytes: Vec<u8> = (0..200).collect();
    assert_eq!(one.send(&batch(&other, 16), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(13)));
    let came = receive(stacks, &mut other, 13);
    assert!(came.iter().take(12).all(|one| one.len() == 16) && came.concat() == bytes);
    let longest = vec![7; one.limits().receive_bytes as usize];
    assert_eq!(one.send(&batch(&other, longest.len() as u32), &[Piece::Bytes(&longest)]), Ok(DatagramSent::Taken(1)));
    assert!(receive(stacks, &mut other, 1) == [longest]);
    assert_eq!(other.counters(), DatagramCounters::default());
}

#[test]
fn what_cannot_be_sent_says_why() {
    let (Some((here, mut one)), Some((_there, other))) = (open(3), open(4)) else { return };
    let longest = one.limits().receive_bytes;
    let long = vec![0; longest as usize + 1];
    let sent = one.send(&batch(&other, longest + 1), &[Piece::Bytes(&long)]);
    assert_eq!(sent, Ok(DatagramSent::TooLarge(Some(longest))));
    let mut send = |to: &str, from| {
        let to: SocketAddr = to.parse().unwrap();
        one.send(&DatagramBatch { to: to.into(), from, segment_size: 1, ecn: Ecn::NotCapable }, &[Piece::Bytes(b"x")])
    };
    assert_eq!(send("192.0.2.1:1", None), Err(PortError::Unreachable), "not of this link");
    assert_eq!(send("[::1]:1", None), Err(PortError::Unreachable));
    assert_eq!(send("[fd77::1]:1", None), Err(PortError::Unreachable));
    let foreign = Some(LocalAddress { ip: "192.0.2.1".parse().unwrap(), interface: 0 });
    assert_eq!(send(&other.local.to_string(), foreign), Err(PortError::AddressNotLocal));
    // One that does not answer gets a question, and then some frames wait for its answer.
    let nobody = SocketAddr::new(ip(99), 1).to_string();
    for _ in 0..20 {
        assert_eq!(send(&nobody, None), Ok(DatagramSent::Taken(1)));
    }
    assert_eq!(one.counters().dropped, 12);
    let taken = open_with(&here, &link(3), one.local.port());
    assert_eq!(taken.unwrap_err(), PortError::AddressInUse);
    let number = one.local.port();
    drop(one);
    assert_eq!(open_with(&here, &link(3), number).unwrap().local.port(), number);
}

#[test]
fn frames_without_a_datagram_are_counted_and_those_of_others_never_come() {
    for pair in [[5, 6].map(link), [5, 6].map(|host| link_v6("fd77::", host))] {
        hear_strangers(&pair);
    }
}

fn hear_strangers([one, other]: &[LinkSettings; 2]) {
    let (Some((here, mut one)), Some((there, mut other))) = (open_link(one), open_link(other)) else { return };
    let socket = PacketSocket::open("lo").unwrap();
    let to = other.local;
    let emit = |header: Header| {
        let mut bytes = [0; HEADER_LENGTH_IPV6];
        let length = header.emit(&mut bytes);
        bytes[..length].to_vec()
    };
    let send = |header: &[u8], bytes: &[u8]| {
        let mut frame = [[0; 6], [0; 6]].concat();
        frame.extend_from_slice(&ETHER_TYPE.to_be_bytes());
        frame.extend_from_slice(header);
        frame.extend_from_slice(bytes);
        while !socket.send(&frame).unwrap() {}
    };
    let good = Header { source: one.local, destination: to, length: 3 };
    let stranger = if to.is_ipv4() { "192.0.2.1:1" } else { "[2001:db8::1]:1" };
    let mut nearly = one.local;
    nearly.set_port(0);
    send(&emit(Header { length: 4, ..good }), b"abc");
    send(&emit(Header { source: stranger.parse().unwrap(), ..good }), b"abc");
    send(&emit(Header { source: nearly, ..good }), b"abc");
    send(&emit(Header { source: to, ..good }), b"abc");
    // These are for others, or nothing.
    let mut beside = to;
    beside.set_port(to.port() ^ 1);
    send(&emit(Header { destination: beside, ..good }), b"abc");
    let back = emit(Header { destination: one.local, source: to, ..good });
    send(&back[..back.len() - 1], b"");
    send(&[&[9][..], &emit(good)[1..]].concat(), b"abc");
    send(&emit(good), b"abcdefgh");
    assert_eq!(receive([&here, &there], &mut other, 1), [b"abc"]);
    assert_eq!(other.counters(), DatagramCounters { malformed: 4, ..DatagramCounters::default() });
    assert_eq!(one.receive(&mut [0; 100], &mut Vec::new()), Ok(0));
}

#[test]
fn the_network_says_from_where_a_peer_is_called() {
    let Ok(mut network) = LinkNetwork::with_link(registry(), link(7)) else { return };
    let [ours, theirs] = [7, 8].map(ip);
    assert_eq!(network.source_to(theirs), Some(ours));
    assert_eq!(network.source_to("127.0.0.1".parse().unwrap()), None);
    let bind = |network: &mut LinkNetwork, ip| network.bind(SocketAddr::new(ip, 0), DatagramOptions::default());
    assert!(matches!(bind(&mut network, ours), Ok(LinkDatagram::Raw(_))));
    assert!(matches!(bind(&mut network, "127.0.0.1".parse().unwrap()), Ok(LinkDatagram::Host(_))));
}
