//! Decides about a connection that a peer opens while we are connected with it, or are connecting.
//!
//! When both open one at the same time, that of the endpoint with the lower id survives. An old request that is
//! received late, after another connection was established, is told from one of a peer that has lost that connection by
//! [`weft_wire::message::Hello::serial`], which grows with each hello of an endpoint: requests and replies.
//!
//! A request alone replaces no live connection: it may be forged. Unless the caller has proved that it has the job's
//! key, the old connection is probed first. If the peer has lost it, its host answers that there is no such connection;
//! then it is dead, and the caller is accepted.
//!
//! A side whose attempt is refused with [`Refusal::Tie`] waits for the other connection, and retries after a while if
//! there is none: it may have been lost.

use weft_wire::message::Refusal;

/// Our state with a peer when it opens a connection. The peer is looked up by its id, and by its addresses where the id
/// is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is unknown, or nothing is under way.
    Nothing,
    /// We are opening one too.
    Connecting {
        /// To the endpoint with this id; 0: to any.
        wanted: u64,
    },
    /// We are connected.
    Connected {
        /// With the endpoint that has this id.
        id: u64,
        /// The serial of its hello on that connection.
        serial: u64,
    },
}

/// A request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieBreak {
    /// Our id.
    pub own: u64,
    /// The id of the caller.
    pub theirs: u64,
    /// The id of the endpoint that it wants to reach; 0: any.
    pub wanted: u64,
    /// The serial of its hello.
    pub serial: u64,
    /// Our state with it.
    pub standing: Standing,
    /// It has proved that it belongs to our job.
    pub is_proven: bool,
    /// There is no room for another peer.
    pub is_full: bool,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accept it.
    Accept,
    /// Accept it and drop our own attempt.
    AcceptInsteadOfOurs,
    /// Accept it: our connection is dead.
    ReplaceOld,
    /// Probe our connection, and decide again when it has turned out to be dead. If it is alive, refuse this one with
    /// [`Refusal::Tie`].
    AskOld,
    /// Refuse it.
    Reject(Refusal),
}

