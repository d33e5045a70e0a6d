//! A child made by fork(2) owns nothing of its parent's NICs, and harms nothing of them.
//!
//! Without the threads of a test harness: a child has their locks, and no thread to release them. The NIC's own threads
//! are there.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{ALL, End, Kind, PATIENCE, Pair, pattern};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use weft::verbs::{
    Arm, ConnectOptions, Context, Counters, Error, ListenOptions, Listener, MemoryError, MemoryRegion, PostError,
    Progress, QueuePair, QueuePairOptions, SharedReceiveQueue, WorkRequest,
};

/// A child needs nothing like this long.
const LIFETIME: Duration = weft_testing::PATIENCE;
/// What a child says when all was as it should be.
const FINE: i32 = 42;

fn main() {
    let several = [Progress::Hybrid, Progress::Thread].map(|progress| Kind { engines: 3, ..Kind::plain(progress) });
    let plain = [Progress::Hybrid, Progress::Thread, Progress::Caller].map(Kind::plain);
    for kind in plain.into_iter().chain([Kind::summoning()]).chain(several) {
        println!("{kind:?}");
        nothing_works_in_a_child(kind);
        children_in_the_middle_of_traffic(kind);
        what_is_dropped_in_a_child_stays_in_its_parent(kind);
    }
    println!("test result: ok. 1 passed; 0 failed");
}

/// Makes a child that exits as `act` says, with what it is given.
fn child<T>(given: T, act: impl FnOnce(T) -> i32) -> (T, Child) {
    // SAFETY: The C library makes its allocator usable in a child; locks of other threads are what is being tested, and
    // a child that waits for one is found and ended.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => (given, Child(child)),
        ForkResult::Child => exit(catch_unwind(AssertUnwindSafe(|| act(given))).unwrap_or(1)),
    }
}

struct Child(Pid);

impl Child {
    /// Whether it still runs. It must not have failed.
    fn runs(&self) -> bool {
        match waitpid(self.0, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive => true,
            status => {
                assert_eq!(status, WaitStatus::Exited(self.0, FINE));
                false
            }
        }
    }

    /// Waits for its end, and does something meanwhile.
    fn end(self, mut meanwhile: impl FnMut()) {
        let start = Instant::now();
        while self.runs() {
            meanwhile();
            if start.elapsed() > LIFETIME {
                kill(self.0, Signal::SIGKILL).unwrap();
                waitpid(self.0, None).unwrap();
                panic!("a child hangs");
            }
        }
    }
}

/// All that can be made from a context.
struct Everything {
    pair: Pair,
    listener: Listener,
    idle: QueuePair,
    shared: SharedReceiveQueue,
    from: MemoryRegion,
    window: MemoryRegion,
}

impl Everything {
    fn new(kind: Kind) -> Self {
        let pair = Pair::new(kind);
        let listener = pair.context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let completions = &pair.passive.completions;
        let idle = pair.domain.create_queue_pair(completions, &QueuePairOptions::default()).unwrap();
        let shared = pair.domain.create_shared_receive_queue(completions, 16).unwrap();
        shared.post_receive(0, &[]).unwrap();
        let (from, window) = (pair.filled(100_000), pair.empty(100_000));
        Self { pair, listener, idle, shared, from, window }
    }

    fn write(&self) -> WorkRequest {
        WorkRequest::write(self.from.slice(..).unwrap(), self.window.remote(0))
    }

    /// The connection is as good as new.
    fn works(&self) {
        self.knock(0);
        // Now nothing is in flight there any more.
        self.window.fill_with(|_| 0).unwrap();
        self.pair.active.queue_pair.post(self.write().unsignaled()).unwrap();
        self.knock(1);
        assert!(self.window.to_vec() == pattern(100_000));
    }

    /// Everything that was posted before has arrived.
    fn knock(&self, id: u64) {
        let Pair { active, passive, .. } = &self.pair;
        passive.queue_pair.post_receive(id, &[]).unwrap();
        active.queue_pair.post(WorkRequest::immediate(id).id(id)).unwrap();
        active.done(id);
        assert_eq!(passive.done(id).immediate, Some(id));
    }
}

/// Each call, in a child. What it would wait for never comes, so nothing may wait.
fn try_everything(all: &Everything) {
    let Everything { pair: Pair { context, domain, active, passive }, listener, idle, shared, from, window } = all;
    let (completions, options) = (&passive.completions, QueuePairOptions::default());

    assert_eq!(context.allocate_protection_domain().map(drop), Err(Error::Forked));
    assert_eq!(context.create_completion_queue(8).map(drop), Err(Error::Forked));
    let any = "127.0.0.1:0".parse().unwrap();
    assert_eq!(context.listen(any, &ListenOptions::default()).map(drop), Err(Error::Forked));
    assert!(!context.progress());
    assert_eq!(context.counters(), Counters::default());

    assert_eq!(domain.register(vec![0; 8], ALL).map(drop), Err(Error::Forked));
    assert_eq!(domain.allocate(8, ALL).map(drop), Err(Error::Forked));
    assert_eq!(domain.create_queue_pair(completions, &options).map(drop), Err(Error::Forked));
    assert_eq!(domain.create_shared_receive_queue(completions, 8).map(drop), Err(Error::Forked));

    let connect = ConnectOptions::default();
    assert_eq!(idle.connect(listener.local_address(), &connect).map(drop), Err(Error::Forked));
    assert_eq!(idle.start_connect(listener.local_address(), &connect), Err(Error::Forked));
    assert_eq!(listener.accept(None).map(drop), Err(Error::Forked));

    let queue_pair = &active.queue_pair;
    assert_eq!(queue_pair.wait_connected(None), Err(Error::Forked));
    assert_eq!(queue_pair.post(WorkRequest::immediate(0)), Err(PostError::Forked));
    assert_eq!(queue_pair.post_list([all.write(), all.write()]).unwrap_err().error, PostError::Forked);
    assert_eq!(queue_pair.post_receive(9, &[]), Err(PostError::Forked));
    assert_eq!(shared.post_receive(9, &[]), Err(PostError::Forked));
    assert!(shared.is_empty());
    queue_pair.start_disconnect();
    assert_eq!(queue_pair.disconnect(None), Err(Error::Forked));
    assert_eq!((queue_pair.info(), queue_pair.error()), (None, None));

    for completions in [&active.completions, completions] {
        completions.arm(Arm::Any);
        assert!(completions.poll().is_none());
        assert_eq!(completions.poll_into(&mut Vec::new(), 8), 0);
        assert!(completions.wait(None).is_none());
        assert!(completions.wait_for(|_| true, None).is_err());
        completions.acknowledge();
    }

    // Memory is memory: the child's own copy of it.
    assert!(from.to_vec() == pattern(100_000));
    window.write(0, &[1]).unwrap();
}

