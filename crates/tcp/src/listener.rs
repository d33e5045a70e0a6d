//! A port that answers SYNs.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use weft_base::Time;

use crate::connection::{Challenges, Connection, Heard, stamp};
use crate::initial::{Initial, InitialNumbers};
use crate::segment::{Flags, Flow, Options, Segment, Timestamps};
use crate::settings::{SettingError, Settings};

#[cfg(test)]
mod tests;

/// How often an answer is retransmitted before its caller is forgotten, and when first; the time doubles.
const REPEATS: u8 = 5;
const FIRST_REPEAT: Duration = Duration::from_secs(1);
/// The default limit of half-open calls: at 16 000 SYNs in a second from forged addresses, callers have half a second
/// to answer (RFC 4987 section 3.1: keep less for each, and more of them). About 300 bytes for each, allocated as they
/// come.
pub const HALF_OPEN: usize = 8192;
/// With more half-open calls than this, answers to further ones are not retransmitted: callers send their SYN again,
/// and a forged address would get five answers for one. They are forgotten after this time.
const MANY: usize = 256;
const PATIENCE_WITH_MANY: Duration = Duration::from_secs(4);
/// With this many, the listener checks at most this often whose answer is to be retransmitted.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// When calls were forgotten because too many others came, acknowledgements of no known call are not refused for this
/// long: they may be those callers'. A reset would say that the port has no listener; unanswered, they retransmit (RFC
/// 4987 section 3.3). It is the time during which an answer is retransmitted.
const SILENCE: Duration = Duration::from_secs(63);

/// A port that takes calls. What it keeps of each until the caller has answered is small, and bounded: when a flood
/// of SYNs comes, the oldest are forgotten.
#[derive(Debug)]
pub struct Listener {
    settings: Settings,
    numbers: InitialNumbers,
    most: usize,
    calls: HashMap<Flow, HalfOpen>,
    /// In the order in which they came, with what tells a call from an earlier one between the same ends.
    order: VecDeque<(Flow, u64)>,
    count: u64,
    /// There is no room for another connection.
    is_full: bool,
    /// No answer is to be retransmitted before this; and when that was checked last.
    repeat_at: Option<Time>,
    checked_at: Time,
    forgotten: u64,
    /// When one was forgotten last.
    forgot_at: Option<Time>,
}

/// A call whose answer was not answered yet.
#[derive(Debug)]
struct HalfOpen {
    id: u64,
    initial: Initial,
    heard: Heard,
    began: Time,
    repeat_at: Time,
    repeats: u8,
    challenges: Challenges,
}

/// What becomes of a segment.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// This is to be sent back.
    Reply(Segment),
    /// A connection has begun. The segment is still to be brought to it, by [`Connection::handle`].
    Accepted(Box<Connection>),
}

impl Listener {
    /// Keeps at most that many calls that are half open, at least one; [`HALF_OPEN`] resist a flood.
    ///
    /// # Errors
    /// The first setting that no connection can have.
    pub fn new(settings: Settings, numbers: InitialNumbers, most: usize) -> Result<Self, SettingError> {
        settings.check()?;
        Ok(Self {
            settings,
            numbers,
            most: most.max(1),
            calls: HashMap::new(),
            order: VecDeque::new(),
            count: 0,
            is_full: false,
            repeat_at: None,
            checked_at: Time::ZERO,
            forgotten: 0,
            forgot_at: None,
        })
    }

