use super::*;

const DATAGRAM: u64 = 1000;
const MS: Duration = Duration::from_millis(1);

fn settings(datagrams: u64) -> ControllerSettings {
    ControllerSettings { datagram: 1000, initial_window: datagrams * DATAGRAM, ..ControllerSettings::default() }
}

fn at(ms: u64) -> Time {
    Time::ZERO + MS * u32::try_from(ms).unwrap()
}

fn acked(bytes: u64, rtt: Duration, now: Time) -> Feedback {
    Feedback { now, acked_bytes: bytes, acked_packets: 1, rtt: Some(rtt), ..Feedback::default() }
}

fn congested(now: Time) -> Feedback {
    Feedback { now, lost_packets: 1, lost_bytes: DATAGRAM, congested: true, ..Feedback::default() }
}

#[test]
fn cube_roots() {
    for root in [0, 1, 2, 9, 1000, 999_999, 1 << 30] {
        let cube = u128::from(root) * u128::from(root) * u128::from(root);
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube + 1), root + u64::from(root == 0));
    }
}

/// RFC 9438 section 4.2: W_cubic(t) = C (t - K)^3 + W_max with K = cbrt((W_max - cwnd) / C).
#[test]
fn the_curve_is_back_at_its_plateau_after_k() {
    let mut cubic = Cubic::new(settings(1000));
    cubic.on_feedback(&congested(at(0)), true);
    assert_eq!(cubic.window(), 700_000);
    cubic.on_feedback(&acked(1, MS, at(0)), true);
    // cbrt(300 / 0.4) = 9.0856 s.
    assert_eq!(cubic.curve.meets_at / 1000, 9085);
    let curve = |ms: u64| cubic.settings.curve(cubic.curve.plateau, cubic.curve.meets_at, ms * 1000);
    assert!(curve(0).abs_diff(700_000) < 10 && curve(9_086).abs_diff(1_000_000) < 10);
    // 0.4 * 10^3 = 400 datagrams above it ten seconds later, as many below it ten seconds earlier.
    assert!(curve(19_086).abs_diff(1_400_000) < 100, "{}", curve(19_086));
}

#[test]
fn the_curve_begins_at_the_same_window_when_the_size_of_datagrams_changes() {
    for bytes in [250, 1000, 8000] {
        let mut cubic = Cubic::new(settings(1000));
        cubic.on_feedback(&congested(at(0)), true);
        cubic.on_feedback(&acked(1, MS, at(0)), true);
        cubic.set_datagram(bytes);
        let begins = cubic.settings.curve(cubic.curve.plateau, cubic.curve.meets_at, 0);
        assert!(begins.abs_diff(700_000) < 10, "datagrams of {bytes} bytes: {begins}");
    }
}

/// RFC 9438 section 5.1, table 1 (round trip 0.1 s, C = 0.4): the mean window where one packet in so many is lost.
#[test]
fn the_mean_windows_of_rfc_9438() {
    for (packets, rounds, mean) in [(10_000u64, 20u64, 187u64), (100_000, 8, 1054)] {
        let got = mean_window(packets, rounds, mean);
        assert!(got * 100 > mean * 92 && got * 100 < mean * 108, "1 of {packets} is lost: {got}, not {mean}");
    }
}

fn mean_window(packets: u64, rounds: u64, start: u64) -> u64 {
    let mut cubic = Cubic::new(settings(start));
    cubic.leave_slow_start();
    let (mut nanos, mut sum, mut since) = (0u64, 0u64, 0u64);
    for packet in 0..packets * rounds {
        nanos += 100_000_000 * DATAGRAM / cubic.window();
        let now = Time::from_nanos(nanos);
        if packet % packets == packets - 1 {
            cubic.on_feedback(&congested(now), true);
            if packet / packets == rounds / 2 {
                (sum, since) = (packet, nanos);
            }
        } else {
            cubic.on_feedback(&acked(DATAGRAM, 100 * MS, now), true);
        }
    }
    // Packets a round trip, over whole periods.
    (packets * rounds - sum) * 100_000_000 / (nanos - since)
}

/// RFC 9438 section 4.3: 9/17 of a datagram a round trip, until the window of the last cut; then a whole one.
#[test]
fn short_round_trips_grow_as_reno_does() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&congested(at(0)), true);
    let start = cubic.window();
    for round in 1..=17 {
        cubic.on_feedback(&acked(cubic.window(), MS / 10, Time::from_nanos(round * 100_000)), true);
    }
    let grown = cubic.window() - start;
    assert!((8_500..9_200).contains(&grown), "9 datagrams in 17 round trips, not {grown}");
}

/// RFC 9438 sections 4.3 and 4.8: `cwnd_prior` is set with the threshold, and so after persistent congestion too.
#[test]
fn after_it_began_anew_it_grows_as_after_any_other_cut() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&Feedback { persistent: true, ..congested(at(0)) }, true);
    let now = |round: u64| Time::from_nanos(round * 100_000);
    for round in 1..=6 {
        cubic.on_feedback(&acked(cubic.window(), MS / 10, now(round)), true);
    }
    let start = cubic.window();
    assert_eq!((start, cubic.is_slow_start()), (70_000, false));
    for round in 7..=23 {
        cubic.on_feedback(&acked(cubic.window(), MS / 10, now(round)), true);
    }
    let grown = cubic.window() - start;
    assert!((8_500..9_200).contains(&grown), "9 datagrams in 17 round trips, not {grown}");
}

