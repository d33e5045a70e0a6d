//! How many bytes may be in flight on a rail: connects a rail's packets with its congestion controller.

use core::time::Duration;

use weft_base::Time;
use weft_congestion::{Algorithm, Controller, ControllerSettings, Coupling, Delivery, Feedback, RateSample, Stamp};
use weft_wire::edge::BASE_DATAGRAM;

use crate::sent::Packet;

/// For this many round trips after a loss, packets declared lost may still arrive.
const CHAIN: u32 = 2;

/// The displayed rate is smoothed over this time, which is longer than the bursts of a token bucket.
const RATE_SMOOTHED: Duration = Duration::from_millis(100);

/// The congestion controller of a rail, and the feedback that it gets at the end of a call.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    controller: Controller,
    delivery: Delivery,
    datagram: u32,
    /// The last sample.
    round_trip: Duration,
    /// Packets below this number took another path.
    from: u64,
    /// Packets sent up to here belong to an episode of congestion that the controller has handled (RFC 9002 section
    /// 7.3.2).
    recovery: Option<Time>,
    /// Packets of the episode that were declared lost and have not arrived; `None` when it cannot be undone.
    missing: Option<u32>,
    feedback: Feedback,
    /// Whether `feedback` holds anything.
    has_feedback: bool,
    /// Delivery rate of the path in bytes per second, smoothed.
    rate: u64,
    /// Time of the last rate sample.
    rate_at: Option<Time>,
}

impl Window {
    pub(crate) fn new(datagrams: u32) -> Self {
        let datagram = BASE_DATAGRAM as u32;
        Self {
            controller: controller(datagrams),
            delivery: Delivery::default(),
            datagram,
            round_trip: Duration::ZERO,
            from: 0,
            recovery: None,
            missing: None,
            feedback: Feedback::default(),
            has_feedback: false,
            rate: 0,
            rate_at: None,
        }
    }

    /// Starts over on another path, with packet `from`: the loss of an earlier one shows nothing of it (RFC 9000
    /// section 9.4). The count of delivered bytes continues, since packets in flight refer to it.
    pub(crate) fn restart(&mut self, datagrams: u32, from: u64) {
        let fresh = Self::new(datagrams);
        *self = Self { delivery: self.delivery.clone(), from, ..fresh };
    }

    /// Sets how it grows together with rails that may share its bottleneck; `None`: it is alone.
    pub(crate) fn couple(&mut self, coupling: Option<Coupling>) {
        self.controller.set_coupling(coupling);
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.controller.window()
    }

