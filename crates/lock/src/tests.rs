use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// The panic of a thread that takes a lock against the order.
fn refused<R>(take: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(take()))).expect_err("it must panic");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn downwards_is_right() {
    let engine = Mutex::new(Rank::Engine, 1);
    let table = RwLock::new(Rank::MemoryTable, 2);
    let entries = Mutex::new(Rank::CompletionEntries, 3);
    for _ in 0..2 {
        let first = engine.lock();
        let second = table.read();
        assert_eq!(*first + *second + *entries.lock(), 6);
        assert_eq!(*entries.lock(), 3);
    }
    *table.write() += 1;
    assert_eq!(*table.read(), 3);
}

#[test]
fn upwards_is_refused_with_both_names_and_places() {
    let engine = Mutex::new(Rank::Engine, ());
    let submission = Mutex::new(Rank::Submission, ());
    let held = submission.lock();
    let message = refused(|| engine.lock());
    assert!(message.contains("Engine is taken at crates/lock/src/tests.rs:"), "{message}");
    assert!(message.contains("holds Submission, taken at crates/lock/src/tests.rs:"), "{message}");
    assert!(message.contains("Engine comes before Submission"), "{message}");
    drop(held);
    drop(engine.lock());
}

#[test]
fn a_thread_holds_one_lock_of_a_rank() {
    let table = RwLock::new(Rank::MemoryTable, ());
    let other = RwLock::new(Rank::MemoryTable, ());
    let held = table.read();
    // The same one too: a writer that waits in between would block both.
    assert!(refused(|| table.read()).contains("two of a rank"));
    assert!(refused(|| other.read()).contains("two of a rank"));
    drop(held);
}

#[test]
fn nothing_is_taken_under_a_leaf() {
    let entries = Mutex::new(Rank::CompletionEntries, ());
    let ring = Mutex::new(Rank::CompletionRing, ());
    let held = entries.lock();
    assert!(refused(|| ring.lock()).contains("leaf"));
    drop(held);
}

#[test]
fn what_can_not_block_is_right_in_any_order_and_what_follows_is_checked() {
    let engine = Mutex::new(Rank::Engine, ());
    let submission = Mutex::new(Rank::Submission, ());
    let sources = RwLock::new(Rank::CompletionSources, ());
    let held = submission.lock();
    let visited = engine.try_lock().expect("nobody has it");
    assert!(engine.try_lock().is_none() && engine.is_locked());
    assert!(refused(|| sources.read()).contains("CompletionSources comes before Submission"));
    drop(held);
    assert!(refused(|| sources.read()).contains("CompletionSources comes before Engine"));
    MutexGuard::unlock_fair(visited);
    drop(sources.read());
}

#[test]
fn locks_of_others_have_their_place() {
    let gate = Rank::RegionGate.enter();
    let again = Rank::RegionGate.enter_unblocked();
    drop(Rank::MemoryTable.enter());
    drop(gate);
    assert!(refused(|| Rank::RegionGate.enter()).contains("two of a rank"));
    drop(again);
    drop(Rank::RegionGate.enter());
}

#[test]
fn each_thread_counts_for_itself() {
    let engine = Mutex::new(Rank::Engine, 0);
    let _leaf = Rank::EventCount.enter();
    std::thread::scope(|scope| scope.spawn(|| *engine.lock() += 1).join().expect("no panic"));
}
