//! The passive side: a listener, the start-ups that have begun at it, and the requests that wait for the application.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Listener, PortError, Time};
use weft_lock::{Mutex, Rank};

use crate::error::{Error, RefusedStart};
use crate::offer::{Offer, RequestInfo};
use crate::queues::event_channel::{EventKind, EventSource};
use crate::queues::event_count::EventCount;

/// An incoming connection that waits to be accepted or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(pub(crate) DefaultKey);

/// This many of them are kept until the application takes them. Further ones are counted.
const MOST_REFUSED: usize = 64;

/// Requests that have come in whole and wait for the application, oldest first. It lies outside the engine, so that
/// a thread that waits for one need not hold the engine.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The error once the listener is closed, or has failed.
    requests: Mutex<Result<VecDeque<(RequestKey, RequestInfo)>, Error>>,
    /// How many there may be: read without the lock.
    count: AtomicUsize,
    /// Those that came to nothing, and how many more there were.
    refused: Mutex<(Vec<RefusedStart>, u64)>,
    /// There are no descriptors for callers, and no thread has taken that report yet; how many there may be.
    is_short: AtomicBool,
    descriptor_limit: AtomicU64,
    events: Mutex<Option<Arc<EventSource>>>,
    event_count: Arc<EventCount>,
}

impl Waiting {
    pub(crate) fn new(event_count: Arc<EventCount>) -> Self {
        Self {
            requests: Mutex::new(Rank::Listening, Ok(VecDeque::new())),
            count: AtomicUsize::new(0),
            refused: Mutex::new(Rank::Listening, (Vec::new(), 0)),
            is_short: AtomicBool::new(false),
            descriptor_limit: AtomicU64::new(0),
            events: Mutex::new(Rank::Listening, None),
            event_count,
        }
    }

    /// The queue that gets its events from now on, if any. Waiting events go there at once.
    pub(crate) fn set_events(&self, source: Option<Arc<EventSource>>) {
        let before = core::mem::replace(&mut *self.events.lock(), source);
        if let Some(before) = before {
            before.withdraw();
        }
        let failure = self.requests.lock().as_ref().err().cloned();
        if let Some(error) = failure {
            self.tell(EventKind::ListenerFailed(error));
        }
        if self.has_some() {
            self.tell(EventKind::Requested);
        }
        let has_refused = !self.refused.lock().0.is_empty();
        if has_refused {
            self.tell(EventKind::Refused);
        }
    }

    fn tell(&self, kind: EventKind) {
        let source = self.events.lock().clone();
        if let Some(source) = source {
            source.tell(kind);
        }
    }

    fn report_shortage(&self, limit: Option<u64>) {
        self.descriptor_limit.store(limit.unwrap_or(0), Ordering::Relaxed);
        self.is_short.store(true, Ordering::Release);
        self.event_count.turn();
    }

