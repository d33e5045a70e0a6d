use super::*;
use std::net::SocketAddr;
use weft_base::Random;
use weft_wire::edge::setup::{Message, Offer, Setup, Versions};
use weft_wire::edge::{BASE_DATAGRAM, Destination, destination};

use crate::connection::Confirmation;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

fn secret(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

fn fresh(id: u64) -> Fresh {
    Fresh { id: ConnectionId(id), nonce: [id as u8; 16], seed: id }
}

fn door(key: Option<Key>) -> Door {
    let cookie_lifetime = Duration::from_secs(10);
    Door::new(DoorSettings { key, host: secret(50), secret: secret(51), cookie_lifetime })
}

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000 * (ms + 100_000))
}

fn call(key: Option<&Key>) -> Caller {
    let words = Words { private_data: b"please", inbound_reads: 3, outbound_reads: 4 };
    let times = SetupTimes::default();
    let call = Call { to: address(1), fresh: fresh(77), key, host: &secret(52), words, times };
    Caller::new(&call, &Settings::default(), at(0))
}

fn hello(caller: &mut Caller, now: Time) -> Vec<u8> {
    let mut out = vec![];
    assert!(caller.transmit(now, &mut out));
    assert_eq!(out.len(), BASE_DATAGRAM);
    out
}

/// Opens the door and says what has come of it.
fn let_in(door: &mut Door, hello: &[u8]) -> Answering {
    match door.knock(hello, address(0), false, at(1), &mut vec![]) {
        Knock::Call(visit) => Answering::new(&visit, door, fresh(88)),
        other => panic!("{other:?}"),
    }
}

const WORDS: Words<'_> = Words { private_data: b"welcome", inbound_reads: 5, outbound_reads: 6 };

#[test]
fn both_agree() {
    for key in [None, Some(secret(1))] {
        let (mut caller, mut door) = (call(key.as_ref()), door(key.clone()));
        let hello = hello(&mut caller, at(0));
        let mut answering = let_in(&mut door, &hello);
        let heard = Heard { private_data: b"please".to_vec(), inbound_reads: 3, outbound_reads: 4 };
        assert_eq!(answering.heard(), heard);
        let mut out = vec![];
        let theirs = answering.accept(&WORDS, &Settings { credit: 999, ..Settings::default() }, &mut out);
        assert!(out.len() <= hello.len());
        let ids = Destination::Setup { destination: ConnectionId(77), source: ConnectionId(88) };
        assert_eq!(destination(&out), Ok(ids));
        let Some(Outcome::Accepted(ours, heard)) = caller.receive(&out, address(1), at(2)) else { panic!() };
        let said = Heard { private_data: b"welcome".to_vec(), inbound_reads: 5, outbound_reads: 6 };
        assert_eq!((heard, ours.peer_credit), (said, 999));
        assert_eq!(
            (ours.local, ours.remote, theirs.local, theirs.remote),
            (theirs.remote, theirs.local, ours.remote, ours.local)
        );
        let (Confirmation::Say(said), Confirmation::Expect(expected)) = (ours.confirmation, theirs.confirmation) else {
            panic!()
        };
        assert_eq!(said, expected);
        assert_eq!(said == [0; 32], key.is_none());
        assert_eq!(ours.reset_token, secret(50).reset_token(ConnectionId(88)));
        assert_eq!(theirs.reset_token, secret(52).reset_token(ConnectionId(77)));
        assert_eq!(caller.next_timeout(), None);
    }
}

#[test]
fn a_key_that_only_one_has_is_rejected_and_a_wrong_one_never_accepted() {
    for (calls, answers) in [(Some(secret(1)), None), (None, Some(secret(1)))] {
        let (mut caller, mut door) = (call(calls.as_ref()), door(answers));
        let (hello, mut out) = (hello(&mut caller, at(0)), vec![]);
        assert!(matches!(door.knock(&hello, address(0), false, at(1), &mut out), Knock::Answered));
        let outcome = caller.receive(&out, address(1), at(2));
        assert!(matches!(outcome, Some(Outcome::Rejected { reason: Reject::Key, .. })), "{outcome:?}");
    }
    let (mut caller, mut door) = (call(Some(&secret(1))), door(Some(secret(2))));
    let hello = hello(&mut caller, at(0));
    let mut out = vec![];
    let_in(&mut door, &hello).accept(&WORDS, &Settings::default(), &mut out);
    assert!(caller.receive(&out, address(1), at(2)).is_none());
    assert_eq!((caller.dropped(), caller.is_unproved()), (1, true));
}

