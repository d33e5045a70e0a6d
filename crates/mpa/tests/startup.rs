//! Start-up: every pair of offers, every cut, and what a peer may do wrong.

use proptest::prelude::*;
use weft_mpa::startup::{NOT_NEGOTIATED, StartFailure};
use weft_mpa::{
    Agreement, Extensions, Incompatible, Initiator, Malformed, MarkerSpacing, Offer, ReadyKind, ReadyKinds, Rejection,
    Request, Responder, Role, StartFrame, StartMisuse, Step,
};
use weft_wire::mpa::StartKind;
use weft_wire::terminate::TerminateCode;

const REQUEST: &[u8; 16] = b"MPA ID Req Frame";
const REPLY: &[u8; 16] = b"MPA ID Rep Frame";

fn frame(key: &[u8; 16], flags: u8, revision: u8, private: &[u8]) -> Vec<u8> {
    [&key[..], &[flags, revision], &(private.len() as u16).to_be_bytes(), private].concat()
}

fn start(offer: Offer, private_data: &[u8]) -> (Initiator, StartFrame) {
    Initiator::start(offer, private_data).expect("the offer is good")
}

fn request_of(offer: Offer, bytes: &[u8]) -> Result<(Request, usize), StartFailure> {
    match Responder::new(offer).handle(bytes) {
        Step::Done(done) => Ok(done),
        Step::Failed(failure) => Err(failure),
        Step::More(_) => panic!("the request is whole"),
    }
}

fn agreement_of(initiator: Initiator, bytes: &[u8]) -> Result<(Agreement, usize), StartFailure> {
    match initiator.handle(bytes) {
        Step::Done(done) => Ok(done),
        Step::Failed(failure) => Err(failure),
        Step::More(_) => panic!("the reply is whole"),
    }
}

/// What becomes of a pair of offers.
#[derive(Debug, PartialEq)]
enum Outcome {
    Agreed,
    RevisionTooHigh,
    PeerToPeerRefused,
    NoReadyToReceive,
}

/// The rules, said once more.
fn expected(initiator: &Offer, responder: &Offer) -> Outcome {
    if initiator.revision > responder.revision {
        return Outcome::RevisionTooHigh;
    }
    match (initiator.ready_to_receive, responder.ready_to_receive) {
        (None, _) => Outcome::Agreed,
        (Some(_), None) => Outcome::PeerToPeerRefused,
        (Some(ours), Some(theirs)) => {
            if ours.and(theirs).any() {
                Outcome::Agreed
            } else {
                Outcome::NoReadyToReceive
            }
        }
    }
}

fn offers() -> Vec<Offer> {
    let kinds = [
        None,
        Some(ReadyKinds::only(ReadyKind::Send)),
        Some(ReadyKinds::only(ReadyKind::Write)),
        Some(ReadyKinds::only(ReadyKind::Read)),
        Some(ReadyKinds::all()),
    ];
    let large = Extensions { large_fpdus: true, ..Extensions::none() };
    let mut offers = Vec::new();
    for bits in 0..8u8 {
        for revision in 0..=2 {
            for ready_to_receive in kinds {
                for extensions in [Extensions::none(), large, Extensions::all()] {
                    for (ird, ord) in [(0, 0), (1, 9), (20_000, 3)] {
                        offers.push(Offer {
                            receive_markers: (bits & 1 != 0).then_some(MarkerSpacing::Standard),
                            crc: bits & 2 != 0,
                            negotiate_depths: bits & 4 != 0,
                            revision,
                            ird,
                            ord,
                            ready_to_receive,
                            extensions,
                            ..Offer::default()
                        });
                    }
                }
            }
        }
    }
    offers
}

fn run(initiator: Offer, responder: Offer) -> Outcome {
    let (waiting, request) = start(initiator, b"from the initiator");
    let (request, consumed) = match request_of(responder, &request) {
        Ok(done) => done,
        Err(StartFailure::Incompatible(Incompatible::Revision { received, highest })) => {
            assert_eq!((received, highest), (initiator.revision, responder.revision));
            return Outcome::RevisionTooHigh;
        }
        Err(failure) => {
            let reply = failure.reply().expect("a rejection to send").clone();
            let rejected = agreement_of(waiting, &reply);
            assert!(matches!(rejected, Err(StartFailure::Rejected(_))), "{rejected:?}");
            return Outcome::PeerToPeerRefused;
        }
    };
    assert_eq!(
        consumed,
        20 + 18 + if initiator.revision == 2 { 4 } else { 0 } + if initiator.extensions.any() { 12 } else { 0 }
    );
    assert_eq!(request.private_data(), b"from the initiator");
    let (theirs, reply) = request.accept(b"from the responder").expect("the data fits");
    let (ours, consumed) = match agreement_of(waiting, &reply) {
        Ok(done) => done,
        Err(failure @ StartFailure::NoReadyToReceive { .. }) => {
            assert_eq!(failure.terminate_code(), Some(TerminateCode::MpaNoReadyToReceive));
            assert_eq!(theirs.ready_to_receive, None);
            return Outcome::NoReadyToReceive;
        }
        Err(failure) => panic!("{failure}"),
    };
    assert_eq!(consumed, reply.len());
    same_view(&initiator, &responder, &ours, &theirs);
    Outcome::Agreed
}