    /// Whether there are no descriptors for callers.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    /// That is known now. Returns how many there may be, if that is known.
    pub(crate) fn take_shortage(&self) -> Option<u64> {
        self.is_short.store(false, Ordering::Release);
        Some(self.descriptor_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Those that failed since the last call, and how many more there were.
    pub(crate) fn take_refused(&self) -> (Vec<RefusedStart>, u64) {
        core::mem::take(&mut *self.refused.lock())
    }

    fn refuse(&self, refused: RefusedStart) {
        let mut guard = self.refused.lock();
        let (kept, more) = &mut *guard;
        if kept.len() < MOST_REFUSED {
            kept.push(refused);
        } else {
            *more += 1;
        }
        drop(guard);
        self.tell(EventKind::Refused);
    }

    pub(crate) fn take(&self) -> Result<Option<(RequestKey, RequestInfo)>, Error> {
        let mut requests = self.requests.lock();
        let taken = requests.as_mut().map(VecDeque::pop_front).map_err(|error| error.clone())?;
        self.count.store(requests.as_ref().map_or(0, VecDeque::len), Ordering::Release);
        Ok(taken)
    }

    /// Whether a request may be waiting.
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn add(&self, key: DefaultKey, info: RequestInfo) {
        if let Ok(requests) = &mut *self.requests.lock() {
            requests.push_back((RequestKey(key), info));
            self.count.store(requests.len(), Ordering::Release);
        }
        self.tell(EventKind::Requested);
        self.event_count.turn();
    }

    fn remove(&self, key: DefaultKey) {
        if let Ok(requests) = &mut *self.requests.lock() {
            requests.retain(|(waiting, _)| waiting.0 != key);
        }
    }

    fn end(&self, why: Error) {
        *self.requests.lock() = Err(why.clone());
        self.tell(EventKind::ListenerFailed(why));
        self.event_count.turn();
    }
}

/// A start-up whose request has not come in whole after this long makes way for another one when the listener has no
/// room. A caller sends its request at once; a host whose processors are all taken may need a while for that.
const GRACE: Duration = Duration::from_secs(1);
/// The same for start-ups from an address that has more than a quarter of all places with such start-ups.
const GRACE_OF_A_CROWD: Duration = Duration::from_millis(100);
/// When the operating system gives out no more descriptors, the next attempt follows after this long.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// A start-up under way, or a request that waits for the application.
struct Pending {
    key: DefaultKey,
    remote: IpAddr,
    since: Time,
    /// Its request is not here yet.
    is_silent: bool,
}

/// Which start-up makes way for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielding {
    /// This one.
    Now(DefaultKey),
    /// None before then.
    At(Time),
    /// None.
    Never,
}

/// Callers that were accepted and have not confirmed.
#[derive(Default)]
pub(crate) struct Unconfirmed(Vec<Pending>);

impl Unconfirmed {
    /// Keeps those that are still so.
    pub(crate) fn retain(&mut self, mut is_unconfirmed: impl FnMut(DefaultKey) -> bool) {
        self.0.retain(|pending| is_unconfirmed(pending.key));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A listener of an engine.
pub(crate) struct Listening<L> {
    /// Where streams come.
    pub(crate) listener: Option<L>,
    /// The datagram port at which it listens too.
    pub(crate) datagrams: Option<DefaultKey>,
    pub(crate) offer: Offer,
    backlog: usize,
    /// Start-ups under way, and requests that wait for the application, the oldest first.
    pending: Vec<Pending>,
    /// Callers by datagrams that were accepted and had not confirmed at the last check, the oldest first.
    unconfirmed: Unconfirmed,
    /// When to poll the listener again, if the operating system is not to report it.
    pub(crate) again_at: Option<Time>,
    /// Since when the operating system has no descriptors for callers.
    pub(crate) short_since: Option<Time>,
    is_shortage_told: bool,
    /// Callers that were taken to be refused, and are not gone yet.
    pub(crate) refusing: Vec<DefaultKey>,
    waiting: Arc<Waiting>,
}

impl<L: Listener> Listening<L> {
    /// The next stream that waits, to be refused.
    pub(crate) fn accept_to_refuse(&mut self) -> Result<Option<L::Port>, PortError> {
        self.listener.as_mut().map_or(Ok(None), Listener::accept_to_refuse)
    }

    /// There are no descriptors for callers: a thread that waits for requests should know, once each time.
    pub(crate) fn report_shortage(&mut self) {
        if !core::mem::replace(&mut self.is_shortage_told, true) {
            self.waiting.report_shortage(self.listener.as_ref().and_then(Listener::descriptor_limit));
        }
    }

    /// There are descriptors again.
    pub(crate) fn end_shortage(&mut self) {
        (self.short_since, self.is_shortage_told) = (None, false);
    }

    /// The next stream that waits.
    pub(crate) fn accept(&mut self) -> Result<Option<L::Port>, PortError> {
        self.listener.as_mut().map_or(Ok(None), Listener::accept)
    }
}

impl<L> Listening<L> {
    pub(crate) fn new(
        listener: Option<L>,
        datagrams: Option<DefaultKey>,
        offer: Offer,
        backlog: usize,
        waiting: Arc<Waiting>,
    ) -> Self {
        Self {
            listener,
            datagrams,
            offer,
            backlog,
            pending: Vec::new(),
            unconfirmed: Unconfirmed::default(),
            again_at: None,
            short_since: None,
            is_shortage_told: false,
            refusing: Vec::new(),
            waiting,
        }
    }

    /// No caller comes by streams any more, and a thread that takes requests gets the reason as an error.
    pub(crate) fn fail(&mut self, why: PortError) {
        self.listener = None;
        self.waiting.end(Error::Port(why));
    }

    /// Whether another start-up may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < self.backlog
    }

    /// Start-ups under way.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Start-ups that may be under way.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog
    }

    /// A start-up begins.
    pub(crate) fn begin(&mut self, key: DefaultKey, remote: IpAddr, since: Time) {
        self.pending.push(Pending { key, remote: remote.to_canonical(), since, is_silent: true });
        if !self.has_room() {
            self.waiting.tell(EventKind::Full { backlog: self.backlog });
        }
    }

    /// A caller was accepted, and has to confirm.
    pub(crate) fn await_confirmation(&mut self, key: DefaultKey, remote: IpAddr, since: Time) {
        self.unconfirmed.0.push(Pending { key, remote: remote.to_canonical(), since, is_silent: true });
    }

    /// Those that have to confirm, until they are put back.
    pub(crate) fn take_unconfirmed(&mut self) -> Unconfirmed {
        core::mem::take(&mut self.unconfirmed)
    }

    /// Puts them back.
    pub(crate) fn put_unconfirmed(&mut self, unconfirmed: Unconfirmed) {
        self.unconfirmed = unconfirmed;
    }

    /// Which caller that has not confirmed makes way for another one: chosen as among silent start-ups.
    pub(crate) fn unconfirmed_yielding(&self, now: Time) -> Yielding {
        yielding(&self.unconfirmed.0, MOST_UNCONFIRMED, now)
    }

    /// Which start-up makes way for another one: the oldest that has been silent for long enough.
    pub(crate) fn yielding(&self, now: Time) -> Yielding {
        yielding(&self.pending, self.backlog, now)
    }

