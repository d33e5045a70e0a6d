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
    /// What came before there were two has been taken: until then it goes first.
    is_behind: bool,
}

impl Order {
    const fn new() -> Self {
        Self { looks: 0, idle: 0, is_behind: true }
    }

    fn look(&mut self) -> (Way, bool) {
        self.looks = self.looks.wrapping_add(1);
        if self.is_behind {
            return (Way::Any, true);
        }
        let (both, turn) = (self.idle < REST_LOOKS, self.looks.is_multiple_of(REST_EVERY));
        let any_first = turn || both && self.looks.is_multiple_of(2);
        (if any_first { Way::Any } else { Way::Connected }, both || any_first)
    }

    fn note(&mut self, way: Way, any: bool) {
        if way == Way::Any {
            self.idle = if any { 0 } else { self.idle.saturating_add(1) };
            self.is_behind &= any;
        }
    }
}

/// The socket by which a datagram on this course leaves. Makes the second one when the first has sent enough on it.
pub(super) fn way_of(
    connected: &mut Option<Connected>,
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
        *connected = Connected::new(port, course, options);
        return if connected.is_some() { Way::Connected } else { Way::Any };
    }
    Way::Any
}
