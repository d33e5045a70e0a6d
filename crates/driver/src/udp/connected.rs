//! A second socket of a port, connected to the peer that most datagrams go to.
//!
//! For each datagram that an unconnected socket sends, the kernel looks for the route, reads whom it is for and checks
//! the source; a connected one has all that (udp(7), connect(2)). On the loopback it takes a sixth less for a round
//! trip. One peer of a port has such a socket at most: each is one more to look at.

use std::net::{IpAddr, SocketAddr};

use weft_base::{DatagramOptions, LocalAddress};

use super::PortSocket;
use super::socket;
use crate::held::Held;

/// So many sends in a row to one peer, and it gets a socket of its own.
const SENDS: u32 = 64;
/// After each further change so many times as many are wanted, until there are no more changes: to make a socket takes
/// as long as some ten datagrams.
const GROWTH: u32 = 4;
const MOST_SENDS: u32 = 1 << 24;
/// While nothing comes to the unconnected socket it is looked at in every so many looks.
const REST_EVERY: u32 = 8;
/// Looks after the second socket was made in which the first one goes first.
const LOOKS_BEHIND: u32 = 16;
/// It is looked at in each until so many have brought nothing.
const REST_LOOKS: u32 = 64;

/// Which socket of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The one that takes what comes from anybody.
    Any,
    /// The one that is connected.
    Connected,
}

/// A peer, and from where datagrams to it leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) to: SocketAddr,
    pub(super) from: LocalAddress,
}

impl Course {
    /// That of a datagram that leaves from a port bound there. `None`: the routes say where it leaves from, and may say
    /// something else of the next.
    pub(super) fn of(to: SocketAddr, from: Option<LocalAddress>, bound: IpAddr) -> Option<Self> {
        let own = || (!bound.is_unspecified()).then_some(LocalAddress { ip: bound, interface: 0 });
        let from = from.or_else(own)?;
        let is_one = !to.ip().is_multicast() && !to.ip().is_unspecified();
        is_one.then_some(Self { to, from })
    }
}

/// To whom the last sends went.
#[derive(Debug)]
pub(super) struct Row {
    course: Option<Course>,
    sends: u32,
    wanted: u32,
}

impl Row {
    pub(super) const fn new() -> Self {
        Self { course: None, sends: 0, wanted: SENDS }
    }