    /// A request has come in whole.
    pub(crate) fn announce(&mut self, connection: DefaultKey, info: RequestInfo) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.key == connection) {
            pending.is_silent = false;
        }
        self.waiting.add(connection, info);
    }

    /// A set-up has failed.
    pub(crate) fn refuse(&self, refused: RefusedStart) {
        self.waiting.refuse(refused);
    }

    /// A connection is decided, or gone.
    pub(crate) fn forget(&mut self, connection: DefaultKey) {
        self.pending.retain(|pending| pending.key != connection);
        self.waiting.remove(connection);
    }

    /// No more requests. What is pending is the caller's to end.
    pub(crate) fn close(self) -> Vec<DefaultKey> {
        self.waiting.end(Error::ListenerGone);
        self.pending.into_iter().map(|pending| pending.key).collect()
    }
}

/// Which of the silent start-ups, in this many places, makes way first.
fn yielding(pending: &[Pending], places: usize, now: Time) -> Yielding {
    let silent = || pending.iter().filter(|pending| pending.is_silent);
    let of_a_crowd = |remote| silent().filter(|pending| pending.remote == remote).count() * 4 > places;
    let mut sources: Vec<(IpAddr, Duration)> = Vec::new();
    let mut first: Option<(Time, DefaultKey)> = None;
    for pending in silent() {
        let known = sources.iter().find(|(remote, _)| *remote == pending.remote).map(|(_, grace)| *grace);
        let grace = known.unwrap_or_else(|| {
            let grace = if of_a_crowd(pending.remote) { GRACE_OF_A_CROWD } else { GRACE };
            sources.push((pending.remote, grace));
            grace
        });
        let at = pending.since + grace;
        if first.is_none_or(|(earliest, _)| at < earliest) {
            first = Some((at, pending.key));
        }
    }
    match first {
        Some((at, key)) if at <= now => Yielding::Now(key),
        Some((at, _)) => Yielding::At(at),
        None => Yielding::Never,
    }
}

/// Callers that a listener has accepted and that have not confirmed yet. A further one takes the place of the oldest
/// (see [`Yielding`]); a caller at the address that it gives confirms within a round trip.
pub(super) const MOST_UNCONFIRMED: usize = 256;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use slotmap::SlotMap;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn listening(backlog: usize) -> Listening<()> {
        let event_count = Arc::new(EventCount::default());
        Listening::new(Some(()), None, Offer::default(), backlog, Arc::new(Waiting::new(event_count)))
    }

    fn info() -> RequestInfo {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        RequestInfo {
            remote: nowhere,
            local: nowhere,
            mpa_revision: Some(2),
            peer_ird: 0,
            peer_ord: 0,
            private_data: Vec::new(),
        }
    }

    #[test]
    fn the_oldest_that_has_said_nothing_makes_way_in_time() {
        let mut keys = SlotMap::new();
        let mut listening = listening(8);
        assert_eq!(listening.yielding(at(0)), Yielding::Never);
        let [one, two]: [DefaultKey; 2] = core::array::from_fn(|_| keys.insert(()));
        listening.begin(one, [10, 0, 0, 1].into(), at(0));
        listening.begin(two, [10, 0, 0, 2].into(), at(10));
        assert_eq!(listening.yielding(at(999)), Yielding::At(at(1000)));
        assert_eq!(listening.yielding(at(1000)), Yielding::Now(one));
        // A caller whose request has come waits for the application, as long as that takes.
        listening.announce(one, info());
        assert_eq!(listening.yielding(at(1000)), Yielding::At(at(1010)));
        listening.forget(two);
        assert_eq!(listening.yielding(at(5000)), Yielding::Never);
    }

    #[test]
    fn those_that_were_refused_are_kept_until_the_application_asks_and_no_more_than_a_few() {
        let waiting = Waiting::new(Arc::new(EventCount::default()));
        let refused = |port| RefusedStart {
            remote: SocketAddr::from(([10, 0, 0, 1], port)),
            error: crate::error::ConnectionError::Protocol,
        };
        (0..70).for_each(|port| waiting.refuse(refused(port)));
        assert_eq!(waiting.take_refused(), ((0..64).map(refused).collect(), 6));
        assert_eq!(waiting.take_refused(), (Vec::new(), 0));
    }

    #[test]
    fn of_a_crowd_that_says_nothing_the_oldest_makes_way_sooner() {
        let mut keys = SlotMap::new();
        let mut listening = listening(8);
        let keys: [DefaultKey; 4] = core::array::from_fn(|_| keys.insert(()));
        listening.begin(keys[0], [10, 0, 0, 1].into(), at(0));
        for (number, key) in (1..).zip(&keys[1..]) {
            listening.begin(*key, [10, 0, 0, 66].into(), at(number));
        }
        assert_eq!(listening.yielding(at(50)), Yielding::At(at(101)));
        assert_eq!(listening.yielding(at(101)), Yielding::Now(keys[1]));
        listening.forget(keys[1]);
        // A quarter of the places may be of any caller.
        assert_eq!(listening.yielding(at(500)), Yielding::At(at(1000)));
    }
}
