//! A model network that delivers in any order, ranks that start at any time, and what must hold of the results.

use super::*;
use crate::{MAX_RANKS, MAX_VALUES, Operation};
use weft_base::Random;

/// More seeds: `WEFT_COLLECTIVE_SEEDS=1000`.
fn seeds() -> u64 {
    std::env::var("WEFT_COLLECTIVE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2)
}

/// Operations that each rank does one after the other.
const REPEATS: u32 = 4;

const OPERATIONS: [Operation; 5] = [Operation::Sum, Operation::Min, Operation::Max, Operation::Or, Operation::And];

struct Packet {
    from: usize,
    to: usize,
    sequence: u32,
    round: usize,
    values: Vec<u64>,
}

/// What a rank brings to an operation: the same for every caller.
fn input(seed: u64, rank: usize, sequence: u32, length: usize) -> Vec<u64> {
    let mut random = Random::new(seed ^ ((rank as u64) << 32) ^ (u64::from(sequence) << 16));
    (0..length).map(|_| random.next_u64()).collect()
}

fn expected(kind: Kind, seed: u64, rank: usize, ranks: usize, sequence: u32) -> Vec<u64> {
    let inputs = |length| (0..ranks).map(move |other| input(seed, other, sequence, length));
    let combined = |length, operation: Operation| {
        let both = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).map(|(&a, &b)| operation.apply(a, b)).collect();
        inputs(length).reduce(both).unwrap()
    };
    match kind {
        Kind::Barrier => Vec::new(),
        Kind::ReduceScatter { block, operation } => {
            combined(block * ranks, operation)[rank * block..(rank + 1) * block].to_vec()
        }
        Kind::AllReduce { length, operation } => combined(length, operation),
        Kind::AllGather { block } => inputs(block).flatten().collect(),
    }
}

struct Model {
    kind: Kind,
    seed: u64,
    random: Random,
    machines: Vec<Collective>,
    started: Vec<u32>,
    checked: Vec<u32>,
    flying: Vec<Packet>,
}

impl Model {
    fn new(kind: Kind, shape: Shape, seed: u64, ranks: usize) -> Self {
        let machines = (0..ranks).map(|rank| Collective::shaped(kind, shape, rank, ranks).unwrap()).collect();
        let random = Random::new(seed);
        Self { kind, seed, random, machines, started: vec![0; ranks], checked: vec![0; ranks], flying: Vec::new() }
    }

    fn run(mut self) {
        let ranks = self.machines.len();
        while self.checked.iter().any(|&checked| checked < REPEATS) {
            let ready: Vec<usize> = (0..ranks).filter(|&rank| self.may_start(rank)).collect();
            assert!(!ready.is_empty() || !self.flying.is_empty(), "{:?} seed {}: stuck", self.kind, self.seed);
            if self.flying.is_empty() || (!ready.is_empty() && self.random.one_in(3)) {
                let pick = self.random.below(ready.len() as u64) as usize;
                self.start(ready[pick]);
            } else {
                self.deliver();
            }
        }
        assert!(self.flying.is_empty(), "messages that nobody needed");
    }

    fn may_start(&self, rank: usize) -> bool {
        !self.machines[rank].is_active() && self.started[rank] < REPEATS
    }

    fn start(&mut self, rank: usize) {
        let values = input(self.seed, rank, self.started[rank], self.machines[rank].plan.takes);
        self.machines[rank].start(&values).unwrap();
        self.started[rank] += 1;
        self.pump(rank);
    }

    fn deliver(&mut self) {
        let at = self.random.below(self.flying.len() as u64) as usize;
        let packet = self.flying.swap_remove(at);
        self.machines[packet.to].handle(packet.from, packet.sequence, packet.round, &packet.values).unwrap();
        self.pump(packet.to);
    }

    fn pump(&mut self, rank: usize) {
        while let Some(Transmit { to, sequence, round, values }) = self.machines[rank].poll_transmit() {
            self.flying.push(Packet { from: rank, to, sequence, round, values: values.to_vec() });
        }
        let ended = self.machines[rank].ended();
        if ended > self.checked[rank] {
            self.check(rank, ended - 1);
            self.checked[rank] = ended;
        }
    }

    fn check(&self, rank: usize, sequence: u32) {
        let late = self.started.iter().position(|&started| started <= sequence);
        assert_eq!(late, None, "{:?} seed {}: rank {rank} went on before it came", self.kind, self.seed);
        let right = expected(self.kind, self.seed, rank, self.machines.len(), sequence);
        assert_eq!(self.machines[rank].result(), Some(&right[..]), "{:?} seed {} rank {rank}", self.kind, self.seed);
    }
}

fn in_all_groups(kind: impl Fn(usize) -> Kind) {
    for ranks in 1..=64 {
        for seed in 0..seeds() {
            for shape in [Shape::Rounds, Shape::Tree { fan: 1 + ranks % 5 }, Shape::Tree { fan: ranks }] {
                Model::new(kind(ranks), shape, seed * 1000 + ranks as u64, ranks).run();
            }
        }
    }
}