fn same_view(initiator: &Offer, responder: &Offer, ours: &Agreement, theirs: &Agreement) {
    assert_eq!((ours.role, theirs.role), (Role::Initiator, Role::Responder));
    assert_eq!((ours.revision, theirs.revision), (initiator.revision, initiator.revision));
    assert_eq!((ours.send_markers, ours.receive_markers), (responder.receive_markers, initiator.receive_markers));
    assert_eq!((theirs.send_markers, theirs.receive_markers), (initiator.receive_markers, responder.receive_markers));
    let crc = initiator.crc || responder.crc;
    assert_eq!((ours.crc, theirs.crc), (crc, crc));
    let extensions = initiator.extensions.and(responder.extensions);
    assert_eq!((ours.extensions, theirs.extensions), (extensions, extensions));
    assert_eq!(ours.ready_to_receive, theirs.ready_to_receive);
    assert_eq!(ours.ready_to_receive.is_some(), initiator.ready_to_receive.is_some());
    assert_eq!((ours.must_open_with(), theirs.must_open_with()), (ours.ready_to_receive, None));
    assert_eq!((ours.responder_must_wait(), theirs.responder_must_wait()), (false, true));
    assert_eq!((ours.private_data(), theirs.private_data()), (&b"from the responder"[..], &b"from the initiator"[..]));
    same_depths(initiator, responder, ours, theirs);
}

fn same_depths(initiator: &Offer, responder: &Offer, ours: &Agreement, theirs: &Agreement) {
    // A read that opens the connection has its place in any case.
    let opening_read = u16::from(ours.ready_to_receive == Some(ReadyKind::Read));
    let negotiated = initiator.revision == 2 && initiator.negotiate_depths && responder.negotiate_depths;
    if negotiated {
        assert!(ours.ord <= theirs.ird && theirs.ord <= ours.ird, "{ours:?} {theirs:?}");
        assert_eq!(ours.ord, initiator.ord.min(responder.ird).max(opening_read));
        assert_eq!(theirs.ord, responder.ord.min(initiator.ird));
        assert_eq!((ours.peer_ird, ours.peer_ord), (theirs.ird, theirs.ord));
        assert_eq!((theirs.peer_ird, theirs.peer_ord), (initiator.ird.min(0x3ffe), initiator.ord));
    } else {
        assert_eq!((ours.ird, ours.ord), (initiator.ird, initiator.ord.max(opening_read)));
        assert_eq!((theirs.ird, theirs.ord), (responder.ird.max(opening_read), responder.ord));
        assert_eq!((ours.peer_ird, ours.peer_ord), (NOT_NEGOTIATED, NOT_NEGOTIATED));
    }
}

#[test]
fn every_pair_of_offers_comes_to_what_the_rules_say() {
    let offers = offers();
    let mut seen = [0u32; 4];
    for initiator in &offers {
        if initiator.ready_to_receive.is_some() && initiator.revision != 2 {
            let revision = initiator.revision;
            assert_eq!(
                Initiator::start(*initiator, &[]).unwrap_err(),
                StartMisuse::PeerToPeerNeedsRevision2 { revision }
            );
            continue;
        }
        for responder in &offers {
            let outcome = run(*initiator, *responder);
            assert_eq!(outcome, expected(initiator, responder), "{initiator:?} {responder:?}");
            seen[outcome as usize] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 1000), "the table has every outcome: {seen:?}");
}

/// The table can fail: two sides that read the agreement by different rules are found out.
#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn two_views_are_told_apart() {
    let (initiator, responder) = (Offer { crc: false, ..Offer::default() }, Offer { crc: false, ..Offer::default() });
    let (waiting, request) = start(initiator, b"from the initiator");
    let (request, _) = request_of(responder, &request).expect("a request");
    let (theirs, mut reply) = request.accept(b"from the responder").expect("the data fits");
    reply[16] |= 0x40; // C, on the way.
    let (ours, _) = agreement_of(waiting, &reply).expect("a reply");
    same_view(&initiator, &responder, &ours, &theirs);
}

