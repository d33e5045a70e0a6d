//! Access to a region, under a model checker: every interleaving of touches, of what ends them, and of work in flight,
//! with the reorderings that the memory model allows. The flags are the real ones; the steps around them, which take
//! the table's lock and the region's gate, are those of the registry, as each says.
#![allow(dead_code, clippy::duplicate_mod, reason = "the file is here a second time")]

#[path = "standing.rs"]
mod standing;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, RwLock};
use loom::thread;

use self::standing::Standing;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64};
}

/// A table with one region of one byte. Loom reports a thread that touches it while another does, or without an order
/// between the two.
struct Registry {
    /// Whether the region is in the table.
    table: RwLock<bool>,
    standing: Standing,
    gate: RwLock<()>,
    byte: UnsafeCell<u8>,
    swept: AtomicUsize,
}

/// How a touch comes by its bytes.
#[derive(Clone, Copy)]
enum Touch {
    /// Under the table's lock.
    Short,
    /// Under the gate, which is entered under the table's lock.
    Long,
}

impl Registry {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            table: RwLock::new(true),
            standing: Standing::new(),
            gate: RwLock::new(()),
            byte: UnsafeCell::new(0),
            swept: AtomicUsize::new(0),
        })
    }

    fn write_byte(&self) {
        // SAFETY: loom checks that no other thread touches it.
        self.byte.with_mut(|byte| unsafe { *byte += 1 });
    }

    /// `Registry::touch`, by a slice that `check_remote` gave out or by one that is pinned.
    fn touch(&self, touch: Touch, is_remote: bool) -> bool {
        let table = self.table.read().unwrap();
        if !*table || (is_remote && !self.standing.is_remote_open()) {
            return false;
        }
        match touch {
            Touch::Short => self.write_byte(),
            Touch::Long => {
                // `RawSlice::new`
                let inside = self.gate.read().unwrap();
                drop(table);
                self.write_byte();
                drop(inside);
            }
        }
        true
    }

    /// `Memory::drain`
    fn drain(&self) {
        drop(self.gate.write().unwrap());
    }

    /// `Registry::invalidate`
    fn invalidate(&self) -> bool {
        let table = self.table.write().unwrap();
        if !*table || !self.standing.is_remote_open() {
            return false;
        }
        self.standing.close_remote();
        drop(table);
        self.drain();
        true
    }

    /// `Table::sweep`
    fn sweep(&self, table: &mut bool) {
        if *table && self.standing.is_over() {
            *table = false;
            self.swept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `Registry::detach`
    fn detach(&self) {
        let mut table = self.table.write().unwrap();
        self.standing.disown();
        self.sweep(&mut table);
        drop(table);
        self.drain();
    }

    /// `Registry::take_back`
    fn take_back(&self) -> bool {
        let mut table = self.table.write().unwrap();
        if self.standing.pins() > 0 {
            return false;
        }
        self.standing.disown();
        self.sweep(&mut table);
        drop(table);
        self.drain();
        true
    }

    /// `Registry::pin`
    fn pin(&self) -> bool {
        let table = self.table.read().unwrap();
        let is_there = *table && self.standing.is_owned();
        if is_there {
            self.standing.pin();
        }
        is_there
    }

    /// `Registry::unpin`
    fn unpin(&self) {
        let table = self.table.read().unwrap();
        let is_leftover = self.standing.unpin().expect("it is pinned");
        drop(table);
        if is_leftover {
            self.sweep(&mut self.table.write().unwrap());
        }
    }

    fn swept(&self) -> usize {
        self.swept.load(Ordering::Relaxed)
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn no_byte_lands_by_remote_access_once_that_has_ended() {
    for touch in [Touch::Short, Touch::Long] {
        explore(move || {
            let registry = Registry::new();
            let theirs = Arc::clone(&registry);
            let peer = thread::spawn(move || {
                theirs.touch(touch, true);
                theirs.touch(touch, true)
            });
            assert!(registry.invalidate() && !registry.invalidate());
            registry.write_byte();
            peer.join().unwrap();
            assert!(!registry.touch(touch, true) && registry.touch(touch, false), "local work goes on");
        });
    }
}

#[test]
fn a_buffer_that_comes_back_has_one_owner() {
    for touch in [Touch::Short, Touch::Long] {
        explore(move || {
            let registry = Registry::new();
            let theirs = Arc::clone(&registry);
            let work = thread::spawn(move || {
                if theirs.pin() {
                    assert!(theirs.touch(touch, false), "what is pinned stays");
                    theirs.unpin();
                }
            });
            let is_back = registry.take_back();
            if is_back {
                registry.write_byte();
            }
            work.join().unwrap();
            assert_eq!(registry.swept(), usize::from(is_back));
            assert_ne!(registry.pin(), is_back);
        });
    }
}

#[test]
fn no_byte_lands_in_a_buffer_that_its_owner_has_back() {
    for touch in [Touch::Short, Touch::Long] {
        explore(move || {
            let registry = Registry::new();
            let theirs = Arc::clone(&registry);
            // What a peer writes is not pinned.
            let peer = thread::spawn(move || theirs.touch(touch, true));
            assert!(registry.take_back());
            registry.write_byte();
            peer.join().unwrap();
        });
    }
}

#[test]
fn a_region_that_is_dropped_goes_with_its_last_pin_and_once() {
    explore(|| {
        let registry = Registry::new();
        let works = [(); 2].map(|()| {
            assert!(registry.pin());
            let theirs = Arc::clone(&registry);
            thread::spawn(move || theirs.unpin())
        });
        registry.detach();
        works.into_iter().for_each(|work| work.join().unwrap());
        assert_eq!(registry.swept(), 1);
        assert!(!registry.pin() && !registry.touch(Touch::Short, false));
    });
}

#[test]
fn memory_stays_while_work_in_flight_uses_it() {
    explore(|| {
        let registry = Registry::new();
        assert!(registry.pin());
        let theirs = Arc::clone(&registry);
        let work = thread::spawn(move || {
            assert!(theirs.touch(Touch::Long, false));
            theirs.unpin();
        });
        registry.detach();
        assert!(!registry.touch(Touch::Long, true), "peers have lost it at once");
        work.join().unwrap();
        assert_eq!(registry.swept(), 1);
    });
}
