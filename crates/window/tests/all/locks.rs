//! Locks: what may be done when, and in which order it goes out.

use weft_base::{RegionId, Slice, Time};
use weft_memory::{Combine, Element};
use weft_window::{
    Access, Action, Asserts, Carrier, Event, Fence, FenceError, LockError, Message, OperationError, Order, PeerError,
    Request, Settings, Update, Window,
};

const CARRIER: Carrier = Carrier { order: Order::Whole, notices: true, flush: true };

fn access(rank: usize) -> Access {
    Access { rank, offset: 0, local: Slice { region: RegionId { index: 0, generation: 0 }, offset: 0, length: 8 } }
}

/// Both windows of a group of two, made.
fn pair(fence: Fence) -> [Window; 2] {
    let make = |rank| Window::new(Settings::new(fence, 64, CARRIER), rank, 2, Time::ZERO).unwrap();
    let mut windows = [make(0), make(1)];
    settle(&mut windows);
    windows.iter_mut().for_each(|window| assert_eq!(window.poll_event(), Some(Event::Created)));
    windows
}

/// Carries messages until there are no more. Nothing else may be requested.
fn settle(windows: &mut [Window; 2]) {
    loop {
        let mut any = false;
        for from in 0..2 {
            let mut sent = Vec::new();
            while let Some(action) = windows[from].poll_action() {
                let Action::Send { to, message: Message::Round { part, sequence, round, values }, .. } = action else {
                    panic!("{action:?}")
                };
                sent.push((to, part, sequence, round, values.to_vec()));
            }
            for (to, part, sequence, round, values) in sent {
                any = true;
                let message = Message::Round { part, sequence, round, values: &values };
                windows[to].handle_message(from, message).unwrap();
            }
        }
        if !any {
            return;
        }
    }
}

/// One that has locked the part of rank 1.
fn locked(fence: Fence, exclusive: bool) -> Window {
    let [mut window, _] = pair(fence);
    window.lock(1, exclusive).unwrap();
    assert_eq!(window.poll_action(), Some(Action::Lock { to: 1, exclusive }));
    assert!(!window.holds(1) && !window.is_free(1));
    assert_eq!(window.put(access(1)), Err(OperationError::NoEpoch));
    window.handle_locked(1).unwrap();
    assert!(window.holds(1));
    window
}

#[test]
fn what_is_done_under_a_lock_moves_at_once_and_nobody_is_told() {
    for fence in [Fence::TwoSided, Fence::OneSided, Fence::Counted, Fence::Neighbour] {
        let mut window = locked(fence, false);
        let (put, sum) = (Update::Replace, Update::Combine { element: Element::U64, combine: Combine::Sum });
        let first = window.put(access(1)).unwrap();
        let second = window.accumulate(access(1), sum).unwrap();
        let third = window.get(access(1)).unwrap();
        let write = |request: Request, update| Action::Write { request, access: access(1), update, notice: None };
        assert_eq!(window.poll_action(), Some(write(first, put)));
        assert_eq!(window.poll_action(), Some(write(second, sum)));
        assert_eq!(window.poll_action(), Some(Action::Read { request: third, access: access(1) }));
        assert_eq!(window.poll_action(), None);
        // Elsewhere there is no lock.
        assert_eq!(window.put(access(0)), Err(OperationError::NoEpoch));
    }
}

#[test]
fn a_lock_goes_when_all_is_placed_and_read() {
    let mut window = locked(Fence::Counted, true);
    let (put, get) = (window.put(access(1)).unwrap(), window.get(access(1)).unwrap());
    window.unlock(1).unwrap();
    let mut given = Vec::new();
    while let Some(action) = window.poll_action() {
        given.push(matches!(action, Action::Flush { to: 1 }));
    }
    assert_eq!(given, [false, false, true], "the flush is behind what it is for");
    assert_eq!(window.put(access(1)), Err(OperationError::NoEpoch));
    window.handle_complete(put).unwrap();
    window.handle_flushed(1).unwrap();
    assert_eq!(window.poll_action(), None, "a read is not over");
    window.handle_complete(get).unwrap();
    assert_eq!(window.poll_action(), Some(Action::Unlock { to: 1, exclusive: true }));
    assert!(!window.is_free(1));
    window.handle_unlocked(1).unwrap();
    assert!(window.is_free(1));
    assert_eq!(window.handle_unlocked(1), Err(PeerError::NoRequest));
    window.lock(1, false).unwrap();
}

#[test]
fn a_flush_keeps_the_lock() {
    let mut window = locked(Fence::Counted, false);
    let put = window.put(access(1)).unwrap();
    window.flush(1).unwrap();
    window.flush(1).unwrap();
    let actions = std::iter::from_fn(|| window.poll_action().map(|action| matches!(action, Action::Flush { .. })));
    assert_eq!(actions.collect::<Vec<_>>(), [false, true], "one flush serves both");
    window.handle_flushed(1).unwrap();
    assert!(!window.is_flushed(1));
    window.handle_complete(put).unwrap();
    assert!(window.is_flushed(1) && window.holds(1));
}

#[test]
fn locks_and_fences_do_not_mix() {
    let mut window = locked(Fence::Counted, false);
    assert_eq!(window.fence(Asserts::default(), Time::ZERO), Err(FenceError::Locked(1)));
    assert_eq!(window.lock(1, true), Err(LockError::Twice(1)));
    assert_eq!(window.lock(2, true), Err(LockError::NoSuchRank { rank: 2, ranks: 2 }));
    assert_eq!((window.flush(0), window.unlock(0)), (Err(LockError::NotHeld(0)), Err(LockError::NotHeld(0))));
    assert_eq!(
        (window.handle_locked(0), window.handle_locked(9)),
        (Err(PeerError::NoRequest), Err(PeerError::NoSuchRank(9)))
    );

    let mut windows = pair(Fence::Counted);
    for (asserts, follows) in [(Asserts::default(), true), (Asserts { no_succeed: true, ..Asserts::default() }, false)]
    {
        windows.iter_mut().for_each(|window| window.fence(asserts, Time::ZERO).unwrap());
        assert_eq!(windows[0].lock(1, false), Err(LockError::InEpoch));
        settle(&mut windows);
        assert_eq!(windows[0].lock(1, false).is_err(), follows);
    }
    let mut new = Window::new(Settings::new(Fence::Counted, 64, CARRIER), 0, 2, Time::ZERO).unwrap();
    assert_eq!(new.lock(1, false), Err(LockError::NotCreated));
    new.handle_lost(1).unwrap();
    assert_eq!((new.lock(1, false), new.flush(1)), (Err(LockError::Failed), Err(LockError::Failed)));
}
