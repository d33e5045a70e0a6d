//! What is refused, and what each rank is notified of when another does not keep up. Messages arrive at once here,
//! except those of ranks that are silent.

use std::time::Duration;

use weft_base::{RegionId, Slice, Time};
use weft_memory::{Combine, Element};
use weft_window::{
    Access, Action, Asserts, Carrier, Event, Fence, FenceError, Load, Message, OperationError, Order, Part, PeerError,
    Settings, Update, Window, WindowError,
};

const CARRIER: Carrier = Carrier { order: Order::Whole, notices: true, flush: false };
const BYTES: u64 = 64;

fn settings(fence: Fence) -> Settings {
    Settings { operations: 4, limit: Duration::from_secs(10), ..Settings::new(fence, BYTES, CARRIER) }
}

fn access(rank: usize, offset: u64, length: u32) -> Access {
    Access { rank, offset, local: Slice { region: RegionId { index: 0, generation: 0 }, offset: 0, length } }
}

/// What the world makes of an action, with values of its own.
enum Sent {
    Round(Part, u32, u32, Vec<u64>),
    Plain(Message<'static>),
    Placed(u32),
}

struct Group {
    windows: Vec<Window>,
    silent: Vec<bool>,
    events: Vec<Vec<Event>>,
}

impl Group {
    fn new(all: Vec<Settings>) -> Self {
        let ranks = all.len();
        let window =
            |(rank, settings)| Window::new(settings, rank, ranks, Time::ZERO).expect("these settings are good");
        let windows = all.into_iter().enumerate().map(window).collect();
        let mut group = Self { windows, silent: vec![false; ranks], events: vec![Vec::new(); ranks] };
        group.settle();
        group
    }

    /// All of them made a window with this fence.
    fn alike(ranks: usize, fence: Fence) -> Self {
        Self::new(vec![settings(fence); ranks])
    }

    /// The same, in its first epoch.
    fn open(ranks: usize, fence: Fence) -> Self {
        let mut group = Self::alike(ranks, fence);
        group.fence(&vec![Asserts::default(); ranks]);
        assert!(group.windows.iter().all(|window| window.epoch() == 1));
        group.events.iter_mut().for_each(Vec::clear);
        group
    }

    fn fence(&mut self, asserts: &[Asserts]) {
        for (window, &asserts) in self.windows.iter_mut().zip(asserts) {
            window.fence(asserts, Time::ZERO).unwrap();
        }
        self.settle();
    }

    fn timeout(&mut self, seconds: u64) {
        let now = Time::ZERO + Duration::from_secs(seconds);
        self.windows.iter_mut().for_each(|window| window.handle_timeout(now));
        self.settle();
    }

    fn settle(&mut self) {
        let mut goes = true;
        while goes {
            goes = (0..self.windows.len()).filter(|&rank| self.step(rank)).count() > 0;
        }
    }

    fn step(&mut self, rank: usize) -> bool {
        let (mut sent, mut complete) = (Vec::new(), Vec::new());
        while let Some(action) = self.windows[rank].poll_action() {
            match action {
                Action::Write { request, access, notice, .. } => {
                    complete.push(request);
                    sent.extend(notice.map(|epoch| (access.rank, Sent::Placed(epoch))));
                }
                Action::Deliver { request, access, epoch, last, .. } => {
                    complete.push(request);
                    sent.push((access.rank, Sent::Placed(epoch)));
                    sent.extend(last.map(|count| (access.rank, Sent::Plain(Message::Finish { epoch, count }))));
                }
                Action::Read { request, .. } => complete.push(request),
                Action::Flush { .. } => unreachable!("the carrier keeps order"),
                Action::Lock { .. } | Action::Unlock { .. } => unreachable!("nobody locks here"),
                Action::Send { to, message, .. } => sent.push((to, own(message))),
            }
        }
        complete.iter().for_each(|&request| self.windows[rank].handle_complete(request).unwrap());
        let went = !sent.is_empty() || !complete.is_empty();
        for (to, message) in sent.into_iter().filter(|&(to, _)| !self.silent[rank] && !self.silent[to]) {
            let window = &mut self.windows[to];
            match message {
                Sent::Round(part, sequence, round, values) => {
                    window.handle_message(rank, Message::Round { part, sequence, round, values: &values }).unwrap();
                }
                Sent::Plain(message) => window.handle_message(rank, message).unwrap(),
                Sent::Placed(epoch) => window.handle_placed(rank, epoch).unwrap(),
            }
        }
        let event = self.windows[rank].poll_event();
        self.events[rank].extend(event);
        went || event.is_some()
    }