    /// Calls whose answer was not answered yet.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.calls.len()
    }

    /// Calls that were forgotten because too many others came.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether there is room for another connection. While there is none, calls are ignored, and answers to those that
    /// are half open are as if they were lost: callers send them again. No caller is refused for that.
    pub const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Takes a segment that is for this port and for none of its connections (RFC 9293 section 3.10.7.2).
    pub fn handle(&mut self, flow: &Flow, segment: &Segment, payload: usize, now: Time) -> Answer {
        if flow.is_circle() {
            return Answer::Nothing;
        }
        let flags = segment.flags;
        let is_known = self.calls.contains_key(flow);
        match is_known {
            true if flags.syn && !flags.ack => self.repeat(flow, segment, now),
            true => self.answered(flow, segment, payload, now),
            false if flags.rst => Answer::Nothing,
            false if flags.ack && self.may_have_forgotten(now) => Answer::Nothing,
            false if flags.ack => refuse(segment, payload),
            false if flags.syn && !flags.fin => self.called(flow, segment, None, now),
            false => Answer::Nothing,
        }
    }

    /// Takes a SYN that ends an earlier connection, beyond whose numbers the answer's has to be
    /// ([`Waiting::Renewed`](crate::Waiting)).
    pub fn handle_renewed(&mut self, flow: &Flow, syn: &Segment, least: u32, now: Time) -> Answer {
        self.called(flow, syn, Some(least), now)
    }

    fn may_have_forgotten(&self, now: Time) -> bool {
        self.forgot_at.is_some_and(|at| now.since(at) < SILENCE)
    }

    fn called(&mut self, flow: &Flow, segment: &Segment, least: Option<u32>, now: Time) -> Answer {
        if self.is_full {
            return Answer::Nothing;
        }
        self.make_room(now);
        let mut initial = self.numbers.of(flow, now);
        if let Some(least) = least.filter(|least| initial.number.wrapping_sub(*least).cast_signed() < 0) {
            initial.number = least;
        }
        let heard = Heard { number: segment.sequence, window: segment.window, options: segment.options.clone() };
        let is_one_of_many = self.calls.len() >= MANY;
        let wait = if is_one_of_many { PATIENCE_WITH_MANY } else { FIRST_REPEAT };
        self.count += 1;
        let call = HalfOpen {
            id: self.count,
            initial,
            heard,
            began: now,
            repeat_at: now + wait,
            repeats: if is_one_of_many { REPEATS } else { 0 },
            challenges: Challenges::new(self.settings.challenges),
        };
        let answer = self.answer(flow, &call, now);
        self.repeat_at = [self.repeat_at, Some(call.repeat_at)].into_iter().flatten().min();
        self.order.push_back((*flow, call.id));
        self.calls.insert(*flow, call);
        Answer::Reply(answer)
    }

    /// The oldest is dropped.
    fn make_room(&mut self, now: Time) {
        while self.calls.len() >= self.most {
            let Some((flow, id)) = self.order.pop_front() else { return };
            if self.calls.get(&flow).is_some_and(|call| call.id == id) {
                self.calls.remove(&flow);
                self.forgotten += 1;
                self.forgot_at = Some(now);
            }
        }
        // Those that were answered are still in the order.
        if self.order.len() >= 2 * self.most {
            let calls = &self.calls;
            self.order.retain(|(flow, id)| calls.get(flow).is_some_and(|call| call.id == *id));
        }
    }

    /// The SYN has come again: so the answer was lost, or is late. Another SYN does not belong to this call: its answer
    /// says what is expected, and a caller that has really begun anew answers that with a reset (RFC 9293 section
    /// 3.10.7.4, RFC 5961 section 4.2).
    fn repeat(&mut self, flow: &Flow, segment: &Segment, now: Time) -> Answer {
        let Some(call) = self.calls.get_mut(flow) else { return Answer::Nothing };
        if call.heard.number != segment.sequence && !call.challenges.take(now) {
            return Answer::Nothing;
        }
        let Some(call) = self.calls.get(flow) else { return Answer::Nothing };
        let is_same = call.heard.number == segment.sequence;
        Answer::Reply(if is_same { self.answer(flow, call, now) } else { self.challenge(flow, call, now) })
    }

    /// The answer is answered: a connection begins, unless the numbers are wrong.
    fn answered(&mut self, flow: &Flow, segment: &Segment, payload: usize, now: Time) -> Answer {
        let Some(call) = self.calls.get_mut(flow) else { return Answer::Nothing };
        let ahead = segment.sequence.wrapping_sub(call.heard.number.wrapping_add(1));
        let is_in_window = ahead <= self.settings.receive_window;
        if segment.flags.rst {
            // RFC 5961 section 3.2: at the exact position it is one; elsewhere in the window it gets a challenge.
            let is_asked = ahead != 0 && ahead < self.settings.receive_window && call.challenges.take(now);
            if ahead == 0 {
                self.calls.remove(flow);
            }
            let call = self.calls.get(flow).filter(|_| is_asked);
            return call.map_or(Answer::Nothing, |call| Answer::Reply(self.challenge(flow, call, now)));
        }
        if !segment.flags.ack || segment.flags.syn || !is_in_window {
            return Answer::Nothing;
        }
        if segment.acknowledgement != call.initial.number.wrapping_add(1) {
            return refuse(segment, payload);
        }
        if self.is_full {
            return Answer::Nothing;
        }
        let Some(call) = self.calls.remove(flow) else { return Answer::Nothing };
        let connection = Connection::accept(*flow, self.settings, call.initial, &call.heard, call.began);
        Answer::Accepted(Box::new(connection))
    }

    /// When [`Listener::handle_timeout`] is to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let at = self.repeat_at.filter(|_| !self.calls.is_empty())?;
        Some(if self.calls.len() > MANY { at.max(self.checked_at + CHECK_INTERVAL) } else { at })
    }

    /// Gives `send` the answers that are to be retransmitted, and where to.
    pub fn handle_timeout(&mut self, now: Time, mut send: impl FnMut(&Flow, Segment)) {
        if self.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        self.calls.retain(|_, call| call.repeat_at > now || call.repeats < REPEATS);
        let mut due = Vec::new();
        for (flow, call) in self.calls.iter_mut().filter(|(_, call)| call.repeat_at <= now) {
            call.repeats += 1;
            call.repeat_at = now + FIRST_REPEAT * (1 << call.repeats);
            due.push(*flow);
        }
        for flow in due {
            if let Some(call) = self.calls.get(&flow) {
                send(&flow, self.answer(&flow, call, now));
            }
        }
        self.checked_at = now;
        self.repeat_at = self.calls.values().map(|call| call.repeat_at).min();
    }

    /// Says what is expected next.
    fn challenge(&self, flow: &Flow, call: &HalfOpen, now: Time) -> Segment {
        let answer = self.answer(flow, call, now);
        let shift = answer.options.window_scale.unwrap_or(0);
        Segment {
            sequence: call.initial.number.wrapping_add(1),
            flags: Flags { ack: true, ..Flags::default() },
            window: u16::try_from(self.settings.receive_window >> shift).unwrap_or(u16::MAX),
            options: Options { timestamps: answer.options.timestamps, ..Options::default() },
            ..answer
        }
    }

    /// What [`Connection::accept`] is going to have said.
    fn answer(&self, flow: &Flow, call: &HalfOpen, now: Time) -> Segment {
        let heard = &call.heard.options;
        let value = stamp(call.initial.stamp, now);
        let stamps = heard.timestamps.filter(|_| self.settings.timestamps);
        Segment {
            source: flow.local.port(),
            destination: flow.remote.port(),
            sequence: call.initial.number,
            acknowledgement: call.heard.number.wrapping_add(1),
            flags: Flags { syn: true, ack: true, ..Flags::default() },
            window: u16::try_from(self.settings.receive_window).unwrap_or(u16::MAX),
            options: Options {
                mss: Some(self.settings.mss),
                window_scale: heard.window_scale.map(|_| self.settings.window_shift()),
                sack_permitted: self.settings.sack && heard.sack_permitted,
                timestamps: stamps.map(|stamps| Timestamps { value, echo: stamps.value }),
                ..Options::default()
            },
        }
    }
}

fn refuse(segment: &Segment, payload: usize) -> Answer {
    segment.refusal(payload).map_or(Answer::Nothing, Answer::Reply)
}