#[test]
fn the_bytes_of_rping_are_understood_and_answered() {
    let request = frame(REQUEST, 0x10, 2, &[0, 1, 0, 1]);
    let (request, consumed) = request_of(Offer { crc: false, ..Offer::default() }, &request).expect("a request");
    assert_eq!((consumed, request.peer_ird(), request.peer_ord()), (24, 1, 1));
    let (agreement, reply) = request.accept(&[]).expect("nothing to fit");
    assert_eq!(reply[..], frame(REPLY, 0x10, 2, &[0, 1, 0, 1]));
    assert_eq!((agreement.ird, agreement.ord, agreement.crc), (1, 1, false));
    assert_eq!(agreement.extensions, Extensions::none());
}

#[test]
fn an_initiator_that_wants_what_rping_wants_sends_its_bytes() {
    let offer = Offer { crc: false, ird: 1, ord: 1, ..Offer::default() };
    assert_eq!(start(offer, b"hello").1[..], frame(REQUEST, 0x10, 2, b"\x00\x01\x00\x01hello"));
    let offer = Offer { revision: 1, receive_markers: Some(MarkerSpacing::Standard), ..Offer::default() };
    assert_eq!(start(offer, b"hello").1[..], frame(REQUEST, 0xc0, 1, b"hello"));
}

#[test]
fn a_request_in_full() {
    let offer = Offer {
        ready_to_receive: Some(ReadyKinds { send: true, write: false, read: true }),
        extensions: Extensions::all(),
        ird: 5,
        ord: 6,
        ..Offer::default()
    };
    let private = b"\xc0\x05\x40\x06app\xf7WeftReq\x01\x87\x00\x13";
    assert_eq!(start(offer, b"app").1[..], frame(REQUEST, 0x50, 2, private));
}

#[test]
fn every_cut_gives_the_same_and_later_bytes_are_left() {
    let offer = Offer { extensions: Extensions::all(), ..Offer::default() };
    let (_, request) = start(offer, b"question");
    let accepted = |bytes: &[u8]| request_of(offer, bytes).expect("a request").0.accept(b"answer").expect("fits");
    let reply = accepted(&request).1;
    for cut in 0..request.len() {
        assert!(matches!(Responder::new(offer).handle(&request[..cut]), Step::More(_)), "request cut at {cut}");
    }
    for cut in 0..reply.len() {
        assert!(matches!(start(offer, b"question").0.handle(&reply[..cut]), Step::More(_)), "reply cut at {cut}");
    }
    let more = [&request[..], b"early"].concat();
    assert_eq!(request_of(offer, &more).expect("a request").1, request.len());
    let more = [&reply[..], b"early"].concat();
    assert_eq!(agreement_of(start(offer, &[]).0, &more).expect("a reply").1, reply.len());
}

#[test]
fn a_wrong_key_is_known_by_its_first_wrong_byte() {
    for at in 0..16 {
        let mut bytes = REQUEST[..=at].to_vec();
        bytes[at] = b'!';
        let failure = request_of(Offer::default(), &bytes).expect_err("a wrong key");
        let expected = StartKind::Request;
        assert_eq!(failure, StartFailure::Malformed(Malformed::Key { expected, at, found: b'!' }));
        assert_eq!((failure.terminate_code(), failure.reply()), (None, None));
    }
    let failure = agreement_of(start(Offer::default(), &[]).0, b"HTTP/1.1 400").expect_err("another protocol");
    assert_eq!(
        failure.to_string(),
        "the peer does not speak MPA: byte 0 of what should be an MPA reply is 0x48; is this the right port?"
    );
}

/// RFC 5044 section 7.1.2, rule 8.
#[test]
fn two_initiators_and_two_responders_are_told_from_noise() {
    let failure = agreement_of(start(Offer::default(), &[]).0, &REQUEST[..10]).expect_err("a request");
    assert_eq!(failure, StartFailure::Malformed(Malformed::WrongRole { received: StartKind::Request }));
    let failure = request_of(Offer::default(), &REPLY[..10]).expect_err("a reply");
    assert_eq!(failure, StartFailure::Malformed(Malformed::WrongRole { received: StartKind::Reply }));
}

