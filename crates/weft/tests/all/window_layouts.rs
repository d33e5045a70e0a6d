//! Operations on many blocks: whatever the layouts, here and there, and however they go, memory becomes what a flat
//! model says.
//!
//! More seeds: `WEFT_LAYOUT_SEEDS=100`; one that failed: `WEFT_LAYOUT_SEED=17 WEFT_LAYOUT_SEEDS=1`.

use crate::ranks::{TRANSPORTS, ranks};
use weft::verbs::Transport;
use weft::window::{
    Asserts, Block, Combine, Element, Error, Fence, Layout, LayoutError, OperationError, Team, Window, WindowOptions,
};
use weft_base::Random;

const FENCES: [Fence; 7] = [
    Fence::TwoSided,
    Fence::OneSided,
    Fence::OneSidedBarrier,
    Fence::RemoteImmediate,
    Fence::Counted,
    Fence::Neighbour,
    Fence::Tagged,
];

/// Each origin has this many bytes at each target to put into; behind them are counters that all add to, and behind
/// those bytes that no rank changes.
const PART: u64 = 30_000;
const COUNTERS: u64 = 600;
const CONSTANT: u64 = 20_000;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("WEFT_LAYOUT_SEED").unwrap_or(0);
    first..first + number("WEFT_LAYOUT_SEEDS").unwrap_or(3)
}

/// Small numbers, middle ones, and large ones, as often.
fn below_one_of(random: &mut Random, limits: [u64; 3]) -> u64 {
    let limit = limits[random.below(3) as usize];
    random.below(limit)
}

/// A layout of whole units in this many bytes, whose blocks do not overlap.
fn layout(random: &mut Random, room: u64, unit: u32) -> Layout {
    let unit_long = u64::from(unit);
    let units = room / unit_long;
    if units < 400 {
        return Layout::contiguous(units as u32 / 2 * unit);
    }
    match random.below(4) {
        0 => Layout::contiguous((random.below(units.min(3000)) as u32) * unit),
        1 => {
            let block = 1 + below_one_of(random, [2, 10, 200]).min(units - 1);
            let stride = block + below_one_of(random, [1, 4, 4000]);
            let most = if stride > units { 1 } else { (units - block) / stride + 1 };
            let count = 1 + random.below(most.min(400));
            Layout::strided(count as u32, block as u32 * unit, stride * unit_long).unwrap()
        }
        2 => {
            let row = Layout::strided(1 + random.below(5) as u32, unit, 3 * unit_long).unwrap();
            let rows = (units / 20).clamp(1, 40);
            row.repeated(1 + random.below(rows) as u32, 16 * unit_long).unwrap()
        }
        _ => {
            let (mut blocks, mut at) = (Vec::new(), 0);
            while at < units && blocks.len() < 100 {
                let length = below_one_of(random, [3, 50, 900]).min(units - at);
                blocks.push(Block { offset: at * unit_long, length: length as u32 * unit });
                at += length + random.below(200);
            }
            // Their order is the operation's, and not that of memory.
            (1..blocks.len()).for_each(|at| blocks.swap(at, random.below(at as u64 + 1) as usize));
            Layout::indexed(&blocks).unwrap()
        }
    }
}

/// Another layout with as many bytes, for this rank's memory.
fn source(random: &mut Random, length: u32, unit: u32) -> Layout {
    match (random.below(3), length / unit) {
        (0, units) if units > 0 => {
            let blocks: Vec<Block> = (0..units.min(50))
                .map(|at| {
                    let length = if at + 1 == units.min(50) { length - at * unit } else { unit };
                    Block { offset: u64::from(at * 3 * unit), length }
                })
                .collect();
            Layout::indexed(&blocks).unwrap()
        }
        (1, units) => Layout::strided(units, unit, 2 * u64::from(unit)).unwrap(),
        _ => Layout::contiguous(length),
    }
}

enum Deed {
    Put { to: usize, offset: u64, there: Layout, memory: Vec<u8>, here: Layout },
    Add { to: usize, offset: u64, there: Layout, memory: Vec<u8>, here: Layout },
    Get { from: usize, offset: u64, there: Layout },
}

