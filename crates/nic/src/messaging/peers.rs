//! The peers that an endpoint knows: addresses, and what waits to be done with each.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use weft_base::{HostId, PeerId, Time};

use super::in_use::InUse;
use super::request::{Address, Attempt, EndpointError, EndpointFailure};
use super::transfer::Work;
use crate::ids::LinkKey;

/// A peer.
pub(super) struct Peer {
    number: PeerId,
    /// As the application has named it: any that is there, if without an id.
    pub(super) address: Address,
    /// Its id when it was connected last; 0 before.
    pub(super) id: u64,
    /// The application has named it. Else it has called by itself, and its address is only what it has announced.
    pub(super) is_named: bool,
    /// It is among those that have left.
    has_left: bool,
    /// The application has posted something to it.
    pub(super) is_asked: bool,
    /// The application has posted a receive for it alone.
    pub(super) has_receives: bool,
    /// Where it was when it was connected last, as its packets showed; whether it had proved that it has our key.
    met: Option<(IpAddr, bool)>,
    /// This endpoint itself.
    pub(super) is_self: bool,
    /// The connection that is being opened, or is established.
    pub(super) link: Option<LinkKey>,
    /// The host that it runs on, as it has announced.
    pub(super) host: Option<HostId>,
    /// From where the connection is being opened, if that is known.
    pub(super) from: Option<SocketAddr>,
    /// The paths that were tried since a connection was wanted, and have all failed.
    pub(super) attempts: Vec<Attempt>,
    /// Whether the peer was requested to connect to us: its connection is awaited.
    pub(super) awaited: bool,
    /// Until when it is.
    pub(super) awaited_until: Time,
    /// How often that has failed.
    pub(super) times_awaited: u32,
    /// How often all paths have failed, though the host has taken the connection on one of them.
    pub(super) rounds: u32,
    /// Since when a connection is wanted that is not established yet.
    pub(super) wanted_since: Option<Time>,
    /// The application has had the warning that the peer's host has taken the connection and its program does not
    /// answer.
    pub(super) is_lateness_told: bool,
    /// One-sided work that could not be posted yet, in order.
    pub(super) work: VecDeque<Work>,
    /// The peer is in the list of those with such work.
    pub(super) is_listed: bool,
    /// Sends to it that are over, but for their memory.
    pub(super) in_use: VecDeque<InUse>,
    /// Requests of the application under way with it.
    pub(super) under_way: usize,
    /// Atomics of these that are calls.
    pub(super) calls: usize,
    /// Why it was lost, or could not be reached, last.
    pub(super) failure: Option<EndpointFailure>,
}

impl Peer {
    /// Whether the application knows of it: it has named it, or posted something to it. Others are callers that no
    /// operation waits for.
    pub(super) fn is_known(&self) -> bool {
        self.is_named || self.is_asked
    }

    fn new(number: PeerId, address: Address, is_self: bool) -> Self {
        Self {
            number,
            address,
            id: 0,
            is_named: true,
            has_left: false,
            is_asked: false,
            has_receives: false,
            met: None,
            is_self,
            link: None,
            host: None,
            from: None,
            attempts: Vec::new(),
            awaited: false,
            awaited_until: Time::ZERO,
            times_awaited: 0,
            rounds: 0,
            wanted_since: None,
            is_lateness_told: false,
            work: VecDeque::new(),
            is_listed: false,
            in_use: VecDeque::new(),
            under_way: 0,
            calls: 0,
            failure: None,
        }
    }
}

/// From where a caller calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The address that its packets come from.
    pub(super) remote: IpAddr,
    /// The address that they come to.
    pub(super) local: IpAddr,
    /// It has proved that it has our key. Then it does not matter where it is.
    pub(super) is_proven: bool,
}

/// Which peer a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A peer that is known.
    Known(PeerId),
    /// None that is known.
    New,
    /// It has the id of a peer that is known, and calls from elsewhere.
    Elsewhere,
}

/// All of them.
pub(super) struct Peers {
    all: Vec<Peer>,
    most: usize,
    own: u64,
    by_id: HashMap<u64, PeerId>,
    by_path: HashMap<SocketAddr, PeerId>,
    /// Numbers for those that come next, at the places of some that were forgotten, the oldest first.
    free: VecDeque<PeerId>,
    /// Callers that have left, the first to leave at the front. Some may have come back.
    left: VecDeque<PeerId>,
}

