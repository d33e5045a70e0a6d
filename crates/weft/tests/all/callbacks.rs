//! Code that the NIC calls can't use a NIC or an endpoint: it gets an error, and nothing hangs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ALL, Kind, PATIENCE};
use weft::endpoint::{
    Completed, Completions, Endpoint, EndpointAttributes, EndpointError, EndpointFailure, Event, EventQueue, Match,
    PeerId, ReceivePost, RemotePlace, SendPost, Stag, TransferPost,
};
use weft::verbs::{
    CompletionQueue, ConnectOptions, Context, Counters, Error, ListenOptions, Listener, PostError, Progress,
    ProtectionDomain, QueuePair, QueuePairOptions, WorkRequest,
};

/// The context of a receive that no message matches.
const LONELY: u64 = 99;

/// A NIC and what it has.
struct Station {
    kind: Kind,
    context: Context,
    domain: ProtectionDomain,
    events: EventQueue,
    /// Nothing completes here.
    quiet: EventQueue,
    endpoint: Endpoint,
    /// This endpoint, as it knows itself.
    itself: PeerId,
    completions: CompletionQueue,
    queue_pair: QueuePair,
}

impl Station {
    fn new(kind: Kind, sink: impl FnOnce(EventQueue) -> Arc<dyn Completions>) -> Arc<Self> {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let [events, quiet] = [(); 2].map(|()| EventQueue::new(&context).unwrap());
        let endpoint = Endpoint::open(&domain, &EndpointAttributes::at(kind.any()), sink(events.clone())).unwrap();
        let itself = endpoint.peer(&endpoint.address()).unwrap();
        let completions = context.create_completion_queue(8).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        Arc::new(Self { kind, context, domain, events, quiet, endpoint, itself, completions, queue_pair })
    }

    fn receive(&self, tag: u64, context: u64) {
        let post = ReceivePost::new(vec![0; 64]).matching(Match { tag, ignore: 0 }).context(context);
        self.endpoint.receive(post).unwrap();
    }

    /// Tries all calls of its endpoint, in a callback.
    fn probe_endpoint(&self) {
        let Self { endpoint, itself: to, quiet, .. } = self;
        let refused = Err(EndpointError::InCallback);
        let transfer = || TransferPost::new(*to, vec![0; 8], RemotePlace { stag: Stag(0x100), offset: 0 });
        assert_eq!(endpoint.send(SendPost::new(*to, b"from within".to_vec()).tag(3)), refused);
        assert_eq!(endpoint.receive(ReceivePost::new(vec![0; 8])), refused);
        assert_eq!(endpoint.write(transfer()), refused);
        assert_eq!(endpoint.read(transfer()), refused);
        assert_eq!(endpoint.peek(None, None, None).map(drop), refused);
        assert_eq!(endpoint.discard(None, None).map(drop), refused);
        assert_eq!(endpoint.peer(&endpoint.address()).map(drop), refused);
        assert!(endpoint.peer_address(*to).is_none() && endpoint.is_on_this_host(*to).is_none());
        assert!(!endpoint.cancel(LONELY) && !endpoint.is_idle() && !endpoint.progress());
        let undelivered = endpoint.close().unwrap_err();
        assert_eq!(undelivered.reason, Some(EndpointFailure::InCallback), "{undelivered}");
        let attributes = EndpointAttributes::at(self.kind.any());
        let opened = Endpoint::open(&self.domain, &attributes, Arc::new(quiet.clone()));
        assert_eq!(opened.map(drop), Err(Error::InCallback));
        assert!(!endpoint.wait_until(None, || false) && endpoint.wait_until(None, || true));
        assert!(quiet.poll().is_none() && quiet.wait(None).is_none());
        quiet.arm();
        endpoint.watch();
    }

    /// Tries all other calls of its NIC, in a callback.
    fn probe_nic(&self) {
        let Self { kind, context, queue_pair, .. } = self;
        assert!(!context.progress() && !context.progress_as_caller() && !context.wait_until(None, || false));
        context.nudge();
        context.watch();
        assert!(context.counters() == Counters::default());
        assert_eq!(context.listen(kind.any(), &ListenOptions::default()).map(drop), Err(Error::InCallback));
        assert!(self.completions.wait(None).is_none());
        assert_eq!(queue_pair.start_connect(kind.any(), &ConnectOptions::default()), Err(Error::InCallback));
        assert_eq!(queue_pair.wait_connected(None).map(drop), Err(Error::InCallback));
        assert_eq!(queue_pair.post(WorkRequest::immediate(0)), Err(PostError::InCallback));
        assert_eq!(queue_pair.disconnect(None), Err(Error::InCallback));
        // This needs no engine.
        assert!(self.domain.register(vec![0; 8], ALL).is_ok());
    }
}

/// What a callback tries: everything, with the NIC that calls it and with another one.
struct Probe {
    stations: Vec<Arc<Station>>,
    /// Things that are dropped in the callback.
    doomed: Option<Doomed>,
    over: Sender<thread::Result<()>>,
}

/// The context is the only handle of a NIC.
type Doomed = (Endpoint, QueuePair, Listener, Context);

/// Completions that probe once, when a message comes, and pass it on then.
struct Prober {
    events: EventQueue,
    probe: Arc<Mutex<Option<Probe>>>,
}

