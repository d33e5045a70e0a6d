//! Requests with constraints on the order in which they are placed: fences, and none at all. A reader of the target's
//! memory sees at any time what was requested, in whatever order the packets come.
//!
//! What it sees was tried out: `scripts/mutations` takes each of the rules out of the code.

use core::ops::Range;
use core::time::Duration;

use weft_base::{Edge, Gather, Iwarp, Slice};
use weft_emulate::{Chance, Delayed, Settings};
use weft_memory::{Access, Region};
use weft_nic::offer::MarkerSpacing;
use weft_nic::{PostError, Rails};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, Tag, World};

use crate::seeds::seeds;

/// Parts of a place: what is written first, two blocks that come later, a word, and the flag that ends a round.
const FIRST: Range<usize> = 0..12_000;
const SECOND: Range<usize> = 12_000..15_000;
const THIRD: Range<usize> = 15_000..18_000;
const WORD: Range<usize> = 18_000..18_008;
const FLAG: Range<usize> = 18_008..18_016;
/// Of the first block, what is written once more, with a value of its own.
const AGAIN: Range<usize> = 3000..7000;
const PLACE: usize = FLAG.end;
/// Places in turn.
const PLACES: usize = 8;
/// Rounds in flight.
const AHEAD: usize = 4;
const ROUNDS: usize = 30;
const LIMIT: Duration = Duration::from_secs(100);
/// What the bytes have that are written once more.
const ANEW: u8 = 0x80;

/// What each round posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The first block, then the second with a fence towards what came before.
    Backward(RequestFlags),
    /// The first block with a fence towards what comes behind, then the others.
    Forward(RequestFlags),
    /// The first block, a part of it again, and a word, both without order.
    Unordered,
}

impl Case {
    fn writes(self) -> Vec<(Range<usize>, u8, RequestFlags)> {
        let plain = RequestFlags::NONE;
        match self {
            Self::Backward(flags) => vec![(FIRST, 0, plain), (SECOND, 0, flags), (FLAG, 0, plain)],
            Self::Forward(flags) => vec![(FIRST, 0, flags), (SECOND, 0, plain), (THIRD, 0, plain), (FLAG, 0, plain)],
            Self::Unordered => {
                let unordered = RequestFlags::UNORDERED;
                vec![(FIRST, 0, plain), (AGAIN, ANEW, unordered), (WORD, 0, unordered), (FLAG, 0, plain)]
            }
        }
    }
}

/// What one read of the place of a round shows.
struct Memory<'a> {
    place: &'a [u8],
    value: u8,
}

impl Memory<'_> {
    fn any(&self, part: Range<usize>) -> bool {
        self.place[part].contains(&self.value)
    }

    /// Of the first block a part may have been written again.
    fn all(&self, part: Range<usize>) -> bool {
        let wanted = [self.value; FIRST.end];
        let is_again = |at: usize| AGAIN.contains(&at);
        self.place[part.clone()] == wanted[..part.len()]
            || part
                .clone()
                .all(|at| self.place[at] == self.value || is_again(at) && self.place[at] == self.value | ANEW)
    }
}

/// The result of a run that kept all that was required.
#[derive(Debug, Default)]
struct Seen {
    /// A word was seen before what was posted before it.
    early: usize,
    /// Of two writes to the same bytes the older one is what is left.
    older: usize,
}

struct Run<'a, T: Tag> {
    case: Case,
    end: &'a End<T>,
    source: Region,
    window: Region,
    posted: usize,
    /// Rounds whose flags were seen.
    over: usize,
    seen: Seen,
}

const fn value(round: usize) -> u8 {
    round as u8 + 1
}

impl<T: Tag> Run<'_, T> {
    /// A round's writes. The source has a byte of every value, as often as the longest needs it.
    fn post(&mut self) {
        let to = self.window.base() + (self.posted % PLACES * PLACE) as u64;
        for (part, anew, flags) in self.case.writes() {
            let from = usize::from(value(self.posted) | anew) * FIRST.len();
            let length = part.len() as u32;
            let slice = Slice { region: self.source.id(), offset: from as u64, length };
            let target = RemoteTarget { stag: self.window.stag(), offset: to + part.start as u64 };
            let operation = Operation::Write { payload: Payload::Gather(Gather::from(slice)), target };
            let request = SendRequest { id: 0, operation, signaled: true, fence: false, flags };
            self.end.nic.post_send(&self.end.queue_pair, [request]).unwrap();
        }
        self.posted += 1;
    }

    /// Checks all rounds in flight.
    fn check(&mut self) -> Result<(), String> {
        let mut place = vec![0; PLACE];
        for round in self.over..self.posted {
            self.window.read((round % PLACES * PLACE) as u64, &mut place).unwrap();
            let memory = Memory { place: &place, value: value(round) };
            let is_over = memory.all(FLAG);
            let whole = memory.all(FIRST);
            let is_wrong = match self.case {
                Case::Backward(_) => memory.any(SECOND) && !whole || is_over && !memory.all(SECOND),
                Case::Forward(_) => (memory.any(SECOND) || memory.any(THIRD)) && !whole,
                Case::Unordered => {
                    self.seen.early += usize::from(memory.any(WORD) && !whole);
                    self.seen.older += usize::from(is_over && memory.any(AGAIN));
                    is_over && !memory.all(WORD)
                }
            };
            if is_wrong || is_over && !whole {
                return Err(format!("round {round}: something is seen before what it is to come behind"));
            }
            if is_over && round == self.over {
                self.over += 1;
            }
        }
        Ok(())
    }
}

