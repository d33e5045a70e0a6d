//! Windows of 2 to 8 ranks, each a thread with a NIC of its own: every fence, over every transport, the same bytes.

#[path = "common/children.rs"]
mod children;
mod ranks;

use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use children::all_succeed;
use ranks::{TRANSPORTS, ranks, team_of};
use weft::group::{Group, Launch};
use weft::verbs::Transport;
use weft::window::{
    Asserts, Combine, Element, Error, Fence, FenceError, OperationError, Team, Window, WindowError, WindowOptions,
};

const FENCES: [Fence; 8] = [
    Fence::Auto,
    Fence::TwoSided,
    Fence::OneSided,
    Fence::OneSidedBarrier,
    Fence::RemoteImmediate,
    Fence::Counted,
    Fence::Neighbour,
    Fence::Tagged,
];

fn options(fence: Fence, team: &Team) -> WindowOptions {
    let (rank, size) = (team.rank(), team.size());
    let mut neighbours = vec![(rank + 1) % size, (rank + size - 1) % size];
    neighbours.dedup();
    WindowOptions {
        fence,
        neighbours: if fence == Fence::Neighbour { neighbours } else { Vec::new() },
        ..Default::default()
    }
}

/// A plain generator: all ranks know what each of them does in each epoch.
struct Dice(u64);