impl TieBreak {
    /// The decision.
    #[must_use]
    pub const fn decide(&self) -> Decision {
        if self.theirs == self.own {
            return Decision::Reject(Refusal::Itself);
        }
        if self.wanted != 0 && self.wanted != self.own {
            return Decision::Reject(Refusal::SomebodyElse);
        }
        match self.standing {
            Standing::Connected { id, serial } => {
                // Serials of two endpoints cannot be compared.
                if id != self.theirs || self.serial > serial {
                    if self.is_proven { Decision::ReplaceOld } else { Decision::AskOld }
                } else {
                    Decision::Reject(Refusal::Tie)
                }
            }
            Standing::Connecting { wanted } if wanted == 0 || wanted == self.theirs => {
                if self.theirs < self.own {
                    Decision::AcceptInsteadOfOurs
                } else {
                    Decision::Reject(Refusal::Tie)
                }
            }
            // Another endpoint is there now than the wanted one.
            Standing::Connecting { .. } | Standing::Nothing => {
                if self.is_full {
                    Decision::Reject(Refusal::Full)
                } else {
                    Decision::Accept
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    use super::*;

    fn meet(own: u64, theirs: u64, standing: Standing) -> TieBreak {
        TieBreak { own, theirs, wanted: own, serial: 5, standing, is_proven: true, is_full: false }
    }

    #[test]
    fn each_case_alone() {
        use Decision::{Accept, AcceptInsteadOfOurs, AskOld, Reject, ReplaceOld};
        let connected = |id, serial| Standing::Connected { id, serial };
        for (own, theirs, standing, expected) in [
            (1, 2, Standing::Nothing, Accept),
            (1, 2, Standing::Connecting { wanted: 2 }, Reject(Refusal::Tie)),
            (1, 2, Standing::Connecting { wanted: 0 }, Reject(Refusal::Tie)),
            (2, 1, Standing::Connecting { wanted: 1 }, AcceptInsteadOfOurs),
            (2, 1, Standing::Connecting { wanted: 0 }, AcceptInsteadOfOurs),
            (2, 1, Standing::Connecting { wanted: 7 }, Accept),
            (1, 1, Standing::Nothing, Reject(Refusal::Itself)),
            (1, 1, Standing::Connecting { wanted: 1 }, Reject(Refusal::Itself)),
            (1, 1, connected(1, 4), Reject(Refusal::Itself)),
            (1, 2, connected(2, 4), ReplaceOld),
            (1, 2, connected(2, 5), Reject(Refusal::Tie)),
            (1, 2, connected(2, 6), Reject(Refusal::Tie)),
            (1, 2, connected(3, 6), ReplaceOld),
        ] {
            assert_eq!(meet(own, theirs, standing).decide(), expected, "{own} {theirs} {standing:?}");
            let unproven = TieBreak { is_proven: false, ..meet(own, theirs, standing) };
            let expected = if expected == ReplaceOld { AskOld } else { expected };
            assert_eq!(unproven.decide(), expected, "{own} {theirs} {standing:?}");
        }
        let other = TieBreak { wanted: 9, ..meet(1, 2, Standing::Nothing) };
        assert_eq!(other.decide(), Reject(Refusal::SomebodyElse));
        let any = TieBreak { wanted: 0, ..other };
        assert_eq!(any.decide(), Accept);
        let full = TieBreak { is_full: true, ..any };
        assert_eq!(full.decide(), Reject(Refusal::Full));
        assert_eq!(TieBreak { standing: connected(2, 4), ..full }.decide(), ReplaceOld);
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum State {
        Idle,
        Connecting(u32),
        Connected { connection: u32, serial: u64 },
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Message {
        Request(u64),
        Accept(u64),
        Reject,
        Close,
        /// A probe of a connection.
        Probe,
        Alive,
    }

    /// A request that waits for the result of a probe.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Held {
        asked: u32,
        connection: u32,
        serial: u64,
    }

    /// Two endpoints, and the messages in flight between them: each connection has a queue in each direction.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct World {
        states: [State; 2],
        serials: [u64; 2],
        attempts_left: [u32; 2],
        breaks_left: u32,
        connections: u32,
        is_proven: bool,
        held: [Option<Held>; 2],
        under_way: BTreeMap<(u32, usize), VecDeque<Message>>,
    }

    impl World {
        fn new(attempts: u32, breaks: u32, is_proven: bool) -> Self {
            Self {
                states: [State::Idle; 2],
                serials: [0; 2],
                attempts_left: [attempts; 2],
                breaks_left: breaks,
                connections: 0,
                is_proven,
                held: [None; 2],
                under_way: BTreeMap::new(),
            }
        }

        fn post(&mut self, connection: u32, to: usize, message: Message) {
            self.under_way.entry((connection, to)).or_default().push_back(message);
        }

        fn serial(&mut self, at: usize) -> u64 {
            self.serials[at] += 1;
            self.serials[at]
        }

        fn start(&self, at: usize) -> Option<Self> {
            let mut next = self.clone();
            if self.states[at] != State::Idle || self.attempts_left[at] == 0 {
                return None;
            }
            next.attempts_left[at] -= 1;
            next.connections += 1;
            let serial = next.serial(at);
            next.states[at] = State::Connecting(next.connections);
            next.post(next.connections, 1 - at, Message::Request(serial));
            Some(next)
        }

        fn break_off(&self, at: usize) -> Option<Self> {
            let State::Connected { connection, .. } = self.states[at] else { return None };
            let mut next = self.clone();
            next.breaks_left = self.breaks_left.checked_sub(1)?;
            next.states[at] = State::Idle;
            next.post(connection, 1 - at, Message::Close);
            Some(next)
        }

        fn deliver(&self, connection: u32, to: usize) -> Self {
            let mut next = self.clone();
            let queue = next.under_way.get_mut(&(connection, to)).expect("it is there");
            let message = queue.pop_front().expect("it is not empty");
            if queue.is_empty() {
                next.under_way.remove(&(connection, to));
            }
            match (message, next.states[to]) {
                (Message::Request(serial), _) => next.requested(connection, to, serial),
                (Message::Accept(serial), State::Connecting(own)) if own == connection => {
                    next.states[to] = State::Connected { connection, serial };
                }
                (
                    Message::Reject | Message::Close,
                    State::Connecting(own) | State::Connected { connection: own, .. },
                ) if own == connection => next.states[to] = State::Idle,
                (Message::Probe, State::Connected { connection: own, .. }) if own == connection => {
                    next.post(connection, 1 - to, Message::Alive);
                }
                (Message::Probe, _) => next.post(connection, 1 - to, Message::Close),
                (Message::Alive, _) => {
                    if let Some(held) = next.held[to].take_if(|held| held.asked == connection) {
                        next.post(held.connection, 1 - to, Message::Reject);
                    }
                }
                _ => {}
            }
            next.retry_held(to);
            next
        }

        fn retry_held(&mut self, at: usize) {
            let state = self.states[at];
            let is_there =
                |held: &Held| matches!(state, State::Connected { connection, .. } if connection == held.asked);
            if let Some(held) = self.held[at].take_if(|held| !is_there(held)) {
                self.requested(held.connection, at, held.serial);
            }
        }

        fn requested(&mut self, connection: u32, at: usize, serial: u64) {
            let (own, theirs) = (at as u64 + 1, 2 - at as u64);
            let standing = match self.states[at] {
                State::Idle => Standing::Nothing,
                State::Connecting(_) => Standing::Connecting { wanted: theirs },
                State::Connected { serial, .. } => Standing::Connected { id: theirs, serial },
            };
            let is_proven = self.is_proven;
            match (TieBreak { own, theirs, wanted: own, serial, standing, is_proven, is_full: false }).decide() {
                Decision::Reject(_) => return self.post(connection, 1 - at, Message::Reject),
                Decision::AskOld => {
                    let State::Connected { connection: asked, .. } = self.states[at] else {
                        panic!("there is no old connection")
                    };
                    if let Some(before) = self.held[at].replace(Held { asked, connection, serial }) {
                        self.post(before.connection, 1 - at, Message::Reject);
                    }
                    return self.post(asked, 1 - at, Message::Probe);
                }
                Decision::Accept => assert_eq!(self.states[at], State::Idle),
                Decision::AcceptInsteadOfOurs | Decision::ReplaceOld => match self.states[at] {
                    State::Connecting(own) | State::Connected { connection: own, .. } => {
                        self.post(own, 1 - at, Message::Close);
                    }
                    State::Idle => panic!("there was nothing to replace"),
                },
            }
            self.states[at] = State::Connected { connection, serial };
            let serial = self.serial(at);
            self.post(connection, 1 - at, Message::Accept(serial));
        }

        fn successors(&self) -> Vec<Self> {
            let delivered = self.under_way.keys().map(|(connection, to)| self.deliver(*connection, *to));
            let started = (0..2).filter_map(|at| self.start(at));
            let broken = (0..2).filter_map(|at| self.break_off(at));
            delivered.chain(started).chain(broken).collect()
        }

        fn is_joined(&self) -> bool {
            let connection =
                |state| if let State::Connected { connection, .. } = state { Some(connection) } else { None };
            connection(self.states[0]).is_some() && connection(self.states[0]) == connection(self.states[1])
        }
    }

    /// Explores all events in any order, and returns the number of final states.
    fn explore(attempts: u32, breaks: u32) -> usize {
        [false, true]
            .map(|is_proven| explore_from(World::new(attempts, breaks, is_proven), breaks > 0))
            .into_iter()
            .sum()
    }

    fn explore_from(world: World, breaks: bool) -> usize {
        let mut seen = BTreeSet::new();
        let mut open = vec![world];
        let mut ends = 0;
        while let Some(world) = open.pop() {
            if !seen.insert(world.clone()) {
                continue;
            }
            let is_quiet = world.under_way.is_empty();
            assert!(!is_quiet || world.held == [None; 2], "{world:?}");
            // A side without attempts left could not retry: that is no final state.
            let could_try = (0..2).all(|at| world.states[at] != State::Idle || world.attempts_left[at] == 0);
            let exhausted = breaks && world.attempts_left.contains(&0);
            if is_quiet && could_try && !exhausted {
                assert!(world.is_joined(), "{world:?}");
                ends += 1;
            }
            open.extend(world.successors());
        }
        ends
    }

    #[test]
    fn two_that_meet_get_one_connection_in_whatever_order_things_happen() {
        assert!(explore(1, 0) > 1);
        assert!(explore(3, 0) > 1);
    }

    #[test]
    fn a_connection_that_one_side_lost_is_replaced_in_whatever_order_things_happen() {
        assert!(explore(4, 1) > 1);
        assert!(explore(3, 2) > 1);
    }

    #[test]
    fn a_side_that_lost_its_connection_gets_a_new_one_at_once_though_the_other_knows_nothing() {
        let settle = |mut world: World| {
            while let Some((connection, to)) = world.under_way.keys().next().copied() {
                world = world.deliver(connection, to);
            }
            world
        };
        for (first, loser, is_proven) in [(0, 0, false), (0, 1, false), (1, 0, true), (1, 1, true)] {
            let mut world = settle(World::new(3, 0, is_proven).start(first).expect("it is idle"));
            for _ in 0..2 {
                assert!(world.is_joined());
                world.states[loser] = State::Idle;
                world = settle(world.start(loser).unwrap_or(world));
            }
        }
    }
}
