//! The expected results: which message matches which receive, by two plain lists; and that everything completes once.

use std::collections::{HashMap, HashSet};

use weft_base::PeerId;
use weft_wire::message::Record;

use super::world::{Report, Seen, World, content};
use crate::host::{Failure, Received};
use crate::machine::Peek;
use crate::matching::Match;

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) from: usize,
    pub(super) tag: Option<u64>,
    pub(super) length: u64,
    /// Its bytes are here.
    whole: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) number: u64,
    pub(super) source: Option<usize>,
    pub(super) matching: Option<Match>,
    pub(super) length: u64,
    pub(super) many: Option<u64>,
    used: u64,
}

#[derive(Clone, Debug)]
struct Sent {
    from: usize,
    to: usize,
    tag: Option<u64>,
    length: u64,
    delivery: bool,
}

#[derive(Default)]
struct Side {
    posted: Vec<Posted>,
    unexpected: Vec<Message>,
    /// Which receive a message must match, its offset in it, and its length there.
    expected: HashMap<u64, (u64, u64, u64)>,
    /// Receives that have not reported their end, and how they must end if no message does it.
    open: HashMap<u64, Option<Failure>>,
    lost: HashSet<usize>,
}

#[derive(Default)]
pub(super) struct Model {
    sides: Vec<Side>,
    sent: HashMap<u64, Sent>,
    /// Sends that have not completed.
    open: HashSet<u64>,
    /// Messages that were received, or discarded.
    over: HashSet<u64>,
    canceled: HashSet<u64>,
    /// From the ids in requests, and from those in answers to them, to messages.
    requests: HashMap<(usize, usize, u64), u64>,
    sinks: HashMap<(usize, usize, u64), u64>,
    /// Messages whose packets are being received, and how many bytes follow.
    streaming: HashMap<(usize, usize), (u64, u64)>,
}

fn takes(posted: &Posted, message: &Message) -> bool {
    let tags = match (posted.matching, message.tag) {
        (None, None) => true,
        (Some(matching), Some(tag)) => matching.tag | matching.ignore == tag | matching.ignore,
        _ => false,
    };
    tags && posted.source.is_none_or(|source| source == message.from)
}

impl Model {
    pub(super) fn new(nodes: usize) -> Self {
        Self { sides: (0..nodes).map(|_| Side::default()).collect(), ..Self::default() }
    }

    pub(super) fn send(&mut self, number: u64, from: usize, to: usize, tag: Option<u64>, length: u64, delivery: bool) {
        self.sent.insert(number, Sent { from, to, tag, length, delivery });
        self.open.insert(number);
    }

    pub(super) fn receive(
        &mut self,
        at: usize,
        number: u64,
        source: Option<usize>,
        matching: Option<Match>,
        length: u64,
        many: Option<u64>,
    ) {
        let side = &mut self.sides[at];
        side.open.insert(number, None);
        let mut posted = Posted { number, source, matching, length, many, used: 0 };
        while let Some(index) = side.unexpected.iter().position(|message| takes(&posted, message)) {
            let message = side.unexpected.remove(index);
            if side.assign(&mut posted, &message) {
                return;
            }
        }
        side.posted.push(posted);
    }

    /// The oldest message that a receive would take.
    pub(super) fn peek(&self, at: usize, source: Option<usize>, matching: Option<Match>) -> Option<&Message> {
        let like = Posted { number: 0, source, matching, length: 0, many: None, used: 0 };
        self.sides[at].unexpected.iter().find(|message| takes(&like, message))
    }

    pub(super) fn claim(&mut self, at: usize, number: u64) -> Message {
        let unexpected = &mut self.sides[at].unexpected;
        let index = unexpected.iter().position(|message| message.number == number).expect("it is there");
        unexpected.remove(index)
    }

    pub(super) fn receive_claimed(&mut self, at: usize, receive: u64, length: u64, message: &Message) {
        let side = &mut self.sides[at];
        side.open.insert(receive, None);
        let mut posted = Posted { number: receive, source: None, matching: None, length, many: None, used: 0 };
        side.assign(&mut posted, message);
    }

