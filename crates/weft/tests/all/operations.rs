//! Every operation of the verbs, over TCP.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::common::{Pair, each_kind, pattern};
use weft::verbs::{
    Access, CompletionKind, ConnectOptions, ConnectionError, ListenOptions, MAX_INLINE, MarkerSpacing, Progress,
    QueuePairOptions, Settings, Status, StreamError, Terminate, Verify, WorkRequest,
};

/// Around every boundary: nothing, inline, gathered, direct, more than one frame.
const SIZES: [usize; 10] = [0, 1, 8, MAX_INLINE, 2047, 2048, 32 << 10, 64 << 10, 100_001, 3_000_003];

#[test]
fn messages_of_every_size_arrive_whole() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        for size in SIZES {
            let (from, to) = (pair.filled(size), pair.empty(size));
            pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
            pair.active.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
            let received = pair.passive.done(1);
            assert_eq!((received.kind, received.length as usize), (CompletionKind::Receive, size));
            assert_eq!(received.queue_pair, pair.passive.queue_pair.number());
            assert_eq!(pair.active.done(2).kind, CompletionKind::Send);
            assert!(to.to_vec() == pattern(size), "{size} bytes");
        }
    });
}

#[test]
fn writes_and_reads_of_every_size_are_exact() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        for size in SIZES {
            let (from, window, back) = (pair.filled(size), pair.empty(size + 2), pair.empty(size));
            let queue_pair = &pair.active.queue_pair;
            queue_pair.post(WorkRequest::write(from.slice(..).unwrap(), window.remote(1)).id(1)).unwrap();
            queue_pair.post(WorkRequest::read(back.slice(..).unwrap(), window.remote(1)).id(2)).unwrap();
            assert_eq!(pair.active.done(1).kind, CompletionKind::Write);
            let read = pair.active.done(2);
            assert_eq!((read.kind, read.length as usize), (CompletionKind::Read, size));
            assert!(back.to_vec() == pattern(size), "{size} bytes");
            let window = window.to_vec();
            assert!(window[1..=size] == pattern(size), "{size} bytes");
            assert_eq!((window[0], window[size + 1]), (0, 0), "nothing beside it was touched");
        }
    });
}

/// Without markers, and with markers of every spacing.
const MARKERS: [Option<MarkerSpacing>; 4] =
    [None, Some(MarkerSpacing::Standard), Some(MarkerSpacing::Kilobyte), Some(MarkerSpacing::TwoKilobytes)];

#[test]
fn frames_of_every_form_carry_the_same() {
    crate::common::Kind::paths().for_each(frames_carry_the_same);
}

fn frames_carry_the_same(kind: crate::common::Kind) {
    for verify in [Verify::BeforePlace, Verify::LargeInPlace] {
        for (crc, markers, large) in (0..16).map(|bits| (bits & 1 != 0, MARKERS[bits >> 1 & 3], bits & 8 != 0)) {
            let context = weft::verbs::Context::with_settings(Settings { verify, ..kind.settings() }).unwrap();
            let mut connect = ConnectOptions::default();
            (connect.offer.mpa.crc, connect.offer.mpa.markers) = (crc, markers);
            connect.offer.mpa.extensions.large_fpdus = large;
            let mut listen = ListenOptions::default();
            listen.offer.mpa.crc = crc;
            let pair = Pair::with(context, kind, &connect, &listen);
            let info = *pair.active.queue_pair.info().unwrap().mpa().unwrap();
            assert_eq!((info.crc, info.receive_markers, info.extensions.large_fpdus), (crc, markers, large));
            for size in [10, 5000, 100_001] {
                let (from, to, window) = (pair.filled(size), pair.empty(size), pair.empty(size));
                // In both directions: markers go in one only.
                for (sender, receiver) in [(&pair.active, &pair.passive), (&pair.passive, &pair.active)] {
                    receiver.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
                    let write = WorkRequest::write(from.slice(..).unwrap(), window.remote(0)).unsignaled();
                    sender.queue_pair.post_list([write, WorkRequest::send(from.slice(..).unwrap()).id(2)]).unwrap();
                    receiver.done(1);
                    sender.done(2);
                    assert!(to.to_vec() == pattern(size) && window.to_vec() == pattern(size), "{verify:?} {info:?}");
                    to.fill_with(|_| 0).unwrap();
                    window.fill_with(|_| 0).unwrap();
                }
            }
        }
    }
}

