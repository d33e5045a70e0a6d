//! InfiniBand's recovery, a NAK at the gap and back to it, over the link that streams of iWARP have.

use core::time::Duration;

use proptest::prelude::*;
use weft_simulate::{ReceivePolicy, StreamReport, StreamScenario};

fn run(scenario: StreamScenario) -> StreamReport {
    scenario.run_going_back().unwrap_or_else(|error| panic!("{scenario:?}: {error}"))
}

/// Packets in flight in a round trip of the usual link, and a few more.
const ROUND_TRIP: u64 = 90;

#[test]
fn in_order_nothing_is_sent_twice_and_the_link_is_full() {
    let report = run(StreamScenario::default());
    assert_eq!((report.resent, report.most_buffered, report.early), (0, 0, 0));
    assert!(report.goodput() > 0.93e9, "{report:?}");
    assert_eq!(report.median, report.p99, "no packet waits for another one");
}

#[test]
fn one_late_packet_costs_a_round_trip_of_packets() {
    let scenario = StreamScenario { late: 1000, fpdus: 10_000, ..StreamScenario::default() };
    let report = run(scenario);
    assert!(report.resent > ROUND_TRIP / 2 && report.resent < 60 * ROUND_TRIP, "{report:?}");
    assert!(report.goodput() < 0.93e9 && report.goodput() > 0.4e9, "{report:?}");
}

#[test]
fn it_is_no_straw_man_and_worse_than_placing() {
    for late in [10_000, 50_000] {
        let scenario = StreamScenario { late, fpdus: 3000, ..StreamScenario::default() };
        let of = |policy| StreamScenario { policy, ..scenario }.run().unwrap();
        let [place, drop] = [of(ReceivePolicy::Place), of(ReceivePolicy::Drop)];
        let back = run(scenario);
        assert!(back.goodput() > 3.0 * drop.goodput(), "{back:?} {drop:?}");
        assert!(back.goodput() < 0.9 * place.goodput(), "{back:?} {place:?}");
        assert!(back.resent > 100 * place.resent.max(1), "{back:?} {place:?}");
    }
}

#[test]
fn a_run_repeats() {
    let scenario = StreamScenario { seed: 7, late: 20_000, lost: 10_000, fpdus: 2000, ..StreamScenario::default() };
    assert_eq!(run(scenario), run(scenario));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the link does, each packet is taken once and in order: the run itself checks their content.
    #[test]
    fn all_packets_come_once_and_in_order(
        seed: u64,
        late in 0_u32..200_000,
        late_by_us in 0_u64..3000,
        lost in 0_u32..200_000,
        delay_us in 1_u64..2000,
        fpdus in 0_u32..1500,
    ) {
        let scenario = StreamScenario {
            seed,
            late,
            late_by: Duration::from_micros(late_by_us),
            lost,
            delay: Duration::from_micros(delay_us),
            fpdus,
            ..StreamScenario::default()
        };
        let report = run(scenario);
        prop_assert_eq!(report.bytes % u64::from(fpdus.max(1)), 0);
        prop_assert!(report.bytes > 0 || fpdus == 0);
        prop_assert!(report.elapsed >= scenario.delay || fpdus == 0);
        prop_assert_eq!(report.most_buffered, 0);
    }
}
