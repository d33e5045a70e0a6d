//! The rules of sending, answering and completing, one test each.

use crate::pair::{Area, Pair, Rights, Side, carry, config, gather, inline, memory, send, target};
use weft_base::{Gather, Slice, Stag};
use weft_rdmap::{
    Action, AtomicCode, Closed, CompletionKind, Operation, PostError, ReadyKind, RequestFlags, Role, SendRequest,
    State, Status, StreamConfig, StreamError,
};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode};
use weft_wire::terminate::TerminateCode;

fn header(bytes: &[u8]) -> (Header, Opcode) {
    let header = Header::parse(bytes).unwrap();
    (header, Control::parse(header.control).unwrap().opcode)
}

/// Offset (TO or MO), payload bytes and last flag of each segment that is given out.
fn segments(pair: &mut Pair, max_ulpdu: u32) -> Vec<(u64, usize, bool)> {
    core::iter::from_fn(|| pair.a.transmit(max_ulpdu))
        .map(|flying| {
            let (header, _) = header(&flying.bytes);
            let offset = match header.target {
                Target::Tagged { offset, .. } => offset,
                Target::Untagged { offset, .. } => offset.into(),
            };
            (offset, flying.bytes.len() - header.length(), header.last)
        })
        .collect()
}

// --- Segmentation (RFC 5041 section 5.2)

#[test]
fn untagged_message_is_cut_as_in_the_standards_example() {
    let mut pair = Pair::new();
    let area = pair.area(2048, Rights::Local);
    pair.a.post(1, send(gather(area.whole())));
    assert_eq!(segments(&mut pair, 1500), [(0, 1482, false), (1482, 566, true)]);
}

#[test]
fn tagged_message_is_cut_as_in_the_standards_example() {
    let mut pair = Pair::new();
    let area = pair.area(2048, Rights::Local);
    pair.a.post(1, Operation::Write { payload: gather(area.whole()), target: target(Stag(1), 16384) });
    assert_eq!(segments(&mut pair, 1500), [(16384, 1486, false), (17870, 562, true)]);
}

#[test]
fn segment_size_may_change_within_a_message() {
    let mut pair = Pair::new();
    let (from, to) = (pair.area(3000, Rights::Local), pair.area(3000, Rights::Local));
    from.fill(1);
    pair.a.post(1, send(gather(from.whole())));
    pair.b.post_receive(2, to.whole());
    for max_ulpdu in [1500, 128, 0, 200, 65535] {
        assert!(carry(&mut pair.a, &mut pair.b, max_ulpdu));
    }
    assert!(!carry(&mut pair.a, &mut pair.b, 1500));
    assert_eq!(to.bytes(), from.bytes());
    assert_eq!((pair.b.received_ids(), pair.b.received[0].length), (vec![(2, Status::Success)], 3000));
}

#[test]
fn longest_message() {
    let mut pair = Pair::new();
    let area = pair.area(8, Rights::Local);
    let huge = Slice { length: u32::MAX, ..area.whole() };
    let operation = Operation::Write { payload: gather(huge), target: target(Stag(1), u64::MAX - u64::from(u32::MAX)) };
    pair.registry().pin(memory::DOMAIN, area.whole(), weft_memory::LocalRight::Read).unwrap();
    pair.a
        .stream
        .post(SendRequest { id: 1, operation, signaled: true, fence: false, flags: RequestFlags::NONE })
        .unwrap();
    let lengths = [(); 4].map(|()| pair.a.stream.poll_transmit(1 << 31).map(|segment| segment.length));
    assert_eq!(lengths, [Some(1 << 31), Some(1 << 31), Some(27 + 14), None]);
    pair.a.stream.handle_sent(3);
    assert_eq!(pair.a.stream.poll_send_completion().map(|completion| completion.length), Some(u32::MAX));
}

#[test]
fn zero_length_messages_are_one_segment_each() {
    let mut pair = Pair::new();
    let receive = pair.area(8, Rights::Local);
    pair.a.post(1, send(inline(b"")));
    pair.a.post(2, Operation::Write { payload: gather(receive.slice(0, 0)), target: target(Stag(0), 0) });
    pair.a.post(3, Operation::Read { sink: Gather::empty(), source: target(Stag(0), 0) });
    pair.b.post_receive(9, receive.slice(0, 0));
    pair.run(1500);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success), (3, Status::Success)]);
    assert_eq!(pair.b.received_ids(), [(9, Status::Success)]);
    assert_eq!((pair.a.given, pair.b.given), (3, 1));
}

