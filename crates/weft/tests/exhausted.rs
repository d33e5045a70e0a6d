//! A process without descriptors says so, and those that call it are refused with that reason. The limit is that of a
//! process, so it is another one than the callers'.

mod common;
#[path = "common/process.rs"]
mod process;

use std::fs::File;
use std::sync::Arc;

use common::{Kind, PATIENCE};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use process::{Process, role, say};
use weft::endpoint::{
    Address, AttemptFailure, Completions, Endpoint, EndpointAttributes, EndpointFailure, Event, EventQueue, SendPost,
    Warning,
};
use weft::verbs::{ConnectOptions, Context, ListenOptions, Progress, QueuePairOptions, Settings, Transport};

const LIMIT: u64 = 64;

/// Says what it is warned of.
struct Warned;

impl Completions for Warned {
    fn complete(&self, _event: Event) {}

    fn warn(&self, warning: &Warning) {
        say(&warning.to_string());
    }
}

/// Opens an endpoint and a listener, takes all descriptors that are left, and sleeps until it is killed.
fn be_exhausted(transport: Transport) {
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let any = Kind::plain(Progress::Hybrid).any();
    let endpoint = Endpoint::open(&domain, &attributes(transport), Arc::new(Warned)).unwrap();
    let listener = context.listen(any, &ListenOptions::default()).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT, hard).unwrap();
    let files: Vec<File> = core::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    say(&format!("{:x} {} {}", endpoint.address().id, endpoint.address().paths[0], listener.local_address()));
    process::read_line();
}

fn attributes(transport: Transport) -> EndpointAttributes {
    let mut attributes = EndpointAttributes::at(Kind::plain(Progress::Hybrid).any());
    attributes.settings.transport = transport;
    attributes
}

#[test]
fn a_process_without_descriptors_says_so_and_refuses_who_calls() {
    if let Some(role) = role() {
        return be_exhausted(Transport::of_name(&role).unwrap());
    }
    for transport in [Transport::Iwarp, Transport::SharedMemoryOrIwarp] {
        call_who_is_exhausted(transport);
    }
}

fn call_who_is_exhausted(transport: Transport) {
    let mut other = Process::start("a_process_without_descriptors_says_so_and_refuses_who_calls", transport.name());
    let place = other.ask();
    let [id, path, listens] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("{place}") };
    let path: std::net::SocketAddr = path.parse().unwrap();
    let address = Address { id: u64::from_str_radix(id, 16).unwrap(), ..Address::from(path) };
    let settings = Settings { start_timeout: PATIENCE.unwrap(), ..Settings::default() };
    let context = Context::with_settings(settings).unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let callers: Vec<_> = (0..6)
        .map(|_| {
            let events = EventQueue::new(&context).unwrap();
            let endpoint = Endpoint::open(&domain, &attributes(transport), Arc::new(events.clone())).unwrap();
            endpoint.send(SendPost::new(endpoint.peer(&address).unwrap(), vec![1])).unwrap();
            (endpoint, events)
        })
        .collect();
    for (_, events) in &callers {
        let event = events.wait(PATIENCE).expect("an error in time");
        let Err(EndpointFailure::Unreachable(attempts)) = &event.outcome else { panic!("{event:?}") };
        assert_eq!(attempts.0[0].failure, AttemptFailure::Exhausted, "{attempts}");
    }
    let warning = other.ask();
    assert!(warning.contains(&format!("this process may have {LIMIT}; ")), "{warning}");
    assert!(warning.contains("`ulimit -n`"), "{warning}");
    // Queue pairs are refused with the same words.
    let completions = context.create_completion_queue(64).unwrap();
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    let error = queue_pair.connect(listens.parse().unwrap(), &ConnectOptions::default()).unwrap_err().to_string();
    assert!(error.contains("no file descriptors left"), "{error}");
    other.kill();
    for (endpoint, _) in callers {
        let _ = endpoint.close();
    }
}
