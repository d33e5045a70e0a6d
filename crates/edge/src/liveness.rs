//! Lifetime of a connection: probes, the peer timeout, closing, migration of the peer.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::RESET_TOKEN_LENGTH;
use weft_wire::edge::frame::MAX_REASON;

use crate::connection::striping::has;
use crate::connection::{Connection, control};
use crate::phase::{Ending, Event, Phase};
use crate::rail::{Answered, Rail};
use crate::round_trip::nanos;
use crate::silence::{self, Silence};

/// After this many unanswered probes, large datagrams may not pass.
const SILENT_PROBES: u32 = 3;
/// After this many, packets are sent without ECT: some paths drop marked packets.
const UNMARKED_PROBES: u32 = 2;
/// A rail that is silent while others answer is probed at least this often.
const REJOIN_INTERVAL: Duration = Duration::from_millis(100);
/// After another rail has answered, a silent one has this time to answer as well: when a peer resumes after a pause,
/// the acknowledgements of one rail are received right before those of the next.
const GRACE: Duration = Duration::from_millis(1);
/// The number of times an abort is sent.
const ABORT_PROBES: u32 = 4;
/// A peer is lost no sooner than after this many probe timeouts (RFC 9000 section 10.1).
const LAST_PROBES: u32 = 3;
/// The first ping is sent when a connection has been idle for this part of the keep-alive interval, or up to an
/// interval later. So a peer whose program has ended is lost after 5/4 intervals at most and the second for which its
/// host must report that ([`crate::hints`]).
const QUIET_PART: u32 = 4;
/// The maximum number of queued events. Each kind but `Moved` occurs once; further `Moved` events are dropped.
const MAX_EVENTS: usize = 8;

impl Connection {
    /// Closes gracefully: the rest of the source is sent, and the close once all is acknowledged. The connection is
    /// over when the peer has closed too.
    pub fn close(&mut self) {
        self.closing.wanted = true;
    }

    /// Aborts the connection at once and sends the peer `reason`, cut to 128 bytes.
    pub fn abort(&mut self, reason: &[u8]) {
        if self.phase == Phase::Open {
            self.closing.reason = reason.iter().copied().take(MAX_REASON).collect();
            self.phase = Phase::Aborting;
            self.outgoing.abandon();
            self.pending |= control::CLOSE;
            self.rails.iter_mut().for_each(|rail| rail.backoff = 0);
        }
    }

    /// A reset was received from the peer's address: it does not know the connection. Returns true, and ends the
    /// connection, when the token is the agreed one.
    pub fn receive_reset(&mut self, token: &[u8; RESET_TOKEN_LENGTH], now: Time) -> bool {
        let differ = token.iter().zip(&self.reset_token).fold(0, |differ, (a, b)| differ | (a ^ b));
        if differ != 0 {
            self.counters.false_frames += 1;
            return false;
        }
        self.end_forgotten(now);
        true
    }

    /// The peer has forgotten the connection.
    pub(crate) fn end_forgotten(&mut self, now: Time) {
        let finished = self.closing.is_sent && self.outgoing.is_empty() && self.closing.peer_end.is_some();
        self.end(if finished { Ending::Closed } else { Ending::Reset }, now);
        self.phase = Phase::Over;
    }

    /// Whether [`Connection::poll_event`] has any.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the connection is over and can be freed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// This side's interface of a rail is down: the rail counts as silent at once.
    pub fn hint_down(&mut self, rail: u8, now: Time) {
        if self.rails.len() == 1 {
            self.hasten_probe(usize::from(rail));
            return;
        }
        let is_silent = |rail: &&Rail| rail.is_live() && rail.backoff == 0 && rail.sent.is_flying();
        let index = usize::from(rail);
        if self.phase == Phase::Open && self.rails.get(index).filter(is_silent).is_some() {
            self.on_silence(index, now);
            if self.rails[index].silence != Silence::Answering && self.rails.iter().any(Rail::answers) {
                self.send_elsewhere(index);
            }
        }
    }

