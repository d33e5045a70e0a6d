//! Programs that answer each other where messages are acknowledged, by receipts or by Edge: an acknowledgement waits
//! for the answer and goes out with it, in the same write at the port, but never for long.

use core::time::Duration;

use weft_base::{Gather, IwarpOrEdge};
use weft_memory::{Access, Region};
use weft_nic::{Progress, Settings, Transport, WorkCompletion};
use weft_rdmap::{InlineBytes, Operation, Payload, ReceiveRequest, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, RingBehaviour, World};

pub(crate) const LIMIT: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_micros(10);
const CARRIERS: [Transport; 2] = [Transport::Iwarp, Transport::SharedMemory];
pub(crate) const ALL_CARRIERS: [Transport; 3] = [Transport::Iwarp, Transport::SharedMemory, Transport::Edge];
const ROUNDS: u64 = 200;
/// Before receipts wait for the first time, and where a queue of receives is half used up.
const FEW: u64 = 24;

/// One end, and the program that uses it.
pub(crate) struct Program<'a> {
    end: &'a End<IwarpOrEdge>,
    inbox: Region,
    pub(crate) posted: u64,
    /// Sends that are complete.
    pub(crate) sent: u64,
    received: u64,
    /// It posts a receive for each that was taken.
    posts_again: bool,
}

impl<'a> Program<'a> {
    pub(crate) fn new(end: &'a End<IwarpOrEdge>) -> Self {
        let inbox = end.nic.registry().register(end.domain, vec![0; 64], Access::LOCAL_WRITE, 0).unwrap();
        let program = Self { end, inbox, posted: 0, sent: 0, received: 0, posts_again: true };
        (0..32).for_each(|_| program.post_receive());
        program
    }

    fn post_receive(&self) {
        let sink = Gather::from(self.inbox.slice(0..64).unwrap());
        self.end.nic.post_receive(&self.end.queue_pair, ReceiveRequest { id: 0, sink }).unwrap();
    }

    pub(crate) fn send(&mut self) {
        let payload = Payload::Inline(InlineBytes::new(b"8 bytes!").unwrap());
        let operation = Operation::Send { payload, solicited: false, invalidate: None };
        let request =
            SendRequest { id: self.posted, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        self.end.nic.post_one(&self.end.queue_pair, &request).unwrap();
        self.posted += 1;
    }

    /// Takes what has completed. Returns whether a message has come.
    pub(crate) fn take(&mut self) -> bool {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        self.end.take_sends(&mut sent);
        self.end.take_receives(&mut received);
        // The last ones are flushed where a connection ends.
        let good =
            |all: &[WorkCompletion]| all.iter().filter(|one| one.completion.status == Status::Success).count() as u64;
        self.sent += good(&sent);
        let received = good(&received);
        self.received += received;
        if self.posts_again {
            (0..received).for_each(|_| self.post_receive());
        }
        received > 0
    }

    fn writes(&self) -> u64 {
        self.end.nic.counters().sends
    }
}

fn connected(transport: Transport, progress: Progress) -> Pair<IwarpOrEdge> {
    connected_with(transport, Settings { progress, ..Settings::default() })
}

pub(crate) fn connected_with(transport: Transport, settings: Settings) -> Pair<IwarpOrEdge> {
    let ring = (transport == Transport::SharedMemory).then(RingBehaviour::default);
    let world = World::new(5, Behaviour { ring, delay: DELAY, is_whole: true, ..Behaviour::default() });
    world.set_packets(PacketBehaviour::default());
    let mut options = PairOptions { settings, ..PairOptions::default() };
    for offer in [&mut options.active, &mut options.passive] {
        offer.transport = transport;
        offer.mpa.extensions.receipts = true;
    }
    let pair = Pair::unconnected(&world, &options);
    assert!(pair.connect(&options), "{transport:?}: {:?}", pair.active.queue_pair.error());
    pair
}

/// As perftest does: each side waits for the completion of its Send before it waits for the next message.
pub(crate) fn exchange(pair: &Pair<IwarpOrEdge>, client: &mut Program<'_>, server: &mut Program<'_>, rounds: u64) {
    let (first, end) = (client.posted, client.posted + rounds);
    client.send();
    let is_done = pair.run(LIMIT, || {
        client.take();
        if server.take() {
            server.send();
        }
        let is_answered = client.received == client.posted && client.sent == client.posted;
        if is_answered && client.posted < end {
            client.send();
        }
        is_answered && client.received == end
    });
    assert!(is_done, "{} of {rounds} rounds", client.received - first);
}

/// Each message takes one write at its port, with the acknowledgement of the one before.
fn takes_one_write(transport: Transport) {
    let pair = connected(transport, Progress::Hybrid);
    let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
    exchange(&pair, &mut client, &mut server, 20);
    let before = [client.writes(), server.writes()];
    exchange(&pair, &mut client, &mut server, ROUNDS);
    for (program, before) in [&client, &server].into_iter().zip(before) {
        let writes = program.writes() - before;
        assert!((ROUNDS..ROUNDS + FEW).contains(&writes), "{transport:?}: {writes} writes for {ROUNDS} messages");
    }
}

#[test]
fn a_receipt_goes_out_with_the_answer() {
    CARRIERS.into_iter().for_each(takes_one_write);
}

#[test]
fn edge_acknowledges_a_message_with_the_answer() {
    takes_one_write(Transport::Edge);
}

/// Nothing waits but for a turn of the engine, in which no time passes here.
#[test]
fn a_sender_whose_peer_only_polls_waits_no_longer_than_without() {
    let pair = connected(Transport::Iwarp, Progress::Hybrid);
    let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
    exchange(&pair, &mut client, &mut server, 100);
    let began = pair.world.now();
    for _ in 0..ROUNDS {
        client.send();
        let is_done = pair.run(LIMIT, || {
            client.take();
            server.take();
            client.sent == client.posted
        });
        assert!(is_done, "{} of {}", client.sent, client.posted);
    }
    let took = pair.world.now().since(began);
    let least = 2 * DELAY * ROUNDS as u32;
    assert!(took <= least + least / 20, "{took:?}, and the network alone takes {least:?}");
}

/// What the program of the server does after it has taken its last message.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// It polls once more.
    Polls,
    /// It closes the connection.
    Closes,
    /// It destroys the queue pair.
    Destroys,
    /// It has closed the connection, and destroys the queue pair.
    ClosesAndDestroys,
}

