//! How a connection ends: what has finished is reported, what has not is flushed, and the peer gets our last words.

use weft_base::{Port, PortError, ReceivePiece, Received};
use weft_mpa::StartFailure;
use weft_rdmap::{Action, Closed, State, Status, Stream};

use super::{Connection, Context, Outcome, Phase, Running, Start};
use crate::error::ConnectionError;
use crate::queues::queue_pair::QueuePair;

/// Why a connection is taken down from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The application closes: what was posted still goes out.
    Graceful,
    /// The application has destroyed the queue pair.
    Abrupt,
}

/// What is read at a time when nobody wants it.
const DRAIN_BYTES: usize = 16 * 1024;

impl<P: Port> Connection<P> {
    /// Reports what has finished. Returns whether anything had.
    pub(super) fn report(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((running, ..)) = self.running() else { return false };
        let Running { core, queue_pair, .. } = running;
        let stream = &mut core.hold().stream;
        if has_ended(stream)
            && let Some(error) = stream.error()
        {
            // Before the completions of what it has broken: who sees one of those may ask why.
            queue_pair.blame(ConnectionError::Stream(error));
        }
        if has_ended(stream) {
            // Nor shall it look as if more could be posted.
            queue_pair.closing();
        }
        let mut any = false;
        while let Some(completion) = stream.poll_send_completion() {
            any = true;
            // Those before it first: who sees this completion may rely on their places.
            any |= report_silent(stream, queue_pair, cx);
            cx.counters.sent_messages += u64::from(completion.status == Status::Success);
            queue_pair.complete_send(completion);
        }
        any |= report_silent(stream, queue_pair, cx);
        while let Some(completion) = stream.poll_receive_completion() {
            any = true;
            cx.counters.received_messages += u64::from(completion.status == Status::Success);
            queue_pair.complete_receive(completion);
        }
        any
    }

    /// Does what the stream asks for. Returns whether the connection is over.
    pub(super) fn follow(&mut self, cx: &mut Context<'_>) -> bool {
        let nothing_waits = !self.has_unsent();
        let Some((running, port, ..)) = self.running() else { return false };
        let mut protocol = running.core.hold();
        while let Some(action) = protocol.stream.poll_action() {
            match action {
                Action::CloseSend => running.close_wanted = true,
                Action::Abort => {
                    port.abort();
                    running.send_closed = true;
                    running.input_over = true;
                }
            }
        }
        if running.close_wanted && !running.send_closed && nothing_waits {
            port.close_send();
            running.send_closed = true;
        }
        let leaving = running.close_wanted || has_ended(&protocol.stream);
        drop(protocol);
        if leaving && self.deadline.is_none() {
            self.deadline = Some(cx.now + cx.settings.close_timeout);
        }
        self.settle(cx)
    }

    /// Once the stream has ended, the queue pair is told; once both directions are closed, the connection is over.
    fn settle(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((running, ..)) = self.running() else { return false };
        let state = running.core.hold().stream.state();
        if !state_has_ended(state) {
            return false;
        }
        let closed = state == State::Closed;
        if !closed {
            // Our own Terminate has left before the stream failed; after the peer's, nothing more is to be sent.
            self.clear_unsent(cx);
        }
        let nothing_waits = !self.has_unsent();
        let Some((running, ..)) = self.running() else { return false };
        let (sent, heard) = (running.send_closed || nothing_waits, running.input_over);
        self.finish_queue_pair(cx);
        if closed && sent && heard {
            self.port.close_send();
            return true;
        }
        self.drain(cx);
        false
    }

    fn finish_queue_pair(&mut self, cx: &mut Context<'_>) {
        if let Some((running, ..)) = self.running() {
            // From here on nothing reads or writes the stream's memory; the first error stays.
            running.core.hold().stream.handle_closed(Closed::Reset);
        }
        self.report(cx);
        let Some((running, ..)) = self.running() else { return };
        let error = running.core.hold().stream.error();
        cx.counters.count_end(error.as_ref());
        running.queue_pair.finish(cx.registry, error.map(ConnectionError::Stream));
    }

    /// The port has failed under the stream.
    pub(super) fn lose(&mut self, error: PortError, cx: &mut Context<'_>) {
        self.clear_unsent(cx);
        self.staging.clear(cx.pool);
        let Some((running, port, ..)) = self.running() else { return };
        running.direct = None;
        running.input_over = true;
        running.send_closed = true;
        running.core.hold().stream.handle_closed(match error {
            PortError::TimedOut => Closed::TimedOut,
            _ => Closed::Reset,
        });
        port.abort();
    }

    /// From here on: send what waits, tell the peer that this was all, throw away what still comes.
    pub(super) fn drain(&mut self, cx: &mut Context<'_>) {
        self.staging.clear(cx.pool);
        self.phase = Phase::Draining;
        self.deadline = Some(cx.now + cx.settings.close_timeout);
    }

