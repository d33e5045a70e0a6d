//! What is cut when, drawn from a seed.

use std::time::Duration;

use weft_base::Random;
use weft_lab::Way;

/// How long a stream is left at full speed before an instant is drawn, at least and at most.
const CALM_MS: [u64; 2] = [500, 1500];
/// The same between the end of the window without a cut and the cut.
const BETWEEN_MS: [u64; 2] = [0, 500];

/// An instant without a cut, then one with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) way: Way,
    /// The link that is cut, from 0.
    pub(crate) rail: usize,
    /// From full speed to the instant without a cut.
    pub(crate) wait: Duration,
    /// From the end of its window to the cut.
    pub(crate) wait_for_cut: Duration,
}

/// `cuts` pairs, the ways in equal parts (the first ones have one more where that does not come out even), in random
/// order, in launches of at most `in_launch`.
pub(crate) fn draw(seed: u64, cuts: usize, in_launch: usize, ways: &[Way], links: usize) -> Vec<Vec<Pair>> {
    let mut random = Random::new(seed);
    let mut all: Vec<Way> = ways.iter().copied().cycle().take(cuts).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    let pairs: Vec<_> = all
        .into_iter()
        .map(|way| Pair {
            way,
            rail: random.below(links as u64) as usize,
            wait: between(&mut random, CALM_MS),
            wait_for_cut: between(&mut random, BETWEEN_MS),
        })
        .collect();
    // Launches as alike in length as they can be.
    let launches = cuts.div_ceil(in_launch).max(1);
    pairs.chunks(cuts.div_ceil(launches).max(1)).map(<[Pair]>::to_vec).collect()
}

fn between(random: &mut Random, [least, most]: [u64; 2]) -> Duration {
    Duration::from_micros(1000 * least + random.below(1000 * (most - least)))
}

/// What a pair takes on average, without the recovery.
pub(crate) fn usual_length() -> Duration {
    Duration::from_millis((CALM_MS[0] + CALM_MS[1] + BETWEEN_MS[0] + BETWEEN_MS[1]) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule_with_each_way_alike() {
        let ways = [Way::Carrier, Way::Silent, Way::Send];
        let schedule = draw(7, 50, 20, &ways, 4);
        assert_eq!(schedule, draw(7, 50, 20, &ways, 4));
        assert_ne!(schedule, draw(8, 50, 20, &ways, 4));
        assert_eq!(schedule.iter().map(Vec::len).collect::<Vec<_>>(), [17, 17, 16]);
        let all: Vec<_> = schedule.concat();
        assert_eq!(ways.map(|way| all.iter().filter(|pair| pair.way == way).count()), [17, 17, 16]);
        assert!((0..4).all(|rail| all.iter().any(|pair| pair.rail == rail)) && all.iter().all(|pair| pair.rail < 4));
        let spread = [Duration::from_millis(CALM_MS[0]), Duration::from_millis(CALM_MS[1])];
        assert!(all.iter().all(|pair| (spread[0]..spread[1]).contains(&pair.wait)));
    }

    #[test]
    fn a_single_cut_is_a_launch() {
        assert_eq!(draw(1, 1, 20, &[Way::Silent], 1).len(), 1);
    }
}