/// Whatever somebody in between changes in the hello or in the answer, with checks made good again, is found by the
/// proof.
#[test]
fn the_proof_covers_both_hellos() {
    let key = secret(1);
    let (mut caller, mut door) = (call(Some(&key)), door(Some(key.clone())));
    let hello = hello(&mut caller, at(0));
    let mut tried = 0;
    // Behind byte 96 there is nothing but padding.
    for place in 25..97 {
        let mut changed = hello.clone();
        changed[place] ^= 1;
        repair(&mut changed);
        if !matches!(door.knock(&changed, address(0), false, at(1), &mut vec![]), Knock::Call(_)) {
            continue;
        }
        let mut out = vec![];
        let_in(&mut door, &changed).accept(&WORDS, &Settings::default(), &mut out);
        assert!(caller.receive(&out, address(1), at(2)).is_none(), "byte {place}");
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
    let mut out = vec![];
    let_in(&mut door, &hello).accept(&WORDS, &Settings::default(), &mut out);
    for place in (0..out.len()).filter(|place| !(21..25).contains(place)) {
        let mut changed = out.clone();
        changed[place] ^= 1;
        repair(&mut changed);
        let outcome = caller.receive(&changed, address(1), at(2));
        assert!(outcome.is_none(), "byte {place}: {outcome:?}");
    }
    assert!(matches!(caller.receive(&out, address(1), at(2)), Some(Outcome::Accepted(..))));
}

fn repair(packet: &mut [u8]) {
    let check = weft_wire::Crc32c::of(&[&packet[..21], &packet[25..]].concat());
    packet[21..25].copy_from_slice(&check.to_be_bytes());
}

#[test]
fn a_crowd_needs_cookies() {
    let (mut caller, mut door) = (call(None), door(None));
    let first = hello(&mut caller, at(0));
    let mut out = vec![];
    assert!(matches!(door.knock(&first, address(0), true, at(1), &mut out), Knock::Answered));
    assert!(out.len() < first.len());
    assert!(caller.receive(&out, address(1), at(2)).is_none());
    let second = hello(&mut caller, at(2));
    let mut knock = |from, now| {
        let knock = door.knock(&second, from, true, now, &mut vec![]);
        matches!(knock, Knock::Call(_))
    };
    assert!(knock(address(0), at(3)));
    assert!(knock(address(0), at(9000)), "its secret was exchanged meanwhile");
    assert!(!knock(address(2), at(3)), "made for another address");
    assert!(!knock(address(0), at(10_002)), "too old");
    assert!(!knock(address(0), at(0)), "from the future");
    assert_eq!((door.counters().cookies, door.counters().bad_cookies), (4, 3));
}

#[test]
fn somebody_who_sends_for_cookies_again_and_again_is_not_followed() {
    let mut caller = call(None);
    for n in 0..5 {
        let mut out = vec![];
        let message = Message::Retry { cookie: &[n; 24] };
        Setup { destination: caller.id(), source: ConnectionId(0), message }.emit(&mut out, 0);
        caller.receive(&out, address(1), at(0));
    }
    assert_eq!(caller.dropped(), 2);
}

#[test]
fn another_version_gets_a_list() {
    let (mut caller, mut door) = (call(None), door(None));
    let mut hello = hello(&mut caller, at(0));
    hello[4] = 7;
    repair(&mut hello);
    let mut out = vec![];
    assert!(matches!(door.knock(&hello, address(0), false, at(1), &mut out), Knock::Answered));
    assert!(out.len() < hello.len());
    let Ok(Setup { message: Message::Versions(versions), .. }) = Setup::parse(&out) else { panic!("{out:?}") };
    assert_eq!(versions, Versions::OURS);
    assert!(caller.receive(&out, address(1), at(1)).is_none(), "it speaks that one: somebody lies");
    let mut short = hello[..30].to_vec();
    repair(&mut short);
    assert!(matches!(door.knock(&short, address(0), false, at(1), &mut vec![]), Knock::Dropped));
    let message = Message::Versions(Versions::packed(&[0, 0, 0, 9]).unwrap());
    out.clear();
    Setup { destination: caller.id(), source: ConnectionId(0), message }.emit(&mut out, 0);
    let outcome = caller.receive(&out, address(1), at(1));
    assert!(matches!(&outcome, Some(Outcome::Versions(versions)) if versions[..] == [9]), "{outcome:?}");
}

#[test]
fn an_answer_may_take_its_time_and_is_given_once() {
    let (mut caller, mut door) = (call(None), door(None));
    let hello = hello(&mut caller, at(0));
    let mut answering = let_in(&mut door, &hello);
    let mut now = at(0);
    for _ in 0..50 {
        now = caller.next_timeout().unwrap();
        assert!(caller.handle_timeout(now).is_none());
        let (mut again, mut out) = (vec![], vec![]);
        assert!(caller.transmit(now, &mut again));
        let Knock::Call(visit) = door.knock(&again, address(0), false, now, &mut vec![]) else { panic!() };
        assert_eq!((visit.from, visit.id), answering.caller());
        assert!(answering.repeat(&visit, &mut out));
        assert!(caller.receive(&out, address(1), now).is_none());
    }
    assert!(now > at(40_000), "{now:?}");
    answering.reject(Reject::Application, b"no", &mut vec![]);
    let (mut out, mut other) = (vec![], hello.clone());
    let Knock::Call(visit) = door.knock(&hello, address(0), false, now, &mut vec![]) else { panic!() };
    assert!(answering.repeat(&visit, &mut out));
    let outcome = caller.receive(&out, address(1), now);
    let Some(Outcome::Rejected { reason: Reject::Application, private_data }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(private_data, b"no");
    other[60] ^= 1;
    repair(&mut other);
    let Knock::Call(visit) = door.knock(&other, address(0), false, now, &mut vec![]) else { panic!() };
    assert!(!answering.repeat(&visit, &mut vec![]), "another hello under the same name");
}

#[test]
fn silence_ends_a_call() {
    let mut caller = call(None);
    let mut hellos = 0;
    let outcome = loop {
        let now = caller.next_timeout().unwrap();
        if let Some(outcome) = caller.handle_timeout(now) {
            assert_eq!(now, at(10_000));
            break outcome;
        }
        hellos += u32::from(caller.transmit(now, &mut vec![]));
    };
    assert!(matches!(outcome, Outcome::Silence { heard: false }));
    assert!((10..16).contains(&hellos), "{hellos}");
}

#[test]
fn an_offer_that_must_be_understood_is() {
    let mut offers = vec![];
    Offer { kind: 99, must_understand: false, value: b"x" }.emit(&mut offers);
    assert_eq!(objection(&Offers::packed(&offers).unwrap(), false), None);
    Offer { kind: 98, must_understand: true, value: b"x" }.emit(&mut offers);
    assert_eq!(objection(&Offers::packed(&offers).unwrap(), false), Some(Reject::NotUnderstood));
}

#[test]
fn a_reset_is_shorter_than_its_question() {
    let mut door = door(None);
    assert!(door.reset(&[0x41; 25], ConnectionId(5)).is_none());
    let reset = door.reset(&[0x41; 26], ConnectionId(5)).unwrap();
    let token = weft_wire::edge::setup::reset_token(&reset).unwrap();
    assert_eq!(token, secret(50).reset_token(ConnectionId(5)));
}

#[test]
fn noise_at_the_door_and_at_the_caller() {
    let (mut caller, mut door) = (call(None), door(None));
    let good = hello(&mut caller, at(0));
    let mut random = Random::new(1);
    for _ in 0..2000 {
        let mut bytes = good.clone();
        bytes.truncate(random.below(1201) as usize);
        for _ in 0..random.below(4) {
            if let Some(at) = (!bytes.is_empty()).then(|| random.below(bytes.len() as u64) as usize) {
                bytes[at] = random.next_u64() as u8;
            }
        }
        if bytes.len() > 25 && random.one_in(2) {
            repair(&mut bytes);
        }
        let mut out = vec![];
        door.knock(&bytes, address(0), random.one_in(2), at(1), &mut out);
        assert!(out.len() <= bytes.len());
        assert!(caller.receive(&bytes, address(1), at(1)).is_none());
    }
}
