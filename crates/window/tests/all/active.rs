//! Post, start, complete and wait: what is waited for, in whatever order it comes, and what is refused.

use weft_base::{Random, RegionId, Slice, Time};
use weft_window::{
    Access, Action, ActiveError, Asserts, Carrier, Event, Fence, FenceError, LockError, Message, OperationError, Order,
    Part, PeerError, Request, Settings, Window,
};

const CARRIER: Carrier = Carrier { order: Order::None, notices: true, flush: true };

fn access(rank: usize) -> Access {
    Access { rank, offset: 0, local: Slice { region: RegionId { index: 0, generation: 0 }, offset: 0, length: 8 } }
}

/// Something in flight to a rank.
enum Thing {
    Round(Part, u32, u32, Vec<u64>),
    Plain(Message<'static>),
    Placed(u32),
    Complete(Request),
}

struct World {
    windows: Vec<Window>,
    things: Vec<(usize, usize, Thing)>,
    random: Random,
    /// Updates that were placed at each rank.
    placed: Vec<u32>,
}

impl World {
    fn new(ranks: usize, fence: Fence, seed: u64) -> Self {
        let make = |rank| Window::new(Settings::new(fence, 64, CARRIER), rank, ranks, Time::ZERO).unwrap();
        let windows = (0..ranks).map(make).collect();
        let mut world = Self { windows, things: Vec::new(), random: Random::new(seed), placed: vec![0; ranks] };
        while world.step() {}
        for window in &mut world.windows {
            assert_eq!(window.poll_event(), Some(Event::Created));
        }
        world
    }

    fn pump(&mut self) {
        for from in 0..self.windows.len() {
            while let Some(action) = self.windows[from].poll_action() {
                match action {
                    Action::Write { request, access, notice, .. } => {
                        self.things.push((from, access.rank, Thing::Placed(notice.expect("it must be counted"))));
                        self.things.push((from, from, Thing::Complete(request)));
                    }
                    Action::Read { request, .. } => self.things.push((from, from, Thing::Complete(request))),
                    Action::Send { to, message, .. } => {
                        let thing = match message {
                            Message::Round { part, sequence, round, values } => {
                                Thing::Round(part, sequence, round, values.to_vec())
                            }
                            Message::Post => Thing::Plain(Message::Post),
                            Message::Complete { count } => Thing::Plain(Message::Complete { count }),
                            other => panic!("{other:?}"),
                        };
                        self.things.push((from, to, thing));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Something arrives, whatever was sent before it. Whether anything did.
    fn step(&mut self) -> bool {
        self.pump();
        if self.things.is_empty() {
            return false;
        }
        let at = self.random.below(self.things.len() as u64) as usize;
        let (from, to, thing) = self.things.swap_remove(at);
        let window = &mut self.windows[to];
        match thing {
            Thing::Round(part, sequence, round, values) => {
                window.handle_message(from, Message::Round { part, sequence, round, values: &values })
            }
            Thing::Plain(message) => window.handle_message(from, message),
            Thing::Placed(epoch) => {
                self.placed[to] += 1;
                window.handle_placed(from, epoch)
            }
            Thing::Complete(request) => window.handle_complete(request),
        }
        .unwrap();
        self.pump();
        true
    }

    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            assert!(self.step(), "nothing moves any more");
        }
    }
}

#[test]
fn exposures_end_when_all_has_come_in_whatever_order() {
    for seed in 0..300 {
        for fence in [Fence::TwoSided, Fence::OneSided, Fence::Counted] {
            // Ranks 0 and 1 write to 2 and 3; 4 knows nothing of it.
            let mut world = World::new(5, fence, seed);
            for round in 1..4u32 {
                for target in [2, 3] {
                    world.windows[target].post(&[0, 1]).unwrap();
                }
                for origin in [0, 1] {
                    world.windows[origin].start(&[2, 3]).unwrap();
                    world.until(|world| world.windows[origin].has_started());
                    for _ in 0..=origin {
                        world.windows[origin].put(access(2)).unwrap();
                    }
                    world.windows[origin].get(access(3)).unwrap();
                    world.windows[origin].complete().unwrap();
                }
                for target in [2, 3] {
                    world.until(|world| world.windows[target].end_exposure().unwrap());
                    assert_eq!(world.placed[target], if target == 2 { 3 * round } else { 0 });
                }
                world.until(|world| [0, 1].iter().all(|&origin| world.windows[origin].has_completed()));
            }
            assert!(!world.step());
        }
    }
}

#[test]
fn both_at_once_and_with_oneself() {
    let mut world = World::new(2, Fence::Counted, 7);
    for rank in 0..2 {
        world.windows[rank].post(&[0, 1]).unwrap();
        world.windows[rank].start(&[0, 1]).unwrap();
    }
    world.until(|world| world.windows.iter().all(Window::has_started));
    for rank in 0..2 {
        (0..2).for_each(|to| assert!(world.windows[rank].put(access(to)).is_ok()));
        world.windows[rank].complete().unwrap();
    }
    world.until(|world| world.windows[0].end_exposure().unwrap());
    world.until(|world| world.windows[1].end_exposure().unwrap());
    assert_eq!(world.placed, [2, 2]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let mut world = World::new(3, Fence::Counted, 1);
    let window = &mut world.windows[0];
    assert_eq!(window.post(&[1, 3]), Err(ActiveError::Rank { rank: 3, ranks: 3 }));
    assert_eq!(window.start(&[1, 1]), Err(ActiveError::Rank { rank: 1, ranks: 3 }));
    assert_eq!((window.complete(), window.end_exposure()), (Err(ActiveError::NotStarted), Err(ActiveError::NotPosted)));
    window.start(&[1]).unwrap();
    assert_eq!((window.start(&[1]), window.complete()), (Err(ActiveError::Twice), Err(ActiveError::NotStarted)));
    assert_eq!(window.put(access(1)), Err(OperationError::NoEpoch), "it has not posted");
    assert_eq!(window.waiting_for(), Some(1));
    assert_eq!(window.lock(2, true), Err(LockError::InEpoch));
    assert_eq!(window.fence(Asserts::default(), Time::ZERO), Err(FenceError::Active));
    let other = &mut world.windows[1];
    other.post(&[0]).unwrap();
    assert_eq!(other.post(&[0]), Err(ActiveError::Twice));
    assert_eq!(other.waiting_for(), Some(0));
    assert_eq!(other.handle_placed(2, 0), Err(PeerError::Unexpected(2)), "it is exposed to rank 0 alone");
    assert_eq!(other.handle_message(2, Message::Complete { count: 0 }), Err(PeerError::Unexpected(2)));
    world.until(|world| world.windows[0].has_started());
    assert_eq!(world.windows[0].handle_message(1, Message::Post), Ok(()), "the next one may come early");
    assert_eq!(world.windows[0].handle_message(1, Message::Post), Err(PeerError::Unexpected(1)));
    assert_eq!(world.windows[0].put(access(2)), Err(OperationError::NoEpoch), "it is no target");
    let locked = &mut world.windows[2];
    locked.lock(1, false).unwrap();
    assert_eq!(locked.post(&[0]), Err(ActiveError::Locked(1)));
    let silent = Settings::new(Fence::OneSided, 64, Carrier { order: Order::Whole, notices: false, flush: false });
    let mut alone = Window::new(silent, 0, 1, Time::ZERO).unwrap();
    assert_eq!(alone.post(&[]), Err(ActiveError::NotCreated));
    assert_eq!(alone.poll_event(), Some(Event::Created));
    assert_eq!(alone.post(&[]), Err(ActiveError::NoNotices));
}
