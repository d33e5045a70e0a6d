//! How long closing an endpoint waits: as long as what was accepted moves towards the peers.

use core::time::Duration;

use weft_base::Time;

use super::EndpointSettings;

/// The time without movement is cut into this many parts, with a check for movement after each.
const CHECKS: u32 = 16;
/// The last parts are for ending the connections: what their peers have taken must not be lost with what they have not.
const CHECKS_FOR_THE_END: u32 = 2;

/// An endpoint that is being closed.
pub(crate) trait Closable {
    /// Whether something that was promised to a peer has not gone out.
    fn owes(&mut self) -> bool;
    /// Whether nothing at all is under way.
    fn is_quiet(&mut self) -> bool;
    /// Ends all connections gracefully.
    fn begin_end(&mut self);
    /// Whether all connections have ended, or with `known` those with peers that the application knows of.
    fn has_ended(&mut self, known: bool) -> bool;
    /// What has moved so far.
    fn movement(&mut self) -> Movement;
}

/// What has moved so far towards the peers that the application knows of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Movement {
    /// Another number whenever something has moved.
    pub(crate) mark: u64,
    /// A connection to one of these peers is being set up.
    pub(crate) is_setting_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What was promised goes out.
    Delivering,
    /// Peers take what they know of, and get what they have requested.
    Settling,
    /// Connections to peers that the application knows of end.
    Ending,
    /// Those to others end.
    Leaving,
    Over,
}

/// The closing of an endpoint. It waits as long as something moves; it gives up when nothing has moved for a time. What
/// holds a message back, a peer that receives nothing or a host that does not answer, makes no difference.
#[derive(Debug)]
pub(crate) struct Closing {
    stage: Stage,
    /// How long nothing may move.
    limit: Duration,
    /// Connections that are being set up count as movement until then: they have limits of their own.
    set_up_until: Option<Time>,
    mark: u64,
    moved_at: Time,
    check_at: Time,
    /// Something was given up: no movement matters any more.
    has_given_up: bool,
}

impl Closing {
    /// Closing begins.
    pub(crate) fn new(settings: &EndpointSettings, view: &mut impl Closable, now: Time) -> Self {
        let set_up_until = settings.linger.is_none().then(|| now + settings.connect_timeout);
        Self {
            stage: Stage::Delivering,
            limit: settings.linger.unwrap_or(EndpointSettings::LINGER),
            set_up_until,
            mark: view.movement().mark,
            moved_at: now,
            check_at: now,
            has_given_up: false,
        }
    }

    /// Continues as far as it can now. Returns whether it is over.
    pub(crate) fn poll(&mut self, view: &mut impl Closable, now: Time) -> bool {
        loop {
            let is_done = match self.stage {
                Stage::Delivering => !view.owes(),
                Stage::Settling => view.is_quiet(),
                Stage::Ending => view.has_ended(true),
                Stage::Leaving => view.has_ended(false),
                Stage::Over => return true,
            };
            if !is_done && !self.has_stalled(view, now) {
                return false;
            }
            self.has_given_up |= !is_done;
            self.stage = match self.stage {
                Stage::Delivering => Stage::Settling,
                Stage::Settling => {
                    view.begin_end();
                    Stage::Ending
                }
                Stage::Ending => Stage::Leaving,
                Stage::Leaving | Stage::Over => Stage::Over,
            };
        }
    }

    /// Whether nothing has moved for too long.
    fn has_stalled(&mut self, view: &mut impl Closable, now: Time) -> bool {
        let for_the_end = match self.stage {
            Stage::Delivering | Stage::Settling => self.limit / CHECKS * CHECKS_FOR_THE_END,
            Stage::Ending | Stage::Leaving | Stage::Over => Duration::ZERO,
        };
        let limit = self.limit.saturating_sub(for_the_end);
        if !self.has_given_up && (now >= self.check_at || now >= self.moved_at + limit) {
            self.check(view, now);
        }
        now >= self.moved_at + limit
    }