#[test]
fn announced_lengths_are_judged_before_the_data_comes() {
    let mut bytes = frame(REQUEST, 0, 1, &[]);
    bytes[18..20].copy_from_slice(&513u16.to_be_bytes());
    let failure = request_of(Offer::default(), &bytes).expect_err("too long");
    assert_eq!(failure, StartFailure::Malformed(Malformed::PrivateDataTooLong { announced: 513 }));
    let failure = request_of(Offer::default(), &frame(REQUEST, 0x10, 2, &[0, 1, 0])).expect_err("too short");
    assert_eq!(failure, StartFailure::Malformed(Malformed::NoRoomForDepths { private_length: 3 }));
}

#[test]
fn a_revision_that_nobody_knows_is_refused() {
    let failure = request_of(Offer::default(), &frame(REQUEST, 0, 3, &[])).expect_err("revision 3");
    assert_eq!(failure, StartFailure::Incompatible(Incompatible::Revision { received: 3, highest: 2 }));
    let asks_in_1 = Offer { revision: 1, ..Offer::default() };
    let failure = agreement_of(start(asks_in_1, &[]).0, &frame(REPLY, 0, 2, &[])).expect_err("revision 2");
    assert_eq!(failure, StartFailure::Incompatible(Incompatible::Revision { received: 2, highest: 1 }));
    assert_eq!(Initiator::start(Offer { revision: 3, ..asks_in_1 }, &[]).unwrap_err(), StartMisuse::UnknownRevision(3));
}

/// RFC 5044 section 7.1.1: reserved bits are not checked; S was one of them before revision 2.
#[test]
fn reserved_bits_are_not_looked_at() {
    for revision in [0, 1] {
        let (request, _) = request_of(Offer::default(), &frame(REQUEST, 0x3f, revision, b"ab")).expect("a request");
        assert_eq!((request.private_data(), request.revision()), (&b"ab"[..], revision));
        let (_, reply) = request.accept(&[]).expect("fits");
        assert_eq!(reply[16..18], [0x40, revision]);
    }
}

/// RFC 6581 section 10: an unenhanced request of revision 2 gets an unenhanced reply, an enhanced one must get an
/// enhanced one.
#[test]
fn the_reply_is_enhanced_when_the_request_is() {
    let (request, _) = request_of(Offer::default(), &frame(REQUEST, 0, 2, b"plain")).expect("a request");
    assert_eq!(request.private_data(), b"plain");
    let (agreement, reply) = request.accept(b"too").expect("fits");
    assert_eq!(reply[..], frame(REPLY, 0x40, 2, b"too"));
    assert_eq!((agreement.ird, agreement.ord, agreement.peer_ird), (16, 16, NOT_NEGOTIATED));

    let failure = agreement_of(start(Offer::default(), &[]).0, &frame(REPLY, 0, 2, &[])).expect_err("not enhanced");
    assert_eq!(failure, StartFailure::Malformed(Malformed::NotEnhanced));
}

#[test]
fn a_reply_of_a_lower_revision_leaves_the_depths_to_each_side() {
    let (agreement, _) = agreement_of(start(Offer::default(), &[]).0, &frame(REPLY, 0, 1, b"data")).expect("a reply");
    assert_eq!((agreement.revision, agreement.ird, agreement.ord), (1, 16, 16));
    assert_eq!(agreement.private_data(), b"data");
    let peer_to_peer = Offer { ready_to_receive: Some(ReadyKinds::all()), ..Offer::default() };
    let failure = agreement_of(start(peer_to_peer, &[]).0, &frame(REPLY, 0, 1, &[])).expect_err("no peer-to-peer");
    assert_eq!(failure.terminate_code(), Some(TerminateCode::MpaNoReadyToReceive));
}

/// RFC 6581 section 9.1: the initiator's IRD is at least the responder's ORD, or there is a Terminate with code 6.
#[test]
fn more_reads_than_this_side_takes_need_a_terminate() {
    let offer = Offer { ird: 4, ord: 4, crc: false, ..Offer::default() };
    let reply = frame(REPLY, 0xd0, 2, &[0, 4, 0, 5]);
    let failure = agreement_of(start(offer, &[]).0, &reply).expect_err("too many reads");
    assert_eq!(failure.terminate_code(), Some(TerminateCode::MpaInsufficientResources));
    let framer = failure.terminate_framer().expect("a Terminate to frame");
    assert_eq!((framer.markers(), framer.crc()), (true, true), "as the reply asked for");
    assert_eq!(
        failure.to_string(),
        "the peer wants to have 5 reads under way, this side takes 4 at a time: raise the IRD to 5"
    );
    assert!(agreement_of(start(Offer { ird: 5, ..offer }, &[]).0, &reply).is_ok());
}