    fn failure(&self, rank: usize) -> Option<WindowError> {
        self.events[rank].iter().find_map(|event| match event {
            Event::Failed(error) => Some(*error),
            _ => None,
        })
    }
}

fn own(message: Message<'_>) -> Sent {
    match message {
        Message::Round { part, sequence, round, values } => Sent::Round(part, sequence, round, values.to_vec()),
        Message::Finish { epoch, count } => Sent::Plain(Message::Finish { epoch, count }),
        Message::Post => Sent::Plain(Message::Post),
        Message::Complete { count } => Sent::Plain(Message::Complete { count }),
        Message::Ready { epoch } => Sent::Plain(Message::Ready { epoch }),
        Message::Ask { epoch } => Sent::Plain(Message::Ask { epoch }),
        Message::Answer { epoch, fenced } => Sent::Plain(Message::Answer { epoch, fenced }),
        Message::Abort { rank } => Sent::Plain(Message::Abort { rank }),
    }
}

#[test]
fn windows_made_with_unlike_arguments_fail_at_all_ranks() {
    let mut all = vec![settings(Fence::Counted); 3];
    all[2].fence = Fence::RemoteImmediate;
    let group = Group::new(all);
    assert_eq!(group.failure(0), Some(WindowError::Unlike { rank: 2 }));
    assert_eq!(group.failure(1), Some(WindowError::Unlike { rank: 2 }));
    assert_eq!(group.failure(2), Some(WindowError::Unlike { rank: 0 }));
}

#[test]
fn windows_of_unlike_sizes_are_fine_and_each_size_is_kept() {
    let mut all = vec![settings(Fence::Counted); 2];
    all[1].bytes = 8;
    let mut group = Group::new(all);
    group.fence(&[Asserts::default(); 2]);
    assert!(group.windows[1].put(access(0, 56, 8)).is_ok());
    let outside = OperationError::Outside { offset: 1, length: 8, bytes: 8 };
    assert_eq!(group.windows[0].put(access(1, 1, 8)), Err(outside));
}

#[test]
fn operations_outside_the_window_or_the_group_are_refused() {
    let mut group = Group::open(2, Fence::Counted);
    let window = &mut group.windows[0];
    for (offset, length) in [(60, 8), (65, 0), (u64::MAX, 8), (0, 65)] {
        let outside = OperationError::Outside { offset, length, bytes: BYTES };
        assert_eq!(window.put(access(1, offset, length)), Err(outside));
        assert_eq!(window.get(access(1, offset, length)), Err(outside));
    }
    assert_eq!(window.put(access(2, 0, 8)), Err(OperationError::NoSuchRank { rank: 2, ranks: 2 }));
    assert!(window.poll_action().is_none(), "nothing of that may reach the carrier");
}

#[test]
fn operations_between_epochs_are_refused() {
    let mut group = Group::alike(2, Fence::Counted);
    assert_eq!(group.windows[0].put(access(1, 0, 8)), Err(OperationError::NoEpoch));
    group.fence(&[Asserts { no_succeed: true, ..Asserts::default() }; 2]);
    assert_eq!(group.windows[0].get(access(1, 0, 8)), Err(OperationError::NoEpoch));
    group.windows[0].fence(Asserts::default(), Time::ZERO).unwrap();
    assert_eq!(group.windows[0].put(access(1, 0, 8)), Err(OperationError::InFence));
    assert_eq!(group.windows[0].fence(Asserts::default(), Time::ZERO), Err(FenceError::InFence));
}

#[test]
fn the_closing_barrier_goes_when_all_assert_that_nothing_follows() {
    for (no_succeed, barriers) in [(false, 1), (true, 0)] {
        let mut group = Group::open(2, Fence::Counted);
        group.windows[0].put(access(1, 0, 8)).unwrap();
        let asserts = Asserts { no_succeed, ..Asserts::default() };
        group.windows.iter_mut().for_each(|window| window.fence(asserts, Time::ZERO).unwrap());
        let mut seen = 0;
        while let Some(action) = group.windows[1].poll_action() {
            assert!(!matches!(action, Action::Send { message: Message::Round { part: Part::Barrier, .. }, .. }));
        }
        // Rank 1 has sent its round, and waits for that of rank 0 and for the put.
        let window = &mut group.windows[1];
        window.handle_message(0, round(Part::Agree, 0, &[1, u64::from(!no_succeed)])).unwrap();
        window.handle_placed(0, 1).unwrap();
        while let Some(action) = window.poll_action() {
            seen +=
                usize::from(matches!(action, Action::Send { message: Message::Round { part: Part::Barrier, .. }, .. }));
        }
        assert_eq!(seen, barriers);
        assert_eq!(window.poll_event().is_some(), no_succeed);
    }
}

fn round(part: Part, sequence: u32, values: &[u64]) -> Message<'_> {
    Message::Round { part, sequence, round: 0, values }
}

