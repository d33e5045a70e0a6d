//! How a connection lives and ends: probes, the peer time-out, closing, a peer that moves.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::RESET_TOKEN_LENGTH;
use weft_wire::edge::frame::MAX_REASON;

use crate::connection::striping::has;
use crate::connection::{Connection, control};
use crate::phase::{Ending, Event, Phase};
use crate::rail::{Answered, Rail, Silence, Verdict};
use crate::round_trip::nanos;

/// After so many probes without an answer it is doubted that large datagrams pass.
const SILENT_PROBES: u32 = 3;
/// After so many, packets are not marked with ECT any more: some paths drop what is.
const UNMARKED_PROBES: u32 = 2;
/// A rail that is silent while others answer is probed so often at least.
const REJOIN_INTERVAL: Duration = Duration::from_millis(200);
/// Others have this time, and a round trip of theirs (up to a limit), to answer while a rail is silent.
const LEAST_DOUBT: Duration = Duration::from_millis(1);
const MOST_DOUBT: Duration = Duration::from_millis(100);
/// An abort is told so often.
const ABORT_PROBES: u32 = 4;
/// The most events that wait to be taken. Each kind but `Moved` comes once; of that no more are kept than fit.
const MAX_EVENTS: usize = 8;

impl Connection {
    /// Closes gracefully: what the source still has is sent, and when all is acknowledged the peer is told. The
    /// connection is over when the peer
    /// has closed too.
    pub fn close(&mut self) {
        self.closing.wanted = true;
    }

    /// Gives the connection up at once. The peer is told why: `reason` is cut to 128 bytes.
    pub fn abort(&mut self, reason: &[u8]) {
        if self.phase == Phase::Open {
            self.closing.reason = reason.iter().copied().take(MAX_REASON).collect();
            self.phase = Phase::Aborting;
            self.outgoing.abandon();
            self.pending |= control::CLOSE;
            self.rails.iter_mut().for_each(|rail| rail.backoff = 0);
        }
    }

    /// A packet came from the peer's port that says that nobody knows the connection. True when the token is the one
    /// that was agreed: it is over.
    pub fn receive_reset(&mut self, token: &[u8; RESET_TOKEN_LENGTH], now: Time) -> bool {
        let differ = token.iter().zip(&self.reset_token).fold(0, |differ, (a, b)| differ | (a ^ b));
        if differ != 0 {
            self.counters.false_frames += 1;
            return false;
        }
        self.end_forgotten(now);
        true
    }

    /// The peer does not know the connection any more.
    pub(crate) fn end_forgotten(&mut self, now: Time) {
        let finished = self.closing.said && self.outgoing.is_empty() && self.closing.peer_end.is_some();
        self.end(if finished { Ending::Closed } else { Ending::Reset }, now);
        self.phase = Phase::Over;
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether nothing more will come of it: it can be forgotten.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// This side's own interface takes nothing for a rail: it is taken for silent at once.
    pub fn hint_down(&mut self, rail: u8, now: Time) {
        if self.rails.len() == 1 {
            self.hasten_probe(usize::from(rail));
            return;
        }
        let is_silent = |rail: &&Rail| rail.is_live() && rail.backoff == 0 && rail.sent.is_flying();
        let index = usize::from(rail);
        if self.phase == Phase::Open && self.rails.get(index).filter(is_silent).is_some() {
            self.on_silence(index, now);
            if self.rails[index].silence.is_some() {
                self.send_elsewhere(index, now);
            }
        }
    }

    /// The first link on a rail's way carries datagrams of no more than this many bytes, as the interface says, which
    /// has refused a larger one. While packets arrive it is asked again every 10 s, by one more such datagram: its MTU
    /// may be raised.
    pub fn hint_link_carries(&mut self, rail: u8, bytes: usize, now: Time) {
        if let Some(rail) = self.rails.get_mut(usize::from(rail))
            && let Some(refused) = rail.mtu.limit_to(bytes, now)
        {
            // It has never left, so it is not lost either.
            rail.sent.settle(refused);
        }
    }

    /// Whether the peer has no receive for a Send that it was sent.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.outgoing.is_refused()
    }

