//! Every fuzz target on its seeds, on what earlier fuzzing has found worth keeping, and on inputs made from both by a
//! seeded generator: the same ones each time, a few seconds in all.
//!
//! `WEFT_FUZZ_RUNS` and `WEFT_FUZZ_SEED` set how many, and which.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use weft_base::Random;
use weft_fuzz::{TARGETS, Target};

/// Inputs per target.
const RUNS: u64 = 10_000;
/// Inputs do not grow beyond this, in bytes.
const LONGEST: usize = 4096;

#[test]
fn seeds_and_kept_inputs() {
    for target in TARGETS {
        corpus(target).iter().for_each(|input| run(target, input));
    }
}

#[test]
fn made_inputs() {
    let seed = from_environment("WEFT_FUZZ_SEED", 1);
    for target in TARGETS {
        let mut random = Random::new(seed);
        let corpus = corpus(target);
        for _ in 0..from_environment("WEFT_FUZZ_RUNS", RUNS) {
            run(target, &make(&corpus, &mut random));
        }
    }
}

/// Runs one input; a panic says which.
fn run(target: &Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        panic!("finding of target {}: {:02x?}", target.name, input);
    }
}

/// The seeds, and the inputs in `fuzz/corpus/<target>`, where cargo-fuzz keeps them, if there are any.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.seeds)();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.sort();
    inputs.extend(paths.iter().filter_map(|path| fs::read(path).ok()));
    inputs
}

/// An input of the corpus with a few things changed, or, now and then, nothing but noise.
fn make(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if random.one_in(8) {
        let mut noise = vec![0; random.below(200) as usize];
        random.fill(&mut noise);
        return noise;
    }
    let mut input = pick(corpus, random).clone();
    for _ in 0..=random.below(6) {
        change(&mut input, corpus, random);
    }
    input.truncate(LONGEST);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    match random.below(6) {
        0 => input.truncate(at),
        1 => input.insert(at, random.next_u64() as u8),
        2 => input.extend_from_slice(pick(corpus, random)),
        3 if at < input.len() => drop(input.remove(at)),
        4 if at < input.len() => input[at] = [0x00, 0x7f, 0x80, 0xff][random.below(4) as usize],
        _ if at < input.len() => input[at] ^= 1 << random.below(8),
        _ => {}
    }
}

fn pick<'a>(corpus: &'a [Vec<u8>], random: &mut Random) -> &'a Vec<u8> {
    &corpus[random.below(corpus.len() as u64) as usize]
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}