#[test]
fn asserts_that_are_untrue_or_unlike_are_found() {
    let mut group = Group::open(2, Fence::Counted);
    group.windows[0].put(access(1, 0, 8)).unwrap();
    let untrue = Asserts { no_precede: true, ..Asserts::default() };
    assert_eq!(group.windows[0].fence(untrue, Time::ZERO), Err(FenceError::Preceded(1)));
    group.fence(&[Asserts { no_succeed: true, ..Asserts::default() }, Asserts::default()]);
    assert!((0..2).all(|rank| group.failure(rank) == Some(WindowError::UnlikeAsserts { epoch: 1 })));
}

#[test]
fn neighbours_only() {
    let ring =
        |rank: usize| Settings { neighbours: vec![(rank + 1) % 4, (rank + 3) % 4], ..settings(Fence::Neighbour) };
    let mut group = Group::new((0..4).map(ring).collect());
    group.fence(&[Asserts::default(); 4]);
    assert_eq!(group.windows[0].put(access(2, 0, 8)), Err(OperationError::NotNeighbour(2)));
    let stranger = Message::Finish { epoch: 1, count: 0 };
    assert_eq!(group.windows[0].handle_message(2, stranger), Err(PeerError::Unexpected(2)));
}

#[test]
fn accumulates_are_of_whole_aligned_elements() {
    let mut group = Group::open(2, Fence::Counted);
    let sum = Update::Combine { element: Element::U32, combine: Combine::Sum };
    let window = &mut group.windows[0];
    for (offset, length) in [(2, 8), (0, 6)] {
        let wrong = OperationError::Elements { offset, length };
        assert_eq!(window.accumulate(access(1, offset, length), sum), Err(wrong));
    }
    assert!(window.accumulate(access(1, 4, 8), sum).is_ok());
    // What compares, and what only reads, must be a fetch.
    for combine in [Combine::SwapIfEqual, Combine::MaskedSwap, Combine::Read] {
        let plain = window.accumulate(access(1, 8, 8), Update::Combine { element: Element::U64, combine });
        assert_eq!(plain, Err(OperationError::Elements { offset: 8, length: 8 }), "{combine:?}");
        assert!(window.accumulate(access(1, 8, 8), Update::Fetch { element: Element::U64, combine }).is_ok());
    }
    let order = Update::Fetch { element: Element::ComplexF32, combine: Combine::Max };
    assert!(window.accumulate(access(1, 8, 8), order).is_err());
}

#[test]
fn no_more_operations_than_the_limit() {
    for fence in [Fence::TwoSided, Fence::Counted] {
        let mut group = Group::open(2, fence);
        let requests: Vec<_> = (0..4).map(|_| group.windows[0].put(access(1, 0, 8)).unwrap()).collect();
        assert_eq!(group.windows[0].put(access(1, 0, 8)), Err(OperationError::TooMany(4)));
        group.fence(&[Asserts::default(); 2]);
        assert!(requests.iter().all(|&request| group.windows[0].is_complete(request)));
        assert_eq!(group.windows[0].handle_complete(requests[0]), Err(PeerError::NoRequest));
        assert!(group.windows[0].put(access(1, 0, 8)).is_ok());
    }
}

const FENCES: [Fence; 5] =
    [Fence::TwoSided, Fence::OneSided, Fence::OneSidedBarrier, Fence::RemoteImmediate, Fence::Counted];