#[test]
fn a_gather_list_is_one_message() {
    let mut pair = Pair::new();
    let (from, to) = (pair.area(300, Rights::Local), pair.area(300, Rights::Write));
    from.fill(4);
    let list = Gather::new(&[from.slice(200, 100), from.slice(0, 7), from.slice(50, 150)]).unwrap();
    let payload = weft_rdmap::Payload::Gather(list);
    pair.a.post(1, Operation::Write { payload, target: target(to.stag, to.base) });
    pair.run(128);
    let bytes = from.bytes();
    let expected = [&bytes[200..300], &bytes[..7], &bytes[50..200], &[0; 43]].concat();
    assert_eq!(to.bytes(), expected);
    assert_eq!((from.pins(), to.pins()), (0, 0));
}

#[test]
fn inline_payload_is_cut_too() {
    let mut pair = Pair::new();
    let to = pair.area(weft_rdmap::MAX_INLINE as u32, Rights::Local);
    let bytes: Vec<u8> = (0..weft_rdmap::MAX_INLINE as u8).collect();
    pair.b.post_receive(2, to.whole());
    pair.a.post(1, send(inline(&bytes)));
    pair.run(128);
    assert_eq!(pair.a.given, 2);
    assert_eq!(to.bytes(), bytes);
}

// --- Order and completion (RFC 5040 section 5.5)

#[test]
fn a_send_completes_when_the_stream_below_has_sent_it() {
    let mut pair = Pair::new();
    let area = pair.area(200, Rights::Local);
    pair.a.post(1, send(gather(area.whole())));
    pair.a.transmit(128).unwrap();
    pair.a.transmit(128).unwrap();
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.sent, []);
    assert_eq!(area.pins(), 1);
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success)]);
    assert_eq!(area.pins(), 0);
}

#[test]
fn requests_complete_in_the_order_of_posting() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(64, Rights::Local), pair.area(64, Rights::Read));
    pair.b.post_receive(9, sink.slice(32, 8));
    pair.a.post(1, Operation::Read { sink: sink.slice(0, 8).into(), source: target(source.stag, source.base) });
    pair.a.post(2, send(inline(b"x")));
    assert!(carry(&mut pair.a, &mut pair.b, 1500) && carry(&mut pair.a, &mut pair.b, 1500));
    assert_eq!(pair.b.received_ids(), [(9, Status::Success)]);
    assert_eq!(pair.a.sent, [], "the read before it is not answered");
    pair.run(1500);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn unsignaled_requests_complete_silently_unless_they_fail() {
    let mut pair = Pair::new();
    let area = pair.area(64, Rights::Local);
    let request = |id, signaled| SendRequest {
        id,
        operation: send(gather(area.slice(0, 8))),
        signaled,
        fence: false,
        flags: RequestFlags::NONE,
    };
    for id in 0..100 {
        pair.a.try_post(request(id, id == 50)).unwrap();
        pair.a.transmit(1500).unwrap();
        pair.a.stream.handle_sent(1);
        pair.a.poll();
    }
    assert_eq!(pair.a.sent_ids(), [(50, Status::Success)]);
    assert_eq!((pair.a.stream.take_silent(), pair.a.stream.take_silent()), (99, 0));
    pair.a.try_post(request(100, false)).unwrap();
    pair.a.close_below(Closed::Reset);
    assert_eq!(pair.a.sent_ids(), [(50, Status::Success), (100, Status::Flushed)]);
    assert_eq!(area.pins(), 0);
}