    pub(super) fn drive_draining(&mut self, cx: &mut Context<'_>) -> Outcome {
        let sent = match self.flush(cx) {
            Ok(sent) => sent,
            Err(_) => return Outcome::Over,
        };
        if self.outgoing.is_empty() {
            self.port.close_send();
        }
        let room = self.staging.room(DRAIN_BYTES, cx.pool);
        let received = self.port.receive(&mut [ReceivePiece::Staging(&mut room[..DRAIN_BYTES])]);
        self.staging.release(cx.pool);
        match received {
            Ok(Received::Bytes(_)) => Outcome::Progress,
            Ok(Received::Nothing) if sent => Outcome::Progress,
            Ok(Received::Nothing) => Outcome::Idle,
            Ok(Received::End) if self.outgoing.is_empty() => Outcome::Over,
            Ok(Received::End) => Outcome::Idle,
            Err(_) => Outcome::Over,
        }
    }

    /// The application ends the connection.
    pub(crate) fn end(&mut self, ending: Ending, cx: &mut Context<'_>) -> Outcome {
        match (&mut self.phase, ending) {
            (Phase::Start(_), _) => self.fail_start(ConnectionError::Abandoned, cx),
            (Phase::Running(running), Ending::Graceful) => {
                running.queue_pair.closing();
                // What was posted before still goes out.
                self.take_posted(cx);
                if let Some((running, ..)) = self.running() {
                    running.core.hold().stream.close();
                }
                let outcome = self.drive(cx);
                if self.answers_wait && outcome != Outcome::Over { self.answer(cx) } else { outcome }
            }
            (Phase::Running(running), Ending::Abrupt) => {
                running.core.hold().stream.abort();
                self.clear_unsent(cx);
                self.port.abort();
                self.finish_abandoned(cx);
                Outcome::Over
            }
            (Phase::Draining, _) => Outcome::Idle,
        }
    }

    fn finish_abandoned(&mut self, cx: &mut Context<'_>) {
        if let Some((running, ..)) = self.running() {
            running.core.hold().stream.handle_closed(Closed::Reset);
        }
        self.report(cx);
        if let Some((running, ..)) = self.running() {
            running.queue_pair.finish(cx.registry, Some(ConnectionError::Abandoned));
        }
        self.staging.clear(cx.pool);
    }

    /// What was waited for has not come in time.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.deadline = None;
        match &mut self.phase {
            Phase::Start(Start::Deciding { .. }) => {
                let reply = self.take_request().and_then(|request| request.reject(&[]).ok());
                match reply {
                    Some(reply) => self.reject(&reply, cx),
                    None => self.fail_start(ConnectionError::Abandoned, cx),
                }
            }
            Phase::Start(start) if start.queue_pair().is_some() => {
                let is_connected = !start.is_connecting();
                let (remote, waited_for) = (self.port.remote_address(), cx.settings.start_timeout);
                self.fail_start(ConnectionError::NoAnswer { remote, waited_for, is_connected }, cx)
            }
            Phase::Start(_) => {
                let waited_for = cx.settings.start_timeout;
                self.fail_start(ConnectionError::Start(StartFailure::TimedOut { waited_for }), cx)
            }
            Phase::Running(_) => self.expire_running(cx),
            Phase::Draining => {
                self.port.abort();
                Outcome::Over
            }
        }
    }
}

impl<P: Port> Connection<P> {
    /// The peer has not closed in time. While its host has not acknowledged everything it may be stopped, or slow, so we wait on: a host that does not
    /// answer at all is found by the port ([`weft_base::PortOptions::peer_timeout`]). What is acknowledged reaches the peer when the port is dropped,
    /// but might not if it were reset.
    fn expire_running(&mut self, cx: &mut Context<'_>) -> Outcome {
        let unsent = self.has_unsent();
        let Some((running, port, ..)) = self.running() else { return Outcome::Idle };
        let closes = running.close_wanted && !has_ended(&running.core.hold().stream);
        if closes && (unsent || port.unacknowledged() > 0) {
            self.deadline = Some(cx.now + cx.settings.close_timeout);
            return Outcome::Idle;
        }
        running.core.hold().stream.abort();
        if !closes {
            port.abort();
        }
        self.clear_unsent(cx);
        self.staging.clear(cx.pool);
        self.finish_queue_pair(cx);
        Outcome::Over
    }
}

/// Gives back the places of requests that nobody wants to hear of. Returns whether there were any.
fn report_silent(stream: &mut Stream, queue_pair: &QueuePair, cx: &mut Context<'_>) -> bool {
    let silent = stream.take_silent();
    if silent == 0 {
        return false;
    }
    cx.counters.sent_messages += silent as u64;
    queue_pair.complete_silently(silent);
    true
}

/// Whether nothing more is to be sent or taken by the stream itself.
fn has_ended(stream: &Stream) -> bool {
    state_has_ended(stream.state())
}

pub(super) fn state_has_ended(state: State) -> bool {
    matches!(state, State::Failed | State::Closed)
}
