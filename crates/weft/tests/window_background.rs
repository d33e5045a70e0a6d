//! Windows of a rank that makes no call: the NIC's thread runs their machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod ranks;

use ranks::{TRANSPORTS, ranks};
use weft::window::{Asserts, Fence, Team, Window, WindowOptions};

/// No machine is so slow.
const LONG: Duration = Duration::from_secs(60);

fn read(window: &Window) -> u64 {
    let mut bytes = [0; 8];
    window.memory().read(0, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

fn put(window: &mut Window, rank: usize, value: u64) {
    window.put(rank, 0, &value.to_le_bytes()).unwrap();
}

/// Waits without a call of the team.
fn see(window: &Window, wanted: u64) {
    let start = Instant::now();
    while read(window) != wanted {
        assert!(start.elapsed() < LONG, "{} where {wanted} was put", read(window));
        thread::sleep(Duration::from_micros(100));
    }
}

/// In each epoch rank 0 puts a few bytes, which go as a message, and rank 1 sees them before it calls the fence.
fn puts_to_one_that_computes(team: &Team) -> u64 {
    const EPOCHS: u64 = 20;
    let options = WindowOptions { fence: Fence::Tagged, ..WindowOptions::default() };
    let mut window = team.allocate(8, &options).unwrap();
    window.fence(Asserts::default()).unwrap();
    for epoch in 1..=EPOCHS {
        match team.rank() {
            0 => put(&mut window, 1, epoch),
            _ => see(&window, epoch),
        }
        window.fence(Asserts::default()).unwrap();
    }
    window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
    window.free().unwrap();
    team.served_in_background()
}

#[test]
fn a_rank_that_makes_no_call_gets_what_goes_as_messages() {
    for transport in TRANSPORTS {
        let served = ranks(2, transport, |team| puts_to_one_that_computes(&team));
        assert!(served[1] > 0, "{transport:?}: served in the background {served:?} times");
    }
}

/// A rank that polls another endpoint of its NIC all the time makes no call of the window either.
#[test]
fn a_rank_whose_nic_is_busy_with_calls_for_other_things_gets_them_too() {
    let served = ranks(2, TRANSPORTS[0], |team| {
        let stop = Arc::new(AtomicBool::new(false));
        let poller = (team.rank() == 1).then(|| {
            let (team, stop) = (team.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    team.endpoint().progress();
                    thread::yield_now();
                }
            })
        });
        let served = puts_to_one_that_computes(&team);
        stop.store(true, Ordering::Relaxed);
        poller.into_iter().for_each(|poller| poller.join().unwrap());
        served
    });
    assert!(served[1] > 0, "{served:?}");
}

/// Calls of several threads take turns, also beside the NIC's thread, and the last one to drop a team ends it.
#[test]
fn a_team_may_be_used_by_several_threads_and_dropped_by_any() {
    ranks(2, TRANSPORTS[2], |team| {
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        window.fence(Asserts::default()).unwrap();
        let turns = Arc::new(AtomicU64::new(0));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let (team, turns) = (team.clone(), Arc::clone(&turns));
                thread::spawn(move || {
                    for _ in 0..200 {
                        team.progress();
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for epoch in 1..=50 {
            put(&mut window, 1 - team.rank(), epoch);
            window.fence(Asserts::default()).unwrap();
            assert_eq!(read(&window), epoch);
            // The other one puts again only when this one has read.
            window.fence(Asserts::default()).unwrap();
        }
        window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
        window.free().unwrap();
        drop(team);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(turns.load(Ordering::Relaxed), 600);
    });
}