/// RFC 6581 section 9.1: 0x3fff in either place leaves the depth that it is about as it was set.
#[test]
fn each_depth_can_be_left_out_of_the_negotiation() {
    let offer = Offer { ird: 7, ord: 8, ..Offer::default() };
    let (agreement, _) =
        agreement_of(start(offer, &[]).0, &frame(REPLY, 0x10, 2, &[0x3f, 0xff, 0, 2])).expect("a reply");
    assert_eq!((agreement.ird, agreement.ord), (2, 8));
    let (agreement, _) =
        agreement_of(start(offer, &[]).0, &frame(REPLY, 0x10, 2, &[0, 2, 0x3f, 0xff])).expect("a reply");
    assert_eq!((agreement.ird, agreement.ord), (7, 2));

    let (request, _) = request_of(offer, &frame(REQUEST, 0x10, 2, &[0x3f, 0xff, 0, 2])).expect("a request");
    let (agreement, reply) = request.accept(&[]).expect("fits");
    assert_eq!((agreement.ird, agreement.ord), (2, 8));
    assert_eq!(reply[20..24], [0, 2, 0x3f, 0xff]);
    let (request, _) = request_of(offer, &frame(REQUEST, 0x10, 2, &[0, 2, 0x3f, 0xff])).expect("a request");
    let (agreement, reply) = request.accept(&[]).expect("fits");
    assert_eq!((agreement.ird, agreement.ord), (7, 2));
    assert_eq!(reply[20..24], [0x3f, 0xff, 0, 2]);
}

#[test]
fn depths_can_be_set_for_one_connection() {
    let (request, _) = request_of(Offer::default(), &frame(REQUEST, 0x10, 2, &[0, 9, 0, 9])).expect("a request");
    let (agreement, reply) = request.with_depths(3, 4).accept(&[]).expect("fits");
    assert_eq!((agreement.ird, agreement.ord), (3, 4));
    assert_eq!(reply[20..24], [0, 3, 0, 4]);
}

/// RFC 6581 section 9.2: the reply says A when the request does, and names a kind even where none fits.
#[test]
fn a_peer_to_peer_request_is_answered_as_one() {
    let offer = Offer { ready_to_receive: Some(ReadyKinds::all()), ..Offer::default() };
    for (kind, ird, ord, answer) in [
        (ReadyKind::Send, 0xc0, 0, [0xc0, 0, 0, 1]),
        (ReadyKind::Write, 0x80, 0x80, [0x80, 0, 0x80, 1]),
        (ReadyKind::Read, 0x80, 0x40, [0x80, 1, 0x40, 1]),
    ] {
        let (request, _) = request_of(offer, &frame(REQUEST, 0x10, 2, &[ird, 1, ord, 0])).expect("a request");
        let (agreement, reply) = request.accept(&[]).expect("fits");
        assert_eq!(agreement.ready_to_receive, Some(kind));
        assert_eq!(reply[20..24], answer);
    }
    let sends = Offer { ready_to_receive: Some(ReadyKinds::only(ReadyKind::Send)), ..offer };
    let (request, _) = request_of(sends, &frame(REQUEST, 0x10, 2, &[0x80, 1, 0x80, 0])).expect("a request");
    let (agreement, reply) = request.accept(&[]).expect("fits");
    assert_eq!((agreement.ready_to_receive, reply[20]), (None, 0xc0));
}

#[test]
fn the_initiator_opens_with_what_the_reply_names() {
    let offer = Offer { ready_to_receive: Some(ReadyKinds::all()), ord: 0, ..Offer::default() };
    for (reply, kind, ord) in [
        ([0xc0, 1, 0, 1], Some(ReadyKind::Send), 0),
        ([0x80, 1, 0x80, 1], Some(ReadyKind::Write), 0),
        ([0x80, 1, 0x40, 1], Some(ReadyKind::Read), 1),
        ([0xc0, 1, 0xc0, 1], Some(ReadyKind::Write), 0),
    ] {
        let (agreement, _) = agreement_of(start(offer, &[]).0, &frame(REPLY, 0x10, 2, &reply)).expect("a reply");
        assert_eq!((agreement.must_open_with(), agreement.ord), (kind, ord));
    }
}

/// RFC 6581 section 9.2: one connection model for both sides, or a Terminate with code 7.
#[test]
fn a_model_that_only_one_side_wants_needs_a_terminate() {
    let offer = Offer { ready_to_receive: Some(ReadyKinds::all()), ..Offer::default() };
    let sends = Offer { ready_to_receive: Some(ReadyKinds::only(ReadyKind::Send)), ..Offer::default() };
    for (offer, reply) in [(offer, [0, 1, 0, 1]), (Offer::default(), [0xc0, 1, 0, 1]), (sends, [0x80, 1, 0xc0, 1])] {
        let failure = agreement_of(start(offer, &[]).0, &frame(REPLY, 0x10, 2, &reply)).expect_err("no model");
        assert_eq!(failure.terminate_code(), Some(TerminateCode::MpaNoReadyToReceive), "{failure}");
        assert!(failure.terminate_framer().is_some());
    }
}

