//! The thread that connects queue pairs: it calls, answers calls, and tries again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft::verbs::{
    ConnectionError, Error, IncomingConnection, Listener, QueuePair as Connection, StartError, StartReason,
};

use super::Rendezvous;
use super::numbers::port_of;
use super::record::{Record, Refusal, name};
use crate::log;
use crate::queue_pair::{Fate, QueuePair, Target};

/// How long a call for a queue pair that does not know its peer yet is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Most calls that are kept.
const MOST_KEPT: usize = 64;
/// Most of them for one queue pair.
const MOST_KEPT_FOR_ONE: usize = 4;
/// Most calls under way: more at once would not fit the buffers of sockets, and be lost.
const MOST_CALLS: usize = 64;
/// Between attempts: at first, and at most.
const FIRST_DELAY: Duration = Duration::from_millis(20);
const LONGEST_DELAY: Duration = Duration::from_millis(200);
/// How often the thread asks what has become of attempts: at first, and later.
const OFTEN: Duration = Duration::from_micros(500);
const SELDOM: Duration = Duration::from_millis(10);
/// How many times it asks often.
const TIMES_OFTEN: u32 = 1000;

/// What the thread has.
pub(super) struct Calls {
    shared: Arc<Rendezvous>,
    listener: Listener,
    attempts: Vec<Attempt>,
    kept: Vec<Kept>,
    /// Queue pairs whose peer has ended, with work that waits for its time to fail.
    unanswered: Vec<Arc<QueuePair>>,
    asked: u32,
}

/// A queue pair that is being connected.
struct Attempt {
    queue_pair: Arc<QueuePair>,
    /// When it calls next, if it is the one that calls.
    next: Instant,
    delay: Duration,
}

/// A call that waits for its queue pair.
struct Kept {
    call: IncomingConnection,
    record: Record,
    since: Instant,
}

/// What is to be done with a call.
enum Verdict {
    Accept(Arc<QueuePair>, Target),
    Keep,
    Refuse(Refusal),
}

impl Calls {
    pub(super) fn new(shared: Arc<Rendezvous>, listener: Listener) -> Self {
        Self { shared, listener, attempts: Vec::new(), kept: Vec::new(), unanswered: Vec::new(), asked: 0 }
    }

    pub(super) fn run(mut self) {
        let mut is_closing = false;
        loop {
            let pause = self.pause(is_closing);
            // The NIC takes this thread for a caller that comes back, and would wait for it.
            self.shared.nic.context.watch_again();
            let rung = self.shared.nic.bell().wait(pause);
            if !rung.is_empty() {
                self.asked = 0;
            }
            for number in rung {
                if let Some(queue_pair) = self.shared.find(number) {
                    self.check_call(queue_pair);
                }
            }
            self.answer_calls();
            self.drive();
            self.fail_unanswered();
            is_closing = self.shared.drop_closed();
        }
    }

    /// How long nothing has to be asked. `None`: until the bell rings.
    fn pause(&mut self, is_closing: bool) -> Option<Duration> {
        if self.attempts.is_empty() && self.kept.is_empty() && !is_closing {
            let next = self.unanswered.iter().filter_map(|queue_pair| queue_pair.unanswered_until()).min()?;
            return Some(next.saturating_duration_since(Instant::now()));
        }
        self.asked = self.asked.saturating_add(1);
        Some(if self.asked < TIMES_OFTEN { OFTEN } else { SELDOM })
    }

    /// Something has happened to a queue pair.
    fn check_call(&mut self, queue_pair: Arc<QueuePair>) {
        queue_pair.settle();
        let is_known = self.unanswered.iter().any(|known| Arc::ptr_eq(known, &queue_pair));
        if !is_known && queue_pair.unanswered_until().is_some() {
            self.unanswered.push(Arc::clone(&queue_pair));
        }
        if queue_pair.wants_connection() {
            self.expect(queue_pair);
        }
    }

    /// Fails work whose peer has ended, when its time is up.
    fn fail_unanswered(&mut self) {
        let now = Instant::now();
        self.unanswered.retain(|queue_pair| {
            let until = queue_pair.unanswered_until();
            if until.is_some_and(|until| until <= now) {
                queue_pair.fail_unanswered();
            }
            until.is_some_and(|until| until > now)
        });
    }

