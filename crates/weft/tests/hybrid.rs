//! The threads that run the NIC: calling threads that come and go, the NIC's own thread, and the case of too many
//! threads.

mod common;
#[path = "common/process.rs"]
mod process;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{ALL, End, Kind, PATIENCE, Pair};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use process::{Process, read_line, role, say};
use weft::verbs::{
    Arm, ConnectOptions, Context, ListenOptions, PostError, Progress, QueuePairOptions, RemoteMemory, Stag, Status,
    WorkRequest,
};
use weft_base::{Random, Waker};
use weft_testing::until;

/// What is in flight arrives within this, whichever thread runs the NIC.
const AWAY: Duration = weft_testing::PATIENCE;

/// This many turns of a caller are enough to compare them with those of the NIC's thread.
const ENOUGH_TURNS: u64 = 50_000;
/// A thread that polls this long without [`ENOUGH_TURNS`] has to share its core with busy processes.
const POLLING: Duration = Duration::from_secs(20);

/// Those that move by themselves while callers may run them.
fn kinds() -> [Kind; 2] {
    let hybrid = Kind::plain(Progress::Hybrid);
    [hybrid, Kind { engines: 3, ..hybrid }]
}

/// Those that any number of threads may use.
fn every_kind() -> impl Iterator<Item = Kind> {
    let others = [Kind::plain(Progress::Thread), Kind::plain(Progress::Caller), Kind::summoning()];
    let several = Kind { engines: 3, ..Kind::plain(Progress::Thread) };
    kinds().into_iter().chain(others).chain([several])
}

// --- many threads

#[test]
fn threads_connect_post_poll_wait_and_close_at_the_same_time() {
    const THREADS: u64 = 8;
    for kind in every_kind() {
        println!("{kind:?}");
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let counter = domain.allocate(8, ALL).unwrap();
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (context, domain, counter) = (&context, &domain, counter.remote(0));
                scope.spawn(move || (0..3).for_each(|round| live(kind, context, domain, counter, number + round)));
            }
        });
        assert_eq!(counter.load_u64(0, Ordering::Acquire).unwrap(), THREADS * 3 * 100, "each once");
    }
}

/// Passes connections on to `target`, what comes back in pieces with pauses: as a slow link would. Ends with the
/// process.
fn slow_link_to(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pass = |mut from: TcpStream, mut to: TcpStream, pause: Duration| {
        thread::spawn(move || {
            let mut piece = vec![0; 100_000];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                if to.write_all(&piece[..length]).is_err() {
                    break;
                }
                thread::sleep(pause);
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    };
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(target).unwrap();
            pass(near.try_clone().unwrap(), far.try_clone().unwrap(), Duration::ZERO);
            pass(far, near, Duration::from_millis(1));
        }
    });
    address
}

#[test]
fn long_answers_of_many_connections_come_while_nobody_calls_in() {
    const LENGTH: usize = 3 << 20;
    for kind in kinds() {
        let [near, far] = [kind.context(), kind.context()];
        let [here, there] = [&near, &far].map(|context| context.allocate_protection_domain().unwrap());
        let listener = far.listen(kind.any(), &ListenOptions::default()).unwrap();
        let link = slow_link_to(listener.local_address());
        let ends: Vec<_> = (0..5)
            .map(|_| {
                let options = QueuePairOptions::default();
                let (active, passive) = (End::new(&near, &here, &options), End::new(&far, &there, &options));
                active.queue_pair.start_connect(link, &ConnectOptions::default()).unwrap();
                listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, &[]).unwrap();
                active.queue_pair.wait_connected(PATIENCE).unwrap();
                (active, passive)
            })
            .collect();
        let pattern = common::pattern(LENGTH);
        let source = there.register(pattern.clone(), ALL).unwrap();
        let last = LENGTH as u64 - 8;
        let expected = source.load_u64(last, Ordering::Acquire).unwrap();
        for _ in 0..3 {
            let sinks: Vec<_> = ends.iter().map(|_| here.allocate(LENGTH, ALL).unwrap()).collect();
            for ((active, _), sink) in ends.iter().zip(&sinks) {
                let read = WorkRequest::read(sink.slice(..).unwrap(), source.remote(0));
                active.queue_pair.post(read.id(1)).unwrap();
            }
            for sink in &sinks {
                until(|| sink.load_u64(last, Ordering::Acquire).unwrap() == expected, "the end of an answer");
            }
            for ((active, _), sink) in ends.iter().zip(&sinks) {
                active.done(1);
                let mut bytes = vec![0; LENGTH];
                sink.read(0, &mut bytes).unwrap();
                assert!(bytes == pattern, "each byte at its place");
            }
        }
    }
}

