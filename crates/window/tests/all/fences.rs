//! The checker: ranks that put and get at random, over carriers that keep order, stripe, reorder or lose, from one
//! seed. After a fence every put of the epoch is there, and none of the next was before.
//!
//! More seeds: `WEFT_WINDOW_SEEDS=10000`; one that failed: `WEFT_WINDOW_SEED=17 WEFT_WINDOW_SEEDS=1`.

use weft_window::{CreateError, Fence, Load, Shape};

use crate::world::{Network, Scenario, run};

const FENCES: [Fence; 7] = [
    Fence::TwoSided,
    Fence::OneSided,
    Fence::OneSidedBarrier,
    Fence::RemoteImmediate,
    Fence::Counted,
    Fence::Neighbour,
    Fence::Tagged,
];

const NETWORKS: [Network; 5] =
    [Network::Ordered, Network::Striped(2), Network::Striped(4), Network::Reordering, Network::Lossy];

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("WEFT_WINDOW_SEED").unwrap_or(0);
    first..first + number("WEFT_WINDOW_SEEDS").unwrap_or(300)
}

/// Each fence meets each network once in 35 seeds.
fn scenario(seed: u64) -> Scenario {
    let fence = FENCES[(seed % 7) as usize];
    let network = NETWORKS[(seed / 7 % 5) as usize];
    Scenario::new(seed, fence, network)
}

#[test]
fn after_a_fence_every_put_of_the_epoch_is_there_and_none_of_the_next() {
    for seed in seeds() {
        let scenario = scenario(seed);
        if let Err(found) = run(&scenario) {
            panic!("WEFT_WINDOW_SEED={seed} WEFT_WINDOW_SEEDS=1: {scenario:?}: {found}");
        }
    }
}

#[test]
fn a_neighbour_that_is_read_from_is_not_ready() {
    // A get was overtaken by a put of the next epoch, from a rank that is no neighbour of the reader.
    let scenario = Scenario::new(9089, Fence::Neighbour, Network::Lossy);
    run(&Scenario { shape: Shape::Rounds, ..scenario }).unwrap();
}

/// A checker that finds nothing wrong must be able to: how many of 60 seeds it objects to, and its first words.
fn objections(spoil: impl Fn(&mut Scenario), fence: Fence, network: Network) -> (usize, String) {
    let found = (0..60).filter_map(|seed| {
        let mut scenario = Scenario::new(seed, fence, network);
        spoil(&mut scenario);
        run(&scenario).err()
    });
    let found: Vec<String> = found.collect();
    (found.len(), found.first().cloned().unwrap_or_default())
}

#[test]
fn local_completion_and_a_barrier_are_no_fence() {
    // The carrier says that bytes are in place when they have only left: the fence waits for local completion, and then
    // all that follows travels on channels of its own.
    for network in [Network::Reordering, Network::Lossy] {
        let (count, first) = objections(|it| it.flush_is_local = true, Fence::OneSidedBarrier, network);
        assert!(count >= 20 && first.contains("is not there"), "{network:?}: {count} of 60, {first}");
        let (count, first) = objections(|_| (), Fence::OneSidedBarrier, network);
        assert_eq!(count, 0, "{network:?}: {first}");
    }
}

#[test]
fn one_sided_without_a_finish_on_each_rail_is_no_fence() {
    // The window believes that the carrier keeps order: one finish goes, on whichever rail.
    for network in [Network::Striped(2), Network::Striped(4), Network::Reordering, Network::Lossy] {
        for fence in [Fence::OneSided, Fence::OneSidedBarrier] {
            let (count, first) = objections(|it| it.claims_order = true, fence, network);
            assert!(count >= 20 && first.contains("is not there"), "{fence:?}, {network:?}: {count} of 60, {first}");
        }
    }
}

#[test]
fn without_anything_before_the_next_epoch_its_puts_come_too_early() {
    // Every rank receives at once what it waits for in a barrier, though no rank has sent it.
    let spoil = |it: &mut Scenario| (it.barrier_is_empty, it.shape) = (true, Shape::Rounds);
    let (count, first) = objections(spoil, Fence::Counted, Network::Reordering);
    assert!(count >= 20 && first.contains("too early"), "{count} of 60, {first}");
}

#[test]
fn a_message_of_the_next_epoch_must_be_kept() {
    for network in [Network::Ordered, Network::Reordering, Network::Lossy] {
        let spoil = |it: &mut Scenario| (it.keeps_nothing, it.message_bytes) = (true, 8);
        let (count, first) = objections(spoil, Fence::Tagged, network);
        assert!(count >= 10 && first.contains("too early"), "{network:?}: {count} of 60, {first}");
    }
}

#[test]
fn who_sends_more_before_an_epoch_than_anybody_keeps_is_refused() {
    let spoil = |it: &mut Scenario| (it.sends_too_much, it.message_bytes) = (true, Load::EARLY.bytes / 2 + 1);
    let (count, first) = objections(spoil, Fence::Tagged, Network::Reordering);
    assert!(count >= 5 && first.contains("came before their epoch"), "{count} of 60, {first}");
}

#[test]
fn what_a_fence_lacks_is_said() {
    let refused = |fence, notices, network| {
        let mut scenario = Scenario::new(1, fence, network);
        (scenario.notices, scenario.flush) = (notices, false);
        crate::world::make(&scenario, 0).map(|window| window.fence_kind())
    };
    for fence in [Fence::RemoteImmediate, Fence::Counted, Fence::Neighbour] {
        assert_eq!(refused(fence, false, Network::Ordered), Err(CreateError::NoNotices(fence)));
    }
    for fence in [Fence::OneSided, Fence::OneSidedBarrier] {
        assert_eq!(refused(fence, true, Network::Lossy), Err(CreateError::NoOrder(fence)));
        assert_eq!(refused(fence, false, Network::Striped(2)), Ok(fence));
    }
    assert_eq!(refused(Fence::Auto, false, Network::Lossy), Ok(Fence::TwoSided));
    assert_eq!(refused(Fence::Auto, true, Network::Lossy), Ok(Fence::Counted));
}
