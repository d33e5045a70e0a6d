//! A port of one engine that another one serves, and what passes between the two: what has arrived, what is to be sent,
//! and what became of it. Neither waits for the other: each finds what the other has left, and takes what there is room
//! for.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use slotmap::{DefaultKey, Key as _};
use weft_base::{Hint, ReceivedDatagrams};
use weft_lock::{Mutex, Rank};

use super::doorbell::Doorbell;
use crate::lower::{Carrier, SendFailure, TxBatch, TxBatchOf};

/// Transmit batches that wait for the serving engine at most: then the port has no room.
const MOST_PARCELS: usize = 8;
/// Receives that wait for the owner at most, and the room of each: what arrives then waits in the operating system's
/// buffer.
pub(super) const RX_BATCHES: usize = 8;
const RX_BATCH_BYTES: usize = 256 << 10;
/// Hints that wait for the owner at most. More are forgotten, as an operating system does.
const MOST_HINTS: usize = 32;

/// One port.
pub(super) struct ServedPort<P> {
    inward: Mutex<Inward>,
    outward: Mutex<Outward<P>>,
    /// There is something for the owner, and for the serving engine.
    news: AtomicBool,
    work: AtomicBool,
    /// The owner needs the port no more.
    is_left: AtomicBool,
    /// No engine serves it any more.
    is_gone: AtomicBool,
    overflowed: AtomicU64,
    owner: Arc<Doorbell>,
    server: Arc<Doorbell>,
}

/// What came with one receive.
#[derive(Debug)]
pub(super) struct RxBatch {
    pub(super) bytes: Vec<u8>,
    pub(super) received: Vec<ReceivedDatagrams>,
    /// Of each datagram, whether its payload is good.
    pub(super) are_good: Vec<bool>,
}

/// From the serving engine to the owner.
struct Inward {
    full: VecDeque<RxBatch>,
    empty: Vec<RxBatch>,
    /// Received batches that were made.
    made: usize,
    /// The serving engine had none.
    is_starved: bool,
    hints: VecDeque<Hint>,
    failures: VecDeque<(u64, SendFailure)>,
    /// There is room for transmit batches again, or those that the owner waited for have left.
    has_moved: bool,
}

/// From the owner to the serving engine.
struct Outward<P> {
    /// With their numbers.
    waiting: VecDeque<(u64, P)>,
    spare: Vec<P>,
    next: u64,
    /// The number of the transmit batch whose payload is being copied, and its connection's name.
    under_way: Option<(u64, u64)>,
    /// The owner wants a report when a transmit batch has left.
    wanted: bool,
}

impl<P: TxBatch> Outward<P> {
    /// Those that have not left: number, and the connection's name.
    fn present(&self) -> impl Iterator<Item = (u64, u64)> {
        let waiting = self.waiting.iter().map(|(number, tx_batch)| (*number, tx_batch.name()));
        self.under_way.into_iter().chain(waiting)
    }
}

impl<P: TxBatch> ServedPort<P> {
    pub(super) fn new(owner: &Arc<Doorbell>, server: &Arc<Doorbell>) -> Self {
        let inward = Inward {
            full: VecDeque::with_capacity(RX_BATCHES),
            empty: Vec::with_capacity(RX_BATCHES),
            made: 0,
            is_starved: false,
            hints: VecDeque::new(),
            failures: VecDeque::new(),
            has_moved: false,
        };
        let outward = Outward {
            waiting: VecDeque::with_capacity(MOST_PARCELS),
            spare: Vec::with_capacity(MOST_PARCELS),
            next: 0,
            under_way: None,
            wanted: false,
        };
        Self {
            inward: Mutex::new(Rank::ServedPort, inward),
            outward: Mutex::new(Rank::ServedPort, outward),
            news: AtomicBool::new(false),
            work: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            overflowed: AtomicU64::new(0),
            owner: Arc::clone(owner),
            server: Arc::clone(server),
        }
    }

    /// What was left for the owner is to be read.
    fn wake_owner(&self) {
        if !self.news.swap(true, Ordering::SeqCst) {
            ring(&self.owner);
        }
    }

    fn wake_server(&self) {
        if !self.work.swap(true, Ordering::SeqCst) {
            ring(&self.server);
        }
    }

    // --- what the owner does

