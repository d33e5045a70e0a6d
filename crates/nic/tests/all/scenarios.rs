//! Random scenarios in virtual time, judged by the checkers of `weft-simulate`: of queue pairs, of message endpoints,
//! of hostile peers. There are more of them there; these are as many as this crate's own tests need to notice a fault.
//! A failure names its seed.

use weft_base::Random;
use weft_nic::laboratory::Split;
use weft_nic::{Settings, Verify};
use weft_simulate::{MessageScenario, Scenario, run_hostile, run_sequence};

#[test]
fn messages_of_endpoints_arrive_once_and_in_order() {
    for seed in 10_000..10_040 {
        MessageScenario::new(seed).run().unwrap();
    }
}

#[test]
fn requests_of_endpoints_end_once_though_connections_break() {
    for seed in 20_000..20_060 {
        MessageScenario { faults: true, ..MessageScenario::new(seed) }.run().unwrap();
    }
}

#[test]
fn pairs_do_what_is_posted_with_every_split_and_verification() {
    for seed in 30_000..30_048 {
        let mut scenario = Scenario::new(seed);
        scenario.options.splits = [seed, seed / 4].map(|bits| Split::ALL[(bits % 4) as usize]);
        let verify = if seed % 3 == 0 { Verify::BeforePlace } else { Verify::LargeInPlace };
        let direct_threshold = if seed % 2 == 0 { 2000 } else { 32 * 1024 };
        scenario.options.settings = Settings { verify, direct_threshold, ..scenario.options.settings };
        scenario.run().unwrap();
    }
}

#[test]
fn sequences_of_operations_and_hostile_peers_break_no_promise() {
    for seed in 40_000..40_100 {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; 20 + random.below(300) as usize];
        random.fill(&mut bytes);
        run_sequence(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        run_hostile(&bytes[..bytes.len().min(150)]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
