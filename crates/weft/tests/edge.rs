//! Edge over the loopback device: the verbs, closing, and what becomes of calls that Edge does not answer.

mod common;

use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::PATIENCE;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, JobKey, Match, ReceivePost, SendPost};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, Offer,
    PortError, Progress, QueuePair, QueuePairOptions, RemoteMemory, Settings, Stag, State, Status, Transport,
    WorkRequest,
};

fn offer(transport: Transport) -> Offer {
    Offer { transport, ..ConnectOptions::default().offer }
}

struct End {
    queue_pair: QueuePair,
    completions: CompletionQueue,
    context: Context,
}

fn end() -> End {
    end_with(Settings::default())
}

fn end_with(settings: Settings) -> End {
    let context = Context::with_settings(settings).unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    End { queue_pair, completions, context }
}

/// Two ends, connected, and a listener that takes `listens`.
fn pair(calls: Transport, listens: Transport) -> [End; 2] {
    let [active, passive] = [end(), end()];
    let listen = ListenOptions { offer: offer(listens), ..ListenOptions::default() };
    let listener = passive.context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let connect = ConnectOptions { offer: offer(calls), ..ConnectOptions::default() };
    active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, b"welcome").unwrap();
    active.queue_pair.wait_connected(PATIENCE).unwrap();
    assert_eq!(active.queue_pair.info().unwrap().private_data, b"welcome");
    [active, passive]
}

fn is_edge(end: &End) -> bool {
    end.queue_pair.info().unwrap().lower == LowerInfo::Edge
}

#[test]
fn what_carries_a_connection_is_what_both_can() {
    use Transport::{Auto, Edge, Iwarp};
    for (calls, listens, expected) in
        [(Edge, Edge, true), (Edge, Auto, true), (Auto, Edge, true), (Auto, Iwarp, false), (Iwarp, Auto, false)]
    {
        let ends = pair(calls, listens);
        assert!(ends.iter().all(|end| is_edge(end) == expected), "{calls:?} to {listens:?}");
    }
}

/// Rails are shown every 50 ms, which keeps no caller awake that sleeps for longer.
#[test]
fn a_caller_that_waits_for_long_sleeps() {
    let [active, _passive] = pair(Transport::Edge, Transport::Edge);
    let before = active.context.counters().parks;
    assert!(active.completions.wait(Some(Duration::from_millis(300))).is_none());
    let parks = active.context.counters().parks - before;
    assert!(parks < 100, "it went to sleep {parks} times");
}

/// A connection over Edge opens only where both have the same key; a peer that has none, or another, gets the reason.
#[test]
fn a_job_key_keeps_others_out() {
    let keyed = |byte: Option<u8>| {
        let key = byte.map(|byte| JobKey::new(&[byte; 32]).unwrap());
        end_with(Settings { key, start_timeout: Duration::from_secs(2), ..Settings::default() })
    };
    let why = |mine: Option<u8>, theirs: Option<u8>| {
        let [active, passive] = [mine, theirs].map(keyed);
        let listen = ListenOptions { offer: offer(Transport::Edge), ..ListenOptions::default() };
        let listener = passive.context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
        let connect = ConnectOptions { offer: offer(Transport::Edge), ..ConnectOptions::default() };
        active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
        if mine == theirs {
            listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, b"").unwrap();
        }
        let outcome = active.queue_pair.wait_connected(PATIENCE).err().map(|error| error.to_string());
        if outcome.is_none() {
            let domain = active.queue_pair.domain();
            let sink = passive.queue_pair.domain().allocate(8, Access::LOCAL_WRITE).unwrap();
            passive.queue_pair.post_receive(1, &[sink.slice(..).unwrap()]).unwrap();
            let bytes = domain.register(b"the job ".to_vec(), Access::LOCAL_READ).unwrap();
            active.queue_pair.post(WorkRequest::send(bytes.slice(..).unwrap())).unwrap();
            assert_eq!(passive.completions.wait(PATIENCE).expect("the message in time").status, Status::Success);
            assert_eq!(sink.to_vec(), b"the job ");
        }
        // A caller may have sent its hello more than once before it was answered.
        let (refused, _) = listener.take_refused();
        assert_eq!(!refused.is_empty(), outcome.is_some(), "the listener hears of it");
        outcome.map(|outcome| (outcome, refused[0].error.to_string()))
    };
    assert_eq!(why(Some(1), Some(1)), None);
    for (mine, theirs, here, there) in [
        (None, Some(1), "the peer wants a job key", "the caller has no job key, as this side has"),
        (Some(1), None, "the peer has no job key, as this side has", "the caller wants a job key"),
        (
            Some(1),
            Some(2),
            "the peer has another job key than this side",
            "the caller has another job key than this side",
        ),
    ] {
        let (caller, listener) = why(mine, theirs).expect("it is not let in");
        assert!(caller.contains(here), "{mine:?} to {theirs:?}: {caller}");
        assert!(listener.contains(there), "{mine:?} to {theirs:?}: {listener}");
    }
}