#[test]
fn a_fence_waits_for_reads() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(64, Rights::Local), pair.area(64, Rights::Read));
    pair.b.post_receive(9, sink.slice(32, 8));
    let read = Operation::Read { sink: sink.slice(0, 8).into(), source: target(source.stag, source.base) };
    pair.a.post(1, read);
    let operation = send(inline(b"x"));
    pair.a.try_post(SendRequest { id: 2, operation, signaled: true, fence: true, flags: RequestFlags::NONE }).unwrap();
    assert!(carry(&mut pair.a, &mut pair.b, 1500));
    assert!(!carry(&mut pair.a, &mut pair.b, 1500), "the fenced send waits");
    assert!(carry(&mut pair.b, &mut pair.a, 1500));
    assert!(carry(&mut pair.a, &mut pair.b, 1500));
    assert_eq!(pair.b.received_ids(), [(9, Status::Success)]);
}

#[test]
fn reads_beyond_ord_wait_and_hold_up_what_follows() {
    let mut pair = Pair::with(StreamConfig { ord: 2, ..config(Role::Initiator) }, config(Role::Responder));
    let (sink, source) = (pair.area(64, Rights::Local), pair.area(64, Rights::Read));
    source.fill(8);
    for id in 0..3 {
        let sink = sink.slice(id * 8, 8).into();
        pair.a.post(id, Operation::Read { sink, source: target(source.stag, source.base + id) });
    }
    pair.b.post_receive(9, sink.slice(32, 8));
    pair.a.post(3, send(inline(b"x")));
    let requests = [(); 3].map(|()| carry(&mut pair.a, &mut pair.b, 1500));
    assert_eq!(requests, [true, true, false]);
    pair.run(1500);
    assert_eq!(pair.a.sent_ids(), [0, 1, 2, 3].map(|id| (id, Status::Success)));
    let source = source.bytes();
    assert_eq!(sink.bytes()[..24], [&source[0..8], &source[1..9], &source[2..10]].concat());
}

#[test]
fn answers_and_requests_take_turns_message_by_message() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(4000, Rights::Local), pair.area(4000, Rights::Read));
    for id in 0..2 {
        let sink = sink.slice(id * 300, 300).into();
        pair.a.post(id, Operation::Read { sink, source: target(source.stag, source.base) });
        assert!(carry(&mut pair.a, &mut pair.b, 1500));
    }
    for id in 0..3 {
        pair.b.post(id, Operation::Write { payload: gather(source.slice(0, 200)), target: target(Stag(1), 0) });
    }
    let opcodes: Vec<_> = core::iter::from_fn(|| pair.b.transmit(200)).map(|flying| header(&flying.bytes).1).collect();
    let (write, response) = ([Opcode::Write; 2], [Opcode::ReadResponse; 2]);
    assert_eq!(opcodes, [response, write, response, write, write].concat());
}

#[test]
fn what_asks_for_an_answer_goes_before_answers() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(4000, Rights::Local), pair.area(4000, Rights::Read));
    let read =
        |id: u64| Operation::Read { sink: sink.slice(id * 300, 300).into(), source: target(source.stag, source.base) };
    for id in 0..2 {
        pair.a.post(id, read(id));
        assert!(carry(&mut pair.a, &mut pair.b, 1500));
    }
    pair.b.post(0, Operation::Write { payload: gather(source.slice(0, 200)), target: target(Stag(1), 0) });
    for id in 2..4 {
        pair.b.post(id, read(id));
    }
    let opcodes: Vec<_> = core::iter::from_fn(|| pair.b.transmit(200)).map(|flying| header(&flying.bytes).1).collect();
    let (write, response, request) = ([Opcode::Write; 2], [Opcode::ReadResponse; 2], [Opcode::ReadRequest; 2]);
    assert_eq!(
        opcodes,
        [&response[..], &write, &request, &response].concat(),
        "in the order of posting, and before answers"
    );
}

#[test]
fn sending_stops_when_too_much_is_on_its_way() {
    let config = StreamConfig { send_depth: 1, ..config(Role::Responder) };
    let mut pair = Pair::with(StreamConfig { ord: 200, ..config }, StreamConfig { ird: 200, ..config });
    let (sink, source) = (pair.area(8, Rights::Local), pair.area(8, Rights::Read));
    let mut answers = 0;
    for id in 0..1000 {
        pair.a.post(id, Operation::Read { sink: sink.whole().into(), source: target(source.stag, source.base) });
        assert!(carry(&mut pair.a, &mut pair.b, 1500));
        let Some(answer) = pair.b.transmit(1500) else { break };
        answers += 1;
        pair.a.take(&answer).unwrap();
    }
    assert!(answers > 64, "{answers}");
    pair.b.stream.handle_sent(1);
    assert!(pair.b.stream.can_transmit());
}