/// A connection of a thread's own, from its beginning to its end.
fn live(kind: Kind, context: &Context, domain: &weft::verbs::ProtectionDomain, counter: RemoteMemory, number: u64) {
    let options = QueuePairOptions::default();
    let [active, passive] = [(), ()].map(|()| End::new(context, domain, &options));
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    active.queue_pair.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, &[]).unwrap();
    active.queue_pair.wait_connected(PATIENCE).unwrap();
    let inbox = domain.allocate(100 * 8, ALL).unwrap();
    let result = domain.allocate(8, ALL).unwrap();
    for id in 0..100 {
        passive.queue_pair.post_receive(id, &[inbox.slice(id * 8..id * 8 + 8).unwrap()]).unwrap();
    }
    // Some poll, some wait.
    let take = |end: &End| match number % 2 {
        0 => end.next(),
        _ => loop {
            if let Some(completion) = end.completions.poll() {
                break completion;
            }
        },
    };
    for id in 0..100u64 {
        let send = WorkRequest::send_inline(&id.to_ne_bytes()).unwrap().id(id);
        let add = WorkRequest::fetch_add(result.slice(..).unwrap(), counter, 1).id(id);
        active.queue_pair.post_list([send, add]).unwrap();
        for end in [&active, &active, &passive] {
            let completion = take(end);
            assert_eq!((completion.id, completion.status), (id, Status::Success));
        }
        assert_eq!(inbox.load_u64(id * 8, Ordering::Acquire).unwrap(), id);
    }
    assert!(active.completions.poll().is_none() && passive.completions.poll().is_none(), "each once");
    match number % 3 {
        0 => {
            passive.queue_pair.start_disconnect();
            active.queue_pair.disconnect(PATIENCE).unwrap();
        }
        1 => active.queue_pair.start_disconnect(),
        _ => {}
    }
}

// --- a caller that comes and goes

#[test]
fn a_stream_arrives_while_the_caller_comes_and_goes() {
    if let Some(role) = role() {
        return stream(&role);
    }
    const ROUNDS: u64 = 100;
    for kind in kinds() {
        println!("{kind:?}");
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let end = End::new(&context, &domain, &QueuePairOptions::default());
        let flags = domain.allocate(16, ALL).unwrap();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let mut peer = Process::start(
            "a_stream_arrives_while_the_caller_comes_and_goes",
            &format!("{} {}", listener.local_address(), flags.stag().0),
        );
        for id in 0..100 {
            end.queue_pair.post_receive(id, &[]).unwrap();
        }
        listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
        assert_eq!(peer.ask(), "connected");
        let mut random = Random::new(3);
        let mut heard = 0;
        for round in 1..=ROUNDS {
            // The caller is here for a moment: the answer comes when it is away again.
            for _ in 0..random.below(20) {
                heard += take_one(&end);
            }
            end.queue_pair.post(WorkRequest::send_inline(&round.to_ne_bytes()).unwrap().unsignaled()).unwrap();
            for _ in 0..random.below(20) {
                heard += take_one(&end);
            }
            let away = Duration::from_micros(random.below(1001));
            let start = Instant::now();
            while start.elapsed() < away {
                std::hint::spin_loop();
            }
            until(
                || flags.load_u64(0, Ordering::Acquire).unwrap() >= round,
                "what came while the caller was away was not seen to",
            );
        }
        // The stream beside it has made progress all the time, and does while the caller is away.
        let before = flags.load_u64(8, Ordering::Acquire).unwrap();
        until(|| flags.load_u64(8, Ordering::Acquire).unwrap() > before + 100, "the stream has stopped");
        peer.tell("stop");
        let sent: u64 = peer.ask().parse().unwrap();
        until(|| flags.load_u64(8, Ordering::Acquire).unwrap() == sent, "not all has arrived");
        while heard < ROUNDS {
            end.next();
            heard += 1;
        }
        peer.tell("end");
        assert!(peer.end().success());
    }
}