#[test]
fn where_nobody_listens_iwarp_says_so_too() {
    let (nowhere, _kept) = common::refusing();
    let connect = ConnectOptions { offer: offer(Transport::Auto), ..ConnectOptions::default() };
    let error = end().queue_pair.connect(nowhere, &connect).unwrap_err();
    let Error::Connection(ConnectionError::Connect { remote, error }) = error else { panic!("{error:?}") };
    assert_eq!((remote, error), (nowhere, PortError::Refused));
}

#[test]
fn an_endpoint_closes_at_once() {
    // No side probes its peer, so what is not sent by itself never is.
    let one = |progress| {
        let context = Context::with_settings(Settings { progress, peer_timeout: None, ..Settings::default() }).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let mut attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
        attributes.settings.transport = Transport::Edge;
        (Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap(), events, context)
    };
    for progress in [Progress::Hybrid, Progress::Thread] {
        let (done, is_done) = mpsc::channel();
        let closing = thread::spawn(move || {
            let [(sender, _, a), (receiver, events, b)] = [one(progress), one(progress)];
            receiver.receive(ReceivePost::new(vec![0; 100]).matching(Match { tag: 1, ignore: 0 })).unwrap();
            let to = sender.peer(&receiver.address()).unwrap();
            sender.send(SendPost::new(to, b"all".to_vec()).tag(1)).unwrap();
            sender.close().unwrap();
            assert!(events.wait(PATIENCE).unwrap().outcome.is_ok());
            receiver.close().unwrap();
            drop((a, b));
            done.send(()).unwrap();
        });
        is_done.recv_timeout(PATIENCE.unwrap()).unwrap_or_else(|_| panic!("{progress:?}: it does not end"));
        closing.join().unwrap();
    }
}

/// The reader is done when the bytes are in place; that may be before its acknowledgement has come. What is
/// retransmitted then is memory that its owner has taken back.
#[test]
fn memory_may_go_as_soon_as_its_reader_is_done() {
    let [active, passive] = pair(Transport::Edge, Transport::Edge);
    let domains = [&active, &passive].map(|end| end.queue_pair.domain());
    let back = domains[0].allocate(100_000, Access::LOCAL_WRITE).unwrap();
    for id in 0..50 {
        let window = domains[1].allocate(100_000, Access::REMOTE_READ).unwrap();
        active.queue_pair.post(WorkRequest::read(back.slice(..).unwrap(), window.remote(0)).id(id)).unwrap();
        let done = active.completions.wait(PATIENCE).expect("the read in time");
        assert_eq!((done.id, done.status), (id, Status::Success), "{:?}", active.queue_pair.error());
    }
}

/// A short request goes past the queues, and completes when the peer has it all the same.
#[test]
fn a_short_request_completes_when_the_peer_has_it() {
    let settings = || Settings { progress: Progress::Caller, ..Settings::default() };
    let [active, passive] = [end_with(settings()), end_with(settings())];
    let listen = ListenOptions { offer: offer(Transport::Edge), ..ListenOptions::default() };
    let listener = passive.context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let connect = ConnectOptions { offer: offer(Transport::Edge), ..ConnectOptions::default() };
    active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, b"").unwrap();
    active.queue_pair.wait_connected(PATIENCE).unwrap();
    let inbox = passive.queue_pair.domain().allocate(8, Access::LOCAL_WRITE).unwrap();
    for id in 0..20 {
        // The other side runs only when the test runs it.
        active.queue_pair.post(WorkRequest::send_inline(&[id as u8; 8]).unwrap().id(id)).unwrap();
        assert!((0..100).all(|_| active.completions.poll().is_none()), "message {id} is not acknowledged");
        assert_eq!(active.queue_pair.sends_under_way(), 1);
        passive.queue_pair.post_receive(id, &[inbox.slice(..).unwrap()]).unwrap();
        let mut done = [None, None];
        while done.contains(&None) {
            for (done, end) in done.iter_mut().zip([&active, &passive]) {
                *done = done.or(end.completions.poll().map(|done| (done.id, done.status)));
            }
        }
        assert_eq!(done, [Some((id, Status::Success)); 2]);
        assert_eq!(active.queue_pair.sends_under_way(), 0);
    }
}

