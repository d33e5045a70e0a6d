//! Sends that wait for a receive, where the stream below holds them back ([`LowerTraits::holds_back`]), and what does
//! not wait for them.
//!
//! The two ends of a stream are requester and responder at a time, and the answers of a responder are not to depend on
//! whether its peer has posted a receive for a Send of its own: the peer may post one only when it has the answer. So
//! this end gives out no requests behind a Send that was refused, but answers still; and the end that has refused one
//! lets the answers behind it take effect before their turn.
//!
//! [`LowerTraits::holds_back`]: crate::LowerTraits::holds_back

use super::Stream;
use super::outgoing::Source;
use crate::requester::Requester;
use crate::segment::{Arrival, Effect, Received};

impl Stream {
    /// Whether Sends that were put off for want of a receive ([`Later::NotReady`](crate::Later)) may come again, if the
    /// source has `posted` requests. An empty source proves nothing: a segment of a later message takes the requests
    /// for all messages before it as well. After a return of true, none counts as put off any more.
    pub fn go_on(&mut self, posted: usize) -> bool {
        let may_go_on = self.receives.go_on(posted);
        if may_go_on {
            self.put_off_at = None;
        }
        may_go_on
    }

    /// Whether the peer has no receive for Sends that were given out. While it has none, no requests are given out, so
    /// that there is room for answers; and an answer may go out between the segments of a request.
    pub fn hold_requests(&mut self, hold: bool) {
        if core::mem::replace(&mut self.holds_requests, hold) && !hold && self.outgoing.begun.is_none() {
            // The request that was interrupted is to be whole before another message begins.
            let is_begun = self.sends.next().is_some_and(|(_, entry)| entry.formed > 0 || entry.write_formed);
            self.outgoing.begun = is_begun.then_some(Source::Request);
        }
    }

    /// What goes out while requests are held.
    pub(super) fn choose_answer(&self) -> Option<Source> {
        let begun = self.outgoing.ready.map(Source::Ready).or(self.outgoing.begun);
        begun.filter(|begun| *begun != Source::Request).or((!self.responder.is_empty()).then_some(Source::Answer))
    }

    /// A Send has found no receive.
    pub(super) fn put_off(&mut self, arrival: Arrival) {
        self.put_off_at = Some(self.put_off_at.map_or(arrival.start, |first| first.min(arrival.start)));
        self.deliver_answers();
    }

    /// Whether nothing has its turn before a receive is posted.
    #[inline]
    pub(super) fn is_stalled(&self) -> bool {
        self.put_off_at.is_some_and(|at| at == self.order.next())
    }

    /// While the stream is stalled, an answer takes effect as soon as it is in place, if it is the one that is due: the
    /// peer answers in the order of the requests (RFC 5040 section 5.5, rule 20), so none is overtaken. A Terminate is
    /// not kept waiting either.
    pub(super) fn deliver_answers(&mut self) {
        while self.is_stalled() && self.state.receives() {
            let requester = &self.requester;
            let Some(received) = self.order.change_early(|received| take_due(received, requester)) else { return };
            // It is what was expected, so nothing is wrong with it.
            let delivered = self.take_effect(&received.effect, &received.context);
            debug_assert!(delivered.is_ok(), "an answer that was due: {delivered:?}");
        }
    }
}

/// Takes the effect of an answer that is due, or of a Terminate.
fn take_due(received: &mut Received, requester: &Requester) -> Option<Received> {
    let is_due = match &received.effect {
        Effect::ReadResponse(part) => requester.is_due(part),
        Effect::AtomicResponse { number, response } => requester.check_atomic(*number, response.identifier).is_ok(),
        Effect::Terminate(_) => true,
        _ => false,
    };
    is_due.then(|| Received { effect: core::mem::replace(&mut received.effect, Effect::Done), ..*received })
}