// --- Operations

#[test]
fn read_goes_straight_to_its_sink() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(5000, Rights::Local), pair.area(5000, Rights::Read));
    source.fill(2);
    let list = Gather::new(&[sink.slice(4000, 1000), sink.slice(0, 3500)]).unwrap();
    pair.a.post(1, Operation::Read { sink: list, source: target(source.stag, source.base + 500) });
    pair.run(1000);
    assert_eq!((sink.pins(), source.pins()), (0, 0));
    let (sink, source) = (sink.bytes(), source.bytes());
    assert_eq!((&sink[4000..], &sink[..3500]), (&source[500..1500], &source[1500..5000]));
    assert_eq!((pair.a.sent[0].kind, pair.a.sent[0].length), (CompletionKind::Read, 4500));
}

#[test]
fn what_is_missing_of_an_answer_is_known_from_its_first_segment_on() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(2500, Rights::Local), pair.area(2500, Rights::Read));
    for id in 0..2 {
        pair.a.post(id, Operation::Read { sink: sink.whole().into(), source: target(source.stag, source.base) });
        let request = pair.a.transmit(1500).unwrap();
        pair.b.take(&request).unwrap();
    }
    assert_eq!(pair.a.stream.missing_of_answer(), 0);
    let mut missing = Vec::new();
    while let Some(segment) = pair.b.transmit(1014) {
        pair.a.take(&segment).unwrap();
        missing.push(pair.a.stream.missing_of_answer());
    }
    assert_eq!(missing, [1500, 500, 0, 1500, 500, 0]);
}

#[test]
fn sinks_of_reads_have_stags_of_their_own() {
    let mut pair = Pair::new();
    let area = pair.area(64, Rights::All);
    let mut stags: Vec<_> = (0..4)
        .map(|id| {
            let sink = area.slice(id * 8, 8).into();
            pair.a.post(id, Operation::Read { sink, source: target(Stag(1), 0) });
            pair.a.transmit(1500).unwrap().bytes[18..22].to_vec()
        })
        .collect();
    stags.sort();
    stags.dedup();
    assert_eq!(stags.len(), 4);
    assert!(!stags.contains(&area.stag.0.to_be_bytes().to_vec()));
}

#[test]
fn atomics() {
    let mut pair = Pair::new();
    let (sink, cell) = (pair.area(64, Rights::Local), pair.area(8, Rights::Atomic));
    let atomic = |index: u64, code, data, mask, compare, compare_mask| Operation::Atomic {
        code,
        data,
        mask,
        compare,
        compare_mask,
        sink: sink.slice(index * 8, 8),
        target: target(cell.stag, cell.base),
    };
    cell.write(0, &0xff_u64.to_ne_bytes());
    pair.a.post(1, atomic(0, AtomicCode::FetchAdd, 0x0101, 0x80, 0, 0));
    pair.a.post(2, atomic(1, AtomicCode::Swap, 7, 0, 0, 0));
    pair.a.post(3, atomic(2, AtomicCode::CompareSwap, 9, u64::MAX, 6, u64::MAX));
    pair.a.post(4, atomic(3, AtomicCode::CompareSwap, 9, u64::MAX, 7, u64::MAX));
    pair.run(1500);
    let originals: Vec<_> =
        sink.bytes().chunks(8).take(4).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(originals, [0xff, 0x0100, 7, 7]);
    assert_eq!(cell.bytes(), 9_u64.to_ne_bytes());
    assert_eq!(pair.a.sent[2].kind, CompletionKind::Atomic(AtomicCode::CompareSwap));
    assert_eq!(pair.a.sent_ids(), [1, 2, 3, 4].map(|id| (id, Status::Success)));
    assert_eq!((sink.pins(), cell.pins()), (0, 0));
}