/// All peers divided by this may be callers that have left, before the first of them are forgotten: what they have sent
/// may not have been read yet.
const LEFT_PART: usize = 4;

impl Peers {
    pub(super) fn new(own: &Address, most: u32) -> Self {
        let mut peers = Self {
            all: Vec::new(),
            most: most.min(PeerId::PLACES - 1) as usize,
            own: own.id,
            by_id: HashMap::new(),
            by_path: HashMap::new(),
            free: VecDeque::new(),
            left: VecDeque::new(),
        };
        peers.add(own.clone());
        peers
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.all.get(peer.place()).filter(|known| known.number == peer)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(peer.place()).filter(|known| known.number == peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        self.all.iter().map(|known| known.number).collect::<Vec<_>>().into_iter()
    }

    /// The peer with this address, known or new. One that is known by where it is, and not by its id, is taken for
    /// the same.
    pub(super) fn find_or_add(&mut self, address: &Address) -> Result<PeerId, EndpointError> {
        if address.paths.is_empty() {
            return Err(EndpointError::Invalid("an address without any path to reach the peer"));
        }
        if let Some(known) = self.find(address) {
            return Ok(known);
        }
        self.check_room()?;
        Ok(self.add(address.clone()))
    }

    fn check_room(&self) -> Result<(), EndpointError> {
        let limit = self.most as u64;
        if self.is_full() { Err(crate::error::Error::Limit { name: "peers", limit }.into()) } else { Ok(()) }
    }

    /// Whether there is no room for another one.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.all.len() >= self.most
    }

    fn find(&mut self, address: &Address) -> Option<PeerId> {
        if address.id != 0 {
            let known = *self.by_id.get(&address.id)?;
            let peer = &mut self.all[known.place()];
            if !peer.is_named {
                if peer.met.is_some_and(|(met, is_proven)| !is_proven && !has_ip(address, met)) {
                    // That id is only what a caller has announced: the application knows where that peer is.
                    return None;
                }
                peer.is_named = true;
                peer.address = address.clone();
            }
            if peer.address.id != 0 {
                // It may have been known as the one that was there before.
                peer.address.id = address.id;
            }
            return Some(known);
        }
        let known = *address.paths.iter().find_map(|path| self.by_path.get(path))?;
        let peer = &mut self.all[known.place()];
        if !peer.is_self {
            if !peer.is_named {
                peer.is_named = true;
                peer.address = address.clone();
            }
            // From now on it is any that is there.
            peer.address.id = 0;
        }
        Some(known)
    }

    fn add(&mut self, address: Address) -> PeerId {
        let peer = self.free.pop_front().unwrap_or(PeerId(self.all.len() as u32));
        let is_self = address.id == self.own;
        if address.id != 0 {
            self.by_id.insert(address.id, peer);
        }
        if address.id == 0 || is_self {
            self.note_paths(&address, peer);
        }
        let known = Peer::new(peer, address, is_self);
        match self.all.get_mut(peer.place()) {
            Some(place) => *place = known,
            None => self.all.push(known),
        }
        peer
    }

    /// The connection to a peer is over. A caller that the application has not named may be forgotten from now on.
    pub(super) fn leave(&mut self, peer: PeerId) {
        let Some(known) = self.get_mut(peer) else { return };
        if !known.is_named && !known.has_left {
            known.has_left = true;
            self.left.push_back(peer);
        }
    }

    /// Whether more callers have left than are to be remembered.
    pub(super) fn have_many_left(&self) -> bool {
        self.left.len() > self.most / LEFT_PART
    }

    /// The caller that has left first; it is to be forgotten, or [leaves](Self::leave) again.
    pub(super) fn next_left(&mut self) -> Option<PeerId> {
        let peer = self.left.pop_front()?;
        if let Some(known) = self.get_mut(peer) {
            known.has_left = false;
        }
        Some(peer)
    }

    /// Forgets a caller. Its place gets another number.
    pub(super) fn forget(&mut self, peer: PeerId) {
        let vacant = Peer::new(peer.next(), Address { id: 0, paths: ArrayVec::new(), transport: None }, false);
        let Some(place) = self.get_mut(peer) else { return };
        let known = core::mem::replace(place, vacant);
        for id in [known.id, known.address.id] {
            if self.by_id.get(&id) == Some(&peer) {
                self.by_id.remove(&id);
            }
        }
        for path in &known.address.paths {
            if self.by_path.get(path) == Some(&peer) {
                self.by_path.remove(path);
            }
        }
        self.free.push_back(peer.next());
    }