#[test]
fn a_rejection_brings_its_reasons() {
    let offer = Offer { ird: 2, ord: 2, ..Offer::default() };
    let (waiting, request) = start(offer, b"let me in");
    let (request, _) = request_of(Offer { ird: 8, ord: 9, ..Offer::default() }, &request).expect("a request");
    let reply = request.reject(b"no").expect("fits");
    let failure = agreement_of(waiting, &reply).expect_err("a rejection");
    let rejection = Rejection { revision: 2, ird: 8, ord: 9, private_data: Box::new(*b"no"), asked_for_markers: false };
    assert_eq!(failure, StartFailure::Rejected(Box::new(rejection)));
    assert_eq!(failure.terminate_code(), None);
    assert_eq!(
        failure.to_string(),
        "the peer rejected the connection, with 2 bytes of private data; it takes 8 reads at a time and wants 9 under \
         way"
    );
}

#[test]
fn a_rejection_is_one_in_any_revision() {
    let offer = Offer { revision: 1, receive_markers: Some(MarkerSpacing::Standard), ..Offer::default() };
    for revision in [0, 1, 2, 9] {
        let failure = agreement_of(start(offer, &[]).0, &frame(REPLY, 0x20, revision, b"no")).expect_err("rejected");
        assert!(failure.to_string().ends_with("perhaps because markers were asked for"), "{failure}");
    }
}

#[test]
fn private_data_fills_the_frame_and_no_more() {
    let plain = Offer { revision: 1, ..Offer::default() };
    let extended = Offer { extensions: Extensions::all(), ..Offer::default() };
    let siw = Offer { max_private_data: 256, ..Offer::default() };
    for (offer, limit) in [(plain, 512), (Offer::default(), 508), (extended, 496), (siw, 252)] {
        assert_eq!(offer.private_data_limit(), limit);
        let data = vec![7; limit + 1];
        assert_eq!(
            Initiator::start(offer, &data).unwrap_err(),
            StartMisuse::PrivateDataTooLong { given: limit + 1, limit }
        );
        let (waiting, request) = start(offer, &data[..limit]);
        assert_eq!(request.len(), 20 + usize::from(offer.max_private_data));
        let (request, _) = request_of(offer, &request).expect("a request");
        assert_eq!((request.private_data(), request.private_data_limit()), (&data[..limit], limit));
        let (request, misuse) = request.accept(&data).expect_err("too long");
        assert_eq!(misuse, StartMisuse::PrivateDataTooLong { given: limit + 1, limit });
        let (_, reply) = request.accept(&data[..limit]).expect("given back, it can still be accepted");
        assert_eq!(agreement_of(waiting, &reply).expect("a reply").0.private_data(), &data[..limit]);
    }
}

/// A plain peer's application sees the record behind its data; what it sends back is its own.
#[test]
fn a_record_sent_back_by_an_application_agrees_nothing() {
    let offer = Offer { revision: 1, extensions: Extensions::all(), ..Offer::default() };
    let (waiting, request) = start(offer, b"echo");
    let reply = frame(REPLY, 0, 1, &request[20..]);
    let (agreement, _) = agreement_of(waiting, &reply).expect("a reply");
    assert_eq!(agreement.extensions, Extensions::none());
    assert_eq!(agreement.private_data(), &request[20..]);
}

/// Who sent no record takes none: what looks like one is the application's.
#[test]
fn a_record_that_was_not_asked_for_is_data() {
    let plain = Offer { revision: 1, ..Offer::default() };
    let reply = frame(REPLY, 0, 1, b"\xf7WeftRep\x01\x87\x00\x0c");
    let (agreement, _) = agreement_of(start(plain, &[]).0, &reply).expect("a reply");
    assert_eq!((agreement.private_data(), agreement.extensions), (&reply[20..], Extensions::none()));
    let (agreement, _) =
        agreement_of(start(Offer { extensions: Extensions::all(), ..plain }, &[]).0, &reply).expect("a reply");
    assert_eq!((agreement.private_data(), agreement.extensions), (&b""[..], Extensions::all()));
}

