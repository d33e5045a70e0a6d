//! What segments that come late cost a stream of iWARP, by what its receiver does with those behind them.

use weft_simulate::{ReceivePolicy, StreamReport, StreamScenario};

use crate::seeds::seeds;

fn run(scenario: StreamScenario) -> StreamReport {
    scenario.run().unwrap_or_else(|error| panic!("{scenario:?}: {error}"))
}

fn with(policy: ReceivePolicy) -> StreamScenario {
    StreamScenario { policy, fpdus: 5000, ..StreamScenario::default() }
}

const POLICIES: [ReceivePolicy; 3] = [ReceivePolicy::Place, ReceivePolicy::Buffer, ReceivePolicy::Drop];

#[test]
fn in_order_all_are_alike() {
    let reports = POLICIES.map(|policy| run(with(policy)));
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:?}");
    assert_eq!((reports[0].most_buffered, reports[0].early, reports[0].resent), (0, 0, 0));
    assert!(reports[0].goodput() > 0.8e9, "{:?}", reports[0]);
}

#[test]
fn with_five_percent_late_only_place_keeps_nothing_and_waits_for_nothing() {
    let [place, buffer, drop] = POLICIES.map(|policy| run(StreamScenario { late: 50_000, ..with(policy) }));
    assert_eq!(place.most_buffered, 0);
    assert!(place.early > 1000 && buffer.early == 0 && drop.early == 0);
    assert!(buffer.most_buffered > 10_000, "{buffer:?}");
    assert!(drop.resent > 10 * place.resent.max(10), "{drop:?}");
    assert!(drop.goodput() < place.goodput() / 2.0, "{drop:?}");
    assert!(place.p99 < buffer.p99, "{place:?} {buffer:?}");
}

#[test]
fn under_all_faults_each_byte_arrives_once() {
    for seed in seeds(30) {
        let policy = POLICIES[seed as usize % 3];
        let faults = |bit: u64, most: u32| if seed >> bit & 1 == 1 { most } else { 0 };
        let (late, lost, cut) = (faults(0, 50_000), faults(1, 20_000), faults(2, 300_000));
        run(StreamScenario { seed, late, lost, cut, fpdus: 1000, ..with(policy) });
    }
}