    /// The first link of a rail's path carries datagrams of at most this many bytes, as reported by the interface,
    /// which refused a larger one. While packets arrive, a larger one is tried every 10 s: the MTU may be raised.
    pub fn hint_link_carries(&mut self, rail: u8, bytes: usize, now: Time) {
        if let Some(rail) = self.rails.get_mut(usize::from(rail))
            && let Some(refused) = rail.mtu.limit_to(bytes, now)
        {
            // It was never sent, so it is not lost either.
            rail.sent.settle(refused);
        }
    }

    /// Whether the peer has no receive for a Send that was sent to it.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.outgoing.is_refused()
    }

    /// The end of the peer's last segment, from its close.
    #[must_use]
    pub fn peer_end(&self) -> Option<u64> {
        self.closing.peer_end
    }

    /// Whether the peer has acknowledged this side's close.
    #[must_use]
    pub fn has_close_arrived(&self) -> bool {
        self.closing.is_acknowledged
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
                // Called after many packets: what is far away is computed only if nothing comes before it.
                let mut first = Time::from_nanos(u64::MAX);
                let mut consider = |at: Option<Time>| first = at.map_or(first, |at| at.min(first));
                consider(self.pairing.open_at().filter(|_| self.may_open()));
                consider(self.refused_until());
                let (longest, freshest) = (self.longest_probe_interval(), self.freshest());
                for rail in &self.rails {
                    consider(rail.received.due());
                    consider(rail.sent.loss_at());
                    consider(self.silent_at(rail, longest, freshest));
                    consider(rail.paced_until);
                    consider(rail.mtu.timeout());
                    consider(rail.candidate.map(|candidate| candidate.due));
                    consider(rail.silence.decided_at());
                }
                if first > self.quiet_since() + self.keep_alive / QUIET_PART && self.is_quiet() {
                    first = first.min(self.keep_alive_at());
                }
                if first > self.last_received + self.settings.peer_timeout {
                    first = first.min(self.gone_at());
                }
                Some(first)
            }
        }
    }

    /// Whether [`Connection::next_timeout`] may be earlier than `at`: a quick check, called after each packet.
    #[must_use]
    pub fn may_time_out_before(&self, at: Time) -> bool {
        let may = self.may_have_timer_before(at);
        debug_assert!(may || self.next_timeout().is_none_or(|next| next >= at), "a timer was missed");
        may
    }

    fn may_have_timer_before(&self, at: Time) -> bool {
        let ([rail], Phase::Open) = (&self.rails[..], self.phase) else { return true };
        let is_before = |time: Option<Time>| time.is_some_and(|time| time < at);
        let may_probe =
            rail.sent.is_flying() && rail.sent.last_sent() + rail.trip.probe_timeout() + self.peer_ack_delay < at;
        is_before(rail.received.due())
            || is_before(rail.sent.loss_at())
            || is_before(rail.paced_until)
            || is_before(rail.mtu.timeout())
            || may_probe
            || is_before(self.pairing.open_at())
            || is_before(self.refused_until())
            || rail.candidate.is_some()
            || rail.silence != Silence::Answering
            // Earlier than the peer timeout.
            || self.last_received + self.keep_alive / QUIET_PART < at
    }

    /// The longest time between two probes of a rail: short while others answer, so that its recovery is soon noticed.
    fn longest_probe_interval(&self) -> Duration {
        let others_answer = self.rails.len() > 1 && self.rails.iter().any(Rail::answers);
        let rejoin = if others_answer { REJOIN_INTERVAL } else { Duration::MAX };
        self.settings.max_probe_interval.min(rejoin).min(self.refused_probe_interval())
    }

    /// When a rail counts as silent, if the peer does not answer before.
    fn silent_at(&self, rail: &Rail, longest: Duration, freshest: Option<Answered>) -> Option<Time> {
        let probe_at = rail.probe_at(self.peer_ack_delay, longest, freshest);
        let overdue_at = if self.rails.len() > 1 { rail.overdue_at(self.peer_ack_delay) } else { None };
        [probe_at, overdue_at].into_iter().flatten().min()
    }

    /// The rail with the latest acknowledgement, if there are several.
    fn freshest(&self) -> Option<Answered> {
        let all = (self.rails.len() > 1).then_some(&self.rails)?;
        let rail = all.iter().filter(|rail| rail.answers()).max_by_key(|rail| rail.heard_at)?;
        Some(Answered { at: rail.heard_at, variation: rail.trip.variation_ns() })
    }

    /// Whether nothing waits for an acknowledgement of a confirmed peer. Rails that are silent while others answer do
    /// not count.
    fn is_quiet(&self) -> bool {
        if let [rail] = &self.rails[..] {
            return self.is_confirmed() && !(rail.is_live() && rail.sent.is_flying());
        }
        let trusted = self.trusted();
        let is_flying = |index: &usize| has(trusted, *index) && self.rails[*index].sent.is_flying();
        self.is_confirmed() && !(0..self.rails.len()).any(|index| is_flying(&index))
    }

    /// The keep-alive time, if nothing is sent before. All connections of a process use the same times, so that many
    /// idle ones take one wake-up; the caller sends first, so that only one side does.
    fn keep_alive_at(&self) -> Time {
        let turn = if self.opens { Duration::ZERO } else { self.keep_alive / 8 };
        next_round(self.quiet_since() + self.keep_alive / QUIET_PART, self.keep_alive, turn)
    }

    /// When the peer is lost, if nothing is received before: not before three probes could have been lost on each path
    /// that is known (RFC 9000 section 10.1).
    fn gone_at(&self) -> Time {
        let known = self.rails.iter().filter(|rail| rail.is_live() && rail.trip.is_known());
        let longest = known.map(|rail| rail.trip.probe_timeout()).max().unwrap_or_default();
        let least = LAST_PROBES * (longest + self.peer_ack_delay);
        self.last_received + self.settings.peer_timeout.max(least)
    }

    /// When anything was last sent or received.
    fn quiet_since(&self) -> Time {
        if let [rail] = &self.rails[..] {
            return self.last_received.max(rail.sent.last_sent());
        }
        let trusted = self.trusted();
        let rails = self.rails.iter().enumerate().filter(|(index, _)| has(trusted, *index));
        let last_sent = rails.map(|(_, rail)| rail.sent.last_sent()).max();
        self.last_received.max(last_sent.unwrap_or_default())
    }

    /// Handles timers. [`Connection::transmit`] sends the results.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Lingering(until) if until <= now => self.phase = Phase::Over,
            Phase::Over | Phase::Lingering(_) => {}
            Phase::Open | Phase::Aborting if self.gone_at() <= now => {
                self.end(Ending::Gone, now);
                self.phase = Phase::Over;
            }
            Phase::Open | Phase::Aborting => self.handle_timers(now),
        }
    }

    fn handle_timers(&mut self, now: Time) {
        // Before the timers of rails: with a second rail open, the first one is overdue earlier.
        self.open_rails(now);
        (0..self.rails.len()).for_each(|index| self.handle_rail_timers(index, now));
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
        let decided_at = self.rails[index].silence.decided_at();
        if decided_at.is_some_and(|at| at <= now) {
            self.decide_on_rail(index);
        }
        let (longest, freshest) = (self.longest_probe_interval(), self.freshest());
        let silent_at = self.silent_at(&self.rails[index], longest, freshest);
        if silent_at.is_some_and(|at| at <= now) {
            self.on_silence(index, now);
        }
    }

    /// A probe timeout: nothing was acknowledged in time.
    fn on_silence(&mut self, index: usize, now: Time) {
        // The loss of a datagram that may have been too large shows nothing about the rail: a small one will.
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
        let is_left = self.rails[index].has_failed();
        let rail = &mut self.rails[index];
        if rail.backoff == SILENT_PROBES {
            // No packet is declared lost: a host that is suspended for a moment receives them all afterwards. The
            // window reacts to the next acknowledgement (RFC 9002 section 6.2: an expired timer does not show loss).
            rail.mtu.on_silence();
        }
        if is_left && rail.backoff >= SILENT_PROBES {
            self.leave_rail(index);
        }
        if self.phase == Phase::Aborting && self.rails[index].backoff >= ABORT_PROBES {
            self.end(Ending::Aborted, now);
        }
    }

    /// Probes the other rails as well, each with a packet that is acknowledged at once: the first that answers shows
    /// that this rail is silent, not the peer.
    fn doubt_rail(&mut self, index: usize, now: Time) {
        let rail = &mut self.rails[index];
        rail.silence = rail.silence.on(silence::Event::Overdue(now));
        if matches!(rail.silence, Silence::Doubted { .. }) {
            self.rails.iter_mut().filter(|rail| rail.answers()).for_each(|rail| rail.probes = rail.probes.max(1));
        }
    }

    /// The peer has acknowledged a packet of a rail that was sent at `sent`: where other rails are silent, it is not
    /// the peer that is.
    pub(crate) fn on_answer(&mut self, index: usize, sent: Time, now: Time) {
        let rail = &mut self.rails[index];
        let was_silent = rail.backoff > 0;
        (rail.backoff, rail.heard_at) = (0, now);
        rail.silence = rail.silence.on(silence::Event::Answers);
        // The peer has answered half a round trip ago, and after the packet was sent. That must be later than it should
        // have answered on the other rail: an acknowledgement may have been in flight for long.
        let answered_at = before(now, rail.trip.smoothed() / 2).max(sent);
        for rail in &mut self.rails {
            let round_trip = rail.trip.smoothed();
            if let Silence::Doubted { since } = rail.silence
                && before(since, round_trip / 2) <= answered_at
            {
                let mut grace = GRACE;
                if was_silent {
                    // The peer was. This rail's last probe may have been lost for that, and the next one be far off.
                    grace += 2 * round_trip;
                    rail.probes = rail.probes.max(1);
                }
                rail.silence = rail.silence.on(silence::Event::OtherAnswers(now + grace));
            }
        }
    }

    /// Decides whether a silent rail has failed: while another answers.
    fn decide_on_rail(&mut self, index: usize) {
        if self.rails.iter().any(Rail::answers) {
            self.send_elsewhere(index);
        } else {
            let rail = &mut self.rails[index];
            rail.silence = rail.silence.on(silence::Event::NoneAnswers);
        }
    }

    /// Retransmits the oldest packet's contents beyond the window, or sends a ping, to elicit an acknowledgement (RFC
    /// 9002 section 6.2.4).
    pub(crate) fn probe_rail(&mut self, index: usize) {
        let rail = &mut self.rails[index];
        rail.probes = 1;
        self.counters.probes += 1;
        let contents = rail.sent.oldest().map(|packet| packet.contents).unwrap_or_default();
        self.outgoing.on_lost(&contents);
        self.pending |= contents.controls;
        // The peer may put off everything in flight because of an earlier segment that is missing.
        if self.rails.len() == 1 || self.rails[index].backoff > 0 {
            self.outgoing.send_first_again();
        }
    }

    /// Ends the connection, once.
    pub(crate) fn end(&mut self, ending: Ending, now: Time) {
        if matches!(self.phase, Phase::Open | Phase::Aborting) {
            self.phase = Phase::Lingering(now + self.settings.linger);
            self.outgoing.abandon();
            self.shrink();
            self.pending = 0;
            self.report_end(ending);
        }
    }

    /// Queues the `Ended` event, once.
    pub(crate) fn report_end(&mut self, ending: Ending) {
        if !core::mem::replace(&mut self.closing.is_reported, true) {
            self.report(Event::Ended(ending));
        }
    }

    pub(crate) fn report(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS || matches!(event, Event::Ended(_)) {
            self.events.push_back(event);
        }
    }

    /// Ends the connection if both sides have closed.
    pub(crate) fn end_if_closed(&mut self, now: Time) {
        match self.phase {
            Phase::Aborting if self.closing.is_acknowledged => self.end(Ending::Aborted, now),
            Phase::Open if self.closing.is_acknowledged && self.closing.peer_end.is_some() => {
                self.end(Ending::Closed, now)
            }
            _ => {}
        }
    }
}

