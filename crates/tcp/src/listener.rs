//! Who answers SYNs.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;

use crate::connection::{Challenges, Connection, Heard};
use crate::initial::InitialNumbers;
use crate::segment::{Flags, Flow, Options, Segment, Timestamps};
use crate::settings::{SettingError, Settings};

#[cfg(test)]
mod tests;

/// How often an answer is sent again before its caller is forgotten, and when first; the time doubles.
const REPEATS: u32 = 5;
const FIRST_REPEAT: Duration = Duration::from_secs(1);

/// A port that takes calls. What it keeps of each until the caller has answered is small, and bounded: when a flood
/// of SYNs comes, the oldest are forgotten.
#[derive(Debug)]
pub struct Listener {
    settings: Settings,
    numbers: InitialNumbers,
    backlog: usize,
    half_open: VecDeque<HalfOpen>,
    forgotten: u64,
}

#[derive(Debug)]
struct HalfOpen {
    flow: Flow,
    initial: u32,
    heard: Heard,
    began: Time,
    repeat_at: Time,
    repeats: u32,
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
    /// Keeps at most `backlog` calls, at least one.
    ///
    /// # Errors
    /// The first setting that no connection can have.
    pub fn new(settings: Settings, numbers: InitialNumbers, backlog: usize) -> Result<Self, SettingError> {
        settings.check()?;
        let half_open = VecDeque::with_capacity(backlog.max(1));
        Ok(Self { settings, numbers, backlog: backlog.max(1), half_open, forgotten: 0 })
    }

    /// Calls whose answer was not answered yet.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Calls that were forgotten because too many others came.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes a segment that is for this port and for none of its connections (RFC 9293 section 3.10.7.2).
    pub fn handle(&mut self, flow: &Flow, segment: &Segment, payload: usize, now: Time) -> Answer {
        if flow.is_circle() {
            return Answer::Nothing;
        }
        let known = self.half_open.iter().position(|call| call.flow == *flow);
        let flags = segment.flags;
        match known {
            Some(index) if flags.syn && !flags.ack => self.repeat(index, segment, now),
            Some(index) => self.answered(index, segment, payload, now),
            None if flags.rst => Answer::Nothing,
            None if flags.ack => refuse(segment, payload),
            None if flags.syn && !flags.fin => Answer::Reply(self.called(flow, segment, now)),
            None => Answer::Nothing,
        }
    }

    fn called(&mut self, flow: &Flow, segment: &Segment, now: Time) -> Segment {
        if self.half_open.len() >= self.backlog {
            self.half_open.pop_front();
            self.forgotten += 1;
        }
        let heard = Heard { number: segment.sequence, window: segment.window, options: segment.options.clone() };
        let call = HalfOpen {
            flow: *flow,
            initial: self.numbers.of(flow, now),
            heard,
            began: now,
            repeat_at: now + FIRST_REPEAT,
            repeats: 0,
            challenges: Challenges::new(self.settings.challenges),
        };
        let answer = self.answer(&call, now);
        self.half_open.push_back(call);
        answer
    }

    /// The SYN has come again: so the answer was lost, or is late. Another SYN takes the place of the first.
    fn repeat(&mut self, index: usize, segment: &Segment, now: Time) -> Answer {
        if self.half_open[index].heard.number == segment.sequence {
            return Answer::Reply(self.answer(&self.half_open[index], now));
        }
        let Some(call) = self.half_open.remove(index) else { return Answer::Nothing };
        Answer::Reply(self.called(&call.flow, segment, now))
    }

    /// The answer is answered: a connection begins, unless the numbers are wrong.
    fn answered(&mut self, index: usize, segment: &Segment, payload: usize, now: Time) -> Answer {
        let call = &mut self.half_open[index];
        let ahead = segment.sequence.wrapping_sub(call.heard.number.wrapping_add(1));
        let is_in_window = ahead <= self.settings.receive_window;
        if segment.flags.rst {
            // RFC 5961 section 3.2: where it has to stand, it is one; elsewhere in the window it is asked about.
            return match ahead {
                0 => {
                    self.half_open.remove(index);
                    Answer::Nothing
                }
                _ if ahead < self.settings.receive_window && call.challenges.take(now) => {
                    Answer::Reply(self.challenge(&self.half_open[index], now))
                }
                _ => Answer::Nothing,
            };
        }
        if !segment.flags.ack || segment.flags.syn || !is_in_window {
            return Answer::Nothing;
        }
        if segment.acknowledgement != call.initial.wrapping_add(1) {
            return refuse(segment, payload);
        }
        let Some(call) = self.half_open.remove(index) else { return Answer::Nothing };
        let connection = Connection::accept(call.flow, self.settings, call.initial, &call.heard, call.began);
        Answer::Accepted(Box::new(connection))
    }

    /// When [`Listener::handle_timeout`] is to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.half_open.iter().map(|call| call.repeat_at).min()
    }

    /// Gives `send` the answers that are to be sent again, and where to.
    pub fn handle_timeout(&mut self, now: Time, mut send: impl FnMut(&Flow, Segment)) {
        self.half_open.retain(|call| call.repeat_at > now || call.repeats < REPEATS);
        for index in 0..self.half_open.len() {
            let call = &mut self.half_open[index];
            if call.repeat_at <= now {
                call.repeats += 1;
                call.repeat_at = now + FIRST_REPEAT * (1 << call.repeats);
                let call = &self.half_open[index];
                send(&call.flow, self.answer(call, now));
            }
        }
    }

    /// Says what is expected next.
    fn challenge(&self, call: &HalfOpen, now: Time) -> Segment {
        let answer = self.answer(call, now);
        let shift = answer.options.window_scale.unwrap_or(0);
        Segment {
            sequence: call.initial.wrapping_add(1),
            flags: Flags { ack: true, ..Flags::default() },
            window: u16::try_from(self.settings.receive_window >> shift).unwrap_or(u16::MAX),
            options: Options { timestamps: answer.options.timestamps, ..Options::default() },
            ..answer
        }
    }

    /// What [`Connection::accept`] is going to have said.
    fn answer(&self, call: &HalfOpen, now: Time) -> Segment {
        let heard = &call.heard.options;
        let value = Connection::first_stamp(call.initial, now);
        let stamps = heard.timestamps.filter(|_| self.settings.timestamps);
        Segment {
            source: call.flow.local.port(),
            destination: call.flow.remote.port(),
            sequence: call.initial,
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