fn take_one(end: &End) -> u64 {
    match end.completions.poll() {
        Some(completion) => {
            assert_eq!(completion.status, Status::Success);
            end.queue_pair.post_receive(completion.id, &[]).unwrap();
            1
        }
        None => 0,
    }
}

/// The peer: answers each message by a write and a message, and counts up another word all the time.
fn stream(role: &str) {
    let (address, stag) = role.split_once(' ').unwrap();
    let flags = RemoteMemory { stag: Stag(stag.parse().unwrap()), offset: 0 };
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    let inbox = domain.allocate(8 * 100, ALL).unwrap();
    for id in 0..100 {
        end.queue_pair.post_receive(id, &[inbox.slice(id * 8..id * 8 + 8).unwrap()]).unwrap();
    }
    end.queue_pair.connect(address.parse().unwrap(), &ConnectOptions::default()).unwrap();
    // The active side speaks first.
    let write = |word: u64, at| WorkRequest::write_inline(&word.to_ne_bytes(), flags.at(at)).unwrap();
    end.queue_pair.post(write(0, 0).unsignaled()).unwrap();
    say("connected");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(read_line(), "stop");
            stop.store(true, Ordering::Release);
        });
        let (mut sent, mut under_way) = (0, 0);
        while !stop.load(Ordering::Acquire) {
            if under_way < 50 {
                sent += 1;
                under_way += 1;
                end.queue_pair.post(write(sent, 8).id(1000)).unwrap();
            }
            let Some(completion) = end.completions.poll() else { continue };
            assert_eq!(completion.status, Status::Success);
            if completion.id == 1000 {
                under_way -= 1;
                continue;
            }
            let slot = completion.id * 8;
            let asked = inbox.load_u64(slot, Ordering::Acquire).unwrap();
            end.queue_pair.post_receive(completion.id, &[inbox.slice(slot..slot + 8).unwrap()]).unwrap();
            let answer = WorkRequest::send_inline(&[]).unwrap().unsignaled();
            end.queue_pair.post_list([write(asked, 0).unsignaled(), answer]).unwrap();
        }
        say(&sent.to_string());
    });
    assert_eq!(read_line(), "end");
}

#[test]
fn who_does_nothing_but_post_receives_as_well() {
    if let Some(role) = role() {
        return answer_messages(&role);
    }
    for kind in kinds() {
        println!("{kind:?}");
        let (pair, mut peer) = serve("who_does_nothing_but_post_receives_as_well", kind);
        let sink = pair.end.queue_pair.domain().allocate(8, ALL).unwrap();
        peer.tell("where");
        let stag = Stag(peer.ask().parse().unwrap());
        let there = RemoteMemory { stag, offset: 0 };
        for round in 1..=5 {
            peer.tell("write");
            until(
                || {
                    // No completions are requested, and none come.
                    let write = WorkRequest::write(sink.slice(..).unwrap(), there).unsignaled();
                    assert!(matches!(pair.end.queue_pair.post(write), Ok(()) | Err(PostError::QueueFull { .. })));
                    pair.flags.load_u64(0, Ordering::Acquire).unwrap() == round
                },
                "posting keeps the thread away and does not receive",
            );
            assert_eq!(peer.ask(), "done");
        }
        let turns = || pair.context.counters().caller_turns;
        let before = turns();
        let post = || {
            let nothing = WorkRequest::write_inline(&[], there).unwrap().unsignaled();
            assert!(matches!(pair.end.queue_pair.post(nothing), Ok(()) | Err(PostError::QueueFull { .. })));
            turns() > before
        };
        // With several engines, the thread of the connection's own does what this one posts.
        if kind.engines == 1 {
            until(post, "a caller that only posts runs no turn");
        }
        peer.tell("end");
        assert!(peer.end().success());
    }
}