    /// Delivery rate of the path in bytes per second while there is enough to send, smoothed; 0 before it was measured.
    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Weighs a sample by the time that it covers. App-limited samples are bursts and do not show what the path
    /// carries: a token bucket or a device lets a burst through faster than that.
    fn on_rate(&mut self, sample: RateSample, now: Time) {
        let before = self.rate_at.replace(now);
        if sample.app_limited {
            return;
        }
        let Some(before) = before.filter(|_| self.rate > 0) else {
            self.rate = sample.bytes_per_s;
            return;
        };
        // Samples overlap: each covers a flight, and a flight may have many.
        let time = sample.interval.min(now.since(before)).min(RATE_SMOOTHED);
        let part = |rate: u64, time: Duration| u128::from(rate) * time.as_nanos() / RATE_SMOOTHED.as_nanos();
        let rate = part(self.rate, RATE_SMOOTHED - time) + part(sample.bytes_per_s, time);
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX);
    }

    /// Records a packet that is sent with `in_flight` bytes in flight before it.
    pub(crate) const fn on_sent(&mut self, in_flight: u64, now: Time) -> Stamp {
        self.delivery.on_sent(in_flight, now)
    }

    /// The window has room, and there is nothing to send.
    pub(crate) const fn on_app_limited(&mut self, in_flight: u64) {
        self.delivery.on_app_limited(in_flight);
    }

    /// Whether the controller is still in slow start.
    pub(crate) const fn is_slow_start(&self) -> bool {
        self.controller.is_slow_start()
    }

    /// Whether the window had unused room during the last round trip.
    pub(crate) const fn is_app_limited(&self) -> bool {
        self.delivery.is_app_limited()
    }

    /// Records a measured round trip.
    pub(crate) const fn on_sample(&mut self, sample: Duration) {
        self.has_feedback = true;
        self.feedback.rtt = Some(sample);
        self.round_trip = sample;
    }

    /// A packet is acknowledged, or packets in a row.
    pub(crate) fn on_acked(&mut self, packet: &Packet, now: Time) {
        self.has_feedback = true;
        self.delivery.on_acked(packet.stamp, packet.all_bytes(), packet.sent, now);
        self.feedback.acked_bytes += packet.all_bytes();
        self.feedback.acked_packets += packet.count;
        self.feedback.acked_marked += if packet.ect { packet.count } else { 0 };
        self.feedback.sent_at = self.feedback.sent_at.max(Some(packet.sent));
    }

    /// Records a lost packet. Returns true when it starts an episode of congestion.
    pub(crate) fn on_lost(&mut self, packet: &Packet, now: Time) -> bool {
        if packet.number < self.from {
            return false;
        }
        self.has_feedback = true;
        self.feedback.lost_bytes += u64::from(packet.bytes);
        self.feedback.lost_packets += 1;
        let before = self.recovery;
        let begins = self.begins(packet.sent, now);
        if begins {
            // Packets missing from an episode just before this one may be late as well: then neither was congestion.
            let is_chained = before.is_some_and(|before| now.since(before) <= CHAIN * self.round_trip);
            self.missing = if is_chained { self.missing } else { Some(0) };
        }
        self.missing = self.missing.map(|packets| packets.saturating_add(1));
        begins
    }

    /// The path has marked `ce` more packets, up to one sent at `sent`. Marks are certain: this cannot be undone.
    pub(crate) fn on_marked(&mut self, ce: u32, sent: Time, now: Time) {
        self.has_feedback = true;
        self.feedback.ce += u64::from(ce);
        self.begins(sent, now);
        self.missing = None;
    }

    /// Whether the loss of a packet sent at `sent` starts an episode of congestion.
    fn begins(&mut self, sent: Time, now: Time) -> bool {
        let begins = self.recovery.is_none_or(|recovery| sent > recovery);
        if begins {
            self.recovery = Some(now);
            self.feedback.congested = true;
        }
        begins
    }

    /// A packet declared lost has arrived. When all of an episode have, its reduction is undone.
    pub(crate) fn on_spurious(&mut self, sent: Time) {
        self.has_feedback = true;
        self.feedback.late_packets += 1;
        if self.recovery.is_none_or(|recovery| sent > recovery) {
            return;
        }
        if let Some(packets) = self.missing.as_mut().filter(|packets| **packets > 0) {
            *packets -= 1;
            // Later losses in the episode count again.
            self.feedback.undo |= *packets == 0;
        }
    }

    /// Persistent congestion: starts over.
    pub(crate) fn collapse(&mut self, now: Time) {
        (self.recovery, self.missing, self.has_feedback) = (Some(now), None, false);
        let feedback = Feedback { now, persistent: true, ..core::mem::take(&mut self.feedback) };
        self.controller.on_feedback(&feedback, false);
    }

    /// Passes the feedback of a call to the controller. `least`: the minimum round trip. `datagram`: bytes of a full
    /// datagram. `full`: the window limited the sender.
    pub(crate) fn settle(&mut self, least: Option<Duration>, datagram: u32, full: bool, now: Time) {
        if core::mem::replace(&mut self.datagram, datagram) != datagram {
            self.controller.set_datagram(datagram);
        }
        if !core::mem::take(&mut self.has_feedback) {
            return;
        }
        (self.feedback.rate, self.feedback.round) = self.delivery.finish(least.unwrap_or_default());
        if let Some(sample) = self.feedback.rate {
            self.on_rate(sample, now);
        }
        self.feedback.now = now;
        self.controller.on_feedback(&self.feedback, full);
        self.feedback = Feedback::default();
    }
}