/// The part of the test below that is another process: is connected to, tells where its memory is, and waits.
#[test]
fn the_peer_process() {
    let Ok(address) = std::env::var("WEFT_TEST_EDGE_TO") else { return };
    let end = end();
    let memory = end.queue_pair.domain().register(vec![7; 4096], Access::all()).unwrap();
    let inbox = end.queue_pair.domain().allocate(8, Access::LOCAL_WRITE).unwrap();
    end.queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
    let connect = ConnectOptions { offer: offer(Transport::Edge), timeout: PATIENCE, ..ConnectOptions::default() };
    end.queue_pair.connect(address.parse().unwrap(), &connect).unwrap();
    let RemoteMemory { stag, offset } = memory.remote(0);
    let place = [u64::from(stag.0), offset].map(u64::to_be_bytes).concat();
    end.queue_pair.post(WorkRequest::send_inline(&place).unwrap().id(2)).unwrap();
    // Whatever comes is taken by the NIC's own thread, until it is killed with all else here.
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// Stops a process, with all its threads.
fn stop(process: &Child) {
    let id = Pid::from_raw(process.id() as i32);
    kill(id, Signal::SIGSTOP).unwrap();
    assert_eq!(waitpid(id, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(id, Signal::SIGSTOP)));
}

/// A process that is stopped is waited for; one that is killed ends all that is in flight, whatever it is, once each.
#[test]
fn a_process_that_is_stopped_goes_on_and_one_that_is_killed_ends_everything_once() {
    let end = end();
    let domain = end.queue_pair.domain();
    let listen = ListenOptions { offer: offer(Transport::Edge), ..ListenOptions::default() };
    let listener = end.context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_peer_process", "--nocapture"])
        .env("WEFT_TEST_EDGE_TO", listener.local_address().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let own = domain.register(vec![1; 4096], Access::all()).unwrap();
    let slice = || own.slice(..8).unwrap();
    for id in 100..110 {
        end.queue_pair.post_receive(id, &[own.slice(id..id + 16).unwrap()]).unwrap();
    }
    listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
    let next = || end.completions.wait(PATIENCE).expect("a completion in time");
    assert_eq!((next().id, is_edge(&end)), (100, true));
    let place = own.to_vec();
    let number = |at: usize| u64::from_be_bytes(place[at..at + 8].try_into().unwrap());
    let theirs = RemoteMemory { stag: Stag(number(100) as u32), offset: number(108) };

    stop(&child);
    end.queue_pair.post(WorkRequest::send(slice()).id(1)).unwrap();
    assert!(end.completions.wait(Some(Duration::from_millis(700))).is_none(), "nobody was there to take it");
    assert_eq!(end.queue_pair.error(), None);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGCONT).unwrap();
    let completion = next();
    assert_eq!((completion.id, completion.status), (1, Status::Success), "{:?}", end.queue_pair.error());

    stop(&child);
    let requests = [
        WorkRequest::send(slice()),
        WorkRequest::write(slice(), theirs),
        WorkRequest::read(slice(), theirs),
        WorkRequest::fetch_add(slice(), theirs, 1),
        WorkRequest::compare_swap(slice(), theirs, 1, 2),
        WorkRequest::immediate(5),
    ];
    let count = requests.len() as u64;
    end.queue_pair.post_list(requests.into_iter().zip(10..).map(|(request, id)| request.id(id))).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut ids: Vec<u64> = (0..count + 9)
        .map(|_| {
            let completion = next();
            assert_ne!(completion.status, Status::Success, "{completion:?}");
            completion.id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (10..10 + count).chain(101..110).collect::<Vec<_>>());
    assert!(end.completions.poll().is_none());
    assert_eq!(end.queue_pair.state(), State::Failed);
    assert!(matches!(end.queue_pair.error(), Some(ConnectionError::Stream(_))), "{:?}", end.queue_pair.error());
}