#[test]
fn send_with_invalidate_and_solicited_event() {
    let mut pair = Pair::new();
    let (window, buffer) = (pair.area(64, Rights::Write), pair.area(64, Rights::Local));
    pair.b.post_receive(7, buffer.whole());
    pair.a.post(1, Operation::Write { payload: inline(b"a"), target: target(window.stag, window.base) });
    let invalidate = Some(window.stag);
    pair.a.post(2, Operation::Send { payload: inline(b"b"), solicited: true, invalidate });
    pair.a.post(3, Operation::Write { payload: inline(b"c"), target: target(window.stag, window.base) });
    pair.run(1500);
    let received = pair.b.received[0];
    assert_eq!((received.invalidated, received.solicited, received.length), (invalidate, true, 1));
    assert_eq!(&window.bytes()[..1], b"a");
    let error = Some(TerminateCode::TaggedInvalidStag);
    assert!(matches!(pair.b.stream.error(), Some(StreamError::Violation(violation)) if violation.code() == error));
    assert!(matches!(pair.a.stream.error(), Some(StreamError::Peer(terminate)) if Some(terminate.code) == error));
}

// --- Start

#[test]
fn what_somebody_waits_for_says_so_with_its_last_segment() {
    let mut side = Side::new(&memory::registry(), config(Role::Initiator));
    let memory = Area::new(&side.registry, 300, Rights::Local);
    let write = || Operation::Write { target: target(Stag(1), 0), payload: gather(memory.whole()) };
    let cases = [(write(), true, true), (write(), false, false), (send(inline(b"x")), true, true)];
    for (operation, signaled, expected) in cases {
        side.try_post(SendRequest { id: 1, operation, signaled, fence: false, flags: RequestFlags::NONE }).unwrap();
        let mut awaited = Vec::new();
        while let Some(segment) = side.stream.poll_transmit(128) {
            awaited.push(segment.is_awaited);
        }
        assert_eq!(awaited.pop(), Some(expected));
        assert!(!awaited.contains(&true), "only the end of a message is awaited");
    }
    // Of signaled requests that go out in a row the last one says it for those before it.
    for signaled in [true, true, false, true] {
        let request = SendRequest { id: 1, operation: write(), signaled, fence: false, flags: RequestFlags::NONE };
        side.try_post(request).unwrap();
    }
    let mut awaited = Vec::new();
    while let Some(segment) = side.stream.poll_transmit(1500) {
        awaited.push(segment.is_awaited);
    }
    assert_eq!(awaited, [false, true, false, true]);
    // A read completes with its answer, not with its request.
    let read = || Operation::Read { source: target(Stag(1), 0), sink: memory.slice(0, 8).into() };
    side.post(2, read());
    assert!(!side.stream.poll_transmit(128).expect("a request").is_awaited);
    // But no sooner than what goes before it, of which its answer says nothing.
    let unasked = SendRequest { id: 3, operation: write(), signaled: false, fence: false, flags: RequestFlags::NONE };
    side.try_post(unasked).unwrap();
    side.post(4, read());
    side.post(5, read());
    let mut awaited = Vec::new();
    while let Some(segment) = side.stream.poll_transmit(1500) {
        awaited.push(segment.is_awaited);
    }
    assert_eq!(awaited, [false, true, false]);
}

#[test]
fn ready_to_receive_messages() {
    for kind in [ReadyKind::Send, ReadyKind::Write, ReadyKind::Read] {
        let ready =
            |role| StreamConfig { ready_to_receive: Some(kind), responder_waits: true, ird: 0, ord: 0, ..config(role) };
        let mut pair = Pair::with(ready(Role::Initiator), ready(Role::Responder));
        let buffer = pair.area(64, Rights::Local);
        pair.a.post_receive(1, buffer.slice(0, 8));
        pair.b.post_receive(2, buffer.slice(8, 8));
        pair.b.post(3, send(inline(b"from b")));
        pair.a.post(4, send(inline(b"from a")));
        assert!(!carry(&mut pair.b, &mut pair.a, 1500), "{kind:?}: a responder does not speak first");
        pair.run(1500);
        assert_eq!(pair.a.sent_ids(), [(4, Status::Success)], "{kind:?}");
        assert_eq!(pair.b.sent_ids(), [(3, Status::Success)], "{kind:?}");
        assert_eq!(pair.a.received_ids(), [(1, Status::Success)], "{kind:?}");
        assert_eq!(pair.b.received_ids(), [(2, Status::Success)], "{kind:?}");
    }
}

