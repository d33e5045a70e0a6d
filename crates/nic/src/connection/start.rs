//! How a connection comes about: which end connects, which answers, and how long they may take.

use core::time::Duration;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{DomainId, Time};
use weft_rdmap::{Stream, StreamConfig};

use super::nudges::Nudges;
use super::{Connection, Context, Ending, Outcome, Phase, Running};
use crate::error::{ConnectionError, Error, RefusedStart};
use crate::lower::{Accepted, Carrier, Drained, Pollable as _, Segments as _, Setup as _, StartStep, Terms, Undecided};
use crate::offer::{Offer, Transport};
use crate::policy::AnswerCredit;
use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;

/// An offer, cut to what this NIC can hold.
pub(crate) fn within_limits(offer: &Offer, settings: &Settings) -> Offer {
    Offer { ird: offer.ird.min(settings.limits.read_depth), ord: offer.ord.min(settings.limits.read_depth), ..*offer }
}

impl<N: Carrier> Connection<N> {
    /// A connection that is begun here.
    pub(crate) fn initiate(lower: N::Lower, queue_pair: Arc<QueuePair>, deadline: Time) -> Self {
        Self::new(lower, Some(queue_pair), deadline)
    }

    /// The deadline is for the peer's host alone. When that has taken the connection its program may take as long as it
    /// likes: the lower layer reports when the host answers no more ([`Pollable::check_peer`]).
    pub(crate) fn waiting_for_program(self, host_patience: Duration) -> Self {
        Self { host_patience: Some(host_patience), ..self }
    }

    /// A connection that a peer has begun.
    pub(crate) fn respond(port: N::Port, listener: DefaultKey, offer: Offer, deadline: Time) -> Self {
        Self { listener: Some(listener), ..Self::new(N::Lower::respond(port, offer), None, deadline) }
    }

    /// A caller that was accepted and has not confirmed makes way for another.
    pub(crate) fn make_way(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        self.expire(cx)
    }

    /// A connection that a peer has begun by a datagram.
    pub(crate) fn called(lower: N::Lower, listener: DefaultKey, deadline: Time) -> Self {
        Self { listener: Some(listener), ..Self::new(lower, None, deadline) }
    }

    pub(super) fn drive_start(&mut self, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        match self.lower.drive_start(&mut cx.io) {
            Ok(StartStep::Idle) => Outcome::Idle,
            Ok(StartStep::Progress) => {
                match (self.host_patience, self.lower.is_connecting()) {
                    (Some(_), false) => self.deadline = None,
                    // Another way is tried.
                    (Some(patience), true) if self.deadline.is_none() => self.wait_until(cx.io.now + patience),
                    _ => {}
                }
                Outcome::Progress
            }
            Ok(StartStep::Request) => {
                self.wait_until(cx.io.now + cx.io.settings.decision_timeout);
                self.listener.map_or(Outcome::Progress, Outcome::Request)
            }
            Ok(StartStep::Ready(terms)) => self.become_ready(*terms, cx),
            Err(error) => self.fail_start(error, cx),
        }
    }

    /// The set-up of a connection with a queue pair is done.
    fn become_ready(&mut self, terms: Terms, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        if let Phase::Start(Some(queue_pair)) = &self.phase {
            let queue_pair = Arc::clone(queue_pair);
            self.run(queue_pair, terms, cx);
        }
        if core::mem::take(&mut self.closes_when_ready) {
            return self.end(Ending::Graceful, cx);
        }
        // Takes data that arrived with the last message of set-up, and sends the caller's last message: no thread
        // drives an idle connection.
        match self.drive(cx) {
            Outcome::Over => Outcome::Over,
            _ => Outcome::Progress,
        }
    }

    /// The application accepts: the reply goes out, and the stream is established, now or once the caller has
    /// confirmed.
    pub(crate) fn accept(
        &mut self,
        queue_pair: &Arc<QueuePair>,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        begin: impl FnOnce(),
        cx: &mut Context<'_, N::Scratch>,
    ) -> (Result<(), Error>, Outcome) {
        match self.lower.accept(private_data, depths, &mut cx.io) {
            Ok(Accepted::Stands(terms)) => {
                begin();
                self.run(Arc::clone(queue_pair), *terms, cx);
                (Ok(()), Outcome::Progress)
            }
            Ok(Accepted::Awaits(info)) => {
                begin();
                queue_pair.accept(*info);
                self.phase = Phase::Start(Some(Arc::clone(queue_pair)));
                self.wait_until(cx.io.now + cx.io.settings.start_timeout);
                (Ok(()), Outcome::Progress)
            }
            Err(undecided) => self.undecided(undecided, cx),
        }
    }