    /// One more. Returns whether that was enough in a row.
    fn count(&mut self, course: Course) -> bool {
        if self.course != Some(course) {
            (self.course, self.sends) = (Some(course), 0);
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
    course: Course,
    /// Sends in a row to others.
    others: u32,
    /// It gets no more to send, and goes when nothing is left in it.
    pub(super) is_left: bool,
    order: Order,
}

impl Connected {
    fn new(port: &Held, course: Course, options: &DatagramOptions) -> Option<Self> {
        let socket = socket::connect(port, course.from, course.to, options).ok()?;
        let socket = PortSocket::new(socket, Some(course.from));
        Some(Self { socket, course, others: 0, is_left: false, order: Order::new() })
    }

    /// Which socket a datagram leaves by.
    fn way_of(&mut self, course: Option<Course>) -> Way {
        if !self.is_left && course == Some(self.course) {
            self.others = 0;
            return Way::Connected;
        }
        self.others += 1;
        self.is_left |= self.others >= SENDS;
        Way::Any
    }

    /// Which to look at, the first one first, and whether also at the other if there is nothing.
    pub(super) fn look(&mut self) -> (Way, bool) {
        self.order.look()
    }

    /// What the look at one of them brought.
    pub(super) fn note(&mut self, way: Way, any: bool) {
        self.order.note(way, any);
    }

    /// The next looks are at both.
    pub(super) fn look_at_both(&mut self) {
        self.order.idle = 0;
    }
}

/// In which order both sockets are looked at.
#[derive(Debug)]
struct Order {
    looks: u32,
    /// Looks in which nothing came to the unconnected one.
    idle: u32,
    /// Looks in which the unconnected one goes first: until what came before there were two has been taken, or so much
    /// has that others must be busy there.
    behind: u32,
}

impl Order {
    const fn new() -> Self {
        Self { looks: 0, idle: 0, behind: LOOKS_BEHIND }
    }

    fn look(&mut self) -> (Way, bool) {
        self.looks = self.looks.wrapping_add(1);
        if self.behind > 0 {
            self.behind -= 1;
            return (Way::Any, true);
        }
        let (both, turn) = (self.idle < REST_LOOKS, self.looks.is_multiple_of(REST_EVERY));
        let any_first = turn || both && self.looks.is_multiple_of(2);
        (if any_first { Way::Any } else { Way::Connected }, both || any_first)
    }

    fn note(&mut self, way: Way, any: bool) {
        if way == Way::Any {
            self.idle = if any { 0 } else { self.idle.saturating_add(1) };
            self.behind = if any { self.behind } else { 0 };
        }
    }
}

/// The socket by which a datagram on this course leaves. Makes the second one when the first has sent enough on it.
pub(super) fn way_of(
    connected: &mut Option<Box<Connected>>,
    row: &mut Row,
    course: Option<Course>,
    port: &Held,
    options: &DatagramOptions,
) -> Way {
    if let Some(connected) = connected {
        return connected.way_of(course);
    }
    if let Some(course) = course
        && row.count(course)
    {
        *connected = Connected::new(port, course, options).map(Box::new);
        return if connected.is_some() { Way::Connected } else { Way::Any };
    }
    Way::Any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(order: &mut Order, any_brings: bool, count: usize) -> Vec<(Way, bool)> {
        let look = |order: &mut Order| {
            let (first, both) = order.look();
            if both || first == Way::Any {
                order.note(Way::Any, any_brings);
            }
            (first, both)
        };
        (0..count).map(|_| look(order)).collect()
    }

    #[test]
    fn what_came_before_goes_first_but_keeps_nobody_waiting_for_ever() {
        let mut order = Order::new();
        assert_eq!(looks(&mut order, true, LOOKS_BEHIND as usize), [(Way::Any, true); LOOKS_BEHIND as usize]);
        let then = looks(&mut order, true, 16);
        let first = |way| then.iter().filter(|(first, _)| *first == way).count();
        assert!(first(Way::Connected) >= 8 - 2 && first(Way::Any) >= 8, "{then:?}");
        let mut order = Order::new();
        assert_eq!(looks(&mut order, false, 2)[0], (Way::Any, true));
        assert_eq!(order.behind, 0, "nothing had come before");
    }

    #[test]
    fn at_which_nothing_comes_is_looked_at_now_and_then() {
        let mut order = Order::new();
        looks(&mut order, false, 200);
        let then = looks(&mut order, false, 80);
        assert_eq!(then.iter().filter(|(first, _)| *first == Way::Any).count(), 10);
        assert!(then.iter().all(|(first, both)| *both == (*first == Way::Any)));
        order.idle = 0;
        assert!(looks(&mut order, false, REST_LOOKS as usize).iter().all(|(_, both)| *both), "both are looked at");
    }

    #[test]
    fn a_row_of_sends_to_one_makes_it_and_each_next_one_takes_longer() {
        let from = LocalAddress { ip: "10.0.0.1".parse().unwrap(), interface: 0 };
        let [one, other] = [1, 2].map(|port| Course { to: SocketAddr::from(([10, 0, 0, 2], port)), from });
        let mut row = Row::new();
        let sends = |row: &mut Row, course| 1 + (1..10_000).take_while(|_| !row.count(course)).count() as u32;
        assert_eq!([sends(&mut row, one), sends(&mut row, other)], [SENDS, SENDS * GROWTH]);
        (0..SENDS * GROWTH * GROWTH - 1).for_each(|_| assert!(!row.count(one)));
        assert!(!row.count(other) && !row.count(one), "they are not in a row any more");
    }

    #[test]
    fn where_the_source_is_for_the_routes_to_say_there_is_no_course() {
        let to: SocketAddr = "10.0.0.2:7".parse().unwrap();
        let [any, own] = ["0.0.0.0", "10.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let from = LocalAddress { ip: own, interface: 3 };
        assert_eq!(Course::of(to, None, any), None);
        assert_eq!(Course::of(to, None, own), Some(Course { to, from: LocalAddress { interface: 0, ..from } }));
        assert_eq!(Course::of(to, Some(from), any), Some(Course { to, from }));
        assert_eq!(Course::of("224.0.0.1:7".parse().unwrap(), Some(from), any), None);
    }
}