#[test]
fn a_rejection_holds_no_record() {
    let offer = Offer { revision: 1, extensions: Extensions::all(), ..Offer::default() };
    let (request, _) = request_of(offer, &start(offer, &[]).1).expect("a request");
    assert_eq!(request.reject(b"no").expect("fits")[..], frame(REPLY, 0x60, 1, b"no"));
}

#[test]
fn no_record_goes_to_who_sent_none() {
    let offer = Offer { extensions: Extensions::all(), ..Offer::default() };
    let (request, _) = request_of(offer, &start(Offer::default(), b"x").1).expect("a request");
    let (agreement, reply) = request.accept(b"y").expect("fits");
    assert_eq!((reply.len(), agreement.extensions), (25, Extensions::none()));
}

/// Without markers, and with markers of every spacing.
const MARKERS: [Option<MarkerSpacing>; 4] =
    [None, Some(MarkerSpacing::Standard), Some(MarkerSpacing::Kilobyte), Some(MarkerSpacing::TwoKilobytes)];

/// Both sides' `(send_markers, receive_markers)`, first the initiator's. The frames go through `meddle` on their way.
type Markers = (Option<MarkerSpacing>, Option<MarkerSpacing>);
fn agreed_markers(initiator: Offer, responder: Offer, meddle: impl Fn(&mut StartFrame)) -> (Markers, Markers) {
    let (waiting, mut request) = start(initiator, b"ask");
    meddle(&mut request);
    let (request, _) = request_of(responder, &request).expect("a request");
    let (theirs, mut reply) = request.accept(b"answer").expect("fits");
    meddle(&mut reply);
    let (ours, _) = agreement_of(waiting, &reply).expect("a reply");
    ((ours.send_markers, ours.receive_markers), (theirs.send_markers, theirs.receive_markers))
}

/// Every wish of either side, with and without the extension: a wish comes true in its own direction if both have the
/// extension, else there are the standard's markers.
#[test]
fn marker_spacings_are_agreed_for_each_direction() {
    let spaced = Extensions { marker_spacing: true, ..Extensions::none() };
    let other = Extensions { large_fpdus: true, ..Extensions::none() };
    for (first, second) in MARKERS.into_iter().flat_map(|first| MARKERS.map(|second| (first, second))) {
        for ours in [Extensions::none(), other, spaced, Extensions::all()] {
            for theirs in [Extensions::none(), other, spaced, Extensions::all()] {
                for revision in [1, 2] {
                    let offer = Offer { revision, ..Offer::default() };
                    let initiator = Offer { receive_markers: first, extensions: ours, ..offer };
                    let responder = Offer { receive_markers: second, extensions: theirs, ..offer };
                    let both = ours.marker_spacing && theirs.marker_spacing;
                    let got = |wish: Option<MarkerSpacing>| if both { wish } else { wish.and(MARKERS[1]) };
                    let expected = ((got(second), got(first)), (got(first), got(second)));
                    assert_eq!(agreed_markers(initiator, responder, |_| ()), expected, "{initiator:?} {responder:?}");
                }
            }
        }
    }
}

/// A Weft that knows nothing of spacings sends zeros where they stand, and doesn't look there: both sides then have the
/// standard's markers, whichever of them is the older.
#[test]
fn an_older_weft_gets_the_standards_spacing() {
    /// What an older Weft writes, and what it would have understood of what it reads.
    fn without_spacings(frame: &mut StartFrame) {
        let features = frame.len() - 3;
        frame[features] &= 0x03;
    }
    for (first, second) in MARKERS.into_iter().flat_map(|first| MARKERS.map(|second| (first, second))) {
        let offer = Offer { extensions: Extensions::usual(), ..Offer::default() };
        let older = Extensions { marker_spacing: false, ..Extensions::usual() };
        let (initiator, responder) =
            (Offer { receive_markers: first, ..offer }, Offer { receive_markers: second, ..offer });
        let standard = (second.and(MARKERS[1]), first.and(MARKERS[1]));
        let expected = (standard, (standard.1, standard.0));
        let old_initiator = Offer { extensions: older, ..initiator };
        assert_eq!(agreed_markers(old_initiator, responder, without_spacings), expected);
        let old_responder = Offer { extensions: older, ..responder };
        assert_eq!(agreed_markers(initiator, old_responder, without_spacings), expected);
        // Nor does it say anything of them to one that may not know them.
        let (waiting, _) = start(old_initiator, b"ask");
        let (request, _) = request_of(responder, &start(old_initiator, b"ask").1).expect("a request");
        let (_, reply) = request.accept(b"answer").expect("fits");
        assert_eq!(reply[reply.len() - 3], 0x07, "no spacing in it");
        let (agreement, _) = agreement_of(waiting, &reply).expect("a reply");
        assert_eq!((agreement.send_markers, agreement.receive_markers), standard);
    }
}