impl Dice {
    fn of(epoch: u64, rank: usize) -> Self {
        Self(epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (rank as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Bytes of the part of each origin, at each target; then the counters that all share.
const PART: u64 = 20_000;
const COUNTERS: u64 = 3000;

/// What a rank does in an epoch.
enum Deed {
    Put { to: usize, offset: u64, bytes: Vec<u8> },
    Add { to: usize, first: u64, values: Vec<u64> },
}

fn deeds(epoch: u64, rank: usize, size: usize, only_neighbours: bool) -> Vec<Deed> {
    let mut dice = Dice::of(epoch, rank);
    let mut position = vec![0; size];
    let mut all = Vec::new();
    for _ in 0..dice.below(12) {
        let to = match only_neighbours {
            true => (rank + if dice.below(2) == 0 { 1 } else { size - 1 }) % size,
            false => dice.below(size as u64) as usize,
        };
        if dice.below(3) == 0 {
            let first = dice.below(COUNTERS);
            let count = if dice.below(4) == 0 { COUNTERS - first } else { 1 };
            let values = (0..count).map(|at| at * 3 + dice.0 % 1000).collect();
            all.push(Deed::Add { to, first, values });
            continue;
        }
        let length = [0, 1, 8, 100, 5000][dice.below(5) as usize].min(PART - position[to]);
        let bytes = (0..length).map(|_| dice.below(256) as u8).collect();
        all.push(Deed::Put { to, offset: rank as u64 * PART + position[to], bytes });
        position[to] += length;
    }
    all
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// What a rank's memory must be after an epoch.
fn apply(memory: &mut [u8], deeds: &[Deed], target: usize, size: usize) {
    for deed in deeds {
        match deed {
            Deed::Put { to, offset, bytes } if *to == target => {
                memory[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Deed::Add { to, first, values } if *to == target => {
                let start = (size as u64 * PART + first * 8) as usize;
                for (word, value) in memory[start..].chunks_exact_mut(8).zip(values) {
                    let sum = u64::from_ne_bytes((&*word).try_into().unwrap()).wrapping_add(*value);
                    word.copy_from_slice(&sum.to_ne_bytes());
                }
            }
            _ => {}
        }
    }
}

fn run(team: &Team, fence: Fence, epochs: u64) {
    let (rank, size) = (team.rank(), team.size());
    let bytes = (size as u64 * PART + COUNTERS * 8) as usize;
    let mut window = team.allocate(bytes, &options(fence, team)).unwrap();
    let mut expected = vec![0; bytes];
    for epoch in 0..epochs {
        let quiet = Asserts { no_precede: epoch % 2 == 0, ..Asserts::default() };
        window.fence(quiet).unwrap();
        for deed in deeds(epoch, rank, size, fence == Fence::Neighbour) {
            match deed {
                Deed::Put { to, offset, bytes } => window.put(to, offset, &bytes),
                Deed::Add { to, first, values } => {
                    let offset = size as u64 * PART + first * 8;
                    window.accumulate(to, offset, Element::U64, Combine::Sum, &words(&values))
                }
            }
            .unwrap();
        }
        let last = Asserts { no_succeed: epoch % 3 == 0, ..Asserts::default() };
        window.fence(last).unwrap();
        (0..size)
            .for_each(|from| apply(&mut expected, &deeds(epoch, from, size, fence == Fence::Neighbour), rank, size));
        // No rank does anything until the next fence, at which all ranks are.
        let found = window.memory().to_vec();
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "rank {rank} of {size}, {:?}, epoch {epoch}", window.fence_kind());
    }
    window.free().unwrap();
}

fn every_fence(transport: Transport) {
    for size in [2, 3, 5, 8] {
        ranks(size, transport, |team| FENCES.iter().for_each(|fence| run(&team, *fence, 6)));
    }
}

#[test]
fn every_fence_gives_the_same_bytes_over_iwarp() {
    every_fence(Transport::Iwarp);
}

#[test]
fn every_fence_gives_the_same_bytes_over_edge() {
    every_fence(Transport::Edge);
}

#[test]
fn every_fence_gives_the_same_bytes_over_shared_memory() {
    every_fence(Transport::SharedMemory);
}

#[test]
fn a_team_of_one_has_windows_too() {
    ranks(1, Transport::Iwarp, |team| FENCES[..6].iter().for_each(|fence| run(&team, *fence, 4)));
}

#[test]
fn gets_fetches_and_swaps_give_what_was_there() {
    for transport in TRANSPORTS {
        ranks(4, transport, |team| {
            for fence in FENCES {
                gets(&team, fence);
            }
        });
    }
}

fn gets(team: &Team, fence: Fence) {
    let (rank, size) = (team.rank(), team.size());
    let next = (rank + 1) % size;
    let own: Vec<u8> = (0..40_000u32).map(|at| (at * 7 + rank as u32) as u8).collect();
    let mut window = team.create(own, &options(fence, team)).unwrap();
    window.fence(Asserts::default()).unwrap();
    let whole = window.get(next, 0, 40_000).unwrap();
    let part = window.get(next, 11, 3).unwrap();
    window.fence(Asserts::default()).unwrap();
    let theirs: Vec<u8> = (0..40_000u32).map(|at| (at * 7 + next as u32) as u8).collect();
    assert!(window.take(whole).unwrap() == theirs && window.take(part).unwrap() == theirs[11..14], "{fence:?}");
    assert_eq!(window.take(whole), None);
    window.free().unwrap();

    let mut window = team.allocate(8 * 4096, &options(fence, team)).unwrap();
    window.fence(Asserts::default()).unwrap();
    // More than one atomic of the endpoint takes.
    let many: Vec<u64> = (1..=2000).collect();
    let added = window.fetch(next, 0, Element::U64, Combine::Sum, &words(&many)).unwrap();
    let swapped =
        window.compare_and_swap(next, 8 * 4000, Element::U64, &words(&[0]), &words(&[rank as u64 + 7])).unwrap();
    let failed = window.compare_and_swap(next, 8 * 4001, Element::U32, &[9; 4], &[1; 4]).unwrap();
    window.fence(Asserts::default()).unwrap();
    assert_eq!(window.take(added).unwrap(), words(&[0; 2000]));
    assert_eq!((window.take(swapped).unwrap(), window.take(failed).unwrap()), (vec![0; 8], vec![0; 4]));
    let read = window.fetch(next, 8, Element::U64, Combine::Read, &words(&[0; 1999])).unwrap();
    window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
    assert_eq!(window.take(read).unwrap(), words(&many[1..]));
    let before = (rank + size - 1) % size;
    let memory = window.memory();
    let word = |at: usize| memory.load_u64(at as u64 * 8, std::sync::atomic::Ordering::SeqCst).unwrap();
    assert_eq!([word(1999), word(2000), word(4000), word(4001)], [2000, 0, before as u64 + 7, 0]);
    window.free().unwrap();
}

#[test]
fn requests_can_be_waited_for_before_the_fence_where_they_move_at_once() {
    ranks(2, Transport::Iwarp, |team| {
        let mut window = team.allocate(64, &WindowOptions::fence(Fence::Counted)).unwrap();
        window.fence(Asserts::default()).unwrap();
        let other = 1 - team.rank();
        let fetched = window.fetch(other, 0, Element::I32, Combine::Max, &5i32.to_ne_bytes()).unwrap();
        window.wait(fetched).unwrap();
        assert!(window.test(fetched));
        assert_eq!(window.take(fetched), Some(vec![0; 4]));
        let again = window.fetch(other, 0, Element::I32, Combine::Min, &3i32.to_ne_bytes()).unwrap();
        window.wait(again).unwrap();
        assert_eq!(window.take(again), Some(5i32.to_ne_bytes().to_vec()));
        let put = window.put_owned(other, 8, vec![7; 8]).unwrap();
        window.wait(put).unwrap();
        window.fence(Asserts::default()).unwrap();
        window.free().unwrap();

        let mut window = team.allocate(64, &WindowOptions::fence(Fence::TwoSided)).unwrap();
        window.fence(Asserts::default()).unwrap();
        let put = window.put(other, 0, &[1; 8]).unwrap();
        assert!(!window.test(put) && matches!(window.wait(put), Err(Error::Deferred)));
        window.fence(Asserts::default()).unwrap();
        assert!(window.test(put) && window.wait(put).is_ok());
        window.free().unwrap();
    });
}

#[test]
fn several_windows_of_one_team_do_not_mix() {
    ranks(3, Transport::Iwarp, |team| {
        let next = (team.rank() + 1) % 3;
        let make = |fence| team.allocate(16, &WindowOptions::fence(fence)).unwrap();
        let mut windows: Vec<Window> = [Fence::Counted, Fence::OneSided, Fence::TwoSided].map(make).into();
        windows.iter_mut().for_each(|window| window.fence(Asserts::default()).unwrap());
        for round in 0..20u8 {
            for (number, window) in windows.iter_mut().enumerate() {
                window.put(next, 0, &[round, number as u8, team.rank() as u8]).unwrap();
            }
            // In the other order than they were written.
            for window in windows.iter_mut().rev() {
                window.fence(Asserts::default()).unwrap();
            }
            team.barrier().unwrap();
            for (number, window) in windows.iter().enumerate() {
                let mut found = [0; 3];
                window.memory().read(0, &mut found).unwrap();
                assert_eq!(found, [round, number as u8, ((team.rank() + 2) % 3) as u8]);
            }
            team.barrier().unwrap();
        }
        windows.into_iter().for_each(|window| drop(window.free().unwrap()));
    });
}

#[test]
fn more_operations_than_the_endpoint_takes_at_a_time_wait_for_their_turn() {
    ranks(2, Transport::Iwarp, |team| {
        for fence in [Fence::Counted, Fence::TwoSided, Fence::OneSidedBarrier] {
            let options = WindowOptions { operations: 10_000, ..WindowOptions::fence(fence) };
            let mut window = team.allocate(80_000, &options).unwrap();
            window.fence(Asserts::default()).unwrap();
            let other = 1 - team.rank();
            for number in 0..10_000u64 {
                window.put(other, number * 8, &number.to_ne_bytes()).unwrap();
            }
            window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
            assert_eq!(window.memory().to_vec(), words(&(0..10_000).collect::<Vec<_>>()), "{fence:?}");
            window.free().unwrap();
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_written() {
    ranks(2, Transport::Iwarp, |team| {
        let other = 1 - team.rank();
        let mut window =
            team.allocate(100, &WindowOptions { operations: 2, ..WindowOptions::fence(Fence::Counted) }).unwrap();
        let operation = |outcome: Result<_, Error>| match outcome {
            Err(Error::Operation(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(operation(window.put(other, 0, &[1])), OperationError::NoEpoch);
        window.fence(Asserts::default()).unwrap();
        let outside = OperationError::Outside { offset: 99, length: 2, bytes: 100 };
        assert_eq!(operation(window.put(other, 99, &[1, 2])), outside);
        assert!(matches!(operation(window.get(other, u64::MAX, 2)), OperationError::Outside { .. }));
        assert_eq!(operation(window.put(2, 0, &[1])), OperationError::NoSuchRank { rank: 2, ranks: 2 });
        let odd = window.accumulate(other, 4, Element::U64, Combine::Sum, &[1; 8]);
        assert_eq!(operation(odd), OperationError::Elements { offset: 4, length: 8 });
        let bits = window.accumulate(other, 0, Element::F64, Combine::BitOr, &[1; 8]);
        assert_eq!(operation(bits), OperationError::Elements { offset: 0, length: 8 });
        let compare = window.compare_and_swap(other, 0, Element::U64, &[1; 4], &[1; 8]);
        assert_eq!(operation(compare), OperationError::Elements { offset: 0, length: 8 });
        let get = window.get(other, 0, 1).unwrap();
        window.put(other, 0, &[0]).unwrap();
        let third = window.put(other, 0, &[0]);
        assert!(third.is_ok() || matches!(third, Err(Error::Operation(OperationError::TooMany(2)))));
        let wrong = window.fence(Asserts { no_precede: true, ..Asserts::default() });
        assert!(matches!(wrong, Err(Error::Fence(FenceError::Preceded(2 | 3)))), "{wrong:?}");
        window.fence(Asserts::default()).unwrap();
        assert!(window.take(get).is_some());
        assert!(window.memory().to_vec().iter().all(|byte| *byte == 0));
        window.free().unwrap();
    });
}

#[test]
fn windows_that_are_made_unlike_fail_at_all_ranks() {
    ranks(3, Transport::Iwarp, |team| {
        let fence = if team.rank() == 1 { Fence::OneSided } else { Fence::Counted };
        let error = team.allocate(8, &WindowOptions::fence(fence)).unwrap_err();
        assert!(matches!(error, Error::Failed { error: WindowError::Unlike { .. }, .. }), "{error}");
        // A rank that can't make its part says so.
        let neighbours = if team.rank() == 2 { vec![7] } else { Vec::new() };
        let options = WindowOptions { neighbours, ..WindowOptions::fence(Fence::Counted) };
        match team.allocate(8, &options).unwrap_err() {
            Error::Create(_) if team.rank() == 2 => {}
            Error::Elsewhere { rank: 2 } if team.rank() != 2 => {}
            other => panic!("{other:?}"),
        }
        // The team is as good as before.
        run(&team, Fence::Counted, 2);
    });
}

#[test]
fn a_rank_that_does_not_fence_is_named_by_all_others() {
    for fence in [Fence::Counted, Fence::OneSided, Fence::TwoSided] {
        ranks(3, Transport::Iwarp, move |team| {
            let (limit, answer_limit) = (Duration::from_millis(400), Duration::from_millis(400));
            let options = WindowOptions { limit, answer_limit, ..WindowOptions::fence(fence) };
            // Making it may be late on a busy machine, too: then there is nothing to see.
            let Ok(mut window) = team.allocate(8, &options) else { return };
            if team.rank() == 1 {
                // It answers questions, and does nothing else.
                while !matches!(window.put(0, 0, &[1]), Err(Error::Failed { .. })) {
                    team.progress();
                    thread::sleep(Duration::from_millis(1));
                }
                return;
            }
            let error = window.fence(Asserts::default()).and_then(|()| window.fence(Asserts::default())).unwrap_err();
            let Error::Failed { error, .. } = error else { panic!("{error}") };
            // A rank that has answered is not blamed; on a busy machine another one may not have.
            let is_right = match error {
                WindowError::Late { rank, answers: true, .. } => rank == 1,
                WindowError::Late { answers: false, .. } | WindowError::Told { .. } => true,
                _ => false,
            };
            assert!(is_right, "{error}");
        });
    }
}

#[test]
fn a_rank_that_drops_its_window_ends_it_for_all() {
    for transport in TRANSPORTS {
        ranks(3, transport, |team| {
            let mut window = team.allocate(1 << 16, &WindowOptions::fence(Fence::Counted)).unwrap();
            // Another rank may be notified before this fence has ended there.
            let opened = window.fence(Asserts::default());
            if team.rank() == 1 {
                return;
            }
            let error = opened.and_then(|()| window.fence(Asserts::default())).unwrap_err();
            let Error::Failed { error, .. } = error else { panic!("{error}") };
            assert!(matches!(error, WindowError::Told { rank: 1, .. } | WindowError::Lost { .. }), "{error}");
            let again = window.put(0, 0, &[1]).unwrap_err();
            assert!(matches!(again, Error::Failed { .. }), "{again}");
        });
    }
}

#[test]
fn a_process_that_dies_in_an_epoch_is_named_by_all_others() {
    const SIZE: usize = 4;
    if env::var_os("WEFT_RANK").is_some() {
        let team = team_of(Group::from_environment().unwrap().unwrap(), Transport::Iwarp);
        let mut window = team.allocate(64, &WindowOptions::fence(Fence::Counted)).unwrap();
        window.fence(Asserts::default()).unwrap();
        // All connections are there.
        (0..SIZE).for_each(|to| assert!(window.put(to, team.rank() as u64, &[1]).is_ok()));
        // Others may be notified of the death before this fence has ended at them.
        let ended = window.fence(Asserts::default());
        if team.rank() == 2 {
            std::process::exit(0);
        }
        let error = ended.and_then(|()| window.fence(Asserts::default())).unwrap_err();
        let Error::Failed { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.rank(), Some(2), "{error}");
        return;
    }
    let launch = Launch::new(SIZE).unwrap();
    let start = |rank| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "a_process_that_dies_in_an_epoch_is_named_by_all_others"]);
        launch.command(rank, &mut command);
        command
    };
    all_succeed((0..SIZE).map(start));
}

#[test]
fn what_must_go_on_does_while_a_rank_waits_in_a_fence() {
    let called = std::sync::atomic::AtomicBool::new(false);
    let called = std::sync::Arc::new(called);
    ranks(2, Transport::Iwarp, move |team| {
        let order = std::sync::atomic::Ordering::SeqCst;
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        if team.rank() == 0 {
            let called = std::sync::Arc::clone(&called);
            team.while_waiting(Duration::from_micros(100), move || called.store(true, order));
        } else {
            // It comes when the other one waits, and does something else meanwhile.
            let has_come = (0..30_000).any(|_| {
                thread::sleep(Duration::from_millis(1));
                called.load(order)
            });
            assert!(has_come, "nothing was called in 30 s");
        }
        window.fence(Asserts::default()).unwrap();
        window.free().unwrap();
    });
}

#[test]
fn what_is_no_message_waits_for_the_fence_after_epochs_of_messages_and_has_room() {
    ranks(3, Transport::SharedMemory, |team| {
        let options = WindowOptions { operations: 2, ..WindowOptions::fence(Fence::Tagged) };
        let mut window = team.allocate(3 * 8, &options).unwrap();
        let (next, place) = ((team.rank() + 1) % 3, 8 * team.rank() as u64);
        window.fence(Asserts::default()).unwrap();
        for epoch in 1..=6_u64 {
            assert_eq!(window.defers(), epoch > 4, "epoch {epoch}");
            window.put(next, place, &epoch.to_ne_bytes()).unwrap();
            window.fence(Asserts::default()).unwrap();
        }
        let before = (team.rank() + 2) % 3;
        let gets: Vec<_> = (0..5).map(|_| window.get(next, place, 8).unwrap()).collect();
        let added = window.accumulate(next, 8 * next as u64, Element::U64, Combine::Sum, &7_u64.to_ne_bytes()).unwrap();
        assert!(matches!(window.wait(gets[4]), Err(Error::Deferred)));
        assert!(!window.test(added));
        window.fence(Asserts::default()).unwrap();
        assert!(!window.defers(), "the next ones need not wait");
        for get in gets {
            assert_eq!(window.take(get), Some(6_u64.to_ne_bytes().to_vec()));
        }
        let get = window.get(before, 8 * before as u64, 8).unwrap();
        window.wait(get).unwrap();
        assert_eq!(window.take(get), Some(7_u64.to_ne_bytes().to_vec()));
        window.fence(Asserts::default()).unwrap();
        window.free().unwrap();
    });
}

/// More than a rank keeps of what comes before its epoch: in number, and in bytes.
#[test]
fn puts_of_an_epoch_come_whatever_their_number() {
    for (puts, length) in [(600_usize, 8), (140, Window::MESSAGE_BYTES)] {
        ranks(3, Transport::SharedMemory, move |team| {
            let mut window = team.allocate(3 * puts * length, &WindowOptions::fence(Fence::Tagged)).unwrap();
            let (rank, next, before) = (team.rank(), (team.rank() + 1) % 3, (team.rank() + 2) % 3);
            let place = |from: usize, put: usize| ((from * puts + put) * length) as u64;
            window.fence(Asserts::default()).unwrap();
            // The first epochs begin behind a barrier, and in them nothing waits; that goes once they have few puts.
            let mut has_waited = false;
            for (epoch, count) in [1, 1, 1, 1, puts, puts, 1, 1, 1, 1, puts].into_iter().enumerate() {
                let byte = |put: usize| (epoch * 50 + rank + put) as u8;
                let waits = window.defers();
                for put in 0..count {
                    let request = window.put(next, place(rank, put), &vec![byte(put); length]).unwrap();
                    has_waited |= waits && !window.test(request);
                }
                window.fence(Asserts::default()).unwrap();
                for put in 0..count {
                    let mut found = vec![0; length];
                    window.memory().read(place(before, put), &mut found).unwrap();
                    let expected = (epoch * 50 + before + put) as u8;
                    // A rank that is ahead may have put the next ones.
                    let is_there = |byte: u8| byte == expected || byte == expected.wrapping_add(50);
                    assert!(found.iter().all(|&byte| is_there(byte)), "epoch {epoch}, put {put}: {found:?}");
                }
            }
            assert!(has_waited);
            window.fence(Asserts::default()).unwrap();
            window.free().unwrap();
        });
    }
}