/// What a rank does in an epoch: all ranks know it of each.
fn deeds(seed: u64, epoch: u64, rank: usize, size: usize) -> Vec<Deed> {
    let mut random = Random::new(seed << 32 ^ epoch << 16 ^ rank as u64 ^ 0x5a5a);
    let mut used = vec![0; size];
    let mut all = Vec::new();
    for _ in 0..random.below(8) {
        let to = (rank + random.below(3) as usize + size - 1) % size;
        let to = if to == rank { (rank + 1) % size } else { to };
        match random.below(4) {
            0 => {
                let offset = PART * size as u64 + 8 * random.below(COUNTERS);
                let room = PART * size as u64 + 8 * COUNTERS - offset;
                let there = layout(&mut random, room, 8);
                let here = source(&mut random, there.length(), 8);
                // Operands of whole elements, of which a sum is the same in any order.
                let memory = (0..here.extent()).map(|_| random.below(256) as u8).collect();
                all.push(Deed::Add { to, offset, there, memory, here });
            }
            1 => {
                let offset = PART * size as u64 + 8 * COUNTERS + random.below(CONSTANT / 2);
                let room = PART * size as u64 + 8 * COUNTERS + CONSTANT - offset;
                all.push(Deed::Get { from: to, offset, there: layout(&mut random, room, 1) });
            }
            _ => {
                let offset = PART * rank as u64 + used[to];
                let there = layout(&mut random, (PART - used[to]).min(12_000), 1);
                used[to] += u64::from(there.extent());
                let here = source(&mut random, there.length(), 1);
                let memory = (0..here.extent()).map(|_| random.below(256) as u8).collect();
                all.push(Deed::Put { to, offset, there, memory, here });
            }
        }
    }
    all
}

fn constant(rank: usize) -> Vec<u8> {
    (0..CONSTANT).map(|at| (at * 31 + rank as u64 * 7) as u8).collect()
}

fn apply(model: &mut [u8], deeds: &[Deed], target: usize) {
    for deed in deeds {
        match deed {
            Deed::Put { to, offset, there, memory, here } if *to == target => {
                there.unpack(&here.pack(memory).unwrap(), &mut model[*offset as usize..]).unwrap();
            }
            Deed::Add { to, offset, there, memory, here } if *to == target => {
                let packed = here.pack(memory).unwrap();
                let model = &mut model[*offset as usize..];
                let mut sums = Vec::new();
                for (old, new) in there.pack(model).unwrap().as_chunks().0.iter().zip(packed.as_chunks().0) {
                    sums.extend(u64::from_ne_bytes(*old).wrapping_add(u64::from_ne_bytes(*new)).to_ne_bytes());
                }
                there.unpack(&sums, model).unwrap();
            }
            _ => {}
        }
    }
}

fn options(team: &Team, fence: Fence, pack_below: u32) -> WindowOptions {
    let (rank, size) = (team.rank(), team.size());
    let mut neighbours = vec![(rank + 1) % size, (rank + size - 1) % size];
    neighbours.dedup();
    let neighbours = if fence == Fence::Neighbour { neighbours } else { Vec::new() };
    WindowOptions { neighbours, pack_below, ..WindowOptions::fence(fence) }
}

fn run(team: &Team, fence: Fence, pack_below: u32, seed: u64) {
    let (rank, size) = (team.rank(), team.size());
    let mut model = vec![0; (PART * size as u64 + 8 * COUNTERS) as usize];
    model.extend(constant(rank));
    let mut window = team.create(model.clone(), &options(team, fence, pack_below)).unwrap();
    window.fence(Asserts::default()).unwrap();
    for epoch in 0..3 {
        let mut gets = Vec::new();
        for deed in deeds(seed, epoch, rank, size) {
            match deed {
                Deed::Put { to, offset, there, memory, here } => {
                    window.put_layout(to, offset, &there, &memory, &here).unwrap();
                }
                Deed::Add { to, offset, there, memory, here } => {
                    window.accumulate_layout(to, offset, Element::U64, Combine::Sum, &there, &memory, &here).unwrap();
                }
                Deed::Get { from, offset, there } => {
                    let request = window.get_layout(from, offset, &there).unwrap();
                    gets.push((request, from, offset - PART * size as u64 - 8 * COUNTERS, there));
                }
            }
        }
        window.fence(Asserts { no_succeed: epoch == 1, ..Asserts::default() }).unwrap();
        for (request, from, offset, there) in gets {
            let expected = there.pack(&constant(from)[offset as usize..]).unwrap();
            assert!(window.take(request) == Some(expected), "rank {rank}, {fence:?}, {pack_below}, {there:?}");
        }
        (0..size).for_each(|from| apply(&mut model, &deeds(seed, epoch, from, size), rank));
        // Where something follows the others may continue, when all have checked.
        if epoch != 1 {
            team.barrier().unwrap();
        }
        let found = window.memory().to_vec();
        let wrong = found.iter().zip(&model).position(|(found, expected)| found != expected);
        assert_eq!(
            wrong, None,
            "WEFT_LAYOUT_SEED={seed} WEFT_LAYOUT_SEEDS=1: rank {rank} of {size}, {fence:?}, packed below {pack_below}, \
             epoch {epoch}"
        );
        team.barrier().unwrap();
        if epoch == 1 {
            window.fence(Asserts { no_precede: true, ..Asserts::default() }).unwrap();
        }
    }
    window.free().unwrap();
}

