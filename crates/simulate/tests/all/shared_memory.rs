//! Whole NICs over the rings of shared memory, in virtual time: with each other, and with a side that scribbles. A
//! failure names its seed; `WEFT_SEEDS` is the number of seeds to run (10 000 at times).

use core::time::Duration;

use weft_base::IwarpOrEdge;
use weft_nic::laboratory::Split;
use weft_nic::{Progress, Transport};
use weft_simulate::{RingBehaviour, Scenario};

use crate::seeds::seeds;

/// A scenario whose settings follow from its seed too.
fn scenario(seed: u64, ring: RingBehaviour) -> Scenario {
    let mut scenario = Scenario::new(seed);
    for offer in [&mut scenario.options.active, &mut scenario.options.passive] {
        offer.transport = Transport::SharedMemory;
    }
    let capacity = [64, 256, 4 << 10, 16 << 10, 128 << 10][(seed % 5) as usize];
    scenario.behaviour.ring = Some(RingBehaviour { capacity, ..ring });
    scenario.options.settings.direct_threshold = if seed.is_multiple_of(3) { 2000 } else { 32 * 1024 };
    scenario.options.settings.lend_threshold = [1, 500, 32 * 1024, u32::MAX][(seed / 3 % 4) as usize];
    // Ends without a thread sleep whenever they have nothing to do; the others poll all the time.
    if seed % 4 != 1 {
        scenario.options.settings.progress = Progress::Caller;
    } else {
        scenario.options.splits = [seed / 4, seed / 16].map(|bits| Split::ALL[(bits % 4) as usize]);
    }
    if seed % 7 == 1 {
        scenario.options.depth = 5;
        scenario.operations = 5;
    }
    scenario
}

#[test]
fn everything_happens_through_shared_memory() {
    for seed in seeds(60) {
        let scenario = scenario(seed, RingBehaviour::default());
        let threshold = scenario.options.settings.lend_threshold;
        let report = scenario.run_over::<IwarpOrEdge>().unwrap();
        assert!(threshold < u32::MAX || report.borrowed_bytes == 0, "seed {seed}: what is not to be lent was");
        // Where a stage of its own sends, payload is copied for it.
        let lends = threshold == 1 && seed % 4 != 1;
        assert!(!lends || report.borrowed_bytes > 0, "seed {seed}: whatever is not empty is lent");
    }
}

#[test]
fn everything_happens_through_shared_memory_with_receipts() {
    for seed in seeds(40).map(|seed| 7000 + seed) {
        let mut scenario = scenario(seed, RingBehaviour::default());
        for offer in [&mut scenario.options.active, &mut scenario.options.passive] {
            offer.mpa.extensions.receipts = true;
        }
        scenario.run_over::<IwarpOrEdge>().unwrap();
    }
}

/// Nothing panics or hangs, each request ends exactly once, and no byte changes outside of what was granted.
#[test]
fn a_side_that_scribbles_harms_nothing_but_its_own_connection() {
    let mut failed = 0;
    let mut succeeded = 0;
    for seed in seeds(120) {
        let scribbles_one_in = [3, 20, 100, 400][(seed / 5 % 4) as usize];
        let mut scenario = scenario(seed, RingBehaviour { scribbles_one_in, ..RingBehaviour::default() });
        scenario.survives = false;
        let report = scenario.run_over::<IwarpOrEdge>().unwrap();
        failed += report.failed;
        succeeded += report.succeeded;
    }
    assert!(seeds(120).count() < 100 || (failed > 0 && succeeded > 0), "{failed} failed, {succeeded} did not");
}

#[test]
fn the_checkers_see_a_signal_that_is_lost() {
    let lost = |seed| {
        let ring =
            RingBehaviour { loses_one_in: 4, signal_delay: Duration::from_micros(20), ..RingBehaviour::default() };
        scenario(seed, ring).run_over::<IwarpOrEdge>().is_err()
    };
    let seen = (0..20).filter(|seed| lost(*seed)).count();
    assert!(seen > 0, "none of 20 runs with lost signals hung");
}
