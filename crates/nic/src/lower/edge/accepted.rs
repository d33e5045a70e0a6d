//! A call that was accepted, until the caller confirms: what it takes to answer again and to make the connection, and
//! no more. A hello may come from an address that is false, or be a recorded one: its sender never confirms (RFC 9000
//! section 8.1).

use core::mem;
use core::time::Duration;

use weft_base::Time;
use weft_edge::Established;
use weft_edge::setup::Answering;

use super::outbox::Outbox;
use super::startup::{repeat, say};
use super::{Edge, Phase, Running};
use crate::error::ConnectionError;
use crate::lower::{Io, StartStep, Terms};
use crate::offer::{LowerStartError, StartError, StartReason};

/// The answer to a call is said again so long after the first time, then after twice as long, and so on, until the
/// caller says that it knows: one that has given up answers that nobody knows the connection.
const ANSWER_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// That often, so that no more goes to an address that may be false than three times what came from it (RFC 9000
/// section 8.1): a hello has 1200 bytes, an answer up to some 700.
const ANSWERS: u32 = 4;

/// The call.
pub(super) struct AcceptedCall {
    answering: Answering,
    established: Established,
    terms: Box<Terms>,
    answered_at: Time,
    /// When it is answered again, and how often it was.
    answer_at: Time,
    answers: u32,
    /// How long the caller has to confirm.
    patience: Duration,
}

impl AcceptedCall {
    /// The answer has left.
    pub(super) fn new(
        answering: Answering,
        established: Established,
        terms: Box<Terms>,
        io: &Io<'_, impl AsMut<Outbox>>,
    ) -> Self {
        let (answered_at, answer_at) = (io.now, io.now + ANSWER_AGAIN_AFTER);
        let patience = io.settings.start_timeout;
        Self { answering, established, terms, answered_at, answer_at, answers: 1, patience }
    }

    pub(super) fn answering(&self) -> &Answering {
        &self.answering
    }

    /// When the answer is said again.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        (self.answers < ANSWERS).then_some(self.answer_at)
    }

    /// Why there is no connection, if the caller does not confirm.
    pub(super) fn why_late(&self) -> StartError {
        let lower = LowerStartError::Other(
            "the caller did not confirm that it has got the answer: it has given up, or its hello came from elsewhere",
        );
        StartError { reason: StartReason::TimedOut { waited_for: self.patience }, lower }
    }
}

impl Edge {
    /// Looks whether the caller has confirmed. What confirms stays in the inbox: the connection takes it.
    pub(super) fn go_on_accepted(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Result<StartStep, ConnectionError> {
        let (place, remote) = ((self.port, self.from), self.remote);
        let Phase::Accepted(accepted) = &mut self.phase else { return Ok(StartStep::Idle) };
        let mut inbox = io.inbox;
        if inbox.any(|datagram| accepted.established.is_confirmed_by(datagram.bytes)) {
            return Ok(self.stand(io).map_or(StartStep::Idle, StartStep::Ready));
        }
        mem::take(&mut io.inbox).for_each(|datagram| repeat(&accepted.answering, &datagram, place, io));
        if accepted.next_timeout().is_some_and(|at| at <= io.now) {
            // What is lost is said again.
            let _ = say(accepted.answering.answer(), remote, place, io);
            accepted.answer_at = io.now + ANSWER_AGAIN_AFTER * (1 << accepted.answers);
            accepted.answers += 1;
        }
        Ok(StartStep::Idle)
    }

    /// The caller has confirmed.
    fn stand(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Option<Box<Terms>> {
        let Phase::Accepted(accepted) = mem::replace(&mut self.phase, Phase::Over) else { return None };
        let AcceptedCall { established, terms, answered_at, .. } = *accepted;
        let established = Established { took: Some(io.now.since(answered_at)), ..established };
        self.phase = Phase::Running(Running::new(&established, self.port, io));
        self.offer_rails(io);
        Some(terms)
    }
}