fn run<T: Tag>(case: Case, seed: u64, networks: usize) -> Result<Seen, String> {
    let world = World::new(seed, Behaviour::default());
    let packets = PacketBehaviour::of_seed(seed);
    let reordering = Delayed { chance: Chance::percent(20), by: Duration::from_micros(700) };
    world.set_packets(PacketBehaviour { links: Settings { reordering, ..packets.links }, ..packets });
    let mut options = PairOptions { networks, ..PairOptions::default() };
    options.settings.rails = if networks > 1 { Rails::All { flows: 2 } } else { Rails::One };
    let pair = Pair::<T>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    let region = |end: &End<T>, bytes, access| end.nic.registry().register(end.domain, bytes, access, 0).unwrap();
    let window = region(&pair.passive, vec![0; PLACES * PLACE], Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let bytes = (0..256).flat_map(|value| core::iter::repeat_n(value as u8, FIRST.len())).collect();
    let source = region(&pair.active, bytes, Access::LOCAL_READ);
    let seen = Seen::default();
    let mut run = Run { case, end: &pair.active, source, window, posted: 0, over: 0, seen };
    let (mut outcome, mut completions) = (Ok(()), Vec::new());
    let finished = pair.run(LIMIT, || {
        while run.posted < (run.over + AHEAD).min(ROUNDS) {
            run.post();
        }
        pair.active.take_sends(&mut completions);
        outcome = run.check();
        outcome.is_err() || run.over == ROUNDS
    });
    outcome?;
    if finished { Ok(run.seen) } else { Err(format!("stuck after {}: {:?}", run.over, pair.active.queue_pair.error())) }
}

/// How many networks join the ends: one, with one rail; or three, with two flows each.
const NETWORKS: [usize; 2] = [0, 3];

#[test]
fn a_backward_fence_waits_for_all_that_was_posted_before() {
    let backward = RequestFlags::BACKWARD_FENCE;
    for seed in seeds(15) {
        for (networks, flags) in NETWORKS.into_iter().zip([backward, backward.with(RequestFlags::UNORDERED)]) {
            run::<Edge>(Case::Backward(flags), seed, networks).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        }
    }
}

#[test]
fn behind_a_forward_fence_all_wait() {
    for seed in seeds(15) {
        for networks in NETWORKS {
            let case = Case::Forward(RequestFlags::FORWARD_FENCE);
            run::<Edge>(case, seed, networks).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        }
    }
}

/// Without the flags it shows.
#[test]
fn without_a_fence_nobody_waits() {
    for case in [Case::Backward(RequestFlags::NONE), Case::Forward(RequestFlags::NONE)] {
        assert!((0..10).any(|seed| run::<Edge>(case, seed, 0).is_err()), "{case:?}");
    }
}

#[test]
fn what_is_unordered_waits_for_nothing_and_the_flag_behind_it_for_all() {
    let (mut early, mut older) = (0, 0);
    for seed in seeds(15) {
        for networks in NETWORKS {
            let seen =
                run::<Edge>(Case::Unordered, seed, networks).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
            (early, older) = (early + seen.early, older + seen.older);
        }
    }
    assert!(early > 0 && older > 0, "{early} words were early, {older} old writes won");
}

/// Where all comes in order anyway, flags change nothing; where the peer may place what comes early, and can't be kept
/// from it, fences are refused.
#[test]
fn over_iwarp_order_is_kept_or_the_fence_refused() {
    let fences = RequestFlags::BACKWARD_FENCE.with(RequestFlags::FORWARD_FENCE);
    let all = fences.with(RequestFlags::UNORDERED);
    for seed in seeds(3) {
        for case in [Case::Backward(all), Case::Forward(all), Case::Unordered] {
            let seen = run::<Iwarp>(case, seed, 0).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
            assert_eq!((seen.early, seen.older), (0, 0));
        }
    }
    let world = World::new(1, Behaviour::default());
    let mut options = PairOptions::default();
    options.passive.mpa.markers = Some(MarkerSpacing::Standard);
    let pair = Pair::<Iwarp>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    let window = RemoteTarget { stag: weft_base::Stag(1), offset: 0 };
    let payload = Payload::Inline(weft_rdmap::InlineBytes::new(b"").unwrap());
    let operation = Operation::Write { payload, target: window };
    for (flags, expected) in [(fences, Err(PostError::NoFences)), (RequestFlags::UNORDERED, Ok(()))] {
        let request = SendRequest { id: 0, operation, signaled: true, fence: false, flags };
        let posted = pair.active.nic.post_send(&pair.active.queue_pair, [request]);
        assert_eq!(posted.map_err(|refused| refused.error), expected, "{flags:?}");
    }
}