#[test]
fn fast_convergence_makes_room_for_others() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&congested(at(0)), true);
    assert_eq!((cubic.window(), cubic.curve.plateau), (70_000, 100_000));
    cubic.on_feedback(&congested(at(10)), true);
    assert_eq!((cubic.window(), cubic.curve.plateau), (49_000, 59_500));
}

#[test]
fn a_cut_for_nothing_is_taken_back_once() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&congested(at(1)), true);
    let undo = Feedback { now: at(2), undo: true, ..Feedback::default() };
    cubic.on_feedback(&undo, true);
    assert_eq!((cubic.window(), cubic.is_slow_start()), (100_000, true));
    cubic.on_feedback(&congested(at(3)), true);
    cubic.on_feedback(&Feedback { persistent: true, ..congested(at(4)) }, true);
    cubic.on_feedback(&undo, true);
    assert_eq!(cubic.window(), 2 * DATAGRAM, "what began anew is not taken back");
}

/// RFC 9406 section 4.2: the slow start that an undone cut had interrupted ends where round trips grow, too.
#[test]
fn slow_start_that_goes_on_after_an_undone_cut_ends_where_round_trips_grow() {
    let mut cubic = Cubic::new(settings(100));
    let mut now = 0;
    let mut round = |cubic: &mut Cubic, rtt: u64| {
        for sample in 0..8 {
            now += 1;
            let feedback = acked(DATAGRAM, MS * u32::try_from(rtt).unwrap(), at(now));
            cubic.on_feedback(&Feedback { round: sample == 0, ..feedback }, true);
        }
        now
    };
    round(&mut cubic, 10);
    let cut_at = round(&mut cubic, 10);
    cubic.on_feedback(&congested(at(cut_at)), true);
    let undone_at = round(&mut cubic, 30);
    cubic.on_feedback(&Feedback { now: at(undone_at), undo: true, ..Feedback::default() }, true);
    round(&mut cubic, 20);
    assert!(cubic.is_slow_start());
    let before = cubic.window();
    (0..4).for_each(|_| _ = round(&mut cubic, 20));
    assert_eq!(cubic.window() - before, 4 * 8 * DATAGRAM / HyStart::CSS_GROWTH_DIVISOR, "conservative");
    round(&mut cubic, 20);
    assert!(!cubic.is_slow_start(), "after five rounds");
}

/// RFC 9438 section 4.9.2: only a window below that before the cut gets its old curve back.
#[test]
fn a_window_that_has_outgrown_its_cut_keeps_its_curve() {
    let mut cubic = Cubic::new(settings(10));
    cubic.leave_slow_start();
    cubic.on_feedback(&acked(DATAGRAM, MS, at(1)), true);
    cubic.on_feedback(&congested(at(2)), true);
    let mut now = 2;
    while cubic.window() < 20 * DATAGRAM {
        now += 1;
        cubic.on_feedback(&acked(cubic.window(), MS, at(now)), true);
    }
    let (plateau, epoch) = (cubic.curve.plateau, cubic.curve.epoch);
    cubic.on_feedback(&Feedback { now: at(now), undo: true, ..Feedback::default() }, true);
    assert_eq!((cubic.curve.plateau, cubic.curve.epoch), (plateau, epoch));
    assert!(cubic.window() >= 20 * DATAGRAM, "{}", cubic.window());
}

#[test]
fn what_was_sent_before_a_cut_does_not_count() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&congested(at(10)), true);
    cubic.on_feedback(&Feedback { sent_at: Some(at(10)), ..acked(70_000, MS, at(11)) }, true);
    assert_eq!(cubic.window(), 70_000);
    cubic.on_feedback(&Feedback { sent_at: Some(at(11)), ..acked(70_000, MS, at(12)) }, true);
    assert!(cubic.window() > 70_000);
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_its_time_does_not_count() {
    let mut cubic = Cubic::new(settings(100));
    cubic.on_feedback(&acked(50_000, MS, at(1)), false);
    assert_eq!(cubic.window(), 100_000);
    cubic.on_feedback(&congested(at(2)), true);
    cubic.on_feedback(&acked(DATAGRAM, MS, at(3)), true);
    cubic.on_feedback(&acked(DATAGRAM, MS, at(4)), false);
    let before = cubic.window();
    cubic.on_feedback(&acked(DATAGRAM, MS, at(60_000)), true);
    assert!(cubic.window() < before + DATAGRAM, "a minute of quiet is no growth: {}", cubic.window());
}

#[test]
fn without_pacing_it_takes_small_steps() {
    let mut cubic = Cubic::new(ControllerSettings { paced: false, ..settings(10) });
    cubic.on_feedback(&acked(10_000, MS, at(1)), true);
    assert_eq!(cubic.window(), 18_000);
}