    /// A queue pair is being connected.
    fn expect(&mut self, queue_pair: Arc<QueuePair>) {
        if !self.attempts.iter().any(|attempt| Arc::ptr_eq(&attempt.queue_pair, &queue_pair)) {
            self.attempts.push(Attempt { queue_pair, next: Instant::now(), delay: FIRST_DELAY });
        }
    }

    // --- being called

    fn answer_calls(&mut self) {
        // A caller waits at the listener until there is a queue pair that waits.
        if self.attempts.is_empty() && self.kept.is_empty() {
            return;
        }
        let now = Instant::now();
        for kept in core::mem::take(&mut self.kept) {
            if now.saturating_duration_since(kept.since) > KEPT_FOR {
                refuse(kept.call, Refusal::NotThere);
            } else {
                self.answer(kept);
            }
        }
        loop {
            match self.listener.try_accept() {
                Ok(Some(call)) => match Record::parse(&call.info().private_data) {
                    Some(record) => self.answer(Kept { call, record, since: now }),
                    None => refuse(call, Refusal::Differs),
                },
                Ok(None) => return,
                Err(error) => return log::info(format_args!("no calls can be answered: {error}")),
            }
        }
    }

    fn answer(&mut self, kept: Kept) {
        match self.judge(&kept) {
            Verdict::Accept(queue_pair, own) => self.accept(kept, queue_pair, own),
            Verdict::Keep => self.kept.push(kept),
            Verdict::Refuse(refusal) => refuse(kept.call, refusal),
        }
    }

