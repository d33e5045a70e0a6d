//! A peer that does nothing for longer than a silent one may be silent, and one whose host is gone.

mod common;

use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{ALL, End, Kind, PATIENCE, pattern};
use nix::sched::{CloneFlags, unshare};
use weft::verbs::{
    ConnectOptions, ConnectionError, Context, ListenOptions, Progress, ProtectionDomain, QueuePairOptions, Settings,
    Status, StreamError, WorkRequest,
};
use weft_rdmap::Closed;

const PEER_TIMEOUT: Duration = Duration::from_millis(1600);
/// More than TCP takes while the peer does not receive.
const LENGTH: usize = 16 << 20;

/// One side: a NIC of its own.
struct Side {
    _context: Context,
    domain: ProtectionDomain,
    end: End,
}

/// Two NICs that are connected. The passive one does nothing while no thread calls it.
fn sides(progress: Progress) -> (Side, Side) {
    let make = |progress| {
        let settings = Settings { peer_timeout: Some(PEER_TIMEOUT), ..Kind::plain(progress).settings() };
        let context = Context::with_settings(settings).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let end = End::new(&context, &domain, &QueuePairOptions::default());
        Side { _context: context, domain, end }
    };
    let (active, passive) = (make(progress), make(Progress::Caller));
    let listener = passive._context.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    active.end.queue_pair.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive.end.queue_pair, &[]).unwrap();
    passive.end.queue_pair.wait_connected(PATIENCE).unwrap();
    active.end.queue_pair.wait_connected(PATIENCE).unwrap();
    (active, passive)
}

/// How the NICs run that watch their peers.
const KINDS: [Progress; 2] = [Progress::Thread, Progress::Hybrid];

#[test]
fn a_peer_that_is_stopped_in_the_middle_of_long_messages_goes_on_later() {
    let sides = KINDS.map(sides);
    let messages = sides.each_ref().map(|(active, passive)| {
        let (from, to) = (active.domain.register(pattern(LENGTH), ALL), passive.domain.allocate(LENGTH, ALL));
        let (from, to) = (from.unwrap(), to.unwrap());
        passive.end.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
        active.end.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
        (from, to)
    });
    // Nothing is waited for that comes: what must not come would have come by then.
    for (active, _) in &sides {
        assert!(active.end.completions.wait(Some(2 * PEER_TIMEOUT)).is_none());
        assert_eq!(active.end.queue_pair.error(), None);
    }
    for ((active, passive), (_from, to)) in sides.iter().zip(&messages) {
        passive.end.done(1);
        active.end.done(2);
        assert!(to.to_vec() == pattern(LENGTH));
    }
}

/// Switches the loopback of this thread's network. Returns whether that can be done.
fn switch(to: &str) -> bool {
    Command::new("ip").args(["link", "set", "lo", to]).status().is_ok_and(|status| status.success())
}

#[test]
fn a_host_that_is_gone_ends_the_connection_in_time() {
    for progress in KINDS {
        thread::spawn(move || {
            if unshare(CloneFlags::CLONE_NEWNET).is_err() || !switch("up") {
                return println!("skipped: no network of its own can be had");
            }
            // The kernel itself would be more patient than this test.
            std::fs::write("/proc/sys/net/ipv4/tcp_retries2", "255").unwrap();
            let (active, _passive) = sides(progress);
            assert!(switch("down"));
            active.end.queue_pair.post(WorkRequest::send_inline(b"anybody?").unwrap().id(1)).unwrap();
            active.end.done(1);
            // The bytes are with the operating system; that there is no answer is noticed later.
            active.end.queue_pair.post_receive(2, &[]).unwrap();
            let completion = active.end.next();
            assert_eq!((completion.id, completion.status), (2, Status::Flushed));
            let error = active.end.queue_pair.error();
            assert_eq!(error, Some(ConnectionError::Stream(StreamError::Lost(Closed::TimedOut))));
        })
        .join()
        .unwrap();
    }
}
