//! Owners are told of their own work alone, and hold up no other's.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use weft::verbs::{Completion, CompletionKind, Status};

use super::*;

/// How long something that must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const THREADS: usize = 16;

/// An owner that does something when its work ends.
struct Handler<F> {
    act: F,
    told: AtomicUsize,
    is_gone: AtomicBool,
}

impl<F: Fn() + Send + Sync + 'static> Handler<F> {
    fn new(act: F) -> Arc<Self> {
        Arc::new(Self { act, told: AtomicUsize::new(0), is_gone: AtomicBool::new(false) })
    }
}

impl<F: Fn() + Send + Sync> Owner for Handler<F> {
    fn complete(&self, _completion: &WorkCompletion) {
        assert!(!self.is_gone.load(Ordering::SeqCst), "an owner that is gone was told something");
        self.told.fetch_add(1, Ordering::SeqCst);
        (self.act)();
        assert!(!self.is_gone.load(Ordering::SeqCst), "an owner has gone while it was told something");
    }

    fn number(&self) -> u32 {
        7
    }
}

fn add(owners: &Owners, number: u32, owner: &Arc<impl Owner + 'static>) -> Arc<OwnerSink> {
    let told = owners.sink_of(Some(Arc::clone(owner) as Arc<dyn Owner>));
    owners.add(QueuePairNumber(number), Arc::clone(&told));
    told
}

/// Work of a queue pair of the NIC ends.
fn complete(told: &OwnerSink, number: u32) {
    let completion = Completion {
        id: 1,
        kind: CompletionKind::Send,
        status: Status::Success,
        length: 0,
        immediate: None,
        invalidated: None,
        solicited: false,
    };
    told.complete(WorkCompletion { queue_pair: QueuePairNumber(number), completion });
}

#[test]
fn a_handler_that_waits_holds_up_no_other_queue_pair() {
    let owners = Owners::default();
    let ((entered, has_entered), (go_on, goes_on)) = (channel(), channel::<()>());
    let goes_on = Mutex::new(goes_on);
    let slow = Handler::new(move || {
        entered.send(()).unwrap();
        lock(&goes_on).recv_timeout(PATIENCE).expect("the others wait for this one");
    });
    let told = add(&owners, 1, &slow);
    thread::scope(|scope| {
        let telling = scope.spawn(|| complete(&told, 1));
        has_entered.recv_timeout(PATIENCE).unwrap();
        // Others are created, get completions and are destroyed meanwhile.
        for number in 2..=THREADS as u32 {
            let quick = Handler::new(|| ());
            let told = add(&owners, number, &quick);
            complete(&told, number);
            owners.disown(QueuePairNumber(number));
            complete(&told, number);
            assert_eq!((quick.told.load(Ordering::SeqCst), Arc::strong_count(&quick)), (1, 1));
        }
        go_on.send(()).unwrap();
        telling.join().unwrap();
    });
}

#[test]
fn a_handler_may_create_and_destroy_others() {
    let owners = Arc::new(Owners::default());
    let other = Handler::new(|| ());
    add(&owners, 2, &other);
    let (at_hand, third) = (Arc::clone(&owners), Handler::new(|| ()));
    let in_handler = Arc::clone(&third);
    let handler = Handler::new(move || {
        at_hand.disown(QueuePairNumber(2));
        let told = add(&at_hand, 3, &in_handler);
        complete(&told, 3);
    });
    let told = add(&owners, 1, &handler);
    complete(&told, 1);
    assert_eq!((other.told.load(Ordering::SeqCst), third.told.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(Arc::strong_count(&other), 1);
}

#[test]
fn an_owner_that_is_gone_is_not_told_by_any_thread() {
    const ROUNDS: u32 = 2000;
    let owners = Owners::default();
    let handler = || Handler::new(thread::yield_now);
    // What half of the threads tell, and the other half replaces.
    let places: Vec<_> = (0..4u32)
        .map(|number| {
            let owner = handler();
            Mutex::new((number, add(&owners, number, &owner), owner))
        })
        .collect();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (owners, place) = (&owners, &places[number / 2 % places.len()]);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if number % 2 == 0 {
                        let (number, told) = {
                            let place = lock(place);
                            (place.0, Arc::clone(&place.1))
                        };
                        complete(&told, number);
                    } else {
                        let next = 100 + (number as u32) * ROUNDS + round;
                        let owner = handler();
                        let told = add(owners, next, &owner);
                        let (gone, _, before) = core::mem::replace(&mut *lock(place), (next, told, owner));
                        owners.disown(QueuePairNumber(gone));
                        before.is_gone.store(true, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(lock(&owners.by_number).len(), places.len());
}

#[test]
fn the_end_of_a_connection_rings_for_its_owner() {
    let owners = Owners::default();
    let owner = Handler::new(|| ());
    let told = add(&owners, 1, &owner);
    told.connection_ended(QueuePairNumber(1));
    assert_eq!(owners.bell.wait(Some(PATIENCE)), [7]);
    owners.disown(QueuePairNumber(1));
    told.connection_ended(QueuePairNumber(1));
    assert_eq!(owners.bell.wait(Some(Duration::ZERO)), []);
}
