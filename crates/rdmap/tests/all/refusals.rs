//! What ends requests though nobody broke a rule of the wire: rights that the peer has not, memory that has gone,
//! receives that were not posted in time.

use weft_base::Gather;
use weft_memory::{Access, LocalRight};
use weft_rdmap::{AtomicCode, Closed, Operation, Status};

use crate::pair::{Area, Pair, Rights, gather, inline, send, target};

fn write(from: &Area, to: &Area) -> Operation {
    Operation::Write { payload: gather(from.slice(0, 8)), target: target(to.stag, to.base) }
}

fn read(into: &Area, from: &Area) -> Operation {
    Operation::Read { sink: Gather::from(into.slice(0, 8)), source: target(from.stag, from.base) }
}

fn add(into: &Area, to: &Area) -> Operation {
    Operation::Atomic {
        code: AtomicCode::FetchAdd,
        data: 1,
        mask: 0,
        compare: 0,
        compare_mask: 0,
        sink: into.slice(0, 8),
        target: target(to.stag, to.base),
    }
}

type Make = fn(&Area, &Area) -> Operation;

#[test]
fn a_peer_needs_the_right_of_the_stream_beside_that_of_the_region() {
    let table: [(Make, Access); 3] =
        [(write, Access::REMOTE_WRITE), (read, Access::REMOTE_READ), (add, Access::REMOTE_ATOMIC)];
    let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    for (make, right) in table {
        let others = Access::from_bits(all.bits() & !right.bits());
        for (granted, status) in [(right, Status::Success), (others, Status::RemoteAccess)] {
            let mut pair = Pair::new();
            let (here, there) = (pair.area(8, Rights::Local), pair.area(8, Rights::All));
            pair.b.stream.set_peer_rights(granted);
            pair.a.post(1, make(&here, &there));
            pair.run(1500);
            let found = pair.a.sent_ids();
            // A Write is complete when it has left; what it does at the peer is another matter.
            let expected = if right == Access::REMOTE_WRITE { Status::Success } else { status };
            assert_eq!(found, [(1, expected)], "{granted:?}");
            assert_eq!(pair.b.stream.error().is_some(), status != Status::Success, "{granted:?}");
        }
    }
}

#[test]
fn memory_of_a_receive_that_has_gone_ends_the_receive_and_the_send() {
    let mut pair = Pair::new();
    let to = pair.area(100, Rights::Local);
    pair.b.post_receive(7, to.whole());
    pair.b.post_receive(8, to.whole());
    pair.a.post(1, send(inline(b"first")));
    let flying = pair.a.transmit(1500).unwrap();
    let placement = pair.b.locate(&flying).unwrap();
    pair.b.stream.fail_placement(&placement);
    pair.b.poll();
    pair.run(1500);
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.b.received_ids(), [(7, Status::LocalProtection)], "the other one was not taken");
    assert_eq!(pair.a.sent_ids(), [(1, Status::RemoteOperation)]);
}

#[test]
fn memory_of_a_read_that_has_gone_ends_the_read() {
    let mut pair = Pair::new();
    let (here, there) = (pair.area(8, Rights::Local), pair.area(8, Rights::Read));
    pair.a.post(1, read(&here, &there));
    pair.a.post(2, read(&here, &there));
    let asks = pair.a.transmit(1500).unwrap();
    pair.b.take(&asks).unwrap();
    pair.a.stream.handle_sent(1);
    let answer = pair.b.transmit(1500).unwrap();
    let placement = pair.a.locate(&answer).unwrap();
    pair.a.stream.fail_placement(&placement);
    pair.a.close_below(Closed::Reset);
    assert_eq!(pair.a.sent_ids(), [(1, Status::LocalProtection), (2, Status::Flushed)]);
}

#[test]
fn the_send_that_found_no_receive_in_time_is_told_apart() {
    let mut pair = Pair::new();
    let there = pair.area(8, Rights::All);
    let here = pair.area(8, Rights::Local);
    pair.a.post(1, read(&here, &there));
    pair.a.post(2, send(inline(b"no")));
    pair.a.post(3, send(inline(b"no")));
    pair.a.close_below(Closed::NoReceive);
    let expected = [(1, Status::Flushed), (2, Status::NoReceive), (3, Status::Flushed)];
    assert_eq!(pair.a.sent_ids(), expected);
    assert_eq!(pair.registry().pin(crate::pair::DOMAIN, here.whole(), LocalRight::Write), Ok(()));
    pair.registry().unpin(here.whole());
}
