use weft_base::Time;

use super::*;
use crate::delivery::RateSample;

const MS: Duration = Duration::from_millis(1);
const DATAGRAM: u64 = 1000;

/// A flow of 100 datagrams on a path of 10 ms and 100 datagrams, whose slow start is over.
struct Flow {
    delay_gated: DelayGatedCubic,
    now: Time,
    full: bool,
}

impl Flow {
    fn new() -> Self {
        let settings = ControllerSettings { datagram: 1000, initial_window: 100_000, ..ControllerSettings::default() };
        let mut flow = Self { delay_gated: DelayGatedCubic::new(settings), now: Time::ZERO, full: false };
        flow.delay_gated.cubic.leave_slow_start();
        (0..12).for_each(|_| flow.round(10 * MS, 0));
        flow
    }

    fn round(&mut self, rtt: Duration, ce: u64) {
        for packet in 0..100u64 {
            self.now = self.now + MS / 10;
            let feedback = Feedback {
                now: self.now,
                acked_bytes: DATAGRAM,
                acked_packets: 1,
                rtt: Some(rtt),
                rate: Some(RateSample {
                    bytes_per_s: 10_000_000,
                    delivered: 100_000,
                    interval: 10 * MS,
                    app_limited: false,
                }),
                round: packet == 0,
                ce: if packet == 50 { ce } else { 0 },
                ..Feedback::default()
            };
            self.delay_gated.on_feedback(&feedback, self.full);
        }
    }

    fn lose(&mut self, packets: u32) -> u64 {
        for lost in 0..packets {
            let feedback = Feedback { now: self.now, lost_packets: 1, congested: lost == 0, ..Feedback::default() };
            self.delay_gated.on_feedback(&feedback, true);
        }
        self.delay_gated.window()
    }
}

#[test]
fn a_loss_without_a_queue_is_bad_luck() {
    let mut flow = Flow::new();
    let before = flow.delay_gated.window();
    (0..20).for_each(|_| {
        assert_eq!(flow.lose(1), before);
        flow.round(11 * MS, 0);
    });
}

#[test]
fn a_loss_beside_a_queue_leaves_what_the_path_holds() {
    let mut flow = Flow::new();
    flow.delay_gated.cubic =
        Cubic::new(ControllerSettings { initial_window: 130_000, ..ControllerSettings::default() });
    flow.round(13 * MS, 0);
    assert_eq!(flow.lose(1), 125_000, "10 MB/s times 10 ms, and a quarter more");
    flow.round(13 * MS, 0);
    assert_eq!(flow.lose(1), 125_000, "that is its floor");
    flow.delay_gated.cubic =
        Cubic::new(ControllerSettings { initial_window: 200_000, ..ControllerSettings::default() });
    assert_eq!(flow.lose(1), 200_000, "the cut before cannot show yet");
    flow.round(13 * MS, 0);
    (0..2).for_each(|_| flow.round(13 * MS, 0));
    assert_eq!(flow.lose(1), 140_000, "no cut is deeper than CUBIC's");
}

#[test]
fn much_loss_is_congestion_whatever_the_delay() {
    let mut flow = Flow::new();
    assert_eq!(flow.lose(20), 100_000, "of the last 600 or so");
    assert_eq!(flow.lose(60), 70_000, "and once in an episode");
    flow.round(10 * MS, 0);
    assert_eq!(flow.lose(1), 70_000, "it has been answered");
}

#[test]
fn a_mark_is_congestion() {
    let mut flow = Flow::new();
    flow.round(10 * MS, 1);
    assert_eq!(flow.delay_gated.window(), 70_000);
}

#[test]
fn a_cut_for_nothing_is_taken_back() {
    let mut flow = Flow::new();
    flow.lose(60);
    assert_eq!(flow.delay_gated.window(), 70_000);
    let undo = Feedback { now: flow.now, late_packets: 60, undo: true, ..Feedback::default() };
    flow.delay_gated.on_feedback(&undo, true);
    assert_eq!(flow.delay_gated.window(), 100_000);
    assert_eq!(flow.lose(1), 100_000);
}

#[test]
fn slow_start_ends_where_more_brings_nothing() {
    let mut flow = Flow::new();
    flow.delay_gated = DelayGatedCubic::new(ControllerSettings::default());
    flow.round(10 * MS, 0);
    assert!(flow.delay_gated.is_slow_start());
    (0..6).for_each(|_| flow.round(10 * MS, 0));
    assert!(flow.delay_gated.is_slow_start(), "the window was not used");
    flow.full = true;
    (0..6).for_each(|_| flow.round(10 * MS, 0));
    assert!(!flow.delay_gated.is_slow_start());
}

/// RFC 9438 section 4.8: as far as slow start goes on a path of which nothing is known.
#[test]
fn after_persistent_congestion_slow_start_looks_for_the_capacity_again() {
    let mut flow = Flow::new();
    (flow.delay_gated, flow.full) = (DelayGatedCubic::new(ControllerSettings::default()), true);
    (0..12).for_each(|_| flow.round(10 * MS, 0));
    assert!(!flow.delay_gated.is_slow_start(), "the path is full");
    let begins = Feedback { now: flow.now, lost_packets: 4, persistent: true, ..Feedback::default() };
    flow.delay_gated.on_feedback(&begins, false);
    assert_eq!((flow.delay_gated.window(), flow.delay_gated.is_slow_start()), (2400, true));
    for _ in 0..60 {
        let lost = Feedback { now: flow.now, lost_packets: 1, ..Feedback::default() };
        flow.delay_gated.on_feedback(&lost, true);
    }
    assert!(flow.delay_gated.is_slow_start(), "it was sent before");
    (0..3).for_each(|_| flow.round(10 * MS, 0));
    assert!(flow.delay_gated.window() > 250_000, "{}", flow.delay_gated.window());
}

/// A window that grows by a few percent in a round, since only some of its acknowledgements found it used, has not been
/// tried: that the rate does not grow by a quarter shows nothing.
#[test]
fn slow_start_goes_on_where_the_window_hardly_grows() {
    let mut flow = Flow::new();
    flow.delay_gated =
        DelayGatedCubic::new(ControllerSettings { initial_window: 100_000, ..ControllerSettings::default() });
    for round in 0..9 {
        flow.full = false;
        flow.round(10 * MS, 0);
        for _ in 0..5 {
            let feedback = Feedback { now: flow.now, acked_bytes: DATAGRAM, acked_packets: 1, ..Feedback::default() };
            flow.delay_gated.on_feedback(&feedback, true);
        }
        assert!(flow.delay_gated.is_slow_start(), "after {round} rounds with {} bytes", flow.delay_gated.window());
    }
    assert_eq!(flow.delay_gated.window(), 145_000);
}