    pub(super) fn throw_away(&mut self, number: u64) {
        self.over.insert(number);
    }

    pub(super) fn cancel_receive(&mut self, at: usize, number: u64) -> bool {
        let side = &mut self.sides[at];
        let index = side.posted.iter().position(|posted| posted.number == number);
        if let Some(index) = index {
            side.posted.remove(index);
            side.open.insert(number, Some(Failure::Canceled));
        }
        index.is_some()
    }

    pub(super) fn cancel_send(&mut self, number: u64) {
        self.canceled.insert(number);
        self.over.insert(number);
    }

    /// Checks everything that the world holds.
    pub(super) fn observe(&mut self, world: &mut World) {
        for seen in core::mem::take(&mut world.seen) {
            match seen {
                Seen::Record { from, to, record } => self.arrived(from, to, &record),
                Seen::Lost { at, other, abrupt } => self.lost(at, other, abrupt),
            }
        }
        let reports =
            (0..self.sides.len()).flat_map(|at| world.reports(at).into_iter().map(move |report| (at, report)));
        // A send may have completed because of a receive elsewhere.
        let (sent, received): (Vec<_>, Vec<_>) = reports.partition(|(_, report)| matches!(report, Report::Sent { .. }));
        for (at, report) in received.into_iter().chain(sent) {
            self.reported(at, report);
        }
    }

    fn arrived(&mut self, from: usize, to: usize, record: &Record) {
        match record {
            Record::Short { envelope, length, .. } => {
                self.message(from, to, envelope.data, envelope.tag, u64::from(*length), true);
            }
            Record::Start { envelope, whole, length, .. } => {
                let left = *whole - u64::from(*length);
                self.message(from, to, envelope.data, envelope.tag, *whole, left == 0);
                self.streaming.insert((from, to), (envelope.data.expect("all have data"), left));
            }
            Record::More { length } => {
                let (number, left) = self.streaming.get_mut(&(from, to)).expect("it has begun");
                *left -= u64::from(*length);
                if *left == 0 {
                    let number = *number;
                    self.whole(to, number);
                }
            }
            Record::Request { envelope, id, length, .. } => {
                self.requests.insert((from, to, *id), envelope.data.expect("all have data"));
                self.message(from, to, envelope.data, envelope.tag, *length, false);
            }
            Record::Clear { id, sink_id, .. } => {
                self.sinks.insert((from, to, *sink_id), self.requests[&(to, from, *id)]);
            }
            Record::Written { sink_id } => {
                let number = self.sinks[&(to, from, *sink_id)];
                self.whole(to, number);
            }
            _ => {}
        }
    }

    fn whole(&mut self, at: usize, number: u64) {
        let here = self.sides[at].unexpected.iter_mut().filter(|message| message.number == number);
        here.for_each(|message| message.whole = true);
    }

    fn message(&mut self, from: usize, to: usize, data: Option<u64>, tag: Option<u64>, length: u64, whole: bool) {
        let number = data.expect("all have data");
        let sent = &self.sent[&number];
        assert_eq!((sent.from, sent.to, sent.tag, sent.length), (from, to, tag, length));
        let side = &mut self.sides[to];
        let message = Message { number, from, tag, length, whole };
        match side.posted.iter().position(|posted| takes(posted, &message)) {
            None => side.unexpected.push(message),
            Some(index) => {
                let mut posted = side.posted[index].clone();
                if side.assign(&mut posted, &message) {
                    side.posted.remove(index);
                } else {
                    side.posted[index] = posted;
                }
            }
        }
    }

    fn lost(&mut self, at: usize, other: usize, abrupt: bool) {
        let side = &mut self.sides[at];
        side.lost.insert(other);
        side.unexpected.retain(|message| message.from != other || message.whole);
        if abrupt {
            let (gone, stays) =
                core::mem::take(&mut side.posted).into_iter().partition(|posted| posted.source == Some(other));
            side.posted = stays;
            let gone: Vec<Posted> = gone;
            for posted in gone {
                side.open.insert(posted.number, Some(Failure::PeerLost));
            }
        }
    }

