//! Queue pairs and message endpoints over a lower layer that keeps no order. A failure names its seed; `WEFT_SEED` runs
//! that one alone, and `WEFT_SEEDS` that many of them (10 000 are run at times).

use weft_nic::Verify;
use weft_simulate::{Behaviour, MessageReport, MessageScenario, Report, Scenario, Shuffle, ShuffleFault};

use crate::seeds::seeds;

/// A scenario whose settings follow from its seed too.
fn varied(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(seed);
    scenario.keeps_order = false;
    let bit = |n: u64| seed >> n & 1 == 1;
    scenario.options.active.ord = if bit(0) { 1 } else { 16 };
    scenario.options.passive.ird = if bit(1) { 2 } else { 16 };
    scenario.options.settings.verify = if bit(2) { Verify::BeforePlace } else { Verify::LargeInPlace };
    scenario.options.depth = if bit(3) { 64 } else { 5 };
    // All receives are posted beforehand, so there may be no more of them than the queue is deep.
    scenario.operations = if bit(3) { 40 } else { 5 };
    if bit(4) {
        scenario.behaviour = Behaviour { send_at_most: 500, capacity: 2000, ..Behaviour::default() };
    }
    scenario
}

fn run(scenario: &Scenario) -> Result<Report, String> {
    scenario.run_over::<Shuffle>()
}

fn run_messages(scenario: &MessageScenario) -> Result<MessageReport, String> {
    scenario.run_over::<Shuffle>()
}

#[test]
fn everything_happens_whatever_the_order_of_arrival() {
    for seed in seeds(60) {
        run(&varied(seed)).unwrap();
    }
}

#[test]
fn every_request_ends_exactly_once_when_the_carrier_breaks() {
    for seed in seeds(60) {
        let mut scenario = varied(seed);
        scenario.survives = false;
        scenario.behaviour.break_after = Some(20 + seed % 1000 * 997);
        run(&scenario).unwrap();
        scenario.behaviour = Behaviour { damage_one_in: 20_000, break_after: Some(3_000_000), ..Behaviour::default() };
        run(&scenario).unwrap();
    }
}

#[test]
fn endpoints_do_not_see_the_disorder() {
    for seed in seeds(40) {
        let report = run_messages(&MessageScenario::new(seed)).unwrap();
        assert!(report.succeeded > 50, "seed {seed}: {report:?}");
    }
}

#[test]
fn every_request_of_endpoints_ends_once_when_connections_break_and_endpoints_come_and_go() {
    for seed in seeds(40) {
        run_messages(&MessageScenario { faults: true, ..MessageScenario::new(seed) }).unwrap();
    }
}

/// Both ends have asked to close an idle connection, and credits come behind the peer's question, in the same turn:
/// neither end needs them any more, and they are no breach of the protocol.
#[test]
fn what_comes_behind_the_agreement_to_close_is_not_heard() {
    run_messages(&MessageScenario::new(951)).unwrap();
}

#[test]
fn a_seed_is_a_run() {
    assert_eq!(run(&varied(4242)), run(&varied(4242)));
    let scenario = MessageScenario { faults: true, ..MessageScenario::new(4242) };
    assert_eq!(run_messages(&scenario), run_messages(&scenario));
}

/// The checkers see every mistake that a lower layer of this kind can make. If they saw none, the tests above would
/// prove nothing.
#[test]
fn the_checkers_are_not_blind() {
    for fault in [ShuffleFault::AcknowledgeOnArrival, ShuffleFault::DuplicateAsNew, ShuffleFault::ArrivalOrder] {
        let queue_pairs = (0..20).find(|seed| run(&Scenario { fault, ..varied(*seed) }).is_err());
        assert!(queue_pairs.is_some(), "{fault:?} was not seen between queue pairs");
        let endpoints =
            (0..20).find(|seed| run_messages(&MessageScenario { fault, ..MessageScenario::new(*seed) }).is_err());
        assert!(endpoints.is_some(), "{fault:?} was not seen between endpoints");
    }
}