fn before(time: Time, duration: Duration) -> Time {
    Time::from_nanos(time.as_nanos().saturating_sub(nanos(duration)))
}

/// The first of the times `turn`, `turn + period`, `turn + 2 * period`, ... that is not before `at`.
fn next_round(at: Time, period: Duration, turn: Duration) -> Time {
    let (period, turn) = (nanos(period).max(1), nanos(turn));
    let rounds = at.as_nanos().saturating_sub(turn).div_ceil(period);
    Time::from_nanos(turn.saturating_add(rounds.saturating_mul(period)))
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use weft_wire::edge::addresses::{Addresses, pack_address};

    use super::*;
    use crate::challenge_key::ChallengeKey;
    use crate::connection::Established;
    use crate::pairing::RailAddress;
    use crate::rail::PathAddress;
    use crate::settings::Settings;

    /// RFC 9000 section 8.2.1. From the seed follows which numbers are skipped, and the peer sees these.
    #[test]
    fn a_peer_that_knows_the_seed_cannot_predict_a_challenge() {
        let (settings, address) = (Settings::default(), |last| SocketAddr::from(([10, 0, 0, last], 4791)));
        let challenge = |secret| {
            let challenges = ChallengeKey::new([secret; 32]);
            let established = Established { challenges, ..Established::unknown(address(1), 1, &settings) };
            let mut connection = Connection::new(&established, &settings, Time::ZERO);
            connection.seen_elsewhere(0, PathAddress { local: 0, to: address(2) }, (true, 100), Time::ZERO);
            connection.rails[0].candidate.map(|candidate| candidate.challenge)
        };
        assert!(challenge(1).is_some());
        assert_eq!(challenge(1), challenge(1));
        assert_ne!(challenge(1), challenge(2));
    }

    /// RFC 9000 section 21.5.6.
    #[test]
    fn a_peer_elsewhere_leads_no_rail_to_the_loopback_address() {
        let settings = Settings { rails: 4, ..Settings::default() };
        let (local, other) = (([127, 0, 0, 1], 9).into(), ([10, 0, 1, 3], 4791).into());
        let challenged = |peer: [u8; 4]| {
            let established = Established { peer_rails: 4, ..Established::unknown((peer, 4791).into(), 1, &settings) };
            let mut connection = Connection::new(&established, &settings, Time::ZERO);
            connection.opens = true;
            let own = [0, 1].map(|local| RailAddress { local, address: ([10, 0, local, 2], 4791).into() });
            connection.offer(&own, Time::ZERO);
            let mut packed = Vec::new();
            [local, other].into_iter().for_each(|address| pack_address(address, &mut packed));
            connection.on_addresses(&Addresses::packed(1, &packed).expect("addresses"), Time::ZERO);
            connection.handle_timeout(Time::ZERO);
            connection.seen_elsewhere(0, PathAddress { local: 0, to: local }, (true, 100), Time::ZERO);
            let asked = connection.rails.iter().filter_map(|rail| rail.candidate.map(|candidate| candidate.place.to));
            asked.collect::<Vec<_>>()
        };
        assert_eq!(challenged([10, 0, 0, 1]), [other]);
        assert!(challenged([127, 0, 0, 2]).contains(&local));
    }

    /// RFC 9000 section 10.1.
    #[test]
    fn a_peer_is_not_lost_before_three_probes_could_be() {
        let second = Duration::from_secs(1);
        let settings = Settings { peer_timeout: second, ..Settings::default() };
        let established = Established::unknown(SocketAddr::from(([10, 0, 0, 1], 4791)), 1, &settings);
        for (round_trip, lost_after) in [(second / 100, second), (second, 9 * second + 3 * settings.max_ack_delay)] {
            let mut connection = Connection::new(&established, &settings, Time::ZERO);
            connection.rails[0].on_round_trip(round_trip, Duration::ZERO);
            connection.handle_timeout(Time::ZERO + (lost_after - Duration::from_nanos(1)));
            assert!(!connection.is_over(), "{round_trip:?}");
            connection.handle_timeout(Time::ZERO + lost_after);
            assert!(connection.is_over(), "{round_trip:?}");
        }
    }

    #[test]
    fn rounds_come_at_the_same_times_for_all() {
        let round = |at| next_round(Time::from_nanos(at), Duration::from_nanos(100), Duration::from_nanos(10));
        assert_eq!([0, 10, 11, 110, 111].map(|at| round(at).as_nanos()), [10, 10, 110, 110, 210]);
        let far = next_round(Time::from_nanos(u64::MAX), Duration::from_nanos(100), Duration::ZERO);
        assert!(far.as_nanos() >= u64::MAX - 100, "it does not wrap");
    }
}