    /// Where the peer's last segment ends, as its close says.
    #[must_use]
    pub fn peer_end(&self) -> Option<u64> {
        self.closing.peer_end
    }

    /// Whether the peer knows that this side sends no more.
    #[must_use]
    pub fn is_close_heard(&self) -> bool {
        self.closing.heard
    }

    /// When [`Connection::handle_timeout`] is to be called, if nothing happens before.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Over => None,
            Phase::Lingering(until) => {
                self.rails.iter().filter_map(|rail| rail.received.due()).chain(Some(until)).min()
            }
            Phase::Open | Phase::Aborting => {
                // This is asked after each packet.
                let mut first = self.last_heard + self.settings.peer_timeout;
                let mut consider = |at: Option<Time>| first = at.map_or(first, |at| at.min(first));
                if self.is_quiet() {
                    consider(Some(self.keep_alive_at()));
                }
                consider(self.pairing.look_at().filter(|_| self.may_open()));
                consider(self.refused_until());
                let (longest, freshest) = (self.longest_probe_interval(), self.freshest());
                for rail in &self.rails {
                    consider(rail.received.due());
                    consider(rail.sent.loss_at());
                    consider(rail.probe_at(self.peer_ack_delay, longest, freshest));
                    consider(rail.paced_until);
                    consider(rail.mtu.timeout());
                    consider(rail.candidate.map(|candidate| candidate.due));
                    consider(rail.silence.and_then(Silence::judged_at));
                }
                Some(first)
            }
        }
    }

    /// Whether [`Connection::next_timeout`] may be earlier than `at`. Mostly it is not, and that is soon seen: this is
    /// asked after each packet.
    #[must_use]
    pub fn may_time_out_before(&self, at: Time) -> bool {
        let may = self.may_have_timer_before(at);
        debug_assert!(may || self.next_timeout().is_none_or(|next| next >= at), "a timer was overlooked");
        may
    }

    fn may_have_timer_before(&self, at: Time) -> bool {
        let ([rail], Phase::Open) = (&self.rails[..], self.phase) else { return true };
        let is_before = |time: Option<Time>| time.is_some_and(|time| time < at);
        let may_probe = rail.sent.is_flying() && rail.sent.last_sent() + rail.trip.probe_timeout() < at;
        is_before(rail.received.due())
            || is_before(rail.sent.loss_at())
            || is_before(rail.paced_until)
            || is_before(rail.mtu.timeout())
            || may_probe
            || is_before(self.pairing.look_at())
            || is_before(self.refused_until())
            || rail.candidate.is_some()
            || rail.silence.is_some()
            // Sooner than the peer is given up.
            || self.last_heard + self.keep_alive / 2 < at
    }

    /// The longest time between two probes of a rail: short while others answer, so that it is soon known to live.
    fn longest_probe_interval(&self) -> Duration {
        let others_answer = self.rails.len() > 1 && self.rails.iter().any(Rail::answers);
        let rejoin = if others_answer { REJOIN_INTERVAL } else { Duration::MAX };
        self.settings.max_probe_interval.min(rejoin).min(self.refused_probe_interval())
    }

    /// The rail on which something was acknowledged last, if there are several.
    fn freshest(&self) -> Option<Answered> {
        let all = (self.rails.len() > 1).then_some(&self.rails)?;
        let rail = all.iter().filter(|rail| rail.answers()).max_by_key(|rail| rail.heard_at)?;
        Some(Answered { at: rail.heard_at, variation: rail.trip.variation_ns() })
    }

    /// Whether nothing waits for an acknowledgement of the peer, who may speak. Rails that are silent while others
    /// answer say nothing about that.
    fn is_quiet(&self) -> bool {
        if let [rail] = &self.rails[..] {
            return self.is_confirmed() && !(rail.is_live() && rail.sent.is_flying());
        }
        let trusted = self.trusted();
        let is_flying = |index: &usize| has(trusted, *index) && self.rails[*index].sent.is_flying();
        self.is_confirmed() && !(0..self.rails.len()).any(|index| is_flying(&index))
    }

    /// When the peer is asked whether it is there, if nothing is said before. All connections of a process ask at the
    /// same times, so that many quiet ones take one wake-up; and who has called asks first, so that one side does.
    fn keep_alive_at(&self) -> Time {
        let turn = if self.opens { Duration::ZERO } else { self.keep_alive / 8 };
        next_round(self.quiet_since() + self.keep_alive / 2, self.keep_alive, turn)
    }

    /// When something was said last.
    fn quiet_since(&self) -> Time {
        if let [rail] = &self.rails[..] {
            return self.last_heard.max(rail.sent.last_sent());
        }
        let trusted = self.trusted();
        let rails = self.rails.iter().enumerate().filter(|(index, _)| has(trusted, *index));
        let last_sent = rails.map(|(_, rail)| rail.sent.last_sent()).max();
        self.last_heard.max(last_sent.unwrap_or_default())
    }

    /// Time has passed. [`Connection::transmit`] sends what follows from it.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Lingering(until) if until <= now => self.phase = Phase::Over,
            Phase::Over | Phase::Lingering(_) => {}
            Phase::Open | Phase::Aborting if self.last_heard + self.settings.peer_timeout <= now => {
                self.end(Ending::Gone, now);
                self.phase = Phase::Over;
            }
            Phase::Open | Phase::Aborting => self.handle_timers(now),
        }
    }

    fn handle_timers(&mut self, now: Time) {
        (0..self.rails.len()).for_each(|index| self.handle_rail_timers(index, now));
        self.open_rails(now);
        self.end_if_refused(now);
        if self.is_quiet() && self.keep_alive_at() <= now {
            self.pending |= control::PING;
            self.release_memory(now);
        }
    }

    fn handle_rail_timers(&mut self, index: usize, now: Time) {
        let rail = &mut self.rails[index];
        rail.mtu.on_timeout(now);
        if rail.sent.loss_at().is_some_and(|at| at <= now) {
            self.detect_loss(index, now);
        }
        let judged_at = self.rails[index].silence.and_then(Silence::judged_at);
        if judged_at.is_some_and(|at| at <= now) {
            self.judge_rail(index);
        }
        let (longest, freshest) = (self.longest_probe_interval(), self.freshest());
        let probe_at = self.rails[index].probe_at(self.peer_ack_delay, longest, freshest);
        if probe_at.is_some_and(|at| at <= now) {
            self.on_silence(index, now);
        }
    }

    /// Nothing was acknowledged in time.
    fn on_silence(&mut self, index: usize, now: Time) {
        // A datagram that may have been too large says nothing about the rail: a small one will.
        let rail = &self.rails[index];
        let is_doubted = rail.backoff == 0 && rail.sent.flying().all(|packet| packet.contents.is_probe);
        self.probe_rail(index);
        if is_doubted {
            return;
        }
        self.rails[index].backoff += 1;
        if self.rails[index].backoff == UNMARKED_PROBES {
            self.rails[index].ecn.on_silence();
        }
        if self.rails.len() > 1 {
            self.doubt_rail(index, now);
        }
        let is_left = self.rails[index].silence.is_some_and(|silence| silence.verdict == Verdict::Left);
        let rail = &mut self.rails[index];
        if rail.backoff == SILENT_PROBES {
            // Nothing is known to be lost: a host that stands still for a moment takes it all afterwards. The window is
            // for what the next answer tells (RFC 9002 section 6.2: a timer that is over shows no loss).
            rail.mtu.on_silence();
        }
        if is_left && rail.backoff >= SILENT_PROBES {
            self.leave_rail(index);
        }
        if self.phase == Phase::Aborting && self.rails[index].backoff >= ABORT_PROBES {
            self.end(Ending::Aborted, now);
        }
    }

    /// Other rails are asked as well: if they answer, it is this rail that is silent, and not the peer.
    fn doubt_rail(&mut self, index: usize, now: Time) {
        let others = self.rails.iter().enumerate().filter(|(other, rail)| *other != index && rail.answers());
        let slowest = others.map(|(_, rail)| rail.trip.smoothed()).max();
        let Some(wait) = slowest.map(|slowest| LEAST_DOUBT + slowest.min(MOST_DOUBT)) else { return };
        self.pending |= control::PING;
        let rail = &mut self.rails[index];
        let since = rail.silence.map_or(now, |silence| silence.since);
        if rail.silence.is_none_or(|silence| silence.verdict == Verdict::Open) {
            rail.silence = Some(Silence { since, verdict: Verdict::At(now + wait) });
        }
    }

    /// Whether a silent rail is to be left is known now.
    fn judge_rail(&mut self, index: usize) {
        let Some(silence) = self.rails[index].silence else { return };
        let has_answered = |rail: &Rail| rail.answers() && rail.heard_at >= silence.since;
        if self.rails.iter().any(has_answered) {
            self.send_elsewhere(index, silence.since);
        } else {
            self.rails[index].silence = Some(Silence { verdict: Verdict::Open, ..silence });
        }
    }

    /// Sends the oldest packet's contents again, beyond the window, or a ping, so that something is acknowledged (RFC
    /// 9002 section 6.2.4).
    pub(crate) fn probe_rail(&mut self, index: usize) {
        let rail = &mut self.rails[index];
        rail.probes = 1;
        self.counters.probes += 1;
        let contents = rail.sent.oldest().map(|packet| packet.contents).unwrap_or_default();
        self.outgoing.on_lost(&contents);
        self.pending |= contents.controls;
        // The peer may put off whatever is under way, because of something before it that is missing.
        if self.rails.len() == 1 || self.rails[index].backoff > 0 {
            self.outgoing.send_first_again();
        }
    }

    /// The connection is over, once.
    pub(crate) fn end(&mut self, ending: Ending, now: Time) {
        if matches!(self.phase, Phase::Open | Phase::Aborting) {
            self.phase = Phase::Lingering(now + self.settings.linger);
            self.outgoing.abandon();
            self.shrink();
            self.pending = 0;
            self.tell_end(ending);
        }
    }

    /// Tells how it has ended: what was told first stays.
    pub(crate) fn tell_end(&mut self, ending: Ending) {
        if !core::mem::replace(&mut self.closing.is_told, true) {
            self.tell(Event::Ended(ending));
        }
    }

    pub(crate) fn tell(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS || matches!(event, Event::Ended(_)) {
            self.events.push_back(event);
        }
    }

    /// Both sides have closed: over, without a word to wait for.
    pub(crate) fn end_if_closed(&mut self, now: Time) {
        match self.phase {
            Phase::Aborting if self.closing.heard => self.end(Ending::Aborted, now),
            Phase::Open if self.closing.heard && self.closing.peer_end.is_some() => self.end(Ending::Closed, now),
            _ => {}
        }
    }
}

/// The first of the times `turn`, `turn + period`, `turn + 2 * period`, ... that is not before `at`.
fn next_round(at: Time, period: Duration, turn: Duration) -> Time {
    let (period, turn) = (nanos(period).max(1), nanos(turn));
    let rounds = at.as_nanos().saturating_sub(turn).div_ceil(period);
    Time::from_nanos(turn.saturating_add(rounds.saturating_mul(period)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_at_the_same_times_for_all() {
        let round = |at| next_round(Time::from_nanos(at), Duration::from_nanos(100), Duration::from_nanos(10));
        assert_eq!([0, 10, 11, 110, 111].map(|at| round(at).as_nanos()), [10, 10, 110, 110, 210]);
        let far = next_round(Time::from_nanos(u64::MAX), Duration::from_nanos(100), Duration::ZERO);
        assert!(far.as_nanos() >= u64::MAX - 100, "it does not wrap");
    }
}