#[test]
fn memory_becomes_what_a_flat_model_says() {
    for seed in seeds() {
        let transport = TRANSPORTS[(seed % 3) as usize];
        ranks(2 + (seed % 3) as usize, transport, move |team| {
            for (at, fence) in FENCES.into_iter().enumerate() {
                let pack_below = [u32::MAX, 64, 0][(seed as usize + at) % 3];
                run(&team, fence, pack_below, seed);
            }
        });
    }
}

#[test]
fn under_a_lock_and_between_post_and_wait_blocks_go_too() {
    ranks(2, Transport::Iwarp, |team| {
        let (rank, other) = (team.rank(), 1 - team.rank());
        let limit = std::time::Duration::from_secs(60);
        let mut window = team.allocate(4096, &options(&team, Fence::Counted, u32::MAX)).unwrap();
        let comb = Layout::strided(100, 2, 20).unwrap();
        let put = |window: &mut Window, value: u8, shift: u64| {
            window.put_layout(other, shift, &comb, &[value; 200], &Layout::contiguous(200)).unwrap();
        };
        window.lock(other, true, limit).unwrap();
        put(&mut window, 1, 0);
        window.flush(other).unwrap();
        let back = window.get_layout(other, 0, &comb).unwrap();
        window.wait(back).unwrap();
        assert_eq!(window.take(back).unwrap(), [1; 200]);
        window.unlock(other).unwrap();
        team.barrier().unwrap();
        window.post(&[other]).unwrap();
        window.start(&[other], limit).unwrap();
        put(&mut window, 2, 2);
        window.accumulate_layout(other, 4, Element::U16, Combine::Sum, &comb, &[3; 200], &comb_of(200)).unwrap();
        window.complete().unwrap();
        window.wait_exposed(limit).unwrap();
        let found = window.memory().to_vec();
        assert!(found[..2000].chunks_exact(20).all(|row| row[..8] == [1, 1, 2, 2, 3, 3, 0, 0]), "rank {rank}");
        window.free().unwrap();
    });
}

fn comb_of(length: u32) -> Layout {
    Layout::contiguous(length)
}

#[test]
fn layouts_that_make_no_sense_are_refused_and_nothing_is_written() {
    ranks(2, Transport::Iwarp, |team| {
        let other = 1 - team.rank();
        let mut window = team.allocate(1000, &options(&team, Fence::Counted, 512)).unwrap();
        window.fence(Asserts::default()).unwrap();
        let comb = Layout::strided(10, 4, 100).unwrap();
        let (whole, bytes) = (Layout::contiguous(40), [9; 40]);
        let beyond = window.put_layout(other, 97, &comb, &bytes, &whole).unwrap_err();
        let expected = OperationError::Outside { offset: 97, length: 904, bytes: 1000 };
        assert!(matches!(beyond, Error::Operation(error) if error == expected), "{beyond}");
        let unlike = window.put_layout(other, 0, &comb, &bytes, &Layout::contiguous(39)).unwrap_err();
        assert!(matches!(unlike, Error::Layout(LayoutError::Unlike { here: 39, there: 40 })), "{unlike}");
        let short = window.put_layout(other, 0, &comb, &bytes[..39], &whole).unwrap_err();
        assert!(matches!(short, Error::Layout(LayoutError::Beyond { extent: 40, length: 39 })), "{short}");
        for (element, offset) in [(Element::U64, 0), (Element::U32, 2)] {
            let odd = window.accumulate_layout(other, offset, element, Combine::Sum, &comb, &bytes, &whole);
            assert!(matches!(odd, Err(Error::Operation(OperationError::Elements { .. }))), "{odd:?}");
        }
        // Of nothing there is nothing to do.
        let nothing = Layout::contiguous(0);
        window.put_layout(other, 1000, &nothing, &[], &nothing).unwrap();
        let got = window.get_layout(other, 5, &nothing).unwrap();
        window.fence(Asserts::default()).unwrap();
        assert_eq!(window.take(got), Some(Vec::new()));
        assert!(window.memory().to_vec().iter().all(|byte| *byte == 0));
        window.free().unwrap();
    });
}