// --- descriptors

#[test]
fn a_descriptor_is_woken_though_no_thread_is_in_the_nic() {
    if let Some(role) = role() {
        return answer_messages(&role);
    }
    for kind in kinds() {
        println!("{kind:?}");
        let (pair, mut peer) = serve("a_descriptor_is_woken_though_no_thread_is_in_the_nic", kind);
        for id in 0..200 {
            pair.end.queue_pair.post_receive(id, &[]).unwrap();
            pair.end.completions.arm(Arm::Any);
            assert!(pair.end.completions.poll().is_none());
            peer.tell("send");
            // Nothing but this descriptor.
            let mut descriptors = [PollFd::new(pair.end.completions.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut descriptors, PollTimeout::from(60_000u16)).unwrap(), 1, "an event in time");
            pair.end.completions.acknowledge();
            pair.end.done(id);
        }
        peer.tell("end");
        assert!(peer.end().success());
    }
}

/// The passive side, whose peer is another process.
struct Served {
    context: Context,
    end: End,
    flags: weft::verbs::MemoryRegion,
}

fn serve(test: &str, kind: Kind) -> (Served, Process) {
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions { send_depth: 128, receive_depth: 256 });
    let flags = domain.allocate(8, ALL).unwrap();
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let peer = Process::start(test, &format!("{} {}", listener.local_address(), flags.stag().0));
    listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
    (Served { context, end, flags }, peer)
}

/// The peer: obeys commands.
fn answer_messages(role: &str) {
    let (address, stag) = role.split_once(' ').unwrap();
    let flags = RemoteMemory { stag: Stag(stag.parse().unwrap()), offset: 0 };
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    end.queue_pair.connect(address.parse().unwrap(), &ConnectOptions::default()).unwrap();
    let window = domain.allocate(8, ALL).unwrap();
    let mut word = 0u64;
    loop {
        match read_line().as_str() {
            "send" => end.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().id(1)).unwrap(),
            "write" => {
                word += 1;
                let write = WorkRequest::write_inline(&word.to_ne_bytes(), flags).unwrap();
                end.queue_pair.post(write.id(1)).unwrap();
            }
            "where" => {
                // Until it has spoken, the passive side says nothing.
                end.queue_pair.post(WorkRequest::write_inline(&[], flags).unwrap().id(1)).unwrap();
                end.done(1);
                say(&window.stag().0.to_string());
                continue;
            }
            _ => return,
        }
        end.done(1);
        say("done");
    }
}

// --- summons

#[derive(Default)]
struct Calls(AtomicU64);