#[test]
fn no_rank_leaves_a_barrier_before_all_have_come() {
    in_all_groups(|_| Kind::Barrier);
}

#[test]
fn reduce_scatter_gives_each_rank_its_block() {
    in_all_groups(|ranks| Kind::ReduceScatter { block: ranks % 3 + 1, operation: OPERATIONS[ranks % 5] });
}

#[test]
fn all_reduce_gives_the_same_to_all() {
    in_all_groups(|ranks| Kind::AllReduce { length: (ranks * 7) % 11 + 1, operation: OPERATIONS[ranks % 5] });
}

#[test]
fn all_gather_gives_all_blocks_in_the_order_of_ranks() {
    in_all_groups(|ranks| Kind::AllGather { block: ranks % 4 });
}

#[test]
fn a_machine_is_refused_past_its_limits() {
    let refused = |kind, rank, ranks| Collective::new(kind, rank, ranks).unwrap_err();
    assert_eq!(refused(Kind::Barrier, 0, 0), SetupError::Ranks(0));
    assert_eq!(refused(Kind::Barrier, 0, MAX_RANKS + 1), SetupError::Ranks(MAX_RANKS + 1));
    assert_eq!(refused(Kind::Barrier, 3, 3), SetupError::NoSuchRank { rank: 3, ranks: 3 });
    let tree = Collective::shaped(Kind::Barrier, Shape::Tree { fan: 0 }, 0, 2);
    assert_eq!(tree.unwrap_err(), SetupError::NoFan);
    for block in [MAX_VALUES / 2 + 1, usize::MAX] {
        assert_eq!(refused(Kind::AllGather { block }, 0, 2), SetupError::TooLong { length: block, ranks: 2 });
    }
}

#[test]
fn a_start_that_cannot_be_changes_nothing() {
    let mut machine = Collective::new(Kind::AllGather { block: 2 }, 0, 2).unwrap();
    assert_eq!(machine.start(&[1]), Err(StartError::Length { expected: 2, found: 1 }));
    assert_eq!(machine.waiting_for(), None);
    machine.start(&[1, 2]).unwrap();
    assert_eq!(machine.start(&[1, 2]), Err(StartError::Active));
    assert_eq!((machine.result(), machine.waiting_for()), (None, Some(1)));
}

#[test]
fn a_message_that_nobody_can_have_sent_is_refused() {
    let mut machine = Collective::new(Kind::AllGather { block: 1 }, 0, 3).unwrap();
    let early = machine.handle(1, 1, 0, &[7]);
    assert_eq!(early, Err(PeerError::Sequence { here: 0, found: 1 }), "it would have ended what was not started here");
    machine.start(&[1]).unwrap();
    assert_eq!(machine.handle(1, 2, 0, &[7]), Err(PeerError::Sequence { here: 0, found: 2 }));
    assert_eq!(machine.handle(1, u32::MAX, 0, &[7]), Err(PeerError::Sequence { here: 0, found: u32::MAX }));
    assert_eq!(machine.handle(1, 0, 2, &[7]), Err(PeerError::Round { rounds: 2, found: 2 }));
    assert_eq!(machine.handle(9, 0, 0, &[7]), Err(PeerError::Sender { expected: 1, found: 9 }));
    assert_eq!(machine.handle(1, 0, 0, &[7, 8]), Err(PeerError::Length { expected: 1, found: 2 }));
    machine.handle(1, 0, 0, &[7]).unwrap();
    assert_eq!(machine.handle(1, 0, 0, &[8]), Err(PeerError::Twice { round: 0 }));
}

#[test]
fn a_tree_takes_two_messages_for_each_rank_but_the_first() {
    for (ranks, fan) in [(1, 1), (2, 1), (9, 2), (33, 4), (64, 63)] {
        let shape = Shape::Tree { fan };
        let plans = (0..ranks).map(|rank| Plan::new(Kind::Barrier, shape, rank, ranks).unwrap());
        let sends = plans.map(|plan| plan.rounds.iter().filter(|round| round.send.is_some()).count()).sum::<usize>();
        assert_eq!(sends, 2 * (ranks - 1), "{ranks} ranks");
    }
}

#[test]
fn a_message_of_a_round_that_takes_none_is_refused() {
    let mut machine = Collective::shaped(Kind::Barrier, Shape::Tree { fan: 2 }, 1, 3).unwrap();
    machine.start(&[]).unwrap();
    assert_eq!(machine.handle(0, 0, 0, &[]), Err(PeerError::Round { rounds: 2, found: 0 }));
    assert_eq!(machine.handle(2, 0, 1, &[]), Err(PeerError::Sender { expected: 0, found: 2 }));
}
