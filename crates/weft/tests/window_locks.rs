//! Locks of windows: one rank at a time, or several, on parts whose ranks do nothing.

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
use weft::window::{Asserts, Combine, Element, Error, Fence, FenceError, LockError, WindowOptions};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn what_one_rank_does_under_a_lock_alone_no_other_disturbs() {
    const ROUNDS: u64 = 25;
    for transport in TRANSPORTS {
        let counts = ranks(4, transport, |team| {
            let mut window = team.allocate(16, &WindowOptions::default()).unwrap();
            for _ in 0..ROUNDS {
                window.lock(0, true, LIMIT).unwrap();
                let count = window.get(0, 8, 8).unwrap();
                window.wait(count).unwrap();
                let count = u64::from_ne_bytes(window.take(count).unwrap().try_into().unwrap());
                window.put(0, 8, &(count + 1).to_ne_bytes()).unwrap();
                window.unlock(0).unwrap();
            }
            team.barrier().unwrap();
            let mut bytes = [0; 8];
            window.memory().read(8, &mut bytes).unwrap();
            window.free().unwrap();
            u64::from_ne_bytes(bytes)
        });
        assert_eq!(counts, [4 * ROUNDS, 0, 0, 0], "{transport:?}");
    }
}

#[test]
fn who_asks_for_a_lock_or_a_start_and_does_not_wait_goes_on_meanwhile() {
    for transport in TRANSPORTS {
        ranks(2, transport, |team| {
            let mut window = team.allocate(16, &WindowOptions::default()).unwrap();
            let other = 1 - team.rank();
            // Each has locked its own part, and gives that back while it tries to get the other's.
            window.lock(team.rank(), true, LIMIT).unwrap();
            team.barrier().unwrap();
            window.begin_lock(other, true).unwrap();
            assert!(!window.test_lock(other).unwrap(), "the other rank has it");
            team.barrier().unwrap();
            window.unlock(team.rank()).unwrap();
            while !window.test_lock(other).unwrap() {}
            window.put(other, 0, &[7; 8]).unwrap();
            window.unlock(other).unwrap();
            // And so with an epoch of two: each has started before it has posted.
            window.begin_start(&[other]).unwrap();
            assert!(!window.test_started().unwrap(), "the other rank has not posted");
            team.barrier().unwrap();
            window.post(&[other]).unwrap();
            while !window.test_started().unwrap() {}
            window.put(other, 8, &[8; 8]).unwrap();
            window.complete().unwrap();
            while !window.test_exposed().unwrap() {}
            assert_eq!(window.memory().to_vec(), [[7; 8], [8; 8]].concat());
            window.free().unwrap();
        });
    }
}

#[test]
fn a_part_is_locked_and_written_while_its_rank_does_nothing() {
    for transport in TRANSPORTS {
        for fence in [Fence::TwoSided, Fence::OneSided, Fence::Counted] {
            ranks(3, transport, move |team| {
                let mut window = team.allocate(32, &WindowOptions::fence(fence)).unwrap();
                if team.rank() == 0 {
                    // No thread here calls in: what others do must be there for them to read.
                    thread::sleep(Duration::from_millis(100));
                    team.barrier().unwrap();
                    assert_eq!(window.memory().to_vec()[..8], 3u64.to_ne_bytes());
                    assert_eq!(window.memory().to_vec()[8..24], [[1; 8], [2; 8]].concat());
                } else {
                    let own = team.rank() as u64;
                    window.lock(0, false, LIMIT).unwrap();
                    window.put(0, own * 8, &[own as u8; 8]).unwrap();
                    window.accumulate(0, 0, Element::U64, Combine::Sum, &own.to_ne_bytes()).unwrap();
                    window.flush(0).unwrap();
                    let back = window.get(0, own * 8, 8).unwrap();
                    window.unlock(0).unwrap();
                    assert_eq!(window.take(back).unwrap(), [own as u8; 8], "it was flushed");
                    team.barrier().unwrap();
                }
                window.free().unwrap();
            });
        }
    }
}

#[test]
fn all_parts_can_be_locked_at_once() {
    for transport in TRANSPORTS {
        ranks(4, transport, |team| {
            let mut window = team.allocate(64, &WindowOptions::default()).unwrap();
            window.lock_all(LIMIT).unwrap();
            for to in 0..4 {
                window.put(to, 8 + 8 * team.rank() as u64, &[team.rank() as u8 + 1; 8]).unwrap();
            }
            window.flush_all().unwrap();
            (0..4).for_each(|to| {
                window.accumulate(to, 0, Element::I64, Combine::Sum, &3i64.to_ne_bytes()).unwrap();
            });
            window.unlock_all().unwrap();
            window.unlock_all().unwrap();
            team.barrier().unwrap();
            let expected = [12i64.to_ne_bytes(), [1; 8], [2; 8], [3; 8], [4; 8]].concat();
            assert_eq!(window.memory().to_vec()[..40], expected);
            window.free().unwrap();
        });
    }
}

