//! What the crate `ibverbs` can do, on one host: devices, messages to itself and to another queue pair, long ones,
//! many, by RC and UC, from two threads, and errors. Prints a line for each case.

use std::time::{Duration, Instant};

use ibverbs::{devices, ibv_qp_type, ibv_wc, CompletionQueue, Context, MemoryRegion, ProtectionDomain, QueuePair};

const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> Context {
    let all = devices().expect("a list of devices");
    assert!(!all.is_empty());
    let first = all.get(0).expect("a device");
    assert_eq!(first.name().expect("its name").to_str(), Ok("weft0"));
    assert!(!first.guid().expect("its GUID").is_reserved());
    first.open().expect("an open device")
}

/// A queue pair that is connected to itself.
fn to_itself<'a>(
    domain: &'a ProtectionDomain<'a>,
    queue: &'a CompletionQueue<'a>,
    kind: ibv_qp_type::Type,
) -> QueuePair<'a> {
    let prepared = builder(domain, queue, kind);
    let endpoint = prepared.endpoint();
    prepared.handshake(endpoint).expect("a connection")
}

fn builder<'a>(
    domain: &'a ProtectionDomain<'a>,
    queue: &'a CompletionQueue<'a>,
    kind: ibv_qp_type::Type,
) -> ibverbs::PreparedQueuePair<'a> {
    let mut builder = domain.create_qp(queue, queue, kind);
    builder.set_gid_index(0).set_max_send_wr(16).set_max_recv_wr(16).allow_remote_rw().set_rnr_retry(7);
    builder.build().expect("a queue pair")
}

/// The next completions, this many, in their order.
fn completions(queue: &CompletionQueue<'_>, count: usize) -> Vec<ibv_wc> {
    let (mut found, began) = (Vec::new(), Instant::now());
    let mut room = [ibv_wc::default(); 16];
    while found.len() < count {
        found.extend_from_slice(queue.poll(&mut room).expect("a poll"));
        assert!(began.elapsed() < PATIENCE, "{} of {count} completions", found.len());
    }
    assert_eq!(found.len(), count);
    found
}

fn succeed(queue: &CompletionQueue<'_>, count: usize) -> Vec<ibv_wc> {
    let found = completions(queue, count);
    for completion in &found {
        assert!(completion.is_valid(), "{}: {:?}", completion.wr_id(), completion.error());
    }
    found
}

fn region(domain: &ProtectionDomain<'_>, words: usize) -> MemoryRegion<u64> {
    domain.allocate(words).expect("memory")
}

/// Half of a region goes to its other half.
fn message(queue: &CompletionQueue<'_>, pair: &mut QueuePair<'_>, memory: &mut MemoryRegion<u64>) {
    let half = memory.len() / 2;
    for at in 0..half {
        memory[half + at] = 0x0123_4567_89ab_cdef ^ at as u64;
    }
    // SAFETY: The memory stays until both have completed.
    unsafe {
        pair.post_receive(memory, ..half, 1).expect("a receive");
        pair.post_send(memory, half.., 2).expect("a send");
    }
    let found = succeed(queue, 2);
    let received = found.iter().find(|completion| completion.wr_id() == 1).expect("the receive");
    assert_eq!(received.len(), half * 8);
    assert!((0..half).all(|at| memory[at] == memory[half + at]));
}

fn gid_table() {
    let context = open();
    let table = context.gid_table();
    assert!(!table.is_empty());
}

fn messages_of_each_length() {
    let context = open();
    let (queue, domain) = (context.create_cq(64, 0).unwrap(), context.alloc_pd().unwrap());
    let mut pair = to_itself(&domain, &queue, ibv_qp_type::IBV_QPT_RC);
    for words in [2, 16, 1024, 16 * 1024, 512 * 1024] {
        message(&queue, &mut pair, &mut region(&domain, words));
    }
}