#[test]
fn what_cannot_be_posted() {
    let limits = StreamConfig { extensions: false, ord: 0, send_depth: 1, ..config(Role::Initiator) };
    let mut pair = Pair::with(limits, config(Role::Responder));
    let area = pair.area(64, Rights::Local);
    let post = |pair: &mut Pair, operation| {
        pair.a
            .try_post(SendRequest { id: 1, operation, signaled: true, fence: false, flags: RequestFlags::NONE })
            .unwrap_err()
    };
    let immediate = Operation::Immediate { immediate: 1, solicited: false };
    assert_eq!(post(&mut pair, immediate), PostError::ExtensionsNotAgreed);
    let with_message = Operation::SendImmediate { payload: inline(b"x"), immediate: 1, solicited: false };
    assert_eq!(post(&mut pair, with_message), PostError::ExtensionsNotAgreed);
    let read = Operation::Read { sink: area.whole().into(), source: target(Stag(1), 0) };
    assert_eq!(post(&mut pair, read), PostError::NoReadsAgreed);
    let wrap = Operation::Write { payload: inline(b"ab"), target: target(Stag(1), u64::MAX) };
    assert_eq!(post(&mut pair, wrap), PostError::OffsetWraps { offset: u64::MAX, length: 2 });
    pair.a.post(1, send(inline(b"")));
    assert_eq!(post(&mut pair, send(inline(b""))), PostError::QueueFull { depth: 1 });
    let atomic = Operation::Atomic {
        code: AtomicCode::Swap,
        data: 0,
        mask: 0,
        compare: 0,
        compare_mask: 0,
        sink: area.slice(0, 4),
        target: target(Stag(1), 0),
    };
    let posted = pair.b.try_post(SendRequest {
        id: 1,
        operation: atomic,
        signaled: true,
        fence: false,
        flags: RequestFlags::NONE,
    });
    assert_eq!(posted, Err(PostError::InvalidAtomic { sink_length: 4 }));
    pair.a.stream.abort();
    assert_eq!(post(&mut pair, send(inline(b""))), PostError::NotReady(State::Failed));
    assert_eq!(area.pins(), 0);
}

// --- End

#[test]
fn close_sends_what_was_posted_and_waits_for_answers() {
    let mut pair = Pair::new();
    let (sink, source) = (pair.area(64, Rights::Local), pair.area(64, Rights::Read));
    pair.b.post_receive(9, sink.slice(32, 8));
    pair.a.post(1, send(inline(b"x")));
    pair.a.post(2, Operation::Read { sink: sink.slice(0, 8).into(), source: target(source.stag, source.base) });
    pair.a.stream.close();
    pair.a.poll();
    assert_eq!((pair.a.stream.state(), pair.a.actions.len()), (State::Draining, 0));
    pair.run(1500);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!((pair.a.stream.state(), &pair.a.actions[..]), (State::Closing, &[Action::CloseSend][..]));
    // The other direction stays open.
    pair.a.post_receive(5, sink.slice(40, 8));
    pair.b.post(6, send(inline(b"y")));
    pair.run(1500);
    assert_eq!(pair.a.received_ids(), [(5, Status::Success)]);
    pair.a.close_below(Closed::Graceful);
    pair.b.close_below(Closed::Graceful);
    assert_eq!((pair.a.stream.error(), pair.b.stream.error()), (None, None));
    assert_eq!((sink.pins(), source.pins()), (0, 0));
}

