//! Connections through memory that two processes share: that they come about, and carry what others carry.

mod common;
#[path = "common/process.rs"]
mod process;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{ALL, End, Kind, PATIENCE, Pair, pattern};
use process::Process;
use socket2::{Domain, SockAddr, Socket, Type};
use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{
    CompletionKind, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, MAX_INLINE,
    MarkerSpacing, MemoryRegion, PortError, Progress, QueuePairOptions, RemoteMemory, Settings, Stag, Status,
    Transport, WorkRequest,
};

/// Nothing, inline, gathered, a whole ring, and many of them.
const SIZES: [usize; 8] = [0, 1, 8, MAX_INLINE, 4000, 64 << 10, 128 << 10, 3_000_003];

fn kinds() -> impl Iterator<Item = Kind> {
    let plain = [Kind::plain(Progress::Hybrid), Kind::plain(Progress::Thread), Kind::summoning()];
    Kind::paths().chain(plain)
}

fn pair(kind: Kind, connects: Transport, listens: Transport) -> Pair {
    let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
    connect.offer.transport = connects;
    listen.offer.transport = listens;
    // Where there is no wire, a request for the checks against damage on a wire has no effect.
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
    use Transport::{Auto, Iwarp, SharedMemory, SharedMemoryOrIwarp};
    let kind = Kind::plain(Progress::Hybrid);
    for (connects, listens, shares) in [
        (Auto, Auto, true),
        (Auto, SharedMemory, true),
        (SharedMemory, Auto, true),
        (Auto, Iwarp, false),
        (Iwarp, SharedMemory, false),
        (Iwarp, Auto, false),
        (SharedMemoryOrIwarp, SharedMemoryOrIwarp, true),
        (SharedMemoryOrIwarp, Auto, true),
        (Auto, SharedMemoryOrIwarp, true),
        (SharedMemoryOrIwarp, Iwarp, false),
        (Iwarp, SharedMemoryOrIwarp, false),
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

/// A listener's process may have no memory left for what is passed to it, or be of a version that passes it otherwise.
#[test]
fn who_is_declined_goes_by_iwarp() {
    use Transport::{Auto, SharedMemory, SharedMemoryOrIwarp};
    let kind = Kind::plain(Progress::Hybrid);
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let address = listener.local_address();
    // SAFETY: Reads a number.
    let user = unsafe { nix::libc::geteuid() };
    let declining = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    declining.bind(&SockAddr::unix(format!("\0weft-shm-{user}-{address}")).unwrap()).unwrap();
    declining.listen(4).unwrap();
    declining.set_read_timeout(PATIENCE).unwrap();
    for transport in [SharedMemoryOrIwarp, Auto, SharedMemory] {
        let [active, passive] = [(); 2].map(|()| End::new(&context, &domain, &QueuePairOptions::default()));
        let mut options = ConnectOptions::default();
        options.offer.transport = transport;
        active.queue_pair.start_connect(address, &options).unwrap();
        let (socket, _) = declining.accept().unwrap();
        assert_eq!(socket.send(&[1]).unwrap(), 1);
        drop(socket);
        if transport == SharedMemory {
            let failed = active.queue_pair.wait_connected(PATIENCE).unwrap_err();
            assert!(failed.to_string().contains("can't take shared memory"), "{failed}");
            continue;
        }
        listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, &[]).unwrap();
        active.queue_pair.wait_connected(PATIENCE).unwrap();
        let info = active.queue_pair.info().unwrap();
        assert!(matches!(&info.lower, LowerInfo::Mpa(mpa) if mpa.crc), "{transport:?}: {info:?}");
    }
    assert_eq!(context.counters().fallbacks, 2);
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

/// What is lent in a test in which the lender is killed: some segments.
const LENT: usize = 2_500_001;
/// Bytes on both sides of it that no process may touch.
const GUARD: usize = 4096;

/// A process that lends, and reads what its peer lends, until it is killed at any time: each request of its peer
/// completes once, what was received is whole, nothing else is touched, and nothing is left behind. `WEFT_KILLS=1000`
/// kills 1000 processes.
#[test]
fn whoever_lends_may_be_killed_at_any_time() {
    if process::role().is_some() {
        return lender();
    }
    let kills: u64 = std::env::var("WEFT_KILLS").map_or(12, |text| text.parse().expect("WEFT_KILLS is a number"));
    let context = Kind::plain(Progress::Hybrid).context();
    let mut listen = ListenOptions::default();
    listen.offer.transport = Transport::SharedMemory;
    let listener = context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for round in 0..kills {
        // Spread over the time that some requests take.
        let life = Duration::from_micros(round * 7919 % 20_000);
        kill_one(&context, &listener, life);
    }
    wait_until(|| descriptors() <= before);
    let counters = context.counters();
    assert!(counters.sent_lent_bytes > 0 && counters.placed_borrowed_bytes > 0, "both sides lend");
}

/// What the NIC's thread does comes about.
fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(Some(start.elapsed()) < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The process that is killed: sends, writes, and reads, all of it long.
fn lender() {
    let address: SocketAddr = process::read_line().parse().unwrap();
    let context = Kind::plain(Progress::Hybrid).context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    let mut connect = ConnectOptions { timeout: PATIENCE, ..ConnectOptions::default() };
    connect.offer.transport = Transport::SharedMemory;
    end.queue_pair.connect(address, &connect).unwrap();
    let (own, back) = (domain.register(pattern(LENT), ALL).unwrap(), domain.allocate(LENT, ALL).unwrap());
    process::say(&spoken(own.remote(0)));
    let theirs = heard(&process::read_line());
    let slice = || own.slice(..).unwrap();
    loop {
        let read = WorkRequest::read(back.slice(..).unwrap(), theirs);
        let requests = [WorkRequest::send(slice()), WorkRequest::write(slice(), theirs), read];
        end.queue_pair.post_list(requests).unwrap();
        (0..3).for_each(|_| assert_eq!(end.next().status, Status::Success));
        assert!(back.to_vec() == pattern(LENT));
    }
}

fn spoken(memory: RemoteMemory) -> String {
    format!("{} {}", memory.stag.0, memory.offset)
}

fn heard(line: &str) -> RemoteMemory {
    let (stag, offset) = line.split_once(' ').unwrap();
    RemoteMemory { stag: Stag(stag.parse().unwrap()), offset: offset.parse().unwrap() }
}

fn kill_one(context: &Context, listener: &weft::verbs::Listener, life: Duration) {
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(context, &domain, &QueuePairOptions::default());
    let mut lender = Process::start("whoever_lends_may_be_killed_at_any_time", "lender");
    lender.tell(&listener.local_address().to_string());
    listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
    // It writes to the first, and sends to the others.
    let guarded = |inner: &[u8]| [&[0xee; GUARD][..], inner, &[0xee; GUARD]].concat();
    let (empty, full) = (guarded(&vec![0; LENT]), guarded(&pattern(LENT)));
    // What is written from is not empty.
    let memory = |index: usize| if index == 0 { full.clone() } else { empty.clone() };
    let places: Vec<MemoryRegion> = (0..4).map(|index| domain.register(memory(index), ALL).unwrap()).collect();
    let place = |index: usize| places[index].slice(GUARD as u64..(GUARD + LENT) as u64).unwrap();
    let theirs = heard(&lender.ask());
    let mut open = BTreeMap::new();
    let mut next = 0_u64;
    let mut post = |index: usize, open: &mut BTreeMap<u64, usize>| {
        let (id, queue_pair) = (next, &end.queue_pair);
        let posted = match index {
            0 => queue_pair.post(WorkRequest::write(place(0), theirs).id(id)),
            1 => queue_pair.post(WorkRequest::read(place(1), theirs).id(id)),
            _ => queue_pair.post_receive(id, &[place(index)]),
        };
        // It may have died meanwhile.
        if posted.is_ok() {
            open.insert(id, index);
            next += 1;
        }
    };
    (0..places.len()).for_each(|index| post(index, &mut open));
    lender.tell(&spoken(places[0].remote(GUARD as u64)));
    let until = Instant::now() + life;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let Some(completion) = end.completions.wait(Some(left)) else { break };
        assert_eq!(completion.status, Status::Success, "it lives: {completion:?}");
        let index = open.remove(&completion.id).expect("each completes once");
        assert!(places[index].to_vec() == full, "it is whole");
        post(index, &mut open);
    }
    lender.kill();
    while !open.is_empty() {
        let completion = end.next();
        let index = open.remove(&completion.id).expect("each completes once");
        // The peer writes to the first: where the kill cut such a Write, its segment is all zero, whatever this side's
        // Write from there has completed with.
        let is_whole = index == 0 || places[index].to_vec() == full;
        assert!(completion.status != Status::Success || is_whole, "place {index} is whole");
    }
    // All may have been done before.
    wait_until(|| end.queue_pair.state().has_ended());
    assert!(end.completions.poll().is_none() && end.queue_pair.error().is_some());
    for place in places {
        let bytes = place.deregister().map_err(|(_, error)| error).unwrap();
        let is_right = bytes.iter().zip(&full).all(|(byte, right)| byte == right || *byte == 0);
        assert!(is_right && bytes.len() == full.len(), "nothing but what was sent is there");
    }
}