#[test]
fn gathered_on_one_side_and_scattered_on_the_other() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (from, to) = (pair.filled(200_000), pair.empty(200_000));
        let pieces = [from.slice(0..5).unwrap(), from.slice(5..70_000).unwrap(), from.slice(70_000..200_000).unwrap()];
        let places = [to.slice(0..100_000).unwrap(), to.slice(100_000..100_000).unwrap(), to.slice(100_000..).unwrap()];
        pair.passive.queue_pair.post_receive(1, &places).unwrap();
        pair.active.queue_pair.post(WorkRequest::send_gather(&pieces).unwrap().id(2)).unwrap();
        assert_eq!(pair.passive.done(1).length, 200_000);
        pair.active.done(2);
        assert!(to.to_vec() == pattern(200_000));

        let (window, back) = (pair.empty(200_000), pair.empty(200_000));
        let places = [back.slice(0..199_999).unwrap(), back.slice(199_999..).unwrap()];
        pair.active.queue_pair.post(WorkRequest::write_gather(&pieces, window.remote(0)).unwrap().id(3)).unwrap();
        pair.active.queue_pair.post(WorkRequest::read_scatter(&places, window.remote(0)).unwrap().id(4)).unwrap();
        pair.active.done(3);
        pair.active.done(4);
        assert!(window.to_vec() == pattern(200_000) && back.to_vec() == pattern(200_000));
    });
}

/// Of memory that its owner changes meanwhile a reader gets old bytes or new ones, and no error.
#[test]
fn memory_may_change_while_it_is_read() {
    // Each runs when it is called: so a part of the answer is laid out, and waits for room, when the memory changes.
    let kind = crate::common::Kind::plain(Progress::Caller);
    const LENGTH: usize = 16 << 20;
    for large_fpdus in [true, false] {
        let (reader, owner) = (kind.context(), kind.context());
        let [reading, owning] = [&reader, &owner].map(|context| context.allocate_protection_domain().unwrap());
        let options = QueuePairOptions::default();
        let (active, passive) =
            (crate::common::End::new(&reader, &reading, &options), crate::common::End::new(&owner, &owning, &options));
        let listener = owner.listen(kind.any(), &ListenOptions::default()).unwrap();
        let mut connect = ConnectOptions::default();
        connect.offer.mpa.extensions.large_fpdus = large_fpdus;
        active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
        let incoming = listener.accept(crate::common::PATIENCE).unwrap();
        incoming.accept(&passive.queue_pair, &[]).unwrap();
        passive.queue_pair.wait_connected(crate::common::PATIENCE).unwrap();
        active.queue_pair.wait_connected(crate::common::PATIENCE).unwrap();
        let source = owning.allocate(LENGTH, crate::common::ALL).unwrap();
        let sink = reading.allocate(LENGTH, crate::common::ALL).unwrap();
        active.queue_pair.post(WorkRequest::read(sink.slice(..).unwrap(), source.remote(0)).id(1)).unwrap();
        let mut value = 0;
        let start = Instant::now();
        let completion = loop {
            assert!(Some(start.elapsed()) < crate::common::PATIENCE);
            // As much as TCP takes.
            while owner.progress() {}
            value += 1;
            source.fill_with(|_| value).unwrap();
            // All that has come: to fill it again for each turn would take minutes on a busy machine.
            while reader.progress() {}
            if let Some(completion) = active.completions.poll() {
                break completion;
            }
        };
        assert_eq!((completion.id, completion.status), (1, Status::Success));
        assert_eq!(passive.queue_pair.error(), None);
        let bytes = sink.to_vec();
        assert!(bytes.is_sorted() && bytes[0] < bytes[LENGTH - 1], "from old to new");
    }
}

