//! Message endpoints of several NICs in virtual time. A failure names its seed; `WEFT_SEED` runs that one alone.

use weft_simulate::{MessageBreak, MessageScenario};

use crate::seeds::seeds;

#[test]
fn everything_arrives_once_and_in_order_on_a_network_that_behaves() {
    for seed in seeds(200) {
        let report = MessageScenario::new(seed).run().unwrap();
        assert!(report.succeeded > 50, "seed {seed}: {report:?}");
    }
}

#[test]
fn every_request_ends_once_when_connections_break_and_endpoints_come_and_go() {
    let (mut succeeded, mut failed) = (0, 0);
    for seed in seeds(200) {
        let report = MessageScenario { faults: true, ..MessageScenario::new(seed) }.run().unwrap();
        succeeded += report.succeeded;
        failed += report.failed;
    }
    // Both outcomes were reached, so the promises were put to the test.
    assert!(succeeded > 100 && failed > 100 || seeds(2).count() == 1, "{succeeded} succeeded, {failed} failed");
}

#[test]
fn a_seed_is_a_run() {
    let run = || MessageScenario { faults: true, ..MessageScenario::new(4242) }.run().unwrap();
    assert_eq!(run(), run());
}

/// The checkers see every falsification. If they saw none, the tests above would prove nothing.
#[test]
fn the_checkers_are_not_blind() {
    for sabotage in [
        MessageBreak::FlipByte,
        MessageBreak::FlipWindow,
        MessageBreak::LoseCompletion,
        MessageBreak::DoubleCompletion,
        MessageBreak::SwapMessages,
    ] {
        let scenario = MessageScenario { sabotage, ..MessageScenario::new(7) };
        assert!(scenario.run().is_err(), "{sabotage:?} was not seen");
    }
}
