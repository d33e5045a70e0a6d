//! A call that was accepted, until the caller confirms: what it takes to answer again and to make the connection, and
//! no more. A hello may come from an address that is false, or be a recorded one: its sender never confirms (RFC 9000
//! section 8.1).

use core::time::Duration;

use weft_base::Time;
use weft_edge::Established;
use weft_edge::setup::Answering;

use super::outbox::Outbox;
use crate::lower::{Io, Terms};
use crate::offer::{LowerStartError, StartError, StartReason};

/// The answer to a call is retransmitted this long after the first time, then after twice as long, and so on, until the
/// caller confirms: one that has given up answers that the connection is unknown.
pub(super) const ANSWER_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// How often, so that no more goes to an address that may be false than three times what arrived from it (RFC 9000
/// section 8.1): a hello has 1200 bytes, an answer up to some 700.
const ANSWERS: u32 = 4;

/// The call.
pub(super) struct AcceptedCall {
    pub(super) answering: Answering,
    pub(super) established: Established,
    pub(super) terms: Box<Terms>,
    pub(super) answered_at: Time,
    /// When it is answered again, and how often it was.
    pub(super) answer_at: Time,
    pub(super) answers: u32,
    /// How long the caller has to confirm.
    pub(super) patience: Duration,
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

    /// When the answer is retransmitted.
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
