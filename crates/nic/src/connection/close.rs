//! How a connection ends: what has not finished is flushed, and what the peer is still owed is sent.

use weft_rdmap::Closed;

use super::completion::has_ended;
use super::{Connection, Context, Outcome, Phase};
use crate::error::ConnectionError;
use crate::lower::{Carrier, Drained, Pollable as _, Segments as _, Setup as _};

/// Why a connection is taken down from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The application closes: what was posted still goes out.
    Graceful,
    /// The application has destroyed the queue pair.
    Abrupt,
}

impl From<Drained> for Outcome {
    fn from(drained: Drained) -> Self {
        match drained {
            Drained::Idle => Self::Idle,
            Drained::Progress => Self::Progress,
            Drained::Over => Self::Over,
        }
    }
}

impl<N: Carrier> Connection<N> {
    /// From here on: send what waits, then end the sending direction, drop what still comes.
    pub(super) fn drain(&mut self, cx: &mut Context<'_, N::Scratch>) {
        self.lower.clear_received(&mut cx.io);
        self.phase = Phase::Draining;
        self.starved = None;
        self.wait_until(cx.io.now + cx.io.settings.close_timeout);
    }

    pub(super) fn drive_draining(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.lower.drain(&mut cx.io).into()
    }

    /// Whether it was closed, and the peer does not know all of it yet.
    pub(crate) fn has_last_words(&self) -> bool {
        let closes = match &self.phase {
            Phase::Start(_) => false,
            Phase::Running(running) => running.close_wanted,
            Phase::Draining => true,
        };
        closes && self.lower.unacknowledged() > 0
    }

    /// What changes when bytes move towards the peer: the segments that the lower layer has taken, and the bytes that
    /// the peer's host has yet to acknowledge.
    pub(crate) fn sent_mark(&mut self) -> (u64, usize) {
        let segments = match &mut self.phase {
            Phase::Running(running) => running.stream.hold().segments_given(),
            Phase::Start(_) | Phase::Draining => 0,
        };
        (segments, self.lower.unacknowledged())
    }

    /// The application ends the connection.
    pub(crate) fn end(&mut self, ending: Ending, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.stir();
        if ending == Ending::Abrupt && self.release_receipt() {
            // The peer has sent what that acknowledges, and may be done.
            self.transmit(1, cx);
        }
        match (&mut self.phase, ending) {
            (Phase::Start(Some(queue_pair)), Ending::Graceful) if !self.lower.is_confirmed() => {
                queue_pair.closing();
                self.closes_when_ready = true;
                Outcome::Idle
            }
            (Phase::Start(_), _) => self.fail_start(ConnectionError::Abandoned, cx),
            (Phase::Running(running), Ending::Graceful) => {
                running.queue_pair.closing();
                // What was posted before still goes out.
                self.take_posted(cx);
                if let Some((running, _)) = self.running() {
                    running.stream.hold().close();
                }
                let outcome = self.drive(cx);
                if self.answers_wait && outcome != Outcome::Over { self.answer(cx) } else { outcome }
            }
            (Phase::Running(running), Ending::Abrupt) => {
                let mut stream = running.stream.hold();
                let owes_receipts = stream.has_receipts();
                stream.abort();
                drop(stream);
                self.lower.clear_unsent(&mut cx.io);
                if owes_receipts {
                    // A reset could overtake them on their way, or take them out of the peer's hands.
                    self.finish_abandoned(cx);
                    self.drain(cx);
                    return self.drive_draining(cx);
                }
                self.lower.abort(&mut cx.io);
                self.finish_abandoned(cx);
                Outcome::Over
            }
            (Phase::Draining, _) => Outcome::Idle,
        }
    }

    fn finish_abandoned(&mut self, cx: &mut Context<'_, N::Scratch>) {
        if let Some((running, _)) = self.running() {
            let mut stream = running.stream.hold();
            stream.handle_closed(Closed::Reset);
            running.queue_pair.take_back_promises(stream.take_promised());
        }
        self.report(cx);
        if let Some((running, _)) = self.running() {
            running.queue_pair.finish(cx.io.registry, Some(ConnectionError::Abandoned));
        }
        self.lower.clear_received(&mut cx.io);
    }

    /// What was waited for has not come in time.
    pub(super) fn expire(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.deadline = None;
        let waited_for = cx.io.settings.start_timeout;
        match &mut self.phase {
            Phase::Start(_) if self.lower.request().is_some() => match self.reject(&[], cx) {
                Ok(outcome) => outcome,
                Err(_) => self.fail_start(ConnectionError::Abandoned, cx),
            },
            Phase::Start(Some(_)) => {
                let (remote, is_connected) = (self.lower.remote_address(), !self.lower.is_connecting());
                let transport = self.lower.transport();
                let unknown = ConnectionError::NoAnswer { remote, waited_for, is_connected, transport };
                self.fail_start(self.lower.why_late().unwrap_or(unknown), cx)
            }
            Phase::Start(None) => self.fail_start(ConnectionError::Start(N::Lower::timed_out(waited_for)), cx),
            Phase::Running(_) => match self.unreceived.take() {
                Some(before) => self.expire_unreceived(before, cx),
                None => self.expire_running(cx),
            },
            Phase::Draining => {
                self.lower.abort(&mut cx.io);
                Outcome::Over
            }
        }
    }

    /// While it is being closed, or where the queue pair does not wait for ever, the peer has had time to post a
    /// receive. If it has taken no message meanwhile it is given up, or else it has as long again.
    fn expire_unreceived(&mut self, before: usize, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        if self.waits_at() == Some(before) {
            self.break_off(Closed::NoReceive, cx);
        }
        self.report(cx);
        if self.follow(cx) { Outcome::Over } else { Outcome::Progress }
    }

    /// The peer has not closed in time. While its host has not acknowledged everything it may be stopped, or slow, so
    /// we wait on: a host that does not answer at all is found by the port ([`weft_base::PortOptions::peer_timeout`]).
    /// What is acknowledged reaches the peer when the port is dropped, but might not if it were reset.
    fn expire_running(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        let unsent = self.lower.readiness(cx.io.now).send;
        let Some((running, lower)) = self.running() else { return Outcome::Idle };
        let closes = running.close_wanted && !has_ended(&running.stream.hold());
        if closes && (unsent || lower.unacknowledged() > 0) {
            self.wait_until(cx.io.now + cx.io.settings.close_timeout);
            return Outcome::Idle;
        }
        running.stream.hold().abort();
        if !closes {
            lower.abort(&mut cx.io);
        }
        lower.clear_unsent(&mut cx.io);
        lower.clear_received(&mut cx.io);
        self.finish_queue_pair(cx);
        Outcome::Over
    }
}