    fn note_paths(&mut self, address: &Address, peer: PeerId) {
        for path in &address.paths {
            self.by_path.insert(*path, peer);
        }
    }

    /// A peer is connected, and announces its id: it may be another one than before.
    pub(super) fn meet(&mut self, peer: PeerId, id: u64, remote: IpAddr, is_proven: bool) {
        self.expect(peer, id, remote, is_proven);
        let Some(known) = self.get_mut(peer) else { return };
        let before = core::mem::replace(&mut known.id, id);
        if before != id && self.by_id.get(&before) == Some(&peer) {
            self.by_id.remove(&before);
        }
    }

    /// A caller that has announced its id will be connected once it confirms: it is found as this peer from now on, and
    /// so is the id that the peer was known by before.
    pub(super) fn expect(&mut self, peer: PeerId, id: u64, remote: IpAddr, is_proven: bool) {
        let Some(known) = self.get_mut(peer) else { return };
        known.met = Some((remote, is_proven));
        let mut address = known.address.clone();
        if !known.is_named && !is_proven {
            // Other paths may be another peer's.
            address.paths.retain(|path| is_same(path.ip(), remote));
        }
        self.by_id.insert(id, peer);
        self.note_paths(&address, peer);
    }

    /// The caller that was expected as this peer has not meant it.
    pub(super) fn expect_no_more(&mut self, peer: PeerId, id: u64) {
        let is_known = self.get(peer).is_some_and(|known| known.id == id || known.address.id == id);
        if !is_known && self.by_id.get(&id) == Some(&peer) {
            self.by_id.remove(&id);
        }
    }

    /// Which peer calls: one that is known, or was known at the same paths before it was started again, or else is new.
    /// One common path does not make it another one's successor: hosts have addresses in common, those of containers
    /// for example, and so may this endpoint and the caller.
    ///
    /// What a caller announces of itself is only believed as far as it comes from the address that it announces, or has
    /// proved something.
    pub(super) fn find_caller(&self, address: &Address, origin: Origin) -> Caller {
        if let Some(known) = self.by_id.get(&address.id) {
            return if self.may_be(*known, origin) { Caller::Known(*known) } else { Caller::Elsewhere };
        }
        let successor = |known: &&PeerId| {
            let known = &self.all[known.place()];
            !known.is_self && (known.address.id == 0 || known.address.paths == address.paths)
        };
        let is_from = |path: &&SocketAddr| origin.is_proven || self.is_at(&[**path], origin);
        let known = address.paths.iter().filter(is_from).filter_map(|path| self.by_path.get(path)).find(successor);
        known.map_or(Caller::New, |known| Caller::Known(*known))
    }

    /// Whether a peer that answers at this one's address, or calls, may be the one with this id: if another peer is
    /// known by that, it is where that one is.
    pub(super) fn may_answer(&self, peer: PeerId, id: u64, origin: Origin) -> bool {
        let Some(known) = self.get(peer) else { return false };
        let wanted = known.address.id;
        let is_other = self.by_id.get(&id).is_some_and(|other| *other != peer && !self.may_be(*other, origin));
        id != self.own && (wanted == 0 || wanted == id) && !is_other
    }

    /// Whether this may be that peer, by where it is.
    fn may_be(&self, peer: PeerId, origin: Origin) -> bool {
        let known = &self.all[peer.place()];
        let was_there = known.met.is_some_and(|(met, _)| is_same(met, origin.remote));
        origin.is_proven || was_there || self.is_at(&known.address.paths, origin)
    }

    /// Whether packets from there may come from one of these addresses. What arrives from this host itself may have any
    /// of its addresses.
    fn is_at(&self, paths: &[SocketAddr], origin: Origin) -> bool {
        let is_owner_process = is_same(origin.remote, origin.local) || origin.remote.to_canonical().is_loopback();
        paths.iter().map(SocketAddr::ip).any(|ip| {
            let ours =
                || ip.to_canonical().is_loopback() || is_same(ip, origin.local) || has_ip(&self.all[0].address, ip);
            is_same(ip, origin.remote) || (is_owner_process && ours())
        })
    }

    /// A peer that has called, and is new.
    pub(super) fn add_caller(&mut self, address: Address) -> Result<PeerId, EndpointError> {
        self.check_room()?;
        let peer = self.add(address);
        self.all[peer.place()].is_named = false;
        Ok(peer)
    }
}