impl Completions for Prober {
    fn complete(&self, event: Event) {
        if event.completed == Completed::Receive
            && let Some(Probe { stations, doomed, over }) = self.probe.lock().unwrap().take()
        {
            let tried = catch_unwind(AssertUnwindSafe(|| {
                drop(doomed);
                stations.iter().for_each(|station| station.probe_endpoint());
                stations.iter().for_each(|station| station.probe_nic());
            }));
            let _ = over.send(tried);
        }
        self.events.complete(event);
    }
}

/// Passes on what completes. Its count says whether its endpoint is closed.
struct Counted(EventQueue);

impl Completions for Counted {
    fn complete(&self, event: Event) {
        self.0.complete(event);
    }
}

/// Does this on a thread of its own, and fails if it does not end.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (over, is_over) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = over.send(());
    });
    assert_ne!(is_over.recv_timeout(PATIENCE.unwrap()), Err(RecvTimeoutError::Timeout), "it hangs");
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

/// Looks until this is so.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE.unwrap(), "not in time: {what}");
        thread::sleep(Duration::from_micros(100));
    }
}

fn kinds() -> impl Iterator<Item = Kind> {
    let plain = [Progress::Caller, Progress::Hybrid, Progress::Thread].map(Kind::plain);
    plain.into_iter().chain([Kind::summoning(), Kind { engines: 3, ..Kind::plain(Progress::Hybrid) }])
}

/// The next message at a station. Where callers run the NICs, they run both.
fn message(at: &Station, other: &Station) -> Vec<u8> {
    let mut found = None;
    until("a message", || {
        other.context.progress();
        found = at.events.poll().filter(|event| event.completed == Completed::Receive);
        found.is_some()
    });
    let event = found.unwrap();
    assert_eq!(event.outcome, Ok(()));
    event.buffer.unwrap()[..event.length as usize].to_vec()
}

fn probe(kind: Kind) {
    let probe = Arc::new(Mutex::new(None));
    let here = Station::new(kind, |events| Arc::new(Prober { events, probe: Arc::clone(&probe) }));
    let there = Station::new(kind, |events| Arc::new(events));

    let sink = Arc::new(Counted(EventQueue::new(&here.context).unwrap()));
    let completions: Arc<dyn Completions> = Arc::clone(&sink) as _;
    let endpoint = Endpoint::open(&here.domain, &EndpointAttributes::at(kind.any()), completions).unwrap();
    let to = endpoint.peer(&there.endpoint.address()).unwrap();
    let queue_pair = here.domain.create_queue_pair(&here.completions, &QueuePairOptions::default()).unwrap();
    let listener = here.context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let listened_at = listener.local_address();

    let (over, is_over) = mpsc::channel();
    here.receive(77, LONELY);
    here.receive(1, 1);
    // No turn has been made that could have connected it and sent it, where callers make them.
    endpoint.send(SendPost::new(to, b"of the dropped one".to_vec()).tag(2)).unwrap();
    let doomed = Some((endpoint, queue_pair, listener, kind.context()));
    let stations = vec![Arc::clone(&here), Arc::clone(&there)];
    *probe.lock().unwrap() = Some(Probe { stations, doomed, over });
    let peer = there.endpoint.peer(&here.endpoint.address()).unwrap();
    there.endpoint.send(SendPost::new(peer, b"the first".to_vec()).tag(1)).unwrap();

    assert_eq!(message(&here, &there), b"the first");
    match is_over.try_recv() {
        Ok(tried) => tried.unwrap_or_else(|panic| resume_unwind(panic)),
        Err(_) => panic!("the message came before the callback was over"),
    }

    there.receive(2, 2);
    assert_eq!(message(&there, &here), b"of the dropped one");
    until("the endpoint is closed", || {
        here.context.progress();
        there.context.progress();
        Arc::strong_count(&sink) == 1
    });
    until("the listener is closed", || here.context.listen(listened_at, &ListenOptions::default()).is_ok());
    // And all is as it was.
    assert!(here.endpoint.cancel(LONELY) && here.context.counters() != Counters::default());
    here.receive(3, 3);
    there.endpoint.send(SendPost::new(peer, b"the second".to_vec()).tag(3)).unwrap();
    until("the second message", || {
        there.context.progress();
        here.events.poll().is_some_and(|event| event.context == 3 && event.outcome.is_ok())
    });
}

#[test]
fn a_callback_that_uses_a_nic_is_refused_and_its_message_arrives() {
    for kind in kinds() {
        println!("{kind:?}");
        ends(move || probe(kind));
    }
}

#[test]
fn what_a_wait_asks_is_refused_as_well() {
    for kind in kinds() {
        println!("{kind:?}");
        ends(move || {
            let here = Station::new(kind, |events| Arc::new(events));
            let mut asked = 0;
            let done = here.context.wait_until(PATIENCE, || {
                here.probe_endpoint();
                here.probe_nic();
                asked += 1;
                asked == 3 || {
                    here.context.nudge();
                    false
                }
            });
            assert!(done && asked == 3);
            assert_eq!(here.endpoint.send(SendPost::new(here.itself, vec![1])), Ok(()));
        });
    }
}