#[test]
fn fences_go_on_after_locks_and_not_before_they_are_given_back() {
    ranks(2, Transport::Iwarp, |team| {
        let (own, other) = (team.rank(), 1 - team.rank());
        for fence in [Fence::TwoSided, Fence::OneSided, Fence::OneSidedBarrier, Fence::RemoteImmediate, Fence::Counted]
        {
            let mut window = team.allocate(64, &WindowOptions::fence(fence)).unwrap();
            for round in 0..3u8 {
                window.lock(other, round % 2 == 0, LIMIT).unwrap();
                window.accumulate(other, 0, Element::U8, Combine::Sum, &[1]).unwrap();
                assert!(matches!(window.fence(Asserts::default()), Err(Error::Fence(FenceError::Locked(_)))));
                assert!(matches!(window.lock(other, true, LIMIT), Err(Error::Lock(LockError::Twice(_)))));
                window.unlock(other).unwrap();
                window.fence(Asserts::default()).unwrap();
                assert!(matches!(window.lock(other, true, LIMIT), Err(Error::Lock(LockError::InEpoch))));
                window.accumulate(other, 1, Element::U8, Combine::Sum, &[1]).unwrap();
                window.put(other, 2, &[own as u8]).unwrap();
                window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
                // The other may lock already.
                window.lock(own, true, LIMIT).unwrap();
                let bytes = window.memory().to_vec();
                assert!(bytes[1..3] == [round + 1, other as u8] && bytes[0] > round, "{fence:?}: {:?}", &bytes[..3]);
                window.unlock(own).unwrap();
            }
            window.free().unwrap();
        }
    });
}

#[test]
fn a_lock_that_is_not_to_be_had_names_who_has_it() {
    ranks(2, Transport::Iwarp, |team| {
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        if team.rank() == 1 {
            window.lock(0, true, LIMIT).unwrap();
            team.barrier().unwrap();
            team.barrier().unwrap();
            window.unlock(0).unwrap();
        } else {
            team.barrier().unwrap();
            let error = window.lock(0, false, Duration::from_millis(50)).unwrap_err();
            // On a busy machine not even one attempt may have been answered.
            assert!(matches!(error, Error::Taken { rank: 0, holder: Some(1) | None, .. }), "{error}");
            team.barrier().unwrap();
        }
        team.barrier().unwrap();
    });
}

#[test]
fn who_waits_for_the_lock_of_a_process_that_has_died_hears_of_it() {
    if env::var_os("WEFT_RANK").is_some() {
        let team = team_of(Group::from_environment().unwrap().unwrap(), Transport::Iwarp);
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        if team.rank() == 1 {
            window.lock(0, true, LIMIT).unwrap();
        }
        // It may be gone before the others are through.
        let met = team.barrier();
        if team.rank() == 1 {
            std::process::exit(0);
        }
        let error = met.and_then(|()| window.lock(0, true, LIMIT)).unwrap_err();
        assert!(matches!(error, Error::Failed { .. } | Error::Lost { .. } | Error::Taken { .. }), "{error}");
        return;
    }
    let launch = Launch::new(3).unwrap();
    let start = |rank| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "who_waits_for_the_lock_of_a_process_that_has_died_hears_of_it"]);
        launch.command(rank, &mut command);
        command
    };
    all_succeed((0..3).map(start));
}

#[test]
fn some_ranks_have_epochs_of_which_the_others_know_nothing() {
    for transport in TRANSPORTS {
        for fence in [Fence::TwoSided, Fence::OneSidedBarrier, Fence::Counted, Fence::Neighbour] {
            ranks(4, transport, move |team| {
                let neighbours = if fence == Fence::Neighbour { vec![(team.rank() + 2) % 4] } else { Vec::new() };
                let options = WindowOptions { neighbours, ..WindowOptions::fence(fence) };
                let mut window = team.allocate(20_000, &options).unwrap();
                // Rank 3 takes no part; the others pass something on in a ring, in both directions.
                if team.rank() < 3 {
                    ring(&mut window, team.rank());
                }
                window.free().unwrap();
            });
        }
    }
}

fn ring(window: &mut weft::window::Window, rank: usize) {
    let others: Vec<usize> = (0..3).filter(|other| *other != rank).collect();
    for round in 0..20u64 {
        window.post(&others).unwrap();
        window.start(&others, LIMIT).unwrap();
        for &other in &others {
            let place = rank as u64 * 5000;
            window.put(other, place, &vec![round as u8 + 1; 5000]).unwrap();
            window.accumulate(other, 16_000, Element::U64, Combine::Sum, &(rank as u64 + 1).to_ne_bytes()).unwrap();
        }
        let before = window.fetch(others[0], 16_008, Element::U64, Combine::Sum, &1u64.to_ne_bytes()).unwrap();
        window.complete().unwrap();
        assert!(window.take(before).is_some());
        if round % 2 == 0 {
            window.wait_exposed(LIMIT).unwrap();
        } else {
            while !window.test_exposed().unwrap() {}
        }
        let bytes = window.memory().to_vec();
        for &other in &others {
            assert_eq!(bytes[other * 5000..][..5000], vec![round as u8 + 1; 5000]);
        }
        let sum = (round + 1) * others.iter().map(|other| *other as u64 + 1).sum::<u64>();
        assert_eq!(bytes[16_000..16_008], sum.to_ne_bytes());
    }
}

#[test]
fn a_target_that_does_not_post_is_named() {
    ranks(2, Transport::Iwarp, |team| {
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        if team.rank() == 0 {
            let error = window.start(&[1], Duration::from_millis(50)).unwrap_err();
            assert!(matches!(error, Error::Late { rank: 1, .. }), "{error}");
        }
        team.barrier().unwrap();
    });
}