    /// The application rejects, or had no time: the reply goes out, and the connection drains.
    pub(crate) fn reject(
        &mut self,
        private_data: &[u8],
        cx: &mut Context<'_, N::Scratch>,
    ) -> Result<Outcome, Undecided> {
        let drained = self.lower.reject(private_data, &mut cx.io)?;
        self.drain(cx);
        Ok(drained.into())
    }

    /// A decision could not be carried out.
    pub(crate) fn undecided(
        &mut self,
        undecided: Undecided,
        cx: &mut Context<'_, N::Scratch>,
    ) -> (Result<(), Error>, Outcome) {
        match undecided {
            Undecided::Gone => (Err(Error::RequestGone), Outcome::Progress),
            Undecided::Misuse(misuse) => (Err(Error::Start(misuse)), Outcome::Progress),
            Undecided::Failed(error) => (Err(Error::RequestGone), self.end_start(None, error, cx)),
        }
    }

    fn run(&mut self, queue_pair: Arc<QueuePair>, terms: Terms, cx: &mut Context<'_, N::Scratch>) {
        self.nudges = Nudges::begin(&terms, cx.io.now);
        self.waits_anew |= self.nudges.is_some();
        let config = StreamConfig {
            domain: if queue_pair.is_guarded() { DomainId::NONE } else { queue_pair.domain() },
            send_depth: queue_pair.send_depth(),
            ..terms.stream
        };
        let mut stream = Stream::new(config, cx.io.registry.clone(), cx.io.random.next_u64());
        stream.set_peer_rights(queue_pair.peer_rights());
        stream.set_owner(queue_pair.upper().map_or(0, |upper| upper.id));
        let stream = self.lower.establish(stream, &queue_pair, &mut cx.io);
        let running = Running {
            stream,
            queue_pair: Arc::clone(&queue_pair),
            ready: self.lower.readiness(cx.io.now),
            cut_short: false,
            receipt_waits: None,
            ack_waits: None,
            answers: AnswerCredit::default(),
            is_quiet: false,
            input_over: false,
            close_wanted: false,
            send_closed: false,
        };
        self.phase = Phase::Running(Box::new(running));
        self.deadline = None;
        cx.io.counters.connections += 1;
        match self.lower.transport() {
            Transport::Edge => cx.io.counters.edge_connections += 1,
            Transport::SharedMemory => cx.io.counters.shared_memory_connections += 1,
            Transport::Iwarp | Transport::SharedMemoryOrIwarp | Transport::SharedMemoryOrEdge | Transport::Auto => {}
        }
        queue_pair.establish(terms.info);
    }

    /// The peer has shown its identity, and reaches memory from now on.
    pub(crate) fn admit(&mut self) {
        if let Some((running, _)) = self.running() {
            let domain = running.queue_pair.domain();
            running.stream.hold().set_domain(domain);
        }
    }

    pub(super) fn fail_start(&mut self, error: ConnectionError, cx: &mut Context<'_, N::Scratch>) -> Outcome {
        let queue_pair = match &self.phase {
            Phase::Start(queue_pair) => queue_pair.clone(),
            _ => None,
        };
        self.end_start(queue_pair, error, cx)
    }

    fn end_start(
        &mut self,
        queue_pair: Option<Arc<QueuePair>>,
        error: ConnectionError,
        cx: &mut Context<'_, N::Scratch>,
    ) -> Outcome {
        cx.io.counters.failed_starts += 1;
        let drained: Drained = self.lower.fail_start(&error, &mut cx.io);
        self.drain(cx);
        if let Some(queue_pair) = queue_pair {
            queue_pair.finish(cx.io.registry, Some(error));
        } else if error != ConnectionError::Abandoned {
            self.refused = Some(Box::new(RefusedStart { remote: self.lower.remote_address(), error }));
        }
        drained.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Limits;

    #[test]
    fn an_offer_is_cut_to_what_the_nic_can_hold_each_way() {
        let settings = Settings { limits: Limits { read_depth: 8, ..Limits::default() }, ..Settings::default() };
        let offer = |ird, ord| Offer { ird, ord, ..Offer::default() };
        for (asked, gets) in [((100, 4), (8, 4)), ((3, 9), (3, 8)), ((8, 8), (8, 8))] {
            assert_eq!(within_limits(&offer(asked.0, asked.1), &settings), offer(gets.0, gets.1));
        }
    }
}
