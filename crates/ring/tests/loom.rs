//! Sleep and wake under a model checker: every interleaving, with the reorderings that the memory model allows.
//!
//! A wake that is lost is a deadlock here, and bytes that are read before they are written are a race that loom
//! reports.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use weft_ring::{Capacity, Consumer, Producer, Rest, Word, Words};

/// The ring's memory, as loom sees it.
struct Memory {
    words: [AtomicU64; 4],
    /// One byte represents the sixteen around it: two writers of them at a time, or a reader and a writer, is a race.
    data: [UnsafeCell<u8>; 4],
    to_consumer: Signal,
    to_producer: Signal,
}

const CELL: usize = 16;

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            data: std::array::from_fn(|_| UnsafeCell::new(0)),
            to_consumer: Signal::new(),
            to_producer: Signal::new(),
        })
    }
}

struct Side(Arc<Memory>);

impl Words for Side {
    fn load(&self, word: Word) -> u64 {
        self.0.words[word as usize].load(Ordering::Acquire)
    }

    fn store(&self, word: Word, value: u64) {
        self.0.words[word as usize].store(value, Ordering::Release);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// What the socket of a connection is: a signal stays until it is drained, and ends a wait.
struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn new() -> Self {
        Self { is_set: Mutex::new(false), changed: Condvar::new() }
    }

    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn drain(&self) {
        *self.is_set.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
    }
}

fn capacity() -> Capacity {
    Capacity::new(Capacity::LEAST).unwrap()
}

/// Writes `blocks` blocks of `cells` cells each, numbered from 1 on, and ends.
fn produce(memory: &Arc<Memory>, blocks: u8, cells: usize) {
    let mut producer = Producer::new(Side(Arc::clone(memory)), capacity());
    let length = cells * CELL;
    for number in 1..=blocks {
        while producer.room(length).unwrap() < length {
            memory.to_producer.drain();
            if producer.sleep(length).unwrap() {
                memory.to_producer.wait();
            }
        }
        let start = producer.spans(length).0[0].offset / CELL;
        for cell in start..start + cells {
            // SAFETY: loom checks that no other thread touches it.
            memory.data[cell].with_mut(|byte| unsafe { *byte = number });
        }
        if producer.publish(length) {
            memory.to_consumer.set();
        }
    }
    if producer.end() {
        memory.to_consumer.set();
    }
}

/// Reads all blocks, and the end.
fn consume(memory: &Arc<Memory>, blocks: u8, cells: usize) {
    let mut consumer = Consumer::new(Side(Arc::clone(memory)), capacity());
    let length = cells * CELL;
    let mut expected = 1;
    loop {
        let available = consumer.poll().unwrap();
        if available.bytes >= length {
            let start = consumer.spans(length).0[0].offset / CELL;
            for cell in start..start + cells {
                // SAFETY: loom checks that no thread writes it.
                memory.data[cell].with(|byte| assert_eq!(unsafe { *byte }, expected));
            }
            expected += 1;
            if consumer.consume(length) {
                memory.to_producer.set();
            }
        } else if available.rest == Rest::End {
            break;
        } else {
            memory.to_consumer.drain();
            if consumer.sleep(length).unwrap() {
                memory.to_consumer.wait();
            }
        }
    }
    assert_eq!(expected, blocks + 1);
}

fn check(blocks: u8, cells: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let memory = Memory::new();
        let theirs = Arc::clone(&memory);
        let other = thread::spawn(move || produce(&theirs, blocks, cells));
        consume(&memory, blocks, cells);
        other.join().unwrap();
    });
}

#[test]
fn a_consumer_that_sleeps_is_woken() {
    check(1, 1);
    check(2, 2);
}

#[test]
fn a_producer_that_sleeps_is_woken() {
    // Half of the ring each time: the third has no room until the first is read.
    check(3, 2);
}

#[test]
fn a_producer_that_waits_for_what_it_has_written_is_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = Memory::new();
        let theirs = Arc::clone(&memory);
        let other = thread::spawn(move || {
            let mut producer = Producer::new(Side(Arc::clone(&theirs)), capacity());
            for _ in 0..2 {
                if producer.publish(1) {
                    theirs.to_consumer.set();
                }
            }
            while producer.ask_unread().unwrap() > 0 {
                theirs.to_producer.drain();
                if producer.sleep_until_read().unwrap() {
                    theirs.to_producer.wait();
                }
            }
        });
        let mut consumer = Consumer::new(Side(Arc::clone(&memory)), capacity());
        for _ in 0..2 {
            while consumer.poll().unwrap().bytes == 0 {
                memory.to_consumer.drain();
                if consumer.sleep(1).unwrap() {
                    memory.to_consumer.wait();
                }
            }
            if consumer.consume(1) {
                memory.to_producer.set();
            }
        }
        other.join().unwrap();
    });
}