    /// Whether there is something to take. The next poll finds what arrives later.
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::SeqCst) && self.news.swap(false, Ordering::SeqCst)
    }

    /// Whether there is something to take.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::SeqCst)
    }

    /// The oldest batch of received datagrams.
    pub(super) fn take_rx_batch(&self) -> Option<RxBatch> {
        self.inward.lock().full.pop_front()
    }

    /// The owner has taken as much as it takes at a time: it comes back for the rest.
    pub(super) fn poll_again(&self) {
        if !self.inward.lock().full.is_empty() {
            self.wake_owner();
        }
    }

    /// Gives a received batch's room back.
    pub(super) fn give_back(&self, rx_batch: RxBatch) {
        let mut inward = self.inward.lock();
        inward.empty.push(rx_batch);
        let was_starved = core::mem::take(&mut inward.is_starved);
        drop(inward);
        if was_starved {
            self.wake_server();
        }
    }

    pub(super) fn take_hint(&self) -> Option<Hint> {
        self.inward.lock().hints.pop_front()
    }

    pub(super) fn take_failures(&self) -> Option<(u64, SendFailure)> {
        self.inward.lock().failures.pop_front()
    }

    /// Whether those are to be driven that have waited for room, or until transmit batches have left.
    pub(super) fn take_moved(&self) -> bool {
        core::mem::take(&mut self.inward.lock().has_moved)
    }

    /// Datagrams that have found the port's buffer full.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Has what `fill` puts into a transmit batch sent, if there is room: `fill` is called only then.
    pub(super) fn post(&self, fill: impl FnOnce(&mut P)) -> bool {
        let mut outward = self.outward.lock();
        if self.is_gone.load(Ordering::SeqCst) || outward.waiting.len() >= MOST_PARCELS {
            return false;
        }
        let mut tx_batch = outward.spare.pop().unwrap_or_default();
        drop(outward);
        fill(&mut tx_batch);
        let mut outward = self.outward.lock();
        let number = outward.next;
        outward.next += 1;
        outward.waiting.push_back((number, tx_batch));
        drop(outward);
        self.wake_server();
        true
    }

    /// No engine serves the port.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// The number of the next transmit batch, if any before it has not left.
    pub(super) fn posted(&self) -> Option<u64> {
        let outward = self.outward.lock();
        let is_empty = outward.present().next().is_none();
        (!is_empty).then_some(outward.next)
    }

    /// Whether all transmit batches of a connection before this one have left. If not, the owner gets a report when one
    /// has.
    pub(super) fn have_left(&self, mark: u64, name: u64) -> bool {
        let mut outward = self.outward.lock();
        let have_left = !outward.present().any(|(number, whose)| number < mark && whose == name);
        outward.wanted |= !have_left;
        have_left
    }

    /// The owner gets a report when there is room.
    pub(super) fn want_room(&self) {
        let mut outward = self.outward.lock();
        let has_room = outward.waiting.len() < MOST_PARCELS;
        outward.wanted |= !has_room;
        drop(outward);
        if has_room {
            self.report_moved();
        }
    }

    /// Throws away the transmit batches of a connection that wait.
    pub(super) fn take_back(&self, name: u64) {
        let mut outward = self.outward.lock();
        let Outward { waiting, spare, .. } = &mut *outward;
        waiting.retain_mut(|(_, tx_batch)| {
            let stays = tx_batch.name() != name;
            if !stays {
                spare.push(core::mem::take(tx_batch));
            }
            stays
        });
    }

    /// The port is needed no more.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        self.outward.lock().waiting.clear();
        self.wake_server();
    }

    // --- what the serving engine does

    /// Whether there is something to do. The next poll finds what arrives later.
    pub(super) fn take_work(&self) -> bool {
        self.work.load(Ordering::SeqCst) && self.work.swap(false, Ordering::SeqCst)
    }

    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }

    /// Room to receive into. `None`: the owner has all of it; there is work when it gives some back.
    pub(super) fn room(&self) -> Option<RxBatch> {
        let mut inward = self.inward.lock();
        if let Some(rx_batch) = inward.empty.pop() {
            return Some(rx_batch);
        }
        if inward.made == RX_BATCHES {
            inward.is_starved = true;
            return None;
        }
        inward.made += 1;
        drop(inward);
        Some(RxBatch { bytes: vec![0; RX_BATCH_BYTES], received: Vec::new(), are_good: Vec::new() })
    }

    /// Nothing has come.
    pub(super) fn put_room(&self, rx_batch: RxBatch) {
        self.inward.lock().empty.push(rx_batch);
    }

    /// This has come.
    pub(super) fn bring(&self, rx_batch: RxBatch, overflowed: u64) {
        self.overflowed.store(overflowed, Ordering::Relaxed);
        self.inward.lock().full.push_back(rx_batch);
        self.wake_owner();
    }

    pub(super) fn bring_hint(&self, hint: Hint) {
        let mut inward = self.inward.lock();
        if inward.hints.len() < MOST_HINTS {
            inward.hints.push_back(hint);
        }
        drop(inward);
        self.wake_owner();
    }

    /// This became of a datagram of the connection with this name.
    pub(super) fn bring_failure(&self, name: u64, failure: SendFailure) {
        let mut inward = self.inward.lock();
        if inward.failures.len() < MOST_HINTS {
            inward.failures.push_back((name, failure));
        }
        drop(inward);
        self.wake_owner();
    }

    fn report_moved(&self) {
        self.inward.lock().has_moved = true;
        self.wake_owner();
    }

    /// Has `load` copy the next transmit batch. Returns whether there was one.
    pub(super) fn load_tx_batch(&self, load: impl FnOnce(&P)) -> bool {
        let mut outward = self.outward.lock();
        let Some((number, tx_batch)) = outward.waiting.pop_front() else { return false };
        outward.under_way = Some((number, tx_batch.name()));
        drop(outward);
        // Also when `load` panics: no thread is to wait for it for ever.
        let under_way = UnderWay { served_port: self, tx_batch };
        load(&under_way.tx_batch);
        true
    }

    /// No engine serves the port any more.
    fn end(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.outward.lock().waiting.clear();
        self.report_moved();
    }
}