/// A plain peer has no record: the standard's markers, if any.
#[test]
fn a_plain_peer_gets_the_standards_spacing() {
    for wish in MARKERS {
        let offer = Offer { revision: 1, receive_markers: wish, extensions: Extensions::usual(), ..Offer::default() };
        for (flags, theirs) in [(0x40, None), (0xc0, MARKERS[1])] {
            let (agreement, _) = agreement_of(start(offer, &[]).0, &frame(REPLY, flags, 1, b"plain")).expect("a reply");
            assert_eq!((agreement.send_markers, agreement.receive_markers), (theirs, wish.and(MARKERS[1])));
            let (request, _) = request_of(offer, &frame(REQUEST, flags, 1, b"plain")).expect("a request");
            let (agreement, reply) = request.accept(b"too").expect("fits");
            assert_eq!((agreement.send_markers, agreement.receive_markers), (theirs, wish.and(MARKERS[1])));
            assert_eq!(reply[20..], *b"too");
        }
    }
}

/// A responder that keeps another spacing than it was asked for, or none, is taken to send the standard's.
#[test]
fn a_spacing_that_is_not_confirmed_is_not_used() {
    let offer = Offer { revision: 1, extensions: Extensions::usual(), ..Offer::default() };
    for (wish, code) in [(MarkerSpacing::Kilobyte, 1), (MarkerSpacing::TwoKilobytes, 2)] {
        let offer = Offer { receive_markers: Some(wish), ..offer };
        assert_eq!(start(offer, &[]).1[20 + 9], 0x07 | code << 3, "the request says what is wanted");
        let kept = |code: u8| 0x07 | code << 5;
        let standard = MarkerSpacing::Standard;
        for (features, expected) in [
            (kept(code), wish),
            (kept(0), standard),
            (kept(3 ^ code), standard),
            (kept(3), standard),
            (code << 5, standard),
        ] {
            let mut record = *b"\xf7WeftRep\x01\x00\x00\x0c";
            record[9] = features;
            let (agreement, _) = agreement_of(start(offer, &[]).0, &frame(REPLY, 0x40, 1, &record)).expect("a reply");
            assert_eq!(agreement.receive_markers, Some(expected), "features {features:#x}");
        }
    }
}

/// The Terminate of a start-up that fails is framed as the responder wants it.
#[test]
fn a_terminate_of_the_start_up_has_the_agreed_spacing() {
    let offer = Offer { ird: 4, extensions: Extensions::usual(), ..Offer::default() };
    let responder = Offer { ord: 9, receive_markers: Some(MarkerSpacing::Kilobyte), ..offer };
    let (request, _) = request_of(responder, &start(Offer { ird: 9, ..offer }, &[]).1).expect("a request");
    let (_, reply) = request.accept(&[]).expect("fits");
    let failure = agreement_of(start(offer, &[]).0, &reply).expect_err("too many reads");
    let framer = failure.terminate_framer().expect("a Terminate to frame");
    assert_eq!(framer.marker_spacing(), Some(MarkerSpacing::Kilobyte));
}

#[test]
fn peer_to_peer_without_a_kind_is_a_misuse() {
    let offer = Offer { ready_to_receive: Some(ReadyKinds::default()), ..Offer::default() };
    assert_eq!(Initiator::start(offer, &[]).unwrap_err(), StartMisuse::NoReadyKind);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(
        key in 0..3u8,
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        short: bool,
        peer_to_peer: bool,
    ) {
        if let Some(start) = bytes.first_chunk_mut::<16>().filter(|_| key > 0) {
            *start = if key == 1 { *REQUEST } else { *REPLY };
        }
        if let Some(rest) = bytes.get_mut(17..19).filter(|_| short) {
            rest[0] %= 3;
            rest[1] %= 2;
        }
        let ready_to_receive = peer_to_peer.then(ReadyKinds::all);
        let offer = Offer { ready_to_receive, extensions: Extensions::usual(), ..Offer::default() };
        if let Step::Done((request, consumed)) = Responder::new(offer).handle(&bytes) {
            prop_assert!(consumed <= bytes.len() && request.private_data().len() <= 512);
            prop_assert!(request.accept(b"fine").is_ok());
        }
        if let Step::Done((agreement, consumed)) = start(offer, b"hello").0.handle(&bytes) {
            prop_assert!(consumed <= bytes.len() && agreement.private_data().len() <= 512);
        }
    }
}