#[test]
fn a_rank_that_never_fences_is_named_by_all_others() {
    for fence in FENCES {
        let mut group = Group::open(5, fence);
        for rank in [0, 1, 2, 4] {
            group.windows[rank].fence(Asserts::default(), Time::ZERO).unwrap();
        }
        group.settle();
        group.timeout(9);
        assert!((0..5).all(|rank| group.failure(rank).is_none()), "{fence:?}: before its time");
        group.timeout(10);
        group.timeout(15);
        let late = WindowError::Late { rank: 3, ranks: 1, epoch: 1, answers: true };
        assert!([0, 1, 2, 4].iter().all(|&rank| group.failure(rank) == Some(late)), "{fence:?}: {:?}", group.events);
        assert_eq!(group.failure(3).and_then(|error| error.rank()), Some(3), "it hears why the others have gone");
    }
}

#[test]
fn a_rank_that_is_silent_is_named_as_such() {
    for fence in FENCES {
        let mut group = Group::open(4, fence);
        group.silent[2] = true;
        group.fence(&[Asserts::default(); 4]);
        group.timeout(10);
        group.timeout(15);
        let late = WindowError::Late { rank: 2, ranks: 1, epoch: 1, answers: false };
        assert!([0, 1, 3].iter().all(|&rank| group.failure(rank) == Some(late)), "{fence:?}: {:?}", group.events);
    }
}

#[test]
fn a_rank_that_dies_in_an_epoch_ends_it_at_all_others() {
    let mut group = Group::open(4, Fence::Counted);
    group.silent[1] = true;
    group.windows[0].put(access(1, 0, 8)).unwrap();
    group.windows[0].handle_lost(1).unwrap();
    group.settle();
    assert_eq!(group.failure(0), Some(WindowError::Lost { rank: 1, epoch: 1 }));
    assert!([2, 3].iter().all(|&rank| group.failure(rank) == Some(WindowError::Told { by: 0, rank: 1 })));
    assert_eq!(group.windows[2].put(access(0, 0, 8)), Err(OperationError::Failed));
    assert_eq!(group.windows[2].fence(Asserts::default(), Time::ZERO), Err(FenceError::Failed));
}

#[test]
fn what_no_peer_can_have_sent_changes_nothing() {
    let mut group = Group::open(2, Fence::OneSided);
    let window = &mut group.windows[0];
    assert_eq!(window.handle_placed(9, 1), Err(PeerError::NoSuchRank(9)));
    for epoch in [0, 2, 3, u32::MAX] {
        let wrong = PeerError::Epoch { here: 1, found: epoch };
        assert_eq!(window.handle_placed(1, epoch), Err(wrong));
        assert_eq!(window.handle_message(1, Message::Ready { epoch }), Err(wrong));
        assert_eq!(window.check(1, epoch, 0, 8), Err(wrong));
    }
    assert_eq!(window.handle_message(1, Message::Abort { rank: 7 }), Err(PeerError::NoSuchRank(7)));
    assert_eq!(window.handle_flushed(1), Err(PeerError::NoRequest));
    window.handle_message(1, Message::Finish { epoch: 1, count: 1 }).unwrap();
    let again = window.handle_message(1, Message::Finish { epoch: 1, count: 1 });
    assert_eq!(again, Err(PeerError::Unexpected(1)));
    let rounds = window.handle_message(1, round(Part::Agree, 7, &[]));
    assert!(matches!(rounds, Err(PeerError::Collective(_))));
}

#[test]
fn a_deferred_put_is_placed_only_inside_the_window_and_in_its_fence() {
    let mut group = Group::open(2, Fence::TwoSided);
    let window = &mut group.windows[0];
    assert_eq!(window.check(1, 1, 0, 8), Err(PeerError::Epoch { here: 1, found: 1 }));
    window.fence(Asserts::default(), Time::ZERO).unwrap();
    assert_eq!(window.check(1, 1, 0, 8), Ok(()));
    assert_eq!(window.check(1, 1, 60, 8), Err(PeerError::Outside { offset: 60, length: 8 }));
}