impl Waker for Calls {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn the_nic_calls_for_an_application_that_is_away() {
    if let Some(role) = role() {
        return answer_messages(&role);
    }
    let kind = Kind::summoning();
    let (pair, mut peer) = serve("the_nic_calls_for_an_application_that_is_away", kind);
    let calls = Arc::new(Calls::default());
    pair.context.set_summons(Arc::clone(&calls) as Arc<dyn Waker>);
    let count = || calls.0.load(Ordering::Acquire);
    let arrived = || pair.flags.load_u64(0, Ordering::Acquire).unwrap();
    for round in 1..=50 {
        let before = count();
        peer.tell("write");
        assert_eq!(peer.ask(), "done");
        until(|| count() > before, "something waits and no waker is called");
        assert!(arrived() < round, "nobody was called for, and yet it is here");
        pair.context.progress();
        let start = Instant::now();
        while arrived() < round {
            assert!(start.elapsed() < AWAY);
            pair.context.progress();
        }
    }
    assert!(pair.context.counters().summons >= 50);
    peer.tell("end");
    assert!(peer.end().success());
}

#[test]
fn the_nic_calls_for_nobody_when_nothing_waits() {
    if let Some(role) = role() {
        return answer_messages(&role);
    }
    let kind = Kind::summoning();
    let (pair, mut peer) = serve("the_nic_calls_for_nobody_when_nothing_waits", kind);
    // The start-up is over when the first message of the peer is here.
    peer.tell("write");
    assert_eq!(peer.ask(), "done");
    while pair.flags.load_u64(0, Ordering::Acquire).unwrap() == 0 {
        pair.context.progress();
    }
    let calls = Arc::new(Calls::default());
    pair.context.set_summons(Arc::clone(&calls) as Arc<dyn Waker>);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(calls.0.load(Ordering::Acquire), 0);
    // A caller whose wait times out has handed over, which wakes the thread. That is no reason to call either.
    for _ in 0..20 {
        assert!(pair.end.completions.wait(Some(Duration::from_millis(5))).is_none());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(calls.0.load(Ordering::Acquire), 0);
    peer.tell("end");
    assert!(peer.end().success());
}

// --- counters

#[test]
fn counters_tell_who_ran_it() {
    if let Some(role) = role() {
        return answer_messages(&role);
    }
    let (pair, mut peer) = serve("counters_tell_who_ran_it", Kind::plain(Progress::Hybrid));
    peer.tell("write");
    assert_eq!(peer.ask(), "done");
    let arrived = || pair.flags.load_u64(0, Ordering::Acquire).unwrap();
    until(|| arrived() == 1, "the first write");

    let before = pair.context.counters();
    // A caller whose polls are empty yields its core, so beside busy processes a few polls take a second.
    let start = Instant::now();
    let polled = loop {
        for _ in 0..64 {
            pair.context.progress();
        }
        let now = pair.context.counters();
        let turns = now.caller_turns - before.caller_turns;
        // One visit in 64 is measured.
        if turns > ENOUGH_TURNS || (turns > 64 && start.elapsed() > POLLING) {
            break now;
        }
        assert!(start.elapsed() < AWAY, "a caller that polls runs no turns");
    };
    let [by_caller, by_thread] = [polled.caller_turns - before.caller_turns, polled.thread_turns - before.thread_turns];
    // It takes over when this thread has lost its core for a while: beside busy processes that is always.
    if by_caller > ENOUGH_TURNS {
        assert!(by_thread < by_caller / 2, "{by_thread} turns of the thread beside {by_caller} of the caller");
    } else {
        println!("only {by_caller} turns of the caller in {POLLING:?}, so those of the thread are not judged");
    }
    assert!(polled.caller_ns > before.caller_ns);

    for round in 2..=10 {
        peer.tell("write");
        assert_eq!(peer.ask(), "done");
        until(|| arrived() == round, "the caller has left, so the thread polls");
    }
    let left = pair.context.counters();
    assert!(left.take_overs > before.take_overs, "{left:?}");
    assert!(left.thread_turns > polled.thread_turns && left.wake_ups > polled.wake_ups, "{left:?}");
    assert!(left.thread_ns > before.thread_ns);
    // Reading the counters takes no turn.
    assert_eq!(left.caller_turns, polled.caller_turns);
    peer.tell("end");
    assert!(peer.end().success());
}

// --- ends

#[test]
fn a_context_may_close_at_any_moment() {
    for kind in every_kind() {
        println!("{kind:?}");
        let mut random = Random::new(5);
        for _ in 0..25 {
            // No thread ever calls.
            drop(kind.context());
            // Threads are in the middle of calls.
            let pair = Pair::new(kind);
            let (from, to) = (pair.filled(10_000), pair.empty(10_000));
            thread::scope(|scope| {
                for _ in 0..random.below(3) {
                    let completions = pair.active.completions.clone();
                    scope.spawn(move || completions.wait(Some(Duration::from_millis(2))));
                }
                let writes = random.below(50);
                let write = |_| WorkRequest::write(from.slice(..).unwrap(), to.remote(0));
                pair.active.queue_pair.post_list((0..writes).map(write)).unwrap();
                drop(pair);
            });
        }
    }
}

#[test]
fn a_process_exits_in_the_middle_of_traffic_and_its_peer_sees_the_end() {
    if let Some(role) = role() {
        return exit_while_streaming(&role);
    }
    let test = "a_process_exits_in_the_middle_of_traffic_and_its_peer_sees_the_end";
    for kind in kinds() {
        println!("{kind:?}");
        for _ in 0..10 {
            let (pair, mut peer) = serve(test, kind);
            pair.end.queue_pair.post_receive(1, &[]).unwrap();
            until(|| pair.flags.load_u64(0, Ordering::Acquire).unwrap() > 0, "a stream");
            peer.tell("exit");
            assert_eq!(peer.end().code(), Some(7));
            let receive = pair.end.next();
            assert_eq!((receive.id, receive.status), (1, Status::Flushed));
            // The state follows the last completion: the NIC's thread may be just there.
            until(|| pair.end.queue_pair.state().has_ended(), "the end");
        }
    }
}

/// The peer: writes without end, until another of its threads ends the process.
fn exit_while_streaming(role: &str) {
    let (address, stag) = role.split_once(' ').unwrap();
    let flags = RemoteMemory { stag: Stag(stag.parse().unwrap()), offset: 0 };
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    end.queue_pair.connect(address.parse().unwrap(), &ConnectOptions::default()).unwrap();
    thread::spawn(|| {
        read_line();
        exit(7);
    });
    for word in 1u64.. {
        end.queue_pair.post(WorkRequest::write_inline(&word.to_ne_bytes(), flags).unwrap().id(word)).unwrap();
        end.done(word);
    }
}

// --- more processes than cores

#[test]
fn more_processes_than_cores_wait_for_each_other_and_finish() {
    if let Some(role) = role() {
        return ping_pong(&role);
    }
    const PAIRS: usize = 8;
    let test = "more_processes_than_cores_wait_for_each_other_and_finish";
    let start = Instant::now();
    let mut processes = Vec::new();
    for _ in 0..PAIRS {
        let passive = Process::start(test, "listen");
        let active = Process::start(test, &passive.ask());
        processes.extend([passive, active]);
    }
    for process in &mut processes {
        assert_eq!(process.ask(), "ready");
    }
    processes.iter_mut().for_each(|process| process.tell("go"));
    for mut process in processes {
        assert_eq!(process.ask(), "finished");
        assert!(process.end().success());
    }
    println!("{} processes, {ROUND_TRIPS} round trips each: {:?}", 2 * PAIRS, start.elapsed());
}

const ROUND_TRIPS: u64 = 2000;

fn ping_pong(role: &str) {
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::new(&context, &domain, &QueuePairOptions::default());
    end.queue_pair.post_receive(0, &[]).unwrap();
    let begins = role != "listen";
    if begins {
        end.queue_pair.connect(role.parse().unwrap(), &ConnectOptions::default()).unwrap();
    } else {
        let listener = context.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        say(&listener.local_address().to_string());
        listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
    }
    say("ready");
    assert_eq!(read_line(), "go");
    let send = || end.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
    for id in 0..ROUND_TRIPS {
        if begins {
            send();
        }
        end.done(id);
        if id + 1 < ROUND_TRIPS {
            end.queue_pair.post_receive(id + 1, &[]).unwrap();
        }
        if !begins {
            send();
        }
    }
    say("finished");
    // The last message is sent before this process ends. Which side closes first is open, and so how it ends for the
    // other.
    let _ = end.queue_pair.disconnect(PATIENCE);
}
