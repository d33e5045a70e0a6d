//! A second socket of a port, connected to the peer that gets most datagrams.
//!
//! For each datagram that an unconnected socket sends, the kernel looks up the route, reads the destination and checks
//! the source; a connected one has all that (udp(7), connect(2)): a round trip over the loopback takes a fifth less in
//! the kernel. One peer of a port has such a socket at most: each is one more to poll.

use std::net::{IpAddr, SocketAddr};

use socket2::Domain;
use weft_base::{DatagramOptions, LocalAddress};

use super::PortSocket;
use super::address::Name;
use super::socket;
use crate::held::Held;

/// After this many consecutive sends to one peer it gets a socket of its own.
const SENDS: u32 = 64;
/// After each further change this many times as many are required: to make a socket takes several system calls.
const GROWTH: u32 = 4;
const MOST_SENDS: u32 = 1 << 24;
/// After the second socket was made the unconnected one is polled first in at most this many polls.
const ANY_FIRST_POLLS: u32 = 16;
/// The unconnected one is polled every time until this many polls were empty, then once in this many.
const IDLE_POLLS: u32 = 64;
const IDLE_INTERVAL: u32 = 8;

/// A socket of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// The unconnected one, which receives from any peer.
    Any,
    /// The connected one.
    Connected,
}

/// A peer, and the local address of datagrams to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) to: SocketAddr,
    pub(super) from: LocalAddress,
}

impl Path {
    /// The path of a datagram from a port bound there. `None`: the routes decide the local address, and may decide
    /// otherwise for the next.
    pub(super) fn of(to: SocketAddr, from: Option<LocalAddress>, bound: IpAddr) -> Option<Self> {
        let own = || (!bound.is_unspecified()).then_some(LocalAddress { ip: bound, interface: 0 });
        let from = from.or_else(own)?;
        let is_one = !to.ip().is_multicast() && !to.ip().is_unspecified();
        is_one.then_some(Self { to, from })
    }

    /// Whether [`Path::of`] would give this path.
    fn is_of(&self, to: SocketAddr, from: Option<LocalAddress>, bound: IpAddr) -> bool {
        let is_from = match from {
            Some(from) => self.from == from,
            None => self.from.ip == bound && self.from.interface == 0 && !bound.is_unspecified(),
        };
        is_from && self.to == to
    }
}

/// The paths of the last sends.
#[derive(Debug)]
pub(super) struct Streak {
    path: Option<Path>,
    sends: u32,
    wanted: u32,
}

impl Streak {
    pub(super) const fn new() -> Self {
        Self { path: None, sends: 0, wanted: SENDS }
    }

    /// Counts a send. Returns whether there were enough in a row.
    pub(super) fn count(&mut self, path: Path) -> bool {
        if self.path != Some(path) {
            (self.path, self.sends) = (Some(path), 0);
        }
        self.sends += 1;
        if self.sends < self.wanted {
            return false;
        }
        self.sends = 0;
        self.wanted = self.wanted.saturating_mul(GROWTH).min(MOST_SENDS);
        true
    }
}

/// The second socket.
pub(super) struct Connected {
    pub(super) socket: PortSocket,
    path: Path,
    /// Consecutive sends to others.
    others: u32,
    /// It sends nothing any more, and is closed when it is empty.
    pub(super) is_left: bool,
    order: Order,
}

impl Connected {
    /// `None`: the system makes none.
    pub(super) fn new(port: &Held, path: Path, options: &DatagramOptions) -> Option<Self> {
        let socket = socket::connect(port, path.from, path.to, options).ok()?;
        let is_ipv6 = socket.domain().is_ok_and(|domain| domain == Domain::IPV6);
        // As the kernel would report it.
        let peer = Name::new(path.to, is_ipv6).address();
        let socket = PortSocket::new(socket, Some(path.from), peer);
        Some(Self { socket, path, others: 0, is_left: false, order: Order::new() })
    }

    /// The socket that sends a datagram.
    pub(super) fn role_of(&mut self, to: SocketAddr, from: Option<LocalAddress>, bound: IpAddr) -> SocketRole {
        if !self.is_left && self.path.is_of(to, from, bound) {
            self.others = 0;
            return SocketRole::Connected;
        }
        self.others += 1;
        self.is_left |= self.others >= SENDS;
        SocketRole::Any
    }

    /// The socket to poll first, and whether also to poll the other if that one is empty.
    pub(super) fn next_poll(&mut self) -> (SocketRole, bool) {
        self.order.next_poll()
    }