/// It can open a NIC of its own.
fn use_a_nic_of_its_own(kind: Kind) {
    let pair = Pair::new(kind);
    let (from, to) = (pair.filled(100_000), pair.empty(100_000));
    pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
    pair.active.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
    pair.passive.done(1);
    pair.active.done(2);
    assert!(to.to_vec() == pattern(100_000));
    pair.active.queue_pair.start_disconnect();
    pair.wait_for_end();
}

fn nothing_works_in_a_child(kind: Kind) {
    let all = Everything::new(kind);
    // Something waits to be taken, and an event to be acknowledged: both are the parent's.
    all.pair.passive.completions.arm(Arm::Any);
    all.pair.passive.queue_pair.post_receive(5, &[]).unwrap();
    all.pair.active.queue_pair.post(WorkRequest::immediate(5).id(6)).unwrap();
    all.pair.active.done(6);
    let (all, looking) = child(all, |all| {
        try_everything(&all);
        use_a_nic_of_its_own(kind);
        FINE
    });
    looking.end(|| thread::sleep(Duration::from_millis(1)));
    all.pair.passive.done(5);
    all.works();
}

/// Threads post, poll and wait while children come and go.
fn children_in_the_middle_of_traffic(kind: Kind) {
    const CHILDREN: usize = 20;
    let all = Everything::new(kind);
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (all, over, written) = (&all, &over, &written);
        let traffic = scope.spawn(move || {
            let active = &all.pair.active;
            while !over.load(Ordering::Acquire) {
                (0..8).for_each(|id| active.queue_pair.post(all.write().id(id)).unwrap());
                for id in 0..8 {
                    active.done(id);
                }
                written.fetch_add(8, Ordering::AcqRel);
            }
        });
        scope.spawn(move || {
            while !over.load(Ordering::Acquire) {
                assert!(all.pair.passive.completions.wait(Some(Duration::from_millis(1))).is_none());
            }
        });
        let end = Ending(over);
        for number in 0..CHILDREN {
            let (_, looking) = child((), |()| {
                try_everything(all);
                if number % 4 == 0 {
                    use_a_nic_of_its_own(kind);
                }
                FINE
            });
            // While it lives, and after.
            let start = Instant::now();
            for goal in [written.load(Ordering::Acquire) + 8, written.load(Ordering::Acquire) + 16] {
                while written.load(Ordering::Acquire) < goal && !traffic.is_finished() {
                    assert!(Some(start.elapsed()) < PATIENCE, "the parent's traffic has stopped");
                    thread::yield_now();
                }
            }
            looking.end(|| thread::sleep(Duration::from_millis(1)));
        }
        drop(end);
    });
    all.works();
}

/// Ends the traffic, also when a child has failed.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The child drops all it has, or ends with it, in the middle of writes that the NIC's thread sees to.
fn what_is_dropped_in_a_child_stays_in_its_parent(kind: Kind) {
    for drops in [true, false] {
        let all = Everything::new(kind);
        all.pair.active.queue_pair.post_list((0..100).map(|id| all.write().id(id))).unwrap();
        let (all, dropping) = child(all, |all| {
            if drops {
                drop(dismantle(all));
            } else {
                // The end of the process comes with everything there.
                exit(FINE);
            }
            FINE
        });
        for id in 0..100 {
            all.pair.active.done(id);
        }
        dropping.end(|| thread::sleep(Duration::from_millis(1)));
        all.works();
        // What is left closes as it should.
        all.pair.active.queue_pair.start_disconnect();
        all.pair.wait_for_end();
        assert_eq!((all.pair.active.queue_pair.error(), all.pair.passive.queue_pair.error()), (None, None));
    }
}

/// In a child: gives back memory that it does not have registered, and drops the rest one by one.
fn dismantle(all: Everything) -> Context {
    let Everything { pair: Pair { context, domain, active, passive }, listener, idle, shared, from, window } = all;
    let id = window.id();
    let (window, error) = window.deregister().map(drop).unwrap_err();
    assert_eq!(error, MemoryError::Gone(id));
    drop((window, from, shared, idle, listener));
    for End { queue_pair, completions } in [active, passive] {
        drop(queue_pair);
        drop(completions);
    }
    drop(domain);
    context
}