    fn reported(&mut self, at: usize, report: Report) {
        match report {
            Report::Sent { number, outcome } => self.sent_reported(at, number, outcome),
            Report::Received { number, what, outcome, last, bytes } => {
                self.received_reported(at, number, what, outcome, &bytes);
                if last {
                    assert!(self.sides[at].open.remove(&number).is_some(), "receive {number} has ended twice");
                } else {
                    assert!(self.sides[at].open.contains_key(&number), "receive {number} had ended");
                }
            }
        }
    }

    fn sent_reported(&mut self, at: usize, number: u64, outcome: Result<(), Failure>) {
        assert!(self.open.remove(&number), "send {number} has completed twice");
        let sent = &self.sent[&number];
        assert_eq!(sent.from, at);
        match outcome {
            Ok(()) => assert!(!sent.delivery || self.over.contains(&number), "{number} was not delivered"),
            Err(Failure::Canceled) => assert!(self.canceled.contains(&number)),
            Err(Failure::PeerLost) => assert!(self.sides[at].lost.contains(&sent.to), "{number} was not lost"),
            Err(other) => panic!("send {number}: {other:?}"),
        }
    }

    fn received_reported(
        &mut self,
        at: usize,
        number: u64,
        what: Option<Received>,
        outcome: Result<(), Failure>,
        bytes: &[u8],
    ) {
        let side = &mut self.sides[at];
        let Some(what) = what else {
            assert_eq!(Some(outcome), side.open[&number].map(Err), "receive {number}");
            return;
        };
        let message = what.data.expect("all have data");
        let (receive, offset, fitting) = side.expected.remove(&message).expect("received once");
        assert_eq!((receive, offset), (number, what.offset), "message {message}");
        let Sent { from, to, tag, length, .. } = self.sent[&message].clone();
        assert_eq!((from, to, tag.unwrap_or(0)), (what.source.0 as usize, at, what.tag));
        self.over.insert(message);
        if outcome == Err(Failure::PeerLost) {
            assert!(side.lost.contains(&from));
            return;
        }
        let expected = if fitting < length { Err(Failure::Truncated { length }) } else { Ok(()) };
        assert_eq!((outcome, what.length), (expected, fitting));
        assert!(bytes == &content(message, length)[..fitting as usize], "message {message} is damaged");
    }

    pub(super) fn posted(&self, at: usize) -> Vec<Posted> {
        self.sides[at].posted.clone()
    }

    pub(super) fn unexpected(&self, at: usize) -> Vec<Message> {
        self.sides[at].unexpected.clone()
    }

    /// Nothing is left, and nothing was lost except with a connection.
    pub(super) fn finish(&self) {
        assert!(self.open.is_empty(), "sends {:?} have not completed", self.open);
        for side in &self.sides {
            assert!(side.expected.is_empty() && side.open.is_empty(), "{:?} {:?}", side.expected, side.open);
        }
        for (number, sent) in &self.sent {
            let lost = self.sides[sent.from].lost.contains(&sent.to) || self.sides[sent.to].lost.contains(&sent.from);
            assert!(lost || self.over.contains(number), "message {number} is nowhere");
        }
    }

    /// Closing by agreement loses nothing.
    pub(super) fn forgive(&mut self, was_abrupt: bool) {
        if !was_abrupt {
            self.sides.iter_mut().for_each(|side| side.lost.clear());
        }
    }
}

impl Side {
    /// Returns whether the receive accepts no more.
    fn assign(&mut self, posted: &mut Posted, message: &Message) -> bool {
        let room = posted.length - posted.used;
        let fitting = room.min(message.length);
        self.expected.insert(message.number, (posted.number, posted.used, fitting));
        posted.used += fitting;
        posted.many.is_none_or(|least| posted.length - posted.used < least.max(1))
    }
}

pub(super) fn same(found: Option<Peek>, expected: Option<&Message>) {
    let expected = expected.map(|message| Peek {
        source: PeerId(message.from as u32),
        tag: message.tag.unwrap_or(0),
        data: Some(message.number),
        length: message.length,
    });
    assert_eq!(found, expected);
}
