//! Random sequences of operations, and a random hostile peer, as the fuzz targets `pair` and `hostile` run them.

use weft_base::Random;
use weft_simulate::{run_hostile, run_sequence};

#[test]
fn sequences_of_operations_keep_the_promises() {
    let (mut posted, mut succeeded, mut failed) = (0, 0, 0);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; 20 + random.below(400) as usize];
        random.fill(&mut bytes);
        match run_sequence(&bytes) {
            Ok(report) => {
                posted += report.posted;
                succeeded += report.succeeded;
                failed += report.failed;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    // They reach both outcomes, so the promises were put to the test.
    assert!(
        posted > 1500 && succeeded > 300 && failed > 300,
        "{posted} posted, {succeeded} succeeded, {failed} failed"
    );
}

#[test]
fn a_hostile_peer_breaks_nothing_but_its_own_stream() {
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; 1 + random.below(150) as usize];
        random.fill(&mut bytes);
        if let Err(error) = run_hostile(&bytes) {
            panic!("seed {seed}: {error}");
        }
    }
}