#[test]
fn bytes_in_a_message_are_placed_in_their_epoch_and_inside_only() {
    let mut group = Group::alike(2, Fence::Counted);
    let epoch = |here, found| Err(PeerError::Epoch { here, found });
    assert_eq!(group.windows[0].check_open(1, 0, 0, 8), epoch(0, 0), "no epoch is open");
    group = Group::open(2, Fence::Counted);
    let window = &mut group.windows[0];
    assert!(window.is_open());
    assert_eq!(window.check_open(1, 1, 56, 8), Ok(()));
    assert_eq!(window.check_open(1, 1, 57, 8), Err(PeerError::Outside { offset: 57, length: 8 }));
    assert_eq!(window.check_open(1, 1, u64::MAX, 8), Err(PeerError::Outside { offset: u64::MAX, length: 8 }));
    assert_eq!(window.check_open(2, 1, 0, 8), Err(PeerError::NoSuchRank(2)));
    assert_eq!((window.check_open(1, 0, 0, 8), window.check_open(1, 2, 0, 8)), (epoch(1, 0), epoch(1, 2)));
    // In the fence, those of its epoch still come; those of the next when this rank has all.
    window.fence(Asserts::default(), Time::ZERO).unwrap();
    assert!(!window.is_open());
    assert_eq!((window.check_open(1, 1, 0, 8), window.check_open(1, 2, 0, 8)), (Ok(()), epoch(1, 2)));
}

/// Two ranks in an epoch of messages that did not begin behind a barrier.
fn open_without_a_barrier() -> Group {
    let mut group = Group::open(2, Fence::Tagged);
    while !group.windows[0].defers() {
        assert!(group.windows[0].epoch() < 10, "such epochs follow epochs of messages");
        group.fence(&[Asserts::default(); 2]);
    }
    group
}

#[test]
fn messages_beyond_what_anybody_keeps_wait_for_the_fence() {
    for load in [Load { messages: Load::EARLY.messages, bytes: 1 }, Load { messages: 1, bytes: Load::EARLY.bytes }] {
        let mut group = open_without_a_barrier();
        let window = &mut group.windows[0];
        let all = window.put_message(access(1, 0, 8), load).unwrap();
        let more = window.put_message(access(1, 8, 8), Load::message(1)).unwrap();
        let elsewhere = window.put_message(access(0, 8, 8), load).unwrap();
        assert_eq!([all, more, elsewhere].map(|request| window.is_deferred(request)), [false, true, false]);
        group.settle();
        assert!(!group.windows[0].is_complete(more));
        group.fence(&[Asserts::default(); 2]);
        assert!(group.windows[0].is_complete(more));
        // That fence had a barrier: nothing is early, and nothing waits, while epochs have this much.
        for _ in 0..6 {
            let window = &mut group.windows[0];
            assert!(!window.defers());
            for _ in 0..2 {
                let request = window.put_message(access(1, 0, 8), load).unwrap();
                assert!(!window.is_deferred(request));
            }
            group.fence(&[Asserts::default(); 2]);
        }
    }
}

#[test]
fn a_rank_that_sends_more_before_its_epoch_is_found_and_no_other() {
    let mut group = open_without_a_barrier();
    let window = &mut group.windows[0];
    window.fence(Asserts::default(), Time::ZERO).unwrap();
    let next = window.epoch() + 1;
    assert!(window.is_early(next) && !window.is_early(next + 1));
    (0..Load::EARLY.messages).for_each(|_| window.keep_early(1, 0).unwrap());
    let more = Load { messages: Load::EARLY.messages + 1, bytes: 0 };
    assert_eq!(window.keep_early(1, 0), Err(PeerError::TooEarly(more)));
    assert_eq!(window.keep_early(0, Load::EARLY.bytes), Ok(()));
    let more = Load { messages: 2, bytes: Load::EARLY.bytes + 1 };
    assert_eq!(window.keep_early(0, 1), Err(PeerError::TooEarly(more)));
    assert_eq!(window.keep_early(0, u32::MAX), Err(PeerError::TooEarly(Load { messages: 2, bytes: u32::MAX })));
    assert_eq!(window.keep_early(2, 0), Err(PeerError::NoSuchRank(2)));
    // Each epoch has its own.
    for _ in 0..2 {
        group.windows[1].fence(Asserts::default(), Time::ZERO).unwrap();
        group.settle();
        group.windows[0].fence(Asserts::default(), Time::ZERO).unwrap();
    }
    assert_eq!(group.windows[0].keep_early(1, Load::EARLY.bytes), Ok(()));
}
