//! Callers that say nothing take no descriptor that the program needs. A process of its own, for its limit is that of a
//! process.
#![forbid(unsafe_code)]

mod common;

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use common::{Kind, PATIENCE};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use weft::verbs::{ConnectOptions, Context, ListenOptions, Progress, QueuePair, QueuePairOptions, Settings};

/// What the program opens while callers hold what they can.
const FILES: usize = 12;
const CALLERS: usize = 60;
/// Turns of the NIC's thread in a second of which nothing comes: a thread that polls without result all the time takes
/// a hundred thousand and more.
const MOST_TURNS: u64 = 5000;

fn queue_pair(context: &Context) -> QueuePair {
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap()
}

#[test]
fn callers_that_say_nothing_leave_the_program_its_descriptors() {
    let kind = Kind::plain(Progress::Thread);
    // No caller is given up for being slow.
    let settings = Settings { start_timeout: Duration::from_secs(3600), ..kind.settings() };
    let (context, other) =
        (Context::with_settings(settings.clone()).unwrap(), Context::with_settings(settings).unwrap());
    let listener = context.listen(kind.any(), &ListenOptions { backlog: 1024, ..ListenOptions::default() }).unwrap();
    let (active, passive) = (queue_pair(&other), queue_pair(&context));
    let address = listener.local_address();
    let callers: Vec<Socket> =
        (0..CALLERS).map(|_| Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap()).collect();
    // An eighth is kept for the program: some of the callers find a place and most of them none.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 128, hard).unwrap();
    for caller in &callers {
        caller.connect(&address.into()).unwrap();
    }
    let turns = || context.counters().thread_turns;
    let start = Instant::now();
    let before = turns();
    while start.elapsed() < Duration::from_secs(1) {
        let files: Result<Vec<File>, _> = (0..FILES).map(|_| File::open("/dev/null")).collect();
        files.expect("there are descriptors left");
        thread::sleep(Duration::from_millis(10));
    }
    let turns = (turns() - before) / start.elapsed().as_secs();
    assert!(turns < MOST_TURNS, "{turns} turns in a second for nothing");
    // And a caller that says what it wants is served.
    active.start_connect(address, &ConnectOptions::default()).unwrap();
    listener.accept(Some(weft_testing::PATIENCE)).expect("a request").accept(&passive, &[]).unwrap();
    active.wait_connected(PATIENCE).unwrap();
}
