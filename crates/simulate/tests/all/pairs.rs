//! Pairs of real NICs in virtual time. A failure names its seed.

use weft_mpa::MarkerSpacing;
use weft_nic::laboratory::Split;
use weft_nic::{Offer, Settings, Verify};
use weft_simulate::{Behaviour, Break, Scenario, Segments};

use crate::seeds::seeds;

const VERIFY: [Verify; 2] = [Verify::BeforePlace, Verify::LargeInPlace];

/// A scenario whose settings follow from its seed too.
fn varied(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(seed);
    let bit = |n: u64| seed >> n & 1 == 1;
    let spacing = |n: u64| MarkerSpacing::ALL[(seed / n % 3) as usize];
    scenario.options.active.mpa.markers = bit(0).then_some(spacing(64));
    scenario.options.passive.mpa.markers = bit(1).then_some(spacing(192));
    scenario.options.active.mpa.crc = bit(2);
    scenario.options.passive.mpa.crc = bit(3);
    scenario.options.active.mpa.extensions.large_fpdus = bit(4);
    scenario.options.settings.verify = VERIFY[usize::from(!seed.is_multiple_of(3))];
    scenario.options.settings.direct_threshold = if bit(5) { 2000 } else { 32 * 1024 };
    scenario.options.depth = if bit(6) { 64 } else { 5 };
    scenario.options.active.ord = if bit(7) { 1 } else { 16 };
    // Every other seed is two hosts without a split; the others are all pairs of splits.
    if seed % 2 == 1 {
        scenario.options.splits = [seed / 2, seed / 8].map(|bits| Split::ALL[(bits % 4) as usize]);
    }
    if scenario.options.depth < 64 {
        // All receives are posted beforehand, so there may be no more of them than the queue is deep.
        scenario.operations = 5;
    }
    scenario
}

#[test]
fn everything_happens_on_a_network_that_behaves() {
    for seed in seeds(120) {
        varied(seed).run().unwrap();
    }
}

/// The same, where both ends tell each other which messages have a receive and which are in place.
fn with_receipts(mut scenario: Scenario) -> Scenario {
    for offer in [&mut scenario.options.active, &mut scenario.options.passive] {
        offer.mpa.extensions.receipts = true;
    }
    scenario
}

#[test]
fn everything_happens_with_receipts() {
    for seed in seeds(60).map(|seed| 7000 + seed) {
        with_receipts(varied(seed)).run().unwrap();
    }
}

/// Both ends on networks that show what comes as it comes, in any order and cut anywhere.
fn out_of_order(seed: u64) -> Scenario {
    let mut scenario = varied(seed);
    for offer in [&mut scenario.options.active, &mut scenario.options.passive] {
        offer.mpa.crc = true;
        offer.mpa.early = !seed.is_multiple_of(5);
    }
    scenario.behaviour.segments = Segments::Recut;
    scenario.keeps_order = false;
    scenario
}

#[test]
fn everything_happens_as_well_when_segments_are_placed_as_they_come() {
    for seed in seeds(40).map(|seed| 5000 + seed) {
        out_of_order(seed).run().unwrap();
    }
}

#[test]
fn everything_happens_with_receipts_where_segments_are_placed_as_they_come() {
    for seed in seeds(40).map(|seed| 7000 + seed) {
        with_receipts(out_of_order(seed)).run().unwrap();
    }
}

#[test]
fn every_request_ends_exactly_once_when_a_stream_out_of_order_is_damaged_or_breaks() {
    for seed in seeds(40).map(|seed| 6000 + seed) {
        damaged(seed).run().unwrap();
    }
}

/// Those that do not survive, from seed 6000 on.
fn damaged(seed: u64) -> Scenario {
    let mut scenario = out_of_order(seed);
    scenario.survives = false;
    scenario.behaviour.damage_one_in = if seed.is_multiple_of(2) { 20_000 } else { 0 };
    scenario.behaviour.break_after = Some(20 + (seed - 6000) * 997);
    scenario
}

#[test]
fn byte_by_byte_delivery_changes_nothing() {
    for seed in 1000..1010 {
        let mut scenario = varied(seed);
        scenario.operations = 4;
        scenario.behaviour = Behaviour { send_at_most: 3, receive_at_most: 2, capacity: 50, ..Behaviour::default() };
        scenario.run().unwrap();
    }
}

#[test]
fn a_seed_is_a_run() {
    let run = || varied(4242).run().unwrap();
    assert_eq!(run(), run());
}

#[test]
fn every_request_ends_exactly_once_when_the_stream_breaks_anywhere() {
    for seed in 2000..2200 {
        let mut scenario = varied(seed);
        scenario.survives = false;
        scenario.behaviour.break_after = Some(20 + (seed - 2000) * 997);
        scenario.run().unwrap();
    }
}

#[test]
fn every_request_ends_exactly_once_when_bytes_are_damaged() {
    for seed in 3000..3200 {
        let mut scenario = varied(seed);
        scenario.options.active.mpa.crc = true;
        scenario.survives = false;
        scenario.behaviour.damage_one_in = 20_000;
        scenario.behaviour.break_after = Some(3_000_000);
        scenario.run().unwrap();
    }
}

/// The checker sees every falsification. If it saw none, the tests above would prove nothing.
#[test]
fn the_checker_is_not_blind() {
    for sabotage in [
        Break::FlipByte,
        Break::LoseCompletion,
        Break::DoubleCompletion,
        Break::SwapCompletions,
        Break::TouchGuard,
        Break::FlipMessage,
    ] {
        let mut scenario = Scenario::new(7);
        scenario.sabotage = sabotage;
        assert!(scenario.run().is_err(), "{sabotage:?} was not seen");
    }
}

#[test]
fn a_plain_peer_is_never_sent_extensions() {
    let mut scenario = Scenario::new(11);
    scenario.options.passive = Offer::default();
    scenario.options.settings = Settings::default();
    // The scenario posts atomics, which are refused; so it never comes to its end.
    let error = scenario.run().unwrap_err();
    assert!(error.contains("stuck"), "{error}");
}

/// A block of the stream that began in the middle of a frame ended in the middle of a CRC, which was then written to
/// a place behind it. In the last, a length is damaged, and says more than ever comes.
#[test]
fn seeds_that_have_found_something() {
    for seed in [165, 471, 509] {
        varied(seed).run().unwrap();
    }
    out_of_order(5779).run().unwrap();
    damaged(11_106).run().unwrap();
}
