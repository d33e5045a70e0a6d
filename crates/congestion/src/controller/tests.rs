use core::time::Duration;

use proptest::prelude::*;
use weft_base::Time;

use super::*;
use crate::MAX_WINDOW;
use crate::delivery::RateSample;

/// Numbers of all orders of magnitude, the least and the greatest among them.
fn any_size() -> impl Strategy<Value = u64> {
    (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

fn any_duration() -> impl Strategy<Value = Duration> {
    any_size().prop_map(Duration::from_nanos)
}

fn any_feedback() -> impl Strategy<Value = Feedback> {
    let sizes = (any_size(), any_size(), any_size(), any_size());
    let packets = (any::<u32>(), any::<u32>(), 0u32..4, any_size());
    let rate = proptest::option::of((any_size(), any_duration(), any::<bool>()));
    let times = (proptest::option::of(any_duration()), proptest::option::of(any_size()), rate);
    // Congestion, undoing and silence are the exception.
    let flags = (0u8..32, any::<bool>());
    (sizes, packets, times, flags).prop_map(|(sizes, packets, (rtt, sent_at, rate), (flag, round))| Feedback {
        now: Time::ZERO,
        in_flight_before: sizes.0,
        in_flight: sizes.1,
        acked_bytes: sizes.2,
        acked_packets: packets.0,
        sent_at: sent_at.map(Time::from_nanos),
        acked_marked: 0,
        lost_bytes: sizes.3,
        lost_packets: packets.1,
        late_packets: packets.2,
        rtt,
        rate: rate.map(|(bytes_per_s, interval, app_limited)| RateSample {
            bytes_per_s,
            delivered: sizes.2,
            interval,
            app_limited,
        }),
        round,
        ce: if flag == 4 { packets.3 } else { 0 },
        congested: flag < 4,
        undo: flag == 5 || flag == 6,
        persistent: flag == 7,
    })
}

fn any_settings() -> impl Strategy<Value = ControllerSettings> {
    (any::<u32>(), any_size(), any_size(), any::<bool>()).prop_map(|(datagram, initial_window, max_window, paced)| {
        ControllerSettings { datagram, initial_window, max_window, paced }
    })
}

proptest! {
    /// Time may stand still, round trips may take none, sums may be as large as they go.
    #[test]
    fn every_window_stays_within_its_bounds(
        settings in any_settings(),
        steps in proptest::collection::vec((any_feedback(), 0u64..4, any_size(), any::<bool>(), 0u32..100_000), 1..200),
    ) {
        for algorithm in Algorithm::ALL {
            let mut controller = Controller::new(algorithm, settings);
            let (mut now, mut settings) = (0u64, settings.bounded());
            for (feedback, moves, by, full, datagram) in &steps {
                now = now.saturating_add(if *moves == 0 { *by } else { moves - 1 });
                if datagram % 8 == 0 {
                    settings.datagram = *datagram;
                    settings = settings.bounded();
                    controller.set_datagram(*datagram);
                }
                controller.on_feedback(&Feedback { now: Time::from_nanos(now), ..*feedback }, *full);
                let window = controller.window();
                prop_assert!((settings.least()..=settings.max_window).contains(&window), "{algorithm:?}: {window}");
            }
        }
    }
}

#[test]
fn settings_are_moved_to_what_can_be() {
    let settings = ControllerSettings { datagram: 0, initial_window: 0, max_window: 0, paced: true };
    for algorithm in Algorithm::ALL {
        assert_eq!(Controller::new(algorithm, settings).window(), 2);
        let large = ControllerSettings { initial_window: u64::MAX, max_window: u64::MAX, ..settings };
        assert_eq!(Controller::new(algorithm, large).window(), MAX_WINDOW);
    }
}