fn ring(doorbell: &Doorbell) {
    // No connection has this key: it is for the served ports.
    doorbell.ring(DefaultKey::null());
    doorbell.wake();
}

/// A transmit batch whose payload is being copied.
struct UnderWay<'a, P: TxBatch> {
    served_port: &'a ServedPort<P>,
    tx_batch: P,
}

impl<P: TxBatch> Drop for UnderWay<'_, P> {
    fn drop(&mut self) {
        let mut outward = self.served_port.outward.lock();
        outward.under_way = None;
        outward.spare.push(core::mem::take(&mut self.tx_batch));
        let wanted = core::mem::take(&mut outward.wanted);
        drop(outward);
        if wanted {
            self.served_port.report_moved();
        }
    }
}

/// The end of a served port at the serving engine. Dropping it reports to the owner that no engine serves the port any
/// more.
pub(super) struct ServingEnd<P: TxBatch>(pub(super) Arc<ServedPort<P>>);

impl<P: TxBatch> Drop for ServingEnd<P> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Where ports are brought to an engine that is to serve them.
pub(crate) struct PortServer<N: Carrier> {
    brought: Mutex<Vec<Brought<N>>>,
    any: AtomicBool,
    pub(super) doorbell: Arc<Doorbell>,
}

/// A port that is to be served.
pub(super) struct Brought<N: Carrier> {
    pub(super) port: N::Datagram,
    pub(super) served_port: ServingEnd<TxBatchOf<N>>,
}

impl<N: Carrier> PortServer<N> {
    pub(crate) fn new(doorbell: Arc<Doorbell>) -> Self {
        Self { brought: Mutex::new(Rank::ServedPort, Vec::new()), any: AtomicBool::new(false), doorbell }
    }

    pub(super) fn bring(&self, brought: Brought<N>) {
        self.brought.lock().push(brought);
        self.any.store(true, Ordering::SeqCst);
        ring(&self.doorbell);
    }

