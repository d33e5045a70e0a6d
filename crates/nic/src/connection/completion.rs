//! What has finished is reported, and what the stream requests is done.

use weft_rdmap::{Action, Closed, State, Status, Stream};

use super::{Connection, Context, Running};
use crate::counters::Counters;
use crate::error::ConnectionError;
use crate::lower::{Carrier, Pollable as _, Segments as _};
use crate::queues::queue_pair::QueuePair;

impl<N: Carrier> Connection<N> {
    /// Reports what has finished. Returns whether anything had.
    pub(super) fn report(&mut self, cx: &mut Context<'_, N::Scratch>) -> bool {
        let Some((running, _)) = self.running() else { return false };
        let Running { stream, queue_pair, .. } = running;
        let stream = &mut *stream.hold();
        if has_ended(stream)
            && let Some(error) = stream.error()
        {
            // Before the completions of what it has broken: a thread that sees one of those may read the reason.
            queue_pair.blame(ConnectionError::Stream(error));
        }
        if has_ended(stream) {
            // From here on no more can be posted.
            queue_pair.closing();
        }
        let mut any = report_sends(stream, queue_pair, cx.io.counters);
        while let Some(completion) = stream.poll_receive_completion() {
            any = true;
            cx.io.counters.received_messages += u64::from(completion.status == Status::Success);
            queue_pair.complete_receive(completion);
        }
        any
    }

    /// Does what the stream requests. Returns whether the connection is over.
    pub(super) fn follow(&mut self, cx: &mut Context<'_, N::Scratch>) -> bool {
        self.note_readiness(cx.io.now);
        let Some((running, lower)) = self.running() else { return false };
        let nothing_waits = !running.ready.send;
        let mut stream = running.stream.hold();
        while let Some(action) = stream.poll_action() {
            match action {
                Action::CloseSend => running.close_wanted = true,
                Action::Abort => {
                    lower.abort(&mut cx.io);
                    running.ready = lower.readiness(cx.io.now);
                    running.send_closed = true;
                    running.input_over = true;
                }
            }
        }
        if running.close_wanted && !running.send_closed && nothing_waits {
            lower.close_send();
            running.ready = lower.readiness(cx.io.now);
            running.send_closed = true;
        }
        let state = stream.state();
        drop(stream);
        let leaving = running.close_wanted || state.has_ended();
        // What was posted before is still to go out, but not for ever: the peer may never post a receive for it.
        let is_ending = state == State::Draining || lower.is_closed_by_peer();
        let close_timeout = cx.io.settings.close_timeout;
        let patience = if is_ending { Some(close_timeout) } else { running.queue_pair.receive_wait() };
        let unreceived = patience.and_then(|_| self.waits_at());
        if (leaving || unreceived.is_some()) && self.deadline.is_none() {
            let wait = patience.filter(|_| unreceived.is_some()).unwrap_or(close_timeout);
            self.unreceived = unreceived;
            self.wait_until(cx.io.now + wait);
        }
        state.has_ended() && self.settle(state == State::Closed, cx)
    }

    /// Once the stream has ended, the queue pair ends with it; once both directions are closed, the connection is over.
    fn settle(&mut self, closed: bool, cx: &mut Context<'_, N::Scratch>) -> bool {
        if !closed {
            // Our own Terminate has left before the stream failed; after the peer's, nothing more is to be sent.
            self.lower.clear_unsent(&mut cx.io);
        }
        let nothing_waits = !self.lower.readiness(cx.io.now).send;
        let Some((running, _)) = self.running() else { return false };
        let (sent, heard) = (running.send_closed || nothing_waits, running.input_over);
        self.finish_queue_pair(cx);
        if closed && sent && heard {
            self.lower.close_send();
            if !self.lower.readiness(cx.io.now).send {
                return true;
            }
        }
        self.drain(cx);
        false
    }

    pub(super) fn finish_queue_pair(&mut self, cx: &mut Context<'_, N::Scratch>) {
        if let Some((running, _)) = self.running() {
            // From here on nothing reads or writes the stream's memory; the first error stays.
            let mut stream = running.stream.hold();
            stream.handle_closed(Closed::Reset);
            running.queue_pair.take_back_promises(stream.take_promised());
        }
        self.report(cx);
        let Some((running, _)) = self.running() else { return };
        let error = running.stream.hold().error();
        cx.io.counters.count_end(error.as_ref());
        running.queue_pair.finish(cx.io.registry, error.map(ConnectionError::Stream));
    }
}

/// Reports the send requests that have finished. Returns whether any had.
pub(super) fn report_sends(stream: &mut Stream, queue_pair: &QueuePair, counters: &mut Counters) -> bool {
    let mut any = false;
    while let Some(completion) = stream.poll_send_completion() {
        any = true;
        // Those before it first: a thread that sees this completion may rely on their places.
        any |= report_silent(stream, queue_pair, counters);
        counters.sent_messages += u64::from(completion.status == Status::Success);
        queue_pair.complete_send(completion);
    }
    any | report_silent(stream, queue_pair, counters)
}

/// Frees the places of unsignaled requests that have completed. Returns whether there were any.
fn report_silent(stream: &mut Stream, queue_pair: &QueuePair, counters: &mut Counters) -> bool {
    let silent = stream.take_silent();
    if silent == 0 {
        return false;
    }
    counters.sent_messages += silent as u64;
    queue_pair.complete_silently(silent);
    true
}

/// Whether nothing more is to be sent or taken by the stream itself.
pub(super) fn has_ended(stream: &Stream) -> bool {
    stream.state().has_ended()
}