#[test]
fn what_waits_is_sent_by_the_next_turn_whoever_makes_it_and_at_the_end() {
    for transport in ALL_CARRIERS {
        for last in [Last::Polls, Last::Closes, Last::Destroys, Last::ClosesAndDestroys] {
            let pair = connected(transport, Progress::Hybrid);
            let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
            exchange(&pair, &mut client, &mut server, 100);
            client.send();
            // The program of the server takes the message, and makes no call but the last one after that.
            let nics = [&pair.active.nic, &pair.passive.nic];
            while !server.take() {
                pair.world.run(&nics[..1], Duration::from_micros(1), || false);
                pair.passive.nic.progress();
            }
            pair.world.run(&nics[..1], Duration::from_millis(10), || client.take());
            assert_eq!(client.sent, client.posted - 1, "{transport:?}: it waits for the answer");
            let end = &pair.passive;
            match last {
                Last::Polls => {
                    end.nic.progress();
                }
                Last::Closes => end.nic.close(&end.queue_pair),
                Last::Destroys => end.nic.destroy_queue_pair(&end.queue_pair),
                Last::ClosesAndDestroys => {
                    end.nic.close(&end.queue_pair);
                    end.nic.destroy_queue_pair(&end.queue_pair);
                }
            }
            pair.world.run(&nics[..1], Duration::from_millis(10), || {
                client.take();
                client.sent == client.posted
            });
            assert_eq!(client.sent, client.posted, "{transport:?} {last:?}");
        }
    }
}

/// The answer has no receive at the peer, which may post one only when it knows that its message is in place.
#[test]
fn a_receipt_does_not_wait_for_an_answer_that_cannot_go() {
    for transport in ALL_CARRIERS {
        let pair = connected(transport, Progress::Hybrid);
        let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
        exchange(&pair, &mut client, &mut server, 100);
        client.posts_again = false;
        for _ in 0..33 {
            server.send();
        }
        pair.run(Duration::from_millis(10), || {
            client.take();
            server.take();
            false
        });
        assert!(server.sent < server.posted, "{transport:?}: one of them has no receive");
        client.send();
        let nics = [&pair.active.nic, &pair.passive.nic];
        while !server.take() {
            pair.world.run(&nics[..1], Duration::from_micros(1), || false);
            pair.passive.nic.progress();
        }
        // The program of the server makes no call after this one.
        server.send();
        pair.world.run(&nics[..1], Duration::from_millis(10), || {
            client.take();
            client.sent == client.posted
        });
        assert_eq!(client.sent, client.posted, "{transport:?}");
    }
}

/// The client sends a message. The program of the server takes it, and makes no call for 10 ms after that. Returns
/// whether the client's Send is complete by then.
fn is_told_meanwhile(pair: &Pair<IwarpOrEdge>, client: &mut Program<'_>, server: &mut Program<'_>) -> bool {
    client.send();
    while !server.take() {
        pair.world.run(&[&pair.active.nic], Duration::from_micros(1), || false);
        pair.passive.nic.progress();
    }
    pair.world.run(&[&pair.active.nic], Duration::from_millis(10), || {
        client.take();
        false
    });
    client.sent == client.posted
}

/// Where no thread of the NIC takes over, an end that makes no call after it has received something must have told it
/// (RFC 9000 section 13.2.1).
#[test]
fn nothing_waits_where_no_thread_would_send_it() {
    for transport in ALL_CARRIERS {
        let pair = connected(transport, Progress::Caller);
        let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
        exchange(&pair, &mut client, &mut server, 100);
        assert!(is_told_meanwhile(&pair, &mut client, &mut server), "{transport:?}");
    }
}

/// A program that computes before it answers keeps its peer waiting once.
#[test]
fn what_has_waited_long_for_an_answer_does_not_wait_the_next_time() {
    for transport in ALL_CARRIERS {
        let pair = connected(transport, Progress::Hybrid);
        let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
        exchange(&pair, &mut client, &mut server, 100);
        let told = [(); 10].map(|()| {
            let is_told = is_told_meanwhile(&pair, &mut client, &mut server);
            server.send();
            let is_answered = pair.run(LIMIT, || {
                client.take();
                server.take();
                client.received == client.posted && client.sent == client.posted
            });
            assert!(is_answered, "{transport:?}");
            is_told
        });
        assert_eq!(told, core::array::from_fn(|round| round > 0), "{transport:?}");
    }
}