fn unreliable_connection() {
    let context = open();
    let (queue, domain) = (context.create_cq(64, 0).unwrap(), context.alloc_pd().unwrap());
    let mut pair = to_itself(&domain, &queue, ibv_qp_type::IBV_QPT_UC);
    message(&queue, &mut pair, &mut region(&domain, 64));
}

fn many_outstanding() {
    let context = open();
    let (queue, domain) = (context.create_cq(64, 0).unwrap(), context.alloc_pd().unwrap());
    let mut pair = to_itself(&domain, &queue, ibv_qp_type::IBV_QPT_RC);
    let mut memory = region(&domain, 32);
    for turn in 0..100 {
        for at in 0..16 {
            memory[16 + at] = turn * 16 + at as u64;
        }
        // SAFETY: The memory stays until all have completed.
        unsafe {
            for at in 0..16 {
                pair.post_receive(&mut memory, at..at + 1, 100 + at as u64).expect("a receive");
            }
            for at in 0..16 {
                pair.post_send(&mut memory, 16 + at..17 + at, at as u64).expect("a send");
            }
        }
        let mut ids: Vec<_> = succeed(&queue, 32).iter().map(ibv_wc::wr_id).collect();
        let received: Vec<_> = ids.iter().copied().filter(|id| *id >= 100).collect();
        assert!(received.is_sorted(), "messages come in order: {received:?}");
        ids.sort_unstable();
        assert_eq!(ids, (0..16).chain(100..116).collect::<Vec<_>>());
        assert!((0..16).all(|at| memory[at] == memory[16 + at]));
    }
}

fn two_queue_pairs_of_two_threads() {
    let context = open();
    let domain = context.alloc_pd().unwrap();
    let queues = [context.create_cq(64, 0).unwrap(), context.create_cq(64, 1).unwrap()];
    let [one, other] = [0, 1].map(|end| builder(&domain, &queues[end], ibv_qp_type::IBV_QPT_RC));
    let (of_one, of_other) = (one.endpoint(), other.endpoint());
    let ends = [one.handshake(of_other).unwrap(), other.handshake(of_one).unwrap()];
    std::thread::scope(|threads| {
        for (mut end, queue) in ends.into_iter().zip(&queues) {
            let mut memory = region(&domain, 2);
            threads.spawn(move || {
                for turn in 0..500 {
                    memory[1] = turn;
                    // SAFETY: The memory stays until both have completed.
                    unsafe {
                        end.post_receive(&mut memory, ..1, 1).expect("a receive");
                        end.post_send(&mut memory, 1.., 2).expect("a send");
                    }
                    succeed(queue, 2);
                    assert_eq!(memory[0], turn);
                }
                // The other end still waits for its last one until this has arrived.
                end
            });
        }
    });
}

fn a_message_that_does_not_fit() {
    let context = open();
    let (queue, domain) = (context.create_cq(64, 0).unwrap(), context.alloc_pd().unwrap());
    let mut pair = to_itself(&domain, &queue, ibv_qp_type::IBV_QPT_RC);
    let mut memory = region(&domain, 4);
    // SAFETY: The memory stays until both have completed.
    unsafe {
        pair.post_receive(&mut memory, ..1, 1).expect("a receive");
        pair.post_send(&mut memory, 1.., 2).expect("a send");
    }
    let found = completions(&queue, 2);
    assert!(found.iter().all(|completion| !completion.is_valid()), "{found:?}");
}

const CASES: [(&str, fn()); 6] = [
    ("gid_table", gid_table),
    ("messages_of_each_length", messages_of_each_length),
    ("unreliable_connection", unreliable_connection),
    ("many_outstanding", many_outstanding),
    ("two_queue_pairs_of_two_threads", two_queue_pairs_of_two_threads),
    ("a_message_that_does_not_fit", a_message_that_does_not_fit),
];

fn main() {
    for (name, run) in CASES {
        run();
        println!("passed {name}");
    }
    println!("passed all {}", CASES.len());
}
