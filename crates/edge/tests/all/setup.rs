//! Set-up over a bad network, and the resulting connection.

use core::time::Duration;
use std::net::SocketAddr;

use crate::world::{Faults, World, address};
use weft_base::{Random, Time};
use weft_edge::setup::{
    Acceptor, AcceptorSettings, Answering, Call, Caller, Fresh, HelloOutcome, Key, Outcome, SetupTimes, Words,
};
use weft_edge::{Established, Event, Settings};
use weft_wire::edge::frame::Frame;
use weft_wire::edge::packet::Packet;
use weft_wire::edge::{ConnectionId, setup};

/// The called side, driven as by a NIC.
struct Called {
    acceptor: Acceptor,
    call: Option<Answering>,
    established: Option<Established>,
    /// When the application answers.
    answers_at: Time,
    crowded: bool,
    let_in: u32,
}

impl Called {
    fn receive(&mut self, bytes: &[u8], from: SocketAddr, now: Time, out: &mut Vec<u8>) {
        let name = setup::invariant(bytes).map(|invariant| (from, invariant.source));
        let is_known = self.call.as_ref().is_some_and(|call| Ok(call.caller()) == name);
        let HelloOutcome::Call(incoming) = self.acceptor.on_hello(bytes, from, self.crowded && !is_known, now, out)
        else {
            return;
        };
        match &mut self.call {
            Some(call) if call.caller() == (incoming.from, incoming.id) => {
                if self.established.is_none() && now >= self.answers_at {
                    let words = Words { private_data: b"welcome", inbound_reads: 1, outbound_reads: 1 };
                    self.established = Some(call.accept(&words, &Settings::default(), out));
                } else {
                    assert!(call.repeat(&incoming, out));
                }
            }
            _ => {
                let fresh = Fresh { id: ConnectionId(200), nonce: [2; 16], seed: 2, secret: [2; 32] };
                self.call = Some(Answering::new(&incoming, &self.acceptor, fresh));
                self.let_in += 1;
            }
        }
    }
}

fn set_up(key: Option<Key>, faults: &Faults, crowded: bool, seed: u64) -> [Established; 2] {
    let mut random = Random::new(seed);
    let secret = |byte| Key::new(&[byte; 16]).unwrap();
    let cookie_lifetime = Duration::from_secs(10);
    let acceptor =
        Acceptor::new(AcceptorSettings { key: key.clone(), host: secret(1), secret: secret(2), cookie_lifetime });
    let mut now = Time::from_nanos(500_000_000_000);
    let answers_at = now + Duration::from_millis(random.below(5000));
    let mut called = Called { acceptor, call: None, established: None, answers_at, crowded, let_in: 0 };
    let fresh = Fresh { id: ConnectionId(100), nonce: [1; 16], seed: 1, secret: [1; 32] };
    let words = Words { private_data: b"please", inbound_reads: 1, outbound_reads: 1 };
    let times = SetupTimes { silence: Duration::from_secs(60), ..SetupTimes::default() };
    let call = Call { to: address(1), fresh, key: key.as_ref(), host: &secret(3), words, times };
    let mut caller = Caller::new(&call, &Settings::default(), now);
    let mut arrives = |bytes: &mut Vec<u8>| {
        if faults.damage > 0 && random.one_in(faults.damage) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        faults.lose == 0 || !random.one_in(faults.lose)
    };
    loop {
        now = now.max(caller.next_timeout().expect("it goes on"));
        assert!(caller.handle_timeout(now).is_none(), "seed {seed}");
        let (mut hello, mut answer) = (vec![], vec![]);
        if !caller.transmit(now, &mut hello) || !arrives(&mut hello) {
            continue;
        }
        called.receive(&hello, address(0), now, &mut answer);
        assert!(answer.len() <= hello.len());
        if answer.is_empty() || !arrives(&mut answer) {
            continue;
        }
        if let Some(outcome) = caller.receive(&answer, address(1), now) {
            let Outcome::Accepted(ours, heard) = outcome else { panic!("{outcome:?}") };
            assert_eq!(heard.private_data, b"welcome");
            assert_eq!(called.let_in, 1, "one hello, one call");
            return [*ours, called.established.expect("it has accepted")];
        }
    }
}

#[test]
fn set_up_and_data_over_a_bad_network() {
    for seed in 0..300 {
        let mut faults = Faults { lose: 4, damage: 10, jitter_us: 200, ..Faults::none() };
        if seed % 3 == 0 {
            faults = Faults::none();
        }
        let key = (seed % 2 == 0).then(|| Key::new(b"the key of this job").unwrap());
        let both = set_up(key, &faults, seed % 5 == 0, seed);
        let mut world = World::of(&both, &Settings::default(), faults, [6, 6], 5000, seed);
        world.finish();
        assert_eq!(world.sides[1].events.first(), Some(&Event::Confirmed));
    }
}

/// The time of set-up bounds the round trip: a lost confirmation is soon retransmitted.
#[test]
fn a_lost_confirmation_costs_a_few_round_trips_of_set_up() {
    let confirmed_after = |took| {
        let mut both = set_up(None, &Faults::none(), false, 1);
        both[0].took = took;
        let faults = Faults { partition: true, ..Faults::none() };
        let mut world = World::of(&both, &Settings::default(), faults, [6, 6], 5000, 1);
        world.run_for(Duration::from_micros(500));
        world.faults.partition = false;
        let begun = world.now;
        world.run(10_000, |world| world.sides[1].events.contains(&Event::Confirmed));
        world.now - begun
    };
    let (known, unknown) = (confirmed_after(Some(Duration::from_millis(2))), confirmed_after(None));
    assert!(known < Duration::from_millis(20), "{known:?}");
    assert!(unknown > Duration::from_millis(250), "{unknown:?}: it is this that is saved");
}

/// A peer drops what comes before the confirmation, so a probe of nothing but a ping is not enough.
#[test]
fn each_packet_carries_the_confirmation_until_it_is_acknowledged() {
    let both = set_up(None, &Faults::none(), false, 1);
    for messages in [0, 6] {
        let faults = Faults { partition: true, ..Faults::none() };
        let mut world = World::of(&both, &Settings::default(), faults, [messages, 0], 5000, 1);
        world.seen = Some((0, vec![]));
        world.run_for(Duration::from_secs(9));
        let (_, seen) = world.seen.unwrap();
        assert!(seen.len() > 10, "{} packets", seen.len());
        for (at, (datagram, _)) in seen.iter().enumerate() {
            let confirms = Packet::parse(datagram).unwrap().frames().any(|frame| matches!(frame, Frame::Confirm(_)));
            assert!(confirms, "packet {at} with {messages} messages");
        }
    }
}

/// Before the caller has confirmed nothing is accepted from it, and nothing sent to it.
#[test]
fn nothing_passes_before_the_caller_has_confirmed() {
    let key = Key::new(b"the key of this job");
    let mut both = set_up(key, &Faults::none(), false, 1);
    both[0].confirmation = weft_edge::Confirmation::Say([9; 32]);
    let mut world = World::of(&both, &Settings::default(), Faults::none(), [6, 6], 5000, 1);
    world.run_for(Duration::from_secs(100));
    assert_eq!(world.sides[1].sink.placed, 0);
    assert_eq!(world.sides[1].connection.counters().packets_sent, 0);
    assert!(world.sides[1].connection.counters().early > 50);
    world.run_for(Duration::from_secs(50));
    assert!(world.sides.iter().all(|side| side.connection.is_over()));
}