#[test]
fn what_is_inline_may_change_at_once() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (to, window) = (pair.empty(MAX_INLINE), pair.empty(MAX_INLINE));
        let mut bytes = pattern(MAX_INLINE);
        pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
        let write = WorkRequest::write_inline(&bytes, window.remote(0)).unwrap().id(2);
        let send = WorkRequest::send_inline(&bytes).unwrap().id(3);
        bytes.fill(0);
        pair.active.queue_pair.post_list([write, send]).unwrap();
        pair.passive.done(1);
        pair.active.done(2);
        pair.active.done(3);
        assert!(to.to_vec() == pattern(MAX_INLINE) && window.to_vec() == pattern(MAX_INLINE));
    });
}

#[test]
fn a_written_word_is_seen_by_looking_at_memory() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let window = pair.empty(8);
        for word in 1..=1000u64 {
            pair.active
                .queue_pair
                .post(WorkRequest::write_inline(&word.to_ne_bytes(), window.remote(0)).unwrap().unsignaled())
                .unwrap();
            while window.load_u64(0, Ordering::Acquire).unwrap() != word {
                pair.context.progress();
            }
        }
        assert!(pair.active.completions.poll().is_none(), "nobody asked for completions");
    });
}

#[test]
fn atomics_change_memory_and_tell_what_was_there() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (word, result) = (pair.empty(16), pair.empty(8));
        let target = word.remote(8);
        let sink = result.slice(..).unwrap();
        let steps = [
            (WorkRequest::fetch_add(sink, target, 5), 0, 5),
            (WorkRequest::fetch_add(sink, target, u64::MAX), 5, 4),
            (WorkRequest::swap(sink, target, 1000), 4, 1000),
            (WorkRequest::compare_swap(sink, target, 7, 1), 1000, 1000),
            (WorkRequest::compare_swap(sink, target, 1000, 0xff), 1000, 0xff),
            // The low half has a carry that must not reach the high half.
            (WorkRequest::fetch_add_fields(sink, target, 0xffff_ff01, 1 << 31), 0xff, 0),
            (WorkRequest::compare_swap_masked(sink, target, (0x1234_0000, 0xffff), (0xabcd, 0x00ff)), 0, 0xcd),
        ];
        for (id, (request, before, after)) in steps.into_iter().enumerate() {
            pair.active.queue_pair.post(request.id(id as u64)).unwrap();
            assert!(matches!(pair.active.done(id as u64).kind, CompletionKind::Atomic(_)));
            assert_eq!(result.load_u64(0, Ordering::Acquire).unwrap(), before, "step {id}");
            assert_eq!(word.load_u64(8, Ordering::Acquire).unwrap(), after, "step {id}");
        }
        assert_eq!(word.load_u64(0, Ordering::Acquire).unwrap(), 0, "the neighbour");
    });
}

#[test]
fn immediate_data_uses_up_a_receive() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (from, window) = (pair.filled(5000), pair.empty(5000));
        for id in [1, 2] {
            pair.passive.queue_pair.post_receive(id, &[]).unwrap();
        }
        let write = WorkRequest::write(from.slice(..).unwrap(), window.remote(0)).with_immediate(0xfeed).id(3);
        pair.active.queue_pair.post_list([write, WorkRequest::immediate(u64::MAX).solicited().id(4)]).unwrap();
        let first = pair.passive.done(1);
        assert_eq!(
            (first.kind, first.immediate, first.solicited),
            (CompletionKind::ReceiveImmediate, Some(0xfeed), false)
        );
        assert!(window.to_vec() == pattern(5000), "the bytes are there before the immediate data");
        let second = pair.passive.done(2);
        assert_eq!((second.immediate, second.solicited), (Some(u64::MAX), true));
        assert_eq!(pair.active.done(3).kind, CompletionKind::WriteImmediate);
        assert_eq!(pair.active.done(4).kind, CompletionKind::Immediate);
    });
}