#[test]
fn every_request_completes_once_when_the_stream_below_ends() {
    for how in [Closed::Graceful, Closed::MidFrame, Closed::Reset, Closed::TimedOut] {
        let mut pair = Pair::new();
        let area = pair.area(400, Rights::Read);
        pair.b.post_receive(1, area.slice(0, 10));
        pair.b.post_receive(2, area.slice(10, 300));
        pair.b.post_receive(3, area.slice(20, 10));
        pair.a.post(1, send(inline(b"x")));
        pair.run(1500);
        pair.a.post(2, Operation::Read { sink: area.slice(0, 8).into(), source: target(area.stag, area.base) });
        pair.a.post(3, send(gather(area.slice(0, 300))));
        pair.a.post(4, send(gather(area.slice(0, 300))));
        for _ in 0..2 {
            let flying = pair.a.transmit(200).unwrap();
            pair.b.take(&flying).unwrap();
        }
        pair.a.close_below(how);
        pair.b.close_below(how);
        let flushed = |ids: &[u64]| ids.iter().map(|id| (*id, Status::Flushed)).collect::<Vec<_>>();
        assert_eq!(pair.a.sent_ids()[1..], flushed(&[2, 3, 4]));
        assert_eq!(pair.b.received_ids()[0], (1, Status::Success));
        assert_eq!(pair.b.received_ids()[1..], flushed(&[2, 3]));
        assert_eq!(pair.a.stream.error(), Some(StreamError::Lost(how)));
        assert_eq!(area.pins(), 0);
    }
}

/// Between two frames of one message the peer may not close, though nothing of ours is under way then.
#[test]
fn an_end_in_the_middle_of_a_message_is_an_error() {
    for (is_send, is_whole) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut pair = Pair::new();
        let (area, window) = (pair.area(400, Rights::Local), pair.area(400, Rights::Write));
        if is_send {
            pair.b.post_receive(1, area.slice(100, 300));
            pair.a.post(2, send(gather(area.slice(0, 300))));
        } else {
            let target = target(window.stag, window.base);
            pair.a.post(2, Operation::Write { payload: gather(area.slice(0, 300)), target });
        }
        let mut left = if is_whole { usize::MAX } else { 1 };
        while left > 0
            && let Some(flying) = pair.a.transmit(200)
        {
            pair.b.take(&flying).unwrap();
            left -= 1;
        }
        pair.b.close_below(Closed::Graceful);
        let expected = (!is_whole).then_some(StreamError::Lost(Closed::MidMessage));
        assert_eq!(pair.b.stream.error(), expected, "a send: {is_send}");
    }
}

#[test]
fn abort_flushes_but_waits_for_what_the_stream_below_may_read() {
    let mut pair = Pair::new();
    let area = pair.area(400, Rights::Local);
    pair.a.post(1, send(gather(area.slice(0, 300))));
    pair.a.post(2, send(gather(area.slice(0, 300))));
    pair.a.transmit(200).unwrap();
    pair.a.stream.abort();
    pair.a.poll();
    assert_eq!((&pair.a.sent[..], &pair.a.actions[..]), (&[][..], &[Action::Abort][..]));
    assert!(pair.a.transmit(200).is_none());
    pair.a.close_below(Closed::Reset);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Flushed), (2, Status::Flushed)]);
    assert_eq!(pair.a.stream.error(), Some(StreamError::Aborted));
    assert_eq!(area.pins(), 0);
}

#[test]
fn a_terminate_cuts_off_the_message_that_was_being_sent() {
    let mut pair = Pair::new();
    let area = pair.area(400, Rights::Local);
    pair.a.post(1, send(gather(area.slice(0, 300))));
    pair.a.transmit(200).unwrap();
    pair.a.stream.fail(TerminateCode::MpaCrc);
    let flying = pair.a.transmit(200).unwrap();
    assert_eq!(header(&flying.bytes).1, Opcode::Terminate);
    assert!(pair.a.transmit(200).is_none());
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!((pair.a.sent_ids(), pair.a.actions.len()), (vec![(1, Status::Flushed)], 0));
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.actions, [Action::CloseSend]);
}

#[test]
fn what_was_complete_before_the_end_stays_a_success() {
    let mut pair = Pair::new();
    let area = pair.area(64, Rights::Local);
    pair.a.post(1, send(gather(area.whole())));
    pair.a.transmit(200).unwrap();
    pair.a.stream.handle_sent(1);
    pair.a.post(2, send(gather(area.whole())));
    pair.a.close_below(Closed::Reset);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Flushed)]);
}