fn controller(datagrams: u32) -> Controller {
    let datagram = BASE_DATAGRAM as u32;
    let initial_window = u64::from(datagrams) * u64::from(datagram);
    Controller::new(
        Algorithm::default(),
        ControllerSettings { datagram, initial_window, ..ControllerSettings::default() },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent::{Leaving, Sent};

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn packet(sent_at: Time) -> Packet {
        let mut sent = Sent::new(32);
        sent.push(&Leaving { now: sent_at, bytes: 1200, ect: true, ..Leaving::default() });
        sent.oldest().expect("it was sent")
    }

    fn settle(window: &mut Window, now: Time) -> u64 {
        window.settle(Some(MS), 1200, true, now);
        window.bytes()
    }

    #[test]
    fn one_cut_for_an_episode_and_back_when_it_was_for_nothing() {
        let mut window = Window::new(100);
        let episodes = (0..40).filter(|_| window.on_lost(&packet(at(1)), at(10))).count();
        assert_eq!(episodes, 1);
        assert_eq!(settle(&mut window, at(10)), 84_000);
        window.on_lost(&packet(at(2)), at(11));
        assert_eq!(settle(&mut window, at(11)), 84_000, "sent before the cut");
        (0..40).for_each(|_| window.on_spurious(at(1)));
        assert_eq!(settle(&mut window, at(12)), 84_000);
        window.on_spurious(at(2));
        assert_eq!(settle(&mut window, at(13)), 120_000);
        window.on_spurious(at(2));
        window.collapse(at(14));
        assert_eq!(window.bytes(), 2400);
    }

    #[test]
    fn the_rate_is_what_the_path_carries_for_long() {
        let (carried, burst) = (75_000_000, 125_000_000);
        let sample = |bytes_per_s: u64, interval: Duration, app_limited| RateSample {
            bytes_per_s,
            delivered: 1200,
            interval,
            app_limited,
        };
        let mut window = Window::new(10);
        window.on_rate(sample(burst, MS / 10, true), at(1));
        assert_eq!(window.rate(), 0, "an app-limited burst shows nothing");
        window.on_rate(sample(burst, MS / 10, false), at(2));
        (3..=1000).for_each(|ms| window.on_rate(sample(carried, MS, false), at(ms)));
        assert!(window.rate().abs_diff(carried) < carried / 100, "{}", window.rate());
        // An occasional burst, as a token bucket lets through, is short and counts little.
        let settled = window.rate();
        for second in 2..=20 {
            window.on_rate(sample(burst, MS / 10, true), at(second * 1000));
            window.on_rate(sample(burst, MS / 10, false), at(second * 1000 + 1));
        }
        assert!(window.rate() < settled + settled / 50, "{settled} became {}", window.rate());
        // A new rate lasts, and replaces the old one.
        (21_000..22_000).for_each(|ms| window.on_rate(sample(burst, MS, false), at(ms)));
        assert!(window.rate().abs_diff(burst) < burst / 100, "{}", window.rate());
    }

    /// RFC 9000 section 9.4.
    #[test]
    fn what_was_lost_on_the_path_before_does_not_count() {
        let mut window = Window::new(100);
        window.restart(100, 1);
        assert!((0..40).all(|_| !window.on_lost(&packet(at(1)), at(10))));
        assert_eq!(settle(&mut window, at(10)), 120_000);
    }

    #[test]
    fn a_mark_cuts_and_is_not_undone() {
        let mut window = Window::new(100);
        window.on_lost(&packet(at(1)), at(10));
        window.on_marked(1, at(1), at(10));
        assert_eq!(settle(&mut window, at(10)), 84_000);
        window.on_spurious(at(1));
        assert_eq!(settle(&mut window, at(11)), 84_000);
    }

    #[test]
    fn it_doubles_while_it_is_used() {
        let mut window = Window::new(10);
        (0..10).for_each(|_| window.on_acked(&packet(at(1)), at(2)));
        assert_eq!(settle(&mut window, at(2)), 24_000);
        window.on_acked(&packet(at(3)), at(4));
        window.settle(Some(MS), 1200, false, at(4));
        assert_eq!(window.bytes(), 24_000, "the window was not full");
    }
}