/// Whether these are one address, IPv4 as such or inside of IPv6.
fn is_same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

fn has_ip(address: &Address, ip: IpAddr) -> bool {
    address.paths.iter().any(|path| is_same(path.ip(), ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each host has as well, and so an endpoint that listens on the same port.
    const SHARED: &str = "172.17.0.1:5000";

    fn address(id: u64, paths: &[&str]) -> Address {
        Address { id, paths: paths.iter().map(|path| path.parse().unwrap()).collect(), transport: None }
    }

    fn from(remote: &str) -> Origin {
        Origin { remote: remote.parse().unwrap(), local: "10.0.0.1".parse().unwrap(), is_proven: false }
    }

    fn proven(remote: &str) -> Origin {
        Origin { is_proven: true, ..from(remote) }
    }

    fn peers() -> Peers {
        Peers::new(&address(1, &[SHARED, "10.0.0.1:5000"]), 16)
    }

    /// Takes a call, as an endpoint does.
    fn call(peers: &mut Peers, address: &Address, origin: Origin) -> PeerId {
        let peer = match peers.find_caller(address, origin) {
            Caller::Known(known) => known,
            Caller::New => peers.add_caller(address.clone()).unwrap(),
            Caller::Elsewhere => panic!("{address:?} does not call from {origin:?}"),
        };
        peers.meet(peer, address.id, origin.remote, origin.is_proven);
        peer
    }

    #[test]
    fn a_caller_is_no_other_peer_for_a_path_in_common() {
        let mut peers = peers();
        let two = address(2, &[SHARED, "10.0.0.2:5000"]);
        let second = call(&mut peers, &two, from("10.0.0.2"));
        assert!(!peers.get(second).unwrap().is_self, "not this endpoint");
        let third = call(&mut peers, &address(3, &[SHARED, "10.0.0.3:5000"]), from("10.0.0.3"));
        assert_ne!(third, second);
        assert_eq!(peers.find_caller(&two, from("10.0.0.2")), Caller::Known(second));
    }

    #[test]
    fn a_caller_that_was_started_again_is_the_same_peer() {
        let mut peers = peers();
        let paths = [SHARED, "10.0.0.2:5000"];
        let before = call(&mut peers, &address(2, &paths), from("10.0.0.2"));
        assert_eq!(peers.find_caller(&address(20, &paths), from("10.0.0.2")), Caller::Known(before));
        let by_path = peers.find_or_add(&address(0, &["10.0.0.3:5000"])).unwrap();
        let three = address(3, &[SHARED, "10.0.0.3:5000"]);
        assert_eq!(peers.find_caller(&three, from("10.0.0.3")), Caller::Known(by_path));
    }

    #[test]
    fn a_call_of_the_peer_that_was_there_before_takes_no_other_name() {
        let mut peers = peers();
        let now = address(2, &["10.0.0.2:5000"]);
        let second = peers.find_or_add(&now).unwrap();
        peers.meet(second, 2, "10.0.0.2".parse().unwrap(), false);
        let before = address(20, &["10.0.0.2:5000"]);
        assert_eq!(peers.find_caller(&before, from("10.0.0.2")), Caller::Known(second));
        peers.expect(second, 20, "10.0.0.2".parse().unwrap(), false);
        assert_eq!((peers.find_or_add(&now), peers.find(&before)), (Ok(second), Some(second)));
        peers.get_mut(second).unwrap().address.id = 2;
        peers.expect_no_more(second, 20);
        assert_eq!((peers.find(&now), peers.find(&before)), (Some(second), None));
    }

    #[test]
    fn no_caller_is_a_peer_from_an_address_that_is_none_of_it() {
        let mut peers = peers();
        let two = address(2, &["10.0.0.2:5000", "10.1.0.2:5000"]);
        let second = peers.find_or_add(&two).unwrap();
        for good in ["10.0.0.2", "10.1.0.2", "::ffff:10.1.0.2"] {
            assert_eq!(peers.find_caller(&two, from(good)), Caller::Known(second), "{good}");
        }
        assert_eq!(peers.find_caller(&two, from("10.0.0.66")), Caller::Elsewhere);
        assert_eq!(peers.find_caller(&two, proven("10.0.0.66")), Caller::Known(second));
        // Its address alone does it no better, from there.
        assert_eq!(peers.find_caller(&address(66, &["10.0.0.2:5000"]), from("10.0.0.66")), Caller::New);
        let by_path = peers.find_or_add(&address(0, &["10.0.0.3:5000"])).unwrap();
        let three = address(3, &["10.0.0.3:5000"]);
        assert_eq!(peers.find_caller(&three, from("10.0.0.66")), Caller::New);
        assert_eq!(peers.find_caller(&three, from("10.0.0.3")), Caller::Known(by_path));
    }

    #[test]
    fn peers_on_this_host_may_come_from_any_of_its_addresses() {
        let mut peers = peers();
        let two = address(2, &["10.0.0.1:6000"]);
        let second = peers.find_or_add(&two).unwrap();
        for here in ["10.0.0.1", "127.0.0.1"] {
            assert_eq!(peers.find_caller(&two, from(here)), Caller::Known(second), "{here}");
        }
        let three = address(3, &["10.0.0.3:6000"]);
        peers.find_or_add(&three).unwrap();
        assert_eq!(peers.find_caller(&three, from("127.0.0.1")), Caller::Elsewhere);
    }

    #[test]
    fn the_first_caller_under_a_name_does_not_keep_it_from_its_owner() {
        let mut peers = peers();
        let stranger = call(&mut peers, &address(2, &["10.0.0.2:5000"]), from("10.0.0.66"));
        let two = address(2, &["10.0.0.2:5000"]);
        let second = peers.find_or_add(&two).unwrap();
        assert_ne!(second, stranger);
        assert_eq!(peers.find_caller(&two, from("10.0.0.2")), Caller::Known(second));
        assert_eq!(peers.find_caller(&two, from("10.0.0.66")), Caller::Elsewhere);
        // Nor its address.
        let elsewhere = call(&mut peers, &address(66, &["10.0.0.3:5000"]), from("10.0.0.66"));
        assert_ne!(peers.find_or_add(&address(0, &["10.0.0.3:5000"])).unwrap(), elsewhere);
        // The peer that was at the address that the application gives is taken for the one that it names.
        let four = address(4, &["10.0.0.4:5000"]);
        let fourth = call(&mut peers, &four, from("10.0.0.4"));
        assert_eq!(peers.find_or_add(&four), Ok(fourth));
    }

    #[test]
    fn what_is_known_of_callers_stays_as_much_however_many_there_are() {
        let mut peers = Peers::new(&address(1, &["10.0.0.1:5000"]), 1 << 16);
        let mut last = None;
        for number in 0..70_000u32 {
            let (port, host) = (1024 + number % 60_000, format!("10.0.1.{}", number / 60_000));
            let caller = address(u64::from(number) + 2, &[&format!("{host}:{port}")]);
            let peer = call(&mut peers, &caller, from(&host));
            assert_eq!(peers.get(peer).map(|known| known.id), Some(caller.id));
            peers.leave(peer);
            peers.leave(peer);
            assert!(!peers.is_full());
            if peers.have_many_left() {
                let first = peers.next_left().unwrap();
                assert!(peers.get(first).is_some());
                peers.forget(first);
                assert!(peers.get(first).is_none() && peers.get(first.next()).is_some_and(|place| place.id == 0));
            }
            last = Some((peer, caller));
        }
        let few = (1 << 14) + 2;
        let tables = [peers.all.len(), peers.by_id.len(), peers.by_path.len(), peers.left.len()];
        assert!(tables.iter().all(|length| *length <= few), "{tables:?}");
        // A caller that comes back while it is remembered is the same.
        let (peer, caller) = last.unwrap();
        assert_eq!(call(&mut peers, &caller, from("10.0.1.1")), peer);
    }

    #[test]
    fn the_peer_that_answers_is_the_one_that_was_wanted() {
        let mut peers = peers();
        let second = peers.find_or_add(&address(2, &["10.0.0.2:5000"])).unwrap();
        peers.find_or_add(&address(3, &["10.0.0.3:5000"])).unwrap();
        let anybody = peers.find_or_add(&address(0, &["10.0.0.4:5000"])).unwrap();
        assert!(peers.may_answer(second, 2, from("10.0.0.2")));
        assert!(!peers.may_answer(second, 4, from("10.0.0.2")));
        assert!(!peers.may_answer(anybody, 1, from("10.0.0.4")), "this endpoint itself");
        assert!(!peers.may_answer(anybody, 3, from("10.0.0.4")), "a peer that is elsewhere");
        assert!(peers.may_answer(anybody, 3, proven("10.0.0.4")));
        assert!(peers.may_answer(anybody, 4, from("10.0.0.4")));
    }
}