    /// Records the result of a poll of one of them.
    pub(super) fn note(&mut self, role: SocketRole, any: bool) {
        self.order.note(role, any);
    }

    /// The next polls are of both.
    pub(super) fn poll_both(&mut self) {
        self.order.idle = 0;
    }
}

/// The order of polls of both sockets.
#[derive(Debug)]
struct Order {
    polls: u32,
    /// Consecutive empty polls of the unconnected one.
    idle: u32,
    /// Polls in which the unconnected one is first: until the datagrams from before the second socket were received, or
    /// this many that other peers must be busy there.
    behind: u32,
}

impl Order {
    const fn new() -> Self {
        Self { polls: 0, idle: 0, behind: ANY_FIRST_POLLS }
    }

    fn next_poll(&mut self) -> (SocketRole, bool) {
        self.polls = self.polls.wrapping_add(1);
        if self.behind > 0 {
            self.behind -= 1;
            return (SocketRole::Any, true);
        }
        let (both, turn) = (self.idle < IDLE_POLLS, self.polls.is_multiple_of(IDLE_INTERVAL));
        let any_first = turn || both && self.polls.is_multiple_of(2);
        (if any_first { SocketRole::Any } else { SocketRole::Connected }, both || any_first)
    }

    fn note(&mut self, role: SocketRole, any: bool) {
        if role == SocketRole::Any {
            self.idle = if any { 0 } else { self.idle.saturating_add(1) };
            self.behind = if any { self.behind } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(order: &mut Order, any_brings: bool, count: usize) -> Vec<(SocketRole, bool)> {
        let poll = |order: &mut Order| {
            let (first, both) = order.next_poll();
            if both || first == SocketRole::Any {
                order.note(SocketRole::Any, any_brings);
            }
            (first, both)
        };
        (0..count).map(|_| poll(order)).collect()
    }

    #[test]
    fn older_datagrams_are_first_but_block_no_others_forever() {
        let mut order = Order::new();
        assert_eq!(
            polls(&mut order, true, ANY_FIRST_POLLS as usize),
            [(SocketRole::Any, true); ANY_FIRST_POLLS as usize]
        );
        let then = polls(&mut order, true, 16);
        let first = |role| then.iter().filter(|(first, _)| *first == role).count();
        assert_eq!([first(SocketRole::Connected), first(SocketRole::Any)], [8, 8], "{then:?}");
        let mut order = Order::new();
        assert_eq!(polls(&mut order, false, 2)[0], (SocketRole::Any, true));
        assert_eq!(order.behind, 0, "nothing had come before");
    }

    #[test]
    fn an_idle_socket_is_polled_now_and_then() {
        let mut order = Order::new();
        polls(&mut order, false, 200);
        let then = polls(&mut order, false, 80);
        assert_eq!(then.iter().filter(|(first, _)| *first == SocketRole::Any).count(), 10);
        assert!(then.iter().all(|(first, both)| *both == (*first == SocketRole::Any)));
        order.idle = 0;
        assert!(polls(&mut order, false, IDLE_POLLS as usize).iter().all(|(_, both)| *both), "both are polled");
    }

    #[test]
    fn a_row_of_sends_to_one_makes_it_and_each_next_one_takes_longer() {
        let from = LocalAddress { ip: "10.0.0.1".parse().unwrap(), interface: 0 };
        let [one, other] = [1, 2].map(|port| Path { to: SocketAddr::from(([10, 0, 0, 2], port)), from });
        let mut streak = Streak::new();
        let sends = |streak: &mut Streak, path| 1 + (1..10_000).take_while(|_| !streak.count(path)).count() as u32;
        assert_eq!([sends(&mut streak, one), sends(&mut streak, other)], [SENDS, SENDS * GROWTH]);
        (0..SENDS * GROWTH * GROWTH - 1).for_each(|_| assert!(!streak.count(one)));
        assert!(!streak.count(other) && !streak.count(one), "they are not in a row any more");
    }

    #[test]
    fn where_the_source_is_for_the_routes_to_say_there_is_no_path() {
        let to: SocketAddr = "10.0.0.2:7".parse().unwrap();
        let [any, own] = ["0.0.0.0", "10.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let from = LocalAddress { ip: own, interface: 3 };
        assert_eq!(Path::of(to, None, any), None);
        assert_eq!(Path::of(to, None, own), Some(Path { to, from: LocalAddress { interface: 0, ..from } }));
        assert_eq!(Path::of(to, Some(from), any), Some(Path { to, from }));
        assert_eq!(Path::of("224.0.0.1:7".parse().unwrap(), Some(from), any), None);
    }
}
