//! After a stream was created, nothing is allocated by it.
//!
//! Each thread counts for itself: the one that runs the tests allocates too, and at any time.

mod pair;

use pair::{Pair, Rights, gather, inline, send, target};
use weft_base::Slice;
use weft_memory::LocalRight;
use weft_rdmap::{
    Arrival, AtomicCode, HEAD_LENGTH, Operation, ReceiveRequest, RequestFlags, SegmentPayload, SendRequest, Stream,
    Verdict,
};
use weft_testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn nothing_is_allocated_after_the_start() {
    let mut pair = Pair::new();
    let (window, local) = (pair.area(4096, Rights::All), pair.area(4096, Rights::Local));
    let registry = pair.registry().clone();
    // Frames as a lower layer would hold them, so that what is counted is the streams' own.
    let mut frames = [[0; 2048]; 8];
    let mut before = 0;
    for round in 0..202 {
        // The first segments that come before their turn make room for as many; from then on it is there.
        if round == 2 {
            before = ALLOCATOR.calls();
        }
        for id in 0..2 {
            let sink = local.slice(2048 + id * 512, 512);
            registry.pin(pair::DOMAIN, sink, LocalRight::Write).unwrap();
            pair.b.receives.post(ReceiveRequest { id, sink: sink.into() }).unwrap();
        }
        for (id, operation) in operations(window.stag, window.base, local.whole()).into_iter().enumerate() {
            registry.pin_all(pair::DOMAIN, memory_of(&operation).slices(), LocalRight::Write).unwrap();
            pair.a
                .stream
                .post(SendRequest { id: id as u64, operation, signaled: true, fence: false, flags: RequestFlags::NONE })
                .unwrap();
        }
        let mut sent = 0;
        let (a, b) = (&mut pair.a, &mut pair.b);
        for _ in 0..8 {
            carry(&mut a.stream, &mut b.stream, &mut frames, &mut a.given, &mut b.receives, round % 2 == 1);
            carry(&mut b.stream, &mut a.stream, &mut frames, &mut b.given, &mut a.receives, round % 2 == 1);
            sent += core::iter::from_fn(|| a.stream.poll_send_completion()).count();
        }
        let received = core::iter::from_fn(|| b.stream.poll_receive_completion()).count();
        assert_eq!((sent, received), (5, 2));
    }
    assert_eq!(ALLOCATOR.calls(), before);
    // The counter counts.
    drop(core::hint::black_box(Box::new(1)));
    assert!(ALLOCATOR.calls() > before);
}

fn operations(stag: weft_base::Stag, base: u64, local: Slice) -> [Operation; 5] {
    let write = target(stag, base);
    [
        send(gather(local.part(0, 300))),
        Operation::Write { payload: inline(b"inline"), target: write },
        Operation::WriteImmediate {
            payload: gather(local.part(0, 1000)),
            target: write,
            immediate: 1,
            solicited: true,
        },
        Operation::Read { sink: local.part(1024, 500).into(), source: write },
        Operation::Atomic {
            code: AtomicCode::CompareSwap,
            data: 1,
            mask: 1,
            compare: 1,
            compare_mask: 1,
            sink: local.part(0, 8),
            target: write,
        },
    ]
}

fn memory_of(operation: &Operation) -> weft_base::Gather {
    match operation {
        Operation::Send { payload: weft_rdmap::Payload::Gather(gather), .. }
        | Operation::WriteImmediate { payload: weft_rdmap::Payload::Gather(gather), .. } => *gather,
        Operation::Read { sink, .. } => *sink,
        Operation::Atomic { sink, .. } => (*sink).into(),
        _ => weft_base::Gather::empty(),
    }
}

/// Carries up to eight segments, the last one first where `reversed`.
fn carry(
    from: &mut Stream,
    to: &mut Stream,
    frames: &mut [[u8; 2048]; 8],
    position: &mut u64,
    receives: &mut weft_rdmap::ReceiveQueue,
    reversed: bool,
) {
    let mut lengths = [0; 8];
    let mut count = 0;
    while count < 8 {
        let Some(segment) = from.poll_transmit(600) else { break };
        let header = segment.header.len();
        frames[count][..header].copy_from_slice(segment.header);
        if let SegmentPayload::Inline(bytes) = segment.payload {
            frames[count][header..header + bytes.len()].copy_from_slice(bytes);
        }
        lengths[count] = segment.length;
        count += 1;
    }
    from.handle_sent(count);
    for turn in 0..count {
        let at = if reversed { count - 1 - turn } else { turn };
        let start = *position + at as u64;
        let head = &frames[at][..HEAD_LENGTH];
        let verdict = to.handle_segment(Arrival { start, end: start + 1 }, lengths[at], head, receives);
        let Verdict::Place(placement) = verdict else { panic!("{verdict:?}") };
        to.handle_placed(&placement).unwrap();
    }
    *position += count as u64;
}