#[test]
fn a_send_can_end_the_peers_registration() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (window, inbox, from) = (pair.empty(100), pair.empty(8), pair.filled(8));
        pair.passive.queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
        let send = WorkRequest::send_inline(b"it ends").unwrap().invalidate(window.stag()).id(2);
        pair.active.queue_pair.post(send).unwrap();
        assert_eq!(pair.passive.done(1).invalidated, Some(window.stag()));
        pair.active.done(2);
        window.view(|bytes| assert_eq!(bytes, [0; 100])).expect("no peer can touch it any more");

        // The next write by that name is refused, which ends the stream on both sides.
        pair.passive.queue_pair.post_receive(3, &[inbox.slice(..).unwrap()]).unwrap();
        let write = WorkRequest::write(from.slice(..).unwrap(), window.remote(0)).id(4);
        pair.active.queue_pair.post(write).unwrap();
        let receive = pair.passive.next();
        assert_eq!((receive.id, receive.status), (3, Status::Flushed));
        pair.wait_for_end();
        assert!(matches!(pair.passive.queue_pair.error(), Some(ConnectionError::Stream(StreamError::Violation(_)))));
        let peer = pair.active.queue_pair.error();
        assert!(matches!(peer, Some(ConnectionError::Stream(StreamError::Peer(Terminate { .. })))), "{peer:?}");
    });
}

#[test]
fn what_a_peer_may_not_touch_it_cannot() {
    each_kind(|kind| {
        for (access, read) in [(Access::REMOTE_READ, false), (Access::REMOTE_WRITE | Access::LOCAL_WRITE, true)] {
            let pair = Pair::new(kind);
            let window = pair.domain.register(pattern(64), access).unwrap();
            let local = pair.empty(64);
            let slice = local.slice(..).unwrap();
            let request = if read {
                WorkRequest::read(slice, window.remote(0))
            } else {
                WorkRequest::write(slice, window.remote(0))
            };
            pair.active.queue_pair.post(request.id(1)).unwrap();
            let completion = pair.active.next();
            if read {
                assert_eq!((completion.id, completion.status), (1, Status::RemoteAccess));
            }
            pair.wait_for_end();
            assert!(window.to_vec() == pattern(64) && local.to_vec() == [0; 64]);
        }
    });
}

#[test]
fn many_reads_share_the_depth_that_was_agreed() {
    each_kind(|kind| {
        let mut connect = ConnectOptions::default();
        connect.offer.ord = 2;
        let pair = Pair::with(kind.context(), kind, &connect, &ListenOptions::default());
        assert_eq!(pair.active.queue_pair.info().unwrap().ord, 2);
        let (window, back) = (pair.filled(64 * 100), pair.empty(64 * 100));
        let reads = (0..64u64).map(|at| {
            let request = WorkRequest::read(back.slice(at * 100..(at + 1) * 100).unwrap(), window.remote(at * 100));
            if at % 4 == 0 { request.id(at).fenced() } else { request.id(at) }
        });
        pair.active.queue_pair.post_list(reads).unwrap();
        for id in 0..64 {
            pair.active.done(id);
        }
        assert!(back.to_vec() == pattern(6400));
    });
}

#[test]
fn thousands_of_messages_in_both_directions_stay_in_order() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let inbox = [pair.empty(8 * 64), pair.empty(8 * 64)];
        let ends = [&pair.active, &pair.passive];
        for (end, inbox) in ends.iter().zip(&inbox) {
            for slot in 0..64 {
                end.queue_pair.post_receive(slot, &[inbox.slice(slot * 8..slot * 8 + 8).unwrap()]).unwrap();
            }
        }
        let (mut sent, mut heard) = ([0u64; 2], [0u64; 2]);
        while heard != [3000, 3000] {
            for side in 0..2 {
                // At most 32 ahead of the answers, so that the peer always has a receive.
                while sent[side] < (heard[side] + 32).min(3000) {
                    let word = sent[side].to_ne_bytes();
                    ends[side].queue_pair.post(WorkRequest::send_inline(&word).unwrap().unsignaled()).unwrap();
                    sent[side] += 1;
                }
                while let Some(received) = ends[side].completions.poll() {
                    assert_eq!(received.status, Status::Success);
                    let (slot, inbox) = (received.id * 8, &inbox[side]);
                    assert_eq!(inbox.load_u64(slot, Ordering::Acquire).unwrap(), heard[side]);
                    heard[side] += 1;
                    ends[side].queue_pair.post_receive(received.id, &[inbox.slice(slot..slot + 8).unwrap()]).unwrap();
                }
            }
        }
    });
}