    fn check(&mut self, view: &mut impl Closable, now: Time) {
        let Movement { mark, is_setting_up } = view.movement();
        let is_awaited = is_setting_up && self.set_up_until.is_some_and(|until| now < until);
        if mark != self.mark || is_awaited {
            self.moved_at = now;
        }
        self.mark = mark;
        self.check_at = now + self.limit / CHECKS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint whose peers take a message now and then, or don't.
    struct Peers {
        messages: u32,
        /// Connections end as soon as they are to, or never.
        ends: bool,
        is_setting_up: bool,
        has_begun_end: bool,
    }

    impl Closable for Peers {
        fn owes(&mut self) -> bool {
            self.messages > 0
        }

        fn is_quiet(&mut self) -> bool {
            self.messages == 0
        }

        fn begin_end(&mut self) {
            self.has_begun_end = true;
        }

        fn has_ended(&mut self, _known: bool) -> bool {
            self.ends
        }

        fn movement(&mut self) -> Movement {
            Movement { mark: u64::from(self.messages), is_setting_up: self.is_setting_up }
        }
    }

    fn peers(messages: u32) -> Peers {
        Peers { messages, ends: true, is_setting_up: false, has_begun_end: false }
    }

    fn settings(linger: Option<Duration>) -> EndpointSettings {
        EndpointSettings { linger, ..EndpointSettings::default() }
    }

    /// Closes in virtual time, in which a peer takes a message each `every`. Returns how long that takes.
    fn close(settings: &EndpointSettings, peers: &mut Peers, every: Option<Duration>) -> Duration {
        let step = Duration::from_millis(10);
        let mut now = Time::ZERO;
        let mut closing = Closing::new(settings, peers, now);
        let mut next = every.map(|every| now + every);
        while !closing.poll(peers, now) {
            now = now + step;
            if next.is_some_and(|next| now >= next) {
                peers.messages = peers.messages.saturating_sub(1);
                next = every.map(|every| now + every);
            }
            assert!(now < Time::ZERO + Duration::from_secs(1000), "it never ends");
        }
        assert!(peers.has_begun_end);
        now - Time::ZERO
    }

    #[test]
    fn a_peer_that_takes_nothing_is_waited_for_as_long_as_the_settings_say_and_no_longer() {
        let seconds = Duration::from_secs;
        for (linger, limit) in [(None, seconds(2)), (Some(seconds(3)), seconds(3)), (Some(seconds(0)), seconds(0))] {
            for ends in [true, false] {
                let mut peers = Peers { ends, ..peers(3000) };
                let took = close(&settings(linger), &mut peers, None);
                let least = if ends { limit * 3 / 4 } else { limit };
                assert!(least <= took && took <= limit, "{linger:?}, {ends}: {took:?}");
            }
        }
    }

    #[test]
    fn a_peer_that_takes_slowly_gets_everything() {
        let mut peers = peers(60);
        let took = close(&settings(None), &mut peers, Some(Duration::from_millis(1500)));
        assert_eq!((peers.messages, took), (0, Duration::from_millis(90_000)));
    }

    #[test]
    fn a_peer_that_stops_taking_is_given_up_after_its_last_message() {
        let mut peers = peers(4);
        let settings = settings(Some(Duration::from_secs(1)));
        assert!(close(&settings, &mut peers, Some(Duration::from_secs(60))) <= Duration::from_secs(1));
        assert_eq!(peers.messages, 4);
    }

    #[test]
    fn a_connection_that_is_being_set_up_has_its_own_time_unless_the_settings_say_how_long() {
        for (linger, most) in [(None, 12), (Some(Duration::from_secs(3)), 3)] {
            let mut peers = Peers { is_setting_up: true, ..peers(1) };
            let took = close(&settings(linger), &mut peers, None);
            let most = Duration::from_secs(most);
            assert!(most * 3 / 4 <= took && took <= most, "{linger:?}: {took:?}");
        }
        let mut slow = Peers { is_setting_up: true, ..peers(1) };
        close(&settings(None), &mut slow, Some(Duration::from_secs(8)));
        assert_eq!(slow.messages, 0, "it got through after all");
    }

    #[test]
    fn connections_that_end_late_are_waited_for_when_all_was_delivered() {
        let mut peers = Peers { ends: false, ..peers(0) };
        assert_eq!(close(&settings(None), &mut peers, None), Duration::from_secs(2));
    }
}
