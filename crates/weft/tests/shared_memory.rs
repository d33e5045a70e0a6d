//! Connections through memory that two processes share: that they come about, and carry what others carry.

mod common;

use std::net::TcpListener;
use std::sync::Arc;

use common::{Kind, PATIENCE, Pair, pattern};
use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{
    CompletionKind, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, MAX_INLINE,
    MarkerSpacing, PortError, Progress, QueuePairOptions, Settings, Transport, WorkRequest,
};

/// Nothing, inline, gathered, a whole ring, and many of them.
const SIZES: [usize; 8] = [0, 1, 8, MAX_INLINE, 4000, 64 << 10, 128 << 10, 3_000_003];

fn kinds() -> impl Iterator<Item = Kind> {
    let plain = [Progress::Hybrid, Progress::Thread, Progress::Summon].map(Kind::plain);
    Kind::paths().chain(plain)
}

fn pair(kind: Kind, connects: Transport, listens: Transport) -> Pair {
    let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
    connect.offer.transport = connects;
    listen.offer.transport = listens;
    // What finds damage on a wire is asked for in vain where there is none.
    connect.offer.mpa.markers = Some(MarkerSpacing::Standard);
    listen.offer.mpa.crc = true;
    Pair::with(kind.context(), kind, &connect, &listen)
}

/// Whether a connection goes through shared memory: MPA has nothing to check there.
fn is_shared(pair: &Pair) -> bool {
    [&pair.active, &pair.passive].iter().all(|end| match end.queue_pair.info().unwrap().lower {
        LowerInfo::Mpa(info) => !info.crc && info.send_markers.is_none() && info.receive_markers.is_none(),
        _ => false,
    })
}

#[test]
fn every_operation_goes_through_shared_memory() {
    for kind in kinds() {
        let pair = pair(kind, Transport::SharedMemory, Transport::SharedMemory);
        assert!(is_shared(&pair), "{kind:?}");
        for size in SIZES {
            let (from, to, window, back) = (pair.filled(size), pair.empty(size), pair.empty(size), pair.empty(size));
            pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
            let queue_pair = &pair.active.queue_pair;
            queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
            queue_pair.post(WorkRequest::write(from.slice(..).unwrap(), window.remote(0)).id(3)).unwrap();
            queue_pair.post(WorkRequest::read(back.slice(..).unwrap(), window.remote(0)).id(4)).unwrap();
            assert_eq!(pair.passive.done(1).kind, CompletionKind::Receive);
            for id in 2..=4 {
                pair.active.done(id);
            }
            for memory in [to, window, back] {
                assert!(memory.to_vec() == pattern(size), "{size} bytes, {kind:?}");
            }
        }
        pair.active.queue_pair.disconnect(PATIENCE).unwrap();
        pair.wait_for_end();
    }
}

#[test]
fn shared_memory_is_chosen_where_both_sides_have_it() {
    use Transport::{Auto, Iwarp, SharedMemory};
    let kind = Kind::plain(Progress::Hybrid);
    for (connects, listens, shares) in [
        (Auto, Auto, true),
        (Auto, SharedMemory, true),
        (SharedMemory, Auto, true),
        (Auto, Iwarp, false),
        (Iwarp, SharedMemory, false),
        (Iwarp, Auto, false),
    ] {
        let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
        (connect.offer.transport, listen.offer.transport) = (connects, listens);
        let pair = Pair::with(kind.context(), kind, &connect, &listen);
        assert_eq!(is_shared(&pair), shares, "{connects:?} to {listens:?}");
    }
}

#[test]
fn nobody_shares_memory() {
    let kind = Kind::plain(Progress::Hybrid);
    let listener = TcpListener::bind(kind.any()).unwrap();
    let address = listener.local_addr().unwrap();
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = common::End::new(&context, &domain, &QueuePairOptions::default());
    let mut options = ConnectOptions::default();
    options.offer.transport = Transport::SharedMemory;
    let failed = end.queue_pair.connect(address, &options).unwrap_err();
    let refused = ConnectionError::Connect { remote: address, error: PortError::NotShared };
    assert!(matches!(&failed, Error::Connection(error) if *error == refused), "{failed:?}");
}

#[test]
fn endpoints_send_through_shared_memory() {
    for progress in [Progress::Hybrid, Progress::Caller, Progress::Thread] {
        let kind = Kind::plain(progress);
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let mut attributes = EndpointAttributes::at(kind.any());
        attributes.settings.transport = Transport::SharedMemory;
        let open = || Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap();
        let (alice, bob) = (open(), open());
        let to_bob = alice.peer(&bob.address()).unwrap();
        for size in SIZES {
            bob.receive(ReceivePost::new(vec![0; size]).matching(Match { tag: 7, ignore: 0 }).context(1)).unwrap();
            alice.send(SendPost::new(to_bob, pattern(size)).tag(7).context(2)).unwrap();
            for _ in 0..2 {
                let event = events.wait(PATIENCE).unwrap();
                assert!(event.outcome.is_ok(), "{event:?}");
                if event.context == 1 {
                    assert_eq!(event.length as usize, size);
                    assert!(event.buffer.unwrap()[..] == pattern(size), "{size} bytes");
                }
            }
        }
    }
}

/// What is long stays where it is until the peer has it: one copy, and few frames. What is short, or where that is not
/// wanted, goes through the ring.
#[test]
fn long_payloads_are_lent() {
    let kind = Kind::plain(Progress::Hybrid);
    let size = 3_000_003;
    for threshold in [Settings::default().lend_threshold, u32::MAX] {
        let settings = Settings { lend_threshold: threshold, ..Settings::default() };
        let context = Context::with_settings(settings).unwrap();
        let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
        connect.offer.transport = Transport::SharedMemory;
        listen.offer.transport = Transport::SharedMemory;
        let pair = Pair::with(context.clone(), kind, &connect, &listen);
        let (from, to, back) = (pair.filled(size), pair.empty(size), pair.empty(size));
        let queue_pair = &pair.active.queue_pair;
        queue_pair.post(WorkRequest::write(from.slice(..).unwrap(), to.remote(0)).id(3)).unwrap();
        queue_pair.post(WorkRequest::read(back.slice(..).unwrap(), to.remote(0)).id(4)).unwrap();
        queue_pair.post(WorkRequest::write(from.slice(..100).unwrap(), to.remote(0)).id(5)).unwrap();
        for id in 3..=5 {
            pair.active.done(id);
        }
        assert!(to.to_vec() == pattern(size) && back.to_vec() == pattern(size));
        let counters = context.counters();
        let (long, is_lent) = (2 * size as u64, threshold < u32::MAX);
        assert_eq!(counters.borrowing_connections, 2, "this process can read its own memory");
        let lent = [counters.sent_lent_bytes, counters.placed_borrowed_bytes];
        assert_eq!(lent, [if is_lent { long } else { 0 }; 2]);
        assert_eq!(counters.placed_borrowed, if is_lent { 2 * size.div_ceil(1 << 20) as u64 } else { 0 });
        assert_eq!(counters.sent_copied_bytes + counters.sent_gathered_bytes + lent[0], long + 100);
    }
}