#[test]
fn a_dropped_stream_leaves_no_pins() {
    let mut pair = Pair::new();
    let area = pair.area(4000, Rights::Read);
    pair.b.post_receive(1, area.slice(0, 10));
    pair.a.post(2, Operation::Read { sink: area.slice(0, 2000).into(), source: target(area.stag, area.base) });
    pair.a.post(3, send(gather(area.slice(0, 8))));
    assert!(carry(&mut pair.a, &mut pair.b, 200) && carry(&mut pair.a, &mut pair.b, 200));
    pair.b.transmit(200).unwrap();
    assert!(area.pins() > 0);
    drop(pair);
    assert_eq!(area.pins(), 0);
}

#[test]
fn a_placement_that_is_not_the_last_one_counts_for_nothing() {
    let mut pair = Pair::new();
    let area = pair.area(64, Rights::Write);
    pair.a.post(1, Operation::Write { payload: inline(b"a"), target: target(area.stag, area.base) });
    let flying = pair.a.transmit(200).unwrap();
    let first = pair.b.locate(&flying).unwrap();
    let second = pair.b.locate(&flying).unwrap();
    assert!(pair.b.stream.recheck(&first).is_err() && pair.b.stream.recheck(&second).is_ok());
    pair.b.stream.handle_placed(&first).unwrap();
    assert!(pair.b.locate(&flying).is_ok(), "nothing was delivered");
    pair.b.stream.handle_placed(&second).unwrap();
    pair.b.take(&flying).unwrap();
    pair.b.take(&flying).unwrap_err();
}

#[test]
fn a_write_is_rechecked_between_the_steps_of_placing() {
    let mut pair = Pair::new();
    let area = pair.area(64, Rights::Write);
    pair.a.post(1, Operation::Write { payload: inline(b"abcd"), target: target(area.stag, area.base) });
    let flying = pair.a.transmit(200).unwrap();
    let placement = pair.b.locate(&flying).unwrap();
    pair.b.stream.recheck(&placement).unwrap();
    area.invalidate();
    let violation = pair.b.stream.recheck(&placement).unwrap_err();
    assert_eq!(violation.and_then(|violation| violation.code()), Some(TerminateCode::TaggedInvalidStag));
    assert_eq!(pair.b.stream.state(), State::Terminating);
}

/// An area that is registered, and what registers another one with the same STag, of the same size and rights, when
/// that one is gone.
fn area_twice(pair: &Pair, length: u32, rights: Rights) -> (Area, impl FnOnce(Area) -> Area + use<>) {
    let (first, second) = memory::reuse();
    let registry = pair.registry().clone();
    memory::spend(&registry, first).for_each(drop);
    let area = pair.area(length, rights);
    let again = move |area: Area| {
        let stag = area.stag;
        drop(area);
        memory::spend(&registry, second - first - 1).for_each(drop);
        let area = Area::new(&registry, length, rights);
        assert_eq!(area.stag, stag, "the same name for another region");
        area
    };
    (area, again)
}

#[test]
fn a_write_that_is_rechecked_goes_into_the_region_that_was_meant_and_no_other_of_its_name() {
    let mut pair = Pair::new();
    let (area, again) = area_twice(&pair, 64, Rights::Write);
    pair.a.post(1, Operation::Write { payload: inline(b"abcd"), target: target(area.stag, area.base) });
    let flying = pair.a.transmit(200).unwrap();
    let placement = pair.b.locate(&flying).unwrap();
    let _other = again(area);
    let violation = pair.b.stream.recheck(&placement).unwrap_err();
    assert_eq!(violation.and_then(|violation| violation.code()), Some(TerminateCode::TaggedInvalidStag));
    assert_eq!(pair.b.stream.state(), State::Terminating);
}

#[test]
fn a_read_goes_on_in_the_region_in_which_it_has_begun_and_in_no_other_of_its_name() {
    let mut pair = Pair::new();
    let (area, again) = area_twice(&pair, 2000, Rights::Read);
    pair.a.post(1, Operation::Read { sink: area.slice(0, 2000).into(), source: target(area.stag, area.base) });
    assert!(carry(&mut pair.a, &mut pair.b, 200));
    let begun = pair.b.transmit(200).unwrap();
    assert_eq!(header(&begun.bytes).1, Opcode::ReadResponse);
    let _other = again(area);
    let next = pair.b.transmit(200).unwrap();
    assert_eq!(header(&next.bytes).1, Opcode::Terminate);
    assert_eq!(pair.b.stream.state(), State::Terminating);
}
