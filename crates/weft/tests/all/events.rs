//! Completion queues as descriptors, for poll loops of the application's own.

use std::os::fd::AsFd;

use crate::common::{Pair, each_kind};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft::endpoint::EventQueue;
use weft::verbs::{Arm, CompletionQueue, Progress, WorkRequest};

/// Waits until the descriptor is readable.
fn sleep_on(completions: &CompletionQueue) {
    let mut descriptors = [PollFd::new(completions.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut descriptors, PollTimeout::from(60_000u16)).unwrap();
    assert_eq!(ready, 1, "an event in time");
}

fn is_readable(completions: &CompletionQueue) -> bool {
    let mut descriptors = [PollFd::new(completions.as_fd(), PollFlags::POLLIN)];
    poll(&mut descriptors, PollTimeout::ZERO).unwrap() == 1
}

/// The loop that the documentation describes: arm, poll, sleep, acknowledge, poll.
fn next(completions: &CompletionQueue, arm: Arm) -> u64 {
    loop {
        completions.arm(arm);
        if let Some(completion) = completions.poll() {
            return completion.id;
        }
        sleep_on(completions);
        completions.acknowledge();
        if let Some(completion) = completions.poll() {
            return completion.id;
        }
    }
}

#[test]
fn an_armed_queue_becomes_readable() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        for id in 0..100 {
            pair.passive.queue_pair.post_receive(id, &[]).unwrap();
            pair.active.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().id(id)).unwrap();
            assert_eq!(next(&pair.passive.completions, Arm::Any), id);
            assert_eq!(next(&pair.active.completions, Arm::Any), id);
        }
    });
}

/// Between arming and sleeping a program polls once more. That leaves the NIC to its own thread.
#[test]
fn a_look_after_arming_does_not_take_the_nic_back() {
    let pair = Pair::new(crate::common::Kind::plain(Progress::Hybrid));
    let context = &pair.context;
    let events = EventQueue::new(context).unwrap();
    let completions = &pair.passive.completions;
    let caller_turns = || context.counters().caller_turns;
    let checks: [(&str, &dyn Fn() -> bool); 3] = [
        ("poll", &|| completions.poll().is_none()),
        ("poll_into", &|| completions.poll_into(&mut Vec::new(), 8) == 0),
        ("poll of events", &|| events.poll().is_none()),
    ];
    for (name, check) in checks {
        for round in 0..100 {
            completions.arm(Arm::Any);
            events.arm();
            let before = caller_turns();
            assert!(check() && completions.is_empty() && events.is_empty());
            assert_eq!(caller_turns(), before, "{name} in round {round}");
        }
        // A thread that polls again does not sleep, and runs the NIC as before, unless its thread has it at that
        // moment.
        let before = caller_turns();
        while caller_turns() == before {
            assert!(check());
        }
    }
}

#[test]
fn a_sleeper_is_woken_by_another_thread_that_sends() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        for id in 0..20 {
            pair.passive.queue_pair.post_receive(id, &[]).unwrap();
        }
        std::thread::scope(|scope| {
            let sleeper =
                scope.spawn(|| (0..20).for_each(|id| assert_eq!(next(&pair.passive.completions, Arm::Any), id)));
            for _ in 0..20 {
                pair.active.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            }
            sleeper.join().unwrap();
        });
    });
}

#[test]
fn only_what_was_solicited_wakes_a_queue_that_is_armed_for_that() {
    let kind = crate::common::Kind::plain(weft::verbs::Progress::Thread);
    let pair = Pair::new(kind);
    for id in 0..3 {
        pair.passive.queue_pair.post_receive(id, &[]).unwrap();
    }
    let completions = &pair.passive.completions;
    completions.arm(Arm::Solicited);
    pair.active.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().id(10)).unwrap();
    pair.passive.done(0);
    assert!(!is_readable(completions), "nobody was asked to be woken by that");
    pair.active.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().solicited().id(11)).unwrap();
    sleep_on(completions);
    completions.acknowledge();
    assert!(!is_readable(completions));
    assert!(pair.passive.done(1).solicited);
    // An event comes once; the queue must be armed for the next one. A failure wakes as well.
    completions.arm(Arm::Solicited);
    drop(pair.active);
    sleep_on(completions);
    assert_eq!(completions.poll().map(|completion| completion.id), Some(2));
}