    pub(super) fn take(&self) -> Vec<Brought<N>> {
        if !self.any.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        core::mem::take(&mut *self.brought.lock())
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;

    use weft_base::{DatagramBatch, Ecn, Waker};

    use super::*;
    /// A transmit batch with nothing but its bytes.
    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl TxBatch for Bytes {
        fn name(&self) -> u64 {
            NOBODY
        }

        fn fill(&mut self, _: &DatagramBatch, bytes: &[u8]) {
            self.0 = bytes.to_vec();
        }
    }

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Waker for Count {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn doorbells() -> [Arc<Doorbell>; 2] {
        [(); 2].map(|()| Arc::new(Doorbell::new(Arc::new(Count::default()))))
    }

    fn served_port() -> (Arc<ServedPort<Bytes>>, ServingEnd<Bytes>, [Arc<Doorbell>; 2]) {
        let [owner, server] = doorbells();
        let served_port = Arc::new(ServedPort::new(&owner, &server));
        (Arc::clone(&served_port), ServingEnd(served_port), [owner, server])
    }

    fn post(served_port: &ServedPort<Bytes>) -> bool {
        let to = std::net::SocketAddr::from(([10, 0, 0, 1], 7)).into();
        let batch = DatagramBatch { to, from: None, segment_size: 100, ecn: Ecn::NotCapable };
        served_port.post(|tx_batch| tx_batch.fill(&batch, &[1; 250]))
    }

    /// Whether a thread has rung since the last time.
    fn rung(doorbell: &Doorbell) -> bool {
        let mut keys = Vec::new();
        doorbell.answer(&mut keys);
        assert!(keys.iter().all(|key| key.is_null()), "no connection is meant");
        !keys.is_empty()
    }

    /// The name of transmit batches that are of no connection.
    const NOBODY: u64 = 0;

    #[test]
    fn it_takes_a_number_of_tx_batches_and_says_when_there_is_room() {
        let (served_port, _end, [owner, server]) = served_port();
        assert!((0..MOST_PARCELS).all(|_| post(&served_port)));
        assert!(rung(&server) && served_port.take_work() && !served_port.take_work());
        assert!(!post(&served_port), "full");
        assert!(!rung(&server), "nothing is to be done for what was not taken");
        served_port.want_room();
        assert!(!rung(&owner) && !served_port.take_moved());
        assert!(served_port.load_tx_batch(|tx_batch| assert_eq!(tx_batch.0, [1; 250])));
        assert!(rung(&owner) && served_port.take_news() && served_port.take_moved());
        assert!(post(&served_port) && rung(&server));
        served_port.want_room();
        assert!(!served_port.take_moved(), "it is full again");
        served_port.take_back(NOBODY);
        served_port.want_room();
        assert!(rung(&owner) && served_port.take_moved(), "there is room, and nobody else will say so");
    }

    #[test]
    fn a_tx_batch_has_left_when_nothing_reads_its_memory_any_more() {
        let (served_port, _end, [owner, _]) = served_port();
        assert_eq!(served_port.posted(), None, "nothing has been posted");
        assert!(post(&served_port) && post(&served_port));
        let mark = served_port.posted().unwrap();
        assert!(served_port.have_left(mark, NOBODY + 1), "another connection waits for its own");
        assert!(!served_port.have_left(mark, NOBODY));
        assert!(post(&served_port));
        assert!(served_port.load_tx_batch(|_| {
            assert!(!served_port.have_left(mark, NOBODY), "it is being copied");
            assert!(!rung(&owner));
        }));
        assert!(rung(&owner), "one has left");
        assert!(!served_port.have_left(mark, NOBODY), "another one waits");
        assert!(served_port.load_tx_batch(|_| {}));
        assert!(served_port.have_left(mark, NOBODY), "what was posted later does not count");
        assert!(!served_port.have_left(served_port.posted().unwrap(), NOBODY));
        served_port.take_back(NOBODY);
        assert_eq!(served_port.posted(), None);
    }

    #[test]
    fn a_serving_engine_that_panics_or_ends_holds_nothing_up() {
        let (served_port, end, [owner, _]) = served_port();
        assert!(post(&served_port) && post(&served_port));
        let mark = served_port.posted().unwrap();
        assert!(!served_port.have_left(mark, NOBODY));
        let panics =
            std::panic::AssertUnwindSafe(|| served_port.load_tx_batch(|_| panic!("in the middle of a tx_batch")));
        std::panic::catch_unwind(panics).unwrap_err();
        assert!(rung(&owner), "that one is over");
        assert!(!served_port.have_left(mark, NOBODY), "the other one waits");
        drop(end);
        assert!(served_port.is_gone() && served_port.have_left(mark, NOBODY));
        assert!(served_port.take_moved());
        assert!(!post(&served_port), "nobody would send it");
    }

    #[test]
    fn what_comes_waits_for_the_owner_and_no_more_than_there_is_room_for() {
        let (served_port, _end, [owner, server]) = served_port();
        for _ in 0..RX_BATCHES {
            served_port.bring(served_port.room().unwrap(), 3);
        }
        assert!(rung(&owner) && served_port.take_news());
        assert_eq!(served_port.overflowed(), 3);
        assert!(served_port.room().is_none(), "the owner has all of it");
        served_port.poll_again();
        assert!(rung(&owner) && served_port.has_news(), "it has not taken all");
        let rx_batch = served_port.take_rx_batch().unwrap();
        served_port.give_back(rx_batch);
        assert!(rung(&server) && served_port.take_work(), "there is room again");
        let rx_batch = served_port.room().unwrap();
        served_port.put_room(rx_batch);
        assert!(!served_port.is_left());
        served_port.leave();
        assert!(served_port.is_left() && rung(&server));
    }
}