    fn judge(&self, kept: &Kept) -> Verdict {
        let Kept { call, record, .. } = kept;
        if call.info().remote.ip().to_canonical() != record.from.own_address {
            return Verdict::Refuse(Refusal::Stranger);
        }
        let Some(queue_pair) = self.shared.find(record.from.number) else {
            return Verdict::Refuse(Refusal::NotThere);
        };
        let Some(own) = queue_pair.target().filter(|_| queue_pair.is_receiving()) else {
            let for_one = self.kept.iter().filter(|other| other.record.from.number == record.from.number).count();
            let fits = self.kept.len() < MOST_KEPT && for_one < MOST_KEPT_FOR_ONE;
            return if fits { Verdict::Keep } else { Verdict::Refuse(Refusal::NotThere) };
        };
        match record.fits(&own) {
            // Nothing replaces a connection: not the record of a peer that somebody says again.
            Ok(()) if queue_pair.is_taken(is_itself(&own)) => Verdict::Refuse(Refusal::NotThere),
            Ok(()) => Verdict::Accept(queue_pair, own),
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    fn accept(&mut self, kept: Kept, queue_pair: Arc<QueuePair>, own: Target) {
        let nic = &self.shared.nic;
        let connection = match queue_pair.prepare() {
            Ok(connection) => connection,
            Err(error) => {
                log::info(format_args!("a call can't be taken: {error}"));
                return refuse(kept.call, Refusal::NotThere);
            }
        };
        let answer = Record { from: own, random: kept.record.random }.bytes();
        if let Err(error) = kept.call.accept(&connection, &answer) {
            log::info(format_args!("a call has gone: {error}"));
            return nic.end(connection);
        }
        let spare = if is_itself(&own) { queue_pair.attach_echo(connection) } else { queue_pair.attach(connection) };
        if let Some(spare) = spare {
            // It has a connection, or is gone meanwhile: the caller tries again.
            return nic.end(spare);
        }
        self.expect(queue_pair);
    }

    // --- calling

    fn drive(&mut self) {
        let now = Instant::now();
        let mut under_way = 0;
        for mut attempt in core::mem::take(&mut self.attempts) {
            if self.drive_one(&mut attempt, now, &mut under_way) {
                self.attempts.push(attempt);
            }
        }
    }

    /// Returns whether it goes on. `under_way`: calls of those before it, and then with it.
    fn drive_one(&self, attempt: &mut Attempt, now: Instant, under_way: &mut usize) -> bool {
        let queue_pair = &attempt.queue_pair;
        if let Some((waited, Some(limit))) = queue_pair.patience(now)
            && waited >= limit
        {
            log::info(format_args!("queue pair {:#x}: no peer within {waited:?}", queue_pair.number()));
            queue_pair.give_up();
            return false;
        }
        match queue_pair.check_attempt(|said| timer_of(queue_pair, said)) {
            Fate::Pending => {
                *under_way += usize::from(queue_pair.target().is_some_and(|target| calls(&target)));
                return true;
            }
            Fate::Settled if !queue_pair.wants_connection() => return false,
            Fate::Settled => {}
            Fate::Failed(error) => {
                attempt.next = now + attempt.delay;
                attempt.delay = (attempt.delay * 2).min(LONGEST_DELAY);
                if self.is_refused_for_good(queue_pair, error.as_ref()) {
                    queue_pair.give_up();
                    return false;
                }
            }
        }
        let Some(target) = queue_pair.target() else { return false };
        if calls(&target) && now >= attempt.next && *under_way < MOST_CALLS {
            *under_way += 1;
            attempt.next = now + LONGEST_DELAY;
            if let Err(error) = self.call(queue_pair, target) {
                log::info(format_args!("queue pair {:#x} can't call: {error}", queue_pair.number()));
            }
        }
        true
    }

    /// Whether no other attempt would come to anything, and work waits that has to fail.
    fn is_refused_for_good(&self, queue_pair: &QueuePair, error: Option<&ConnectionError>) -> bool {
        let Some(error) = error else { return false };
        let refusal = match error {
            ConnectionError::Start(StartError { reason: StartReason::Rejected { private_data }, .. }) => {
                Refusal::of(private_data)
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => log::info(format_args!("queue pair {:#x}: {}", queue_pair.number(), refusal.words())),
            None => log::info(format_args!("queue pair {:#x}: {error}", queue_pair.number())),
        }
        refusal.is_some_and(Refusal::is_final) && queue_pair.patience(Instant::now()).is_some()
    }

    fn call(&self, queue_pair: &Arc<QueuePair>, target: Target) -> Result<(), Error> {
        let connection = queue_pair.prepare()?;
        if let Err(error) = self.start(&connection, target) {
            self.shared.nic.end(connection);
            return Err(error);
        }
        if let Some(spare) = queue_pair.attach(connection) {
            self.shared.nic.end(spare);
        }
        Ok(())
    }

    fn start(&self, connection: &Connection, target: Target) -> Result<(), Error> {
        let random = getrandom::u32().unwrap_or_default();
        let record = Record { from: target, random }.bytes().to_vec();
        let remote = SocketAddr::new(target.address, port_of(self.shared.first_port, target.number));
        let local = SocketAddr::new(target.own_address, 0);
        connection.start_connect(remote, &self.shared.options(record, local))
    }
}

/// Whether a queue pair is connected to itself.
fn is_itself(own: &Target) -> bool {
    (own.address, own.number) == (own.own_address, own.own_number)
}

/// The timer of the peer, by what the other end has said of itself. `None`: it is not the peer.
fn timer_of(queue_pair: &QueuePair, said: &[u8]) -> Option<u8> {
    let fits = match (Record::parse(said), queue_pair.target()) {
        (Some(record), Some(own)) => record.fits(&own).map(|()| record.from.rnr_timer),
        _ => Err(Refusal::Differs),
    };
    let log = |refusal: &Refusal| {
        let number = queue_pair.number();
        log::info(format_args!(
            "queue pair {number:#x}: who answered is not its peer, so it connects again: {}",
            refusal.words()
        ));
    };
    fits.inspect_err(log).ok()
}

/// Whether this end is the one that calls: the one with the smaller name.
fn calls(target: &Target) -> bool {
    name(target.own_address, target.own_number) <= name(target.address, target.number)
}

fn refuse(call: IncomingConnection, refusal: Refusal) {
    let from: IpAddr = call.info().remote.ip();
    log::info(format_args!("a call from {from} is refused: {}", refusal.words()));
    // A caller that has gone needs no answer.
    let _ = call.reject(&refusal.bytes());
}
