use super::*;
use std::net::SocketAddr;
use weft_base::Random;
use weft_wire::edge::setup::{Accept, Message, Offer, Setup, Versions};
use weft_wire::edge::{BASE_DATAGRAM, Destination, destination};

use crate::connection::Confirmation;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

fn secret(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

fn fresh(id: u64) -> Fresh {
    Fresh { id: ConnectionId(id), nonce: [id as u8; 16], seed: id, secret: [id as u8; 32] }
}

fn acceptor(key: Option<Key>) -> Acceptor {
    let cookie_lifetime = Duration::from_secs(10);
    Acceptor::new(AcceptorSettings { key, host: secret(50), secret: secret(51), cookie_lifetime })
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

/// Passes a hello through the acceptor.
fn let_in(acceptor: &mut Acceptor, hello: &[u8]) -> Answering {
    match acceptor.on_hello(hello, address(0), false, at(1), &mut vec![]) {
        HelloOutcome::Call(call) => Answering::new(&call, acceptor, fresh(88)),
        other => panic!("{other:?}"),
    }
}

const WORDS: Words<'_> = Words { private_data: b"welcome", inbound_reads: 5, outbound_reads: 6 };

#[test]
fn both_agree() {
    for key in [None, Some(secret(1))] {
        let (mut caller, mut acceptor) = (call(key.as_ref()), acceptor(key.clone()));
        let hello = hello(&mut caller, at(0));
        let mut answering = let_in(&mut acceptor, &hello);
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
        assert_eq!((ours.took, theirs.took), (Some(Duration::from_millis(2)), None));
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
        let (mut caller, mut acceptor) = (call(calls.as_ref()), acceptor(answers));
        let (hello, mut out) = (hello(&mut caller, at(0)), vec![]);
        let outcome = acceptor.on_hello(&hello, address(0), false, at(1), &mut out);
        assert!(matches!(outcome, HelloOutcome::Refused(Reject::Key)), "{outcome:?}");
        let outcome = caller.receive(&out, address(1), at(2));
        assert!(matches!(outcome, Some(Outcome::Rejected { reason: Reject::Key, .. })), "{outcome:?}");
    }
    let (mut caller, mut acceptor) = (call(Some(&secret(1))), acceptor(Some(secret(2))));
    let (hello, mut out) = (hello(&mut caller, at(0)), vec![]);
    let outcome = acceptor.on_hello(&hello, address(0), false, at(1), &mut out);
    assert!(matches!(outcome, HelloOutcome::Refused(Reject::OtherKey)), "{outcome:?}");
    assert!(out.len() < hello.len());
    assert_eq!((acceptor.counters().other_keys, acceptor.counters().calls), (1, 0));
    let outcome = caller.receive(&out, address(1), at(2));
    assert!(matches!(outcome, Some(Outcome::Rejected { reason: Reject::OtherKey, .. })), "{outcome:?}");
}

/// A flood costs no more than hashes: the address is validated before the key, and the curve is computed with the
/// answer.
#[test]
fn in_a_flood_the_address_is_validated_before_the_key() {
    let (mut caller, mut acceptor) = (call(Some(&secret(1))), acceptor(Some(secret(2))));
    let mut out = vec![];
    let first = hello(&mut caller, at(0));
    let outcome = acceptor.on_hello(&first, address(0), true, at(1), &mut out);
    assert!(matches!(outcome, HelloOutcome::Answered), "{outcome:?}");
    assert_eq!((acceptor.counters().cookies, acceptor.counters().other_keys), (1, 0));
    assert!(caller.receive(&out, address(1), at(2)).is_none());
    let second = hello(&mut caller, at(2));
    let outcome = acceptor.on_hello(&second, address(0), true, at(3), &mut vec![]);
    assert!(matches!(outcome, HelloOutcome::Refused(Reject::OtherKey)), "{outcome:?}");
    // The handshake is the same with the cookie, and without.
    let mut own = super::tests::acceptor(Some(secret(1)));
    for hello in [first, second] {
        assert!(matches!(own.on_hello(&hello, address(0), false, at(3), &mut vec![]), HelloOutcome::Call(_)));
    }
}

/// An answer of a peer without the key, or with another one.
#[test]
fn an_answer_without_proof_is_dropped_and_noted() {
    let mut caller = call(Some(&secret(1)));
    let hello = hello(&mut caller, at(0));
    let (mut own, mut without) = (acceptor(Some(secret(1))), vec![]);
    let_in(&mut own, &hello).accept(&WORDS, &Settings::default(), &mut without);
    let Ok(setup @ Setup { message: Message::Accept(accept), .. }) = Setup::parse(&without) else { panic!() };
    let other = super::handshake::Handshake::call(&secret(2), &[5; 32], b"hello").1;
    let (forged, _) = super::handshake::Handshake::answer(&secret(2), &[6; 32], (b"hello", &other), &setup.covered());
    for (count, proof) in [None, Some(&forged)].into_iter().enumerate() {
        let mut out = vec![];
        Setup { message: Message::Accept(Accept { proof, ..accept }), ..setup }.emit(&mut out, 0);
        assert!(caller.receive(&out, address(1), at(2)).is_none());
        assert_eq!((caller.dropped(), caller.is_unproved()), (count as u64 + 1, true));
    }
    assert!(matches!(caller.receive(&without, address(1), at(2)), Some(Outcome::Accepted(..))));
    // And one with a proof to a caller without a key.
    let mut caller = call(None);
    assert!(caller.receive(&without, address(1), at(2)).is_none());
    assert!(caller.is_unproved());
}

/// Whatever an attacker on the path changes in the hello, with a corrected checksum, the acceptor detects; in the
/// answer, the caller does, which still accepts the correct one afterwards.
#[test]
fn the_proof_covers_both_hellos() {
    let key = secret(1);
    let (mut caller, mut acceptor) = (call(Some(&key)), acceptor(Some(key.clone())));
    let hello = hello(&mut caller, at(0));
    let proof_ends = hello.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // Except the checksum, and the length of the cookie, which is 0.
    let cookie = 31..33;
    for place in (0..proof_ends).filter(|place| !(21..25).contains(place) && !cookie.contains(place)) {
        for bit in [0, 7] {
            let mut changed = hello.clone();
            changed[place] ^= 1 << bit;
            repair(&mut changed);
            let outcome = acceptor.on_hello(&changed, address(0), false, at(1), &mut vec![]);
            assert!(!matches!(outcome, HelloOutcome::Call(_)), "byte {place}");
        }
    }
    assert!(acceptor.counters().other_keys > 200, "{:?}", acceptor.counters());
    let mut out = vec![];
    let_in(&mut acceptor, &hello).accept(&WORDS, &Settings::default(), &mut out);
    for place in (0..out.len()).filter(|place| !(21..25).contains(place)) {
        for bit in [0, 7] {
            let mut changed = out.clone();
            changed[place] ^= 1 << bit;
            repair(&mut changed);
            let outcome = caller.receive(&changed, address(1), at(2));
            assert!(outcome.is_none(), "byte {place}: {outcome:?}");
        }
    }
    for length in 0..out.len() {
        let mut cut = out[..length].to_vec();
        if length >= 25 {
            repair(&mut cut);
        }
        assert!(caller.receive(&cut, address(1), at(2)).is_none(), "{length} bytes");
    }
    assert!(matches!(caller.receive(&out, address(1), at(2)), Some(Outcome::Accepted(..))));
}

/// An answer is valid for its own call alone; a hello is no answer.
#[test]
fn answers_replayed_and_hellos_reflected() {
    let key = secret(1);
    let (mut first, mut acceptor) = (call(Some(&key)), acceptor(Some(key.clone())));
    let hello_of_first = hello(&mut first, at(0));
    let mut out = vec![];
    let_in(&mut acceptor, &hello_of_first).accept(&WORDS, &Settings::default(), &mut out);
    // The same caller again, with the same name even: its random values are new.
    let words = Words { private_data: b"please", inbound_reads: 3, outbound_reads: 4 };
    let fresh = Fresh { secret: [9; 32], ..fresh(77) };
    let times = SetupTimes::default();
    let again = Call { to: address(1), fresh, key: Some(&key), host: &secret(52), words, times };
    let mut second = Caller::new(&again, &Settings::default(), at(0));
    let hello_of_second = hello(&mut second, at(0));
    assert!(second.receive(&out, address(1), at(2)).is_none(), "an answer to another call");
    // Back to its sender: under its own name, and as the first message of a handshake where the second belongs.
    let mut back = hello_of_second.clone();
    back[5..13].copy_from_slice(&77u64.to_be_bytes());
    repair(&mut back);
    assert!(second.receive(&back, address(1), at(2)).is_none(), "its own hello");
    let Ok(setup @ Setup { message: Message::Accept(accept), .. }) = Setup::parse(&out) else { panic!() };
    let Ok(Setup { message: Message::Hello(hello), .. }) = Setup::parse(&hello_of_second) else { panic!() };
    let mut proof = [0; 80];
    proof[..48].copy_from_slice(hello.proof.unwrap());
    let mut forged = vec![];
    Setup { message: Message::Accept(Accept { proof: Some(&proof), ..accept }), ..setup }.emit(&mut forged, 0);
    assert!(second.receive(&forged, address(1), at(2)).is_none(), "its own proof");
    assert!(second.is_unproved());
    assert!(matches!(first.receive(&out, address(1), at(2)), Some(Outcome::Accepted(..))));
    assert!(first.receive(&out, address(1), at(3)).is_none(), "it is over");
}

/// No other process of the job knows the confirmation: two calls that differ only in random values.
#[test]
fn what_confirms_follows_from_what_was_drawn() {
    let key = secret(1);
    let confirmation = |byte: u8| {
        let (mut caller, mut acceptor) = (call(Some(&key)), acceptor(Some(key.clone())));
        let hello = hello(&mut caller, at(0));
        let HelloOutcome::Call(call) = acceptor.on_hello(&hello, address(0), false, at(1), &mut vec![]) else {
            panic!()
        };
        let mut answering = Answering::new(&call, &acceptor, Fresh { secret: [byte; 32], ..fresh(88) });
        answering.accept(&WORDS, &Settings::default(), &mut vec![]).confirmation
    };
    assert_eq!(confirmation(1), confirmation(1));
    assert_ne!(confirmation(1), confirmation(2));
}

/// A peer whose Weft has the earlier proof of keys: each side rejects the other, and reports that it does not
/// understand.
#[test]
fn the_proof_of_earlier_days_is_refused_clearly() {
    let mut offers = vec![];
    Offer { kind: 1, must_understand: true, value: b"" }.emit(&mut offers);
    for has_key in [false, true] {
        assert_eq!(objection(&Offers::packed(&offers).unwrap(), has_key), Some(Reject::NotUnderstood));
    }
    let keyed = hello(&mut call(Some(&secret(1))), at(0));
    let Ok(Setup { message: Message::Hello(hello), .. }) = Setup::parse(&keyed) else { panic!() };
    let offers: Vec<_> = hello.terms.offers.iter().collect();
    let expected = [(2, true), (3, false)].map(|(kind, must_understand)| Offer { kind, must_understand, value: b"" });
    assert_eq!(offers, expected);
}

fn repair(packet: &mut [u8]) {
    let check = weft_wire::Crc32c::of(&[&packet[..21], &packet[25..]].concat());
    packet[21..25].copy_from_slice(&check.to_be_bytes());
}

#[test]
fn in_a_flood_callers_need_cookies() {
    let (mut caller, mut acceptor) = (call(None), acceptor(None));
    let first = hello(&mut caller, at(0));
    let mut out = vec![];
    assert!(matches!(acceptor.on_hello(&first, address(0), true, at(1), &mut out), HelloOutcome::Answered));
    assert!(out.len() < first.len());
    assert!(caller.receive(&out, address(1), at(2)).is_none());
    let second = hello(&mut caller, at(2));
    let mut outcome = |from, now| {
        let outcome = acceptor.on_hello(&second, from, true, now, &mut vec![]);
        matches!(outcome, HelloOutcome::Call(_))
    };
    assert!(outcome(address(0), at(3)));
    assert!(outcome(address(0), at(9000)), "its secret has changed meanwhile");
    assert!(!outcome(address(2), at(3)), "made for another address");
    assert!(!outcome(address(0), at(10_002)), "too old");
    assert!(!outcome(address(0), at(0)), "from the future");
    assert_eq!((acceptor.counters().cookies, acceptor.counters().bad_cookies), (4, 3));
}

#[test]
fn a_caller_accepts_a_limited_number_of_cookies() {
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
    let (mut caller, mut acceptor) = (call(None), acceptor(None));
    let mut hello = hello(&mut caller, at(0));
    hello[4] = 7;
    repair(&mut hello);
    let mut out = vec![];
    assert!(matches!(acceptor.on_hello(&hello, address(0), false, at(1), &mut out), HelloOutcome::Answered));
    assert!(out.len() < hello.len());
    let Ok(Setup { message: Message::Versions(versions), .. }) = Setup::parse(&out) else { panic!("{out:?}") };
    assert_eq!(versions, Versions::OURS);
    assert!(caller.receive(&out, address(1), at(1)).is_none(), "it supports that one: the list is forged");
    let mut short = hello[..30].to_vec();
    repair(&mut short);
    assert!(matches!(acceptor.on_hello(&short, address(0), false, at(1), &mut vec![]), HelloOutcome::Dropped));
    let message = Message::Versions(Versions::packed(&[0, 0, 0, 9]).unwrap());
    out.clear();
    Setup { destination: caller.id(), source: ConnectionId(0), message }.emit(&mut out, 0);
    let outcome = caller.receive(&out, address(1), at(1));
    assert!(matches!(&outcome, Some(Outcome::Versions(versions)) if versions[..] == [9]), "{outcome:?}");
}

#[test]
fn an_answer_may_take_its_time_and_is_given_once() {
    let (mut caller, mut acceptor) = (call(None), acceptor(None));
    let hello = hello(&mut caller, at(0));
    let mut answering = let_in(&mut acceptor, &hello);
    let mut now = at(0);
    for _ in 0..50 {
        now = caller.next_timeout().unwrap();
        assert!(caller.handle_timeout(now).is_none());
        let (mut again, mut out) = (vec![], vec![]);
        assert!(caller.transmit(now, &mut again));
        let HelloOutcome::Call(call) = acceptor.on_hello(&again, address(0), false, now, &mut vec![]) else { panic!() };
        assert_eq!((call.from, call.id), answering.caller());
        assert!(answering.repeat(&call, &mut out));
        assert!(caller.receive(&out, address(1), now).is_none());
    }
    assert!(now > at(40_000), "{now:?}");
    answering.reject(Reject::Application, b"no", &mut vec![]);
    let (mut out, mut other) = (vec![], hello.clone());
    let HelloOutcome::Call(call) = acceptor.on_hello(&hello, address(0), false, now, &mut vec![]) else { panic!() };
    assert!(answering.repeat(&call, &mut out));
    let outcome = caller.receive(&out, address(1), now);
    let Some(Outcome::Rejected { reason: Reject::Application, private_data }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(private_data, b"no");
    other[60] ^= 1;
    repair(&mut other);
    let HelloOutcome::Call(call) = acceptor.on_hello(&other, address(0), false, now, &mut vec![]) else { panic!() };
    assert!(!answering.repeat(&call, &mut vec![]), "another hello under the same name");
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
    let mut acceptor = acceptor(None);
    assert!(acceptor.reset(&[0x41; 25], ConnectionId(5)).is_none());
    let reset = acceptor.reset(&[0x41; 26], ConnectionId(5)).unwrap();
    let token = weft_wire::edge::setup::reset_token(&reset).unwrap();
    assert_eq!(token, secret(50).reset_token(ConnectionId(5)));
}

#[test]
fn noise_at_the_door_and_at_the_caller() {
    let (mut caller, mut acceptor) = (call(None), acceptor(None));
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
        acceptor.on_hello(&bytes, address(0), random.one_in(2), at(1), &mut out);
        assert!(out.len() <= bytes.len());
        assert!(caller.receive(&bytes, address(1), at(1)).is_none());
    }
}
