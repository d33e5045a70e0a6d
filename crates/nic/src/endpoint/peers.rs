//! Who an endpoint knows: addresses, and what waits to be done with each.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weft_base::PeerId;

use super::link::LinkKey;
use super::request::{Address, Attempt, EndpointError, EndpointFailure};
use super::transfer::Work;

/// A peer.
pub(super) struct Peer {
    /// As the application has named it: whoever is there, if without an id.
    pub(super) address: Address,
    /// Who it was when it was connected last; 0 before.
    pub(super) id: u64,
    /// This endpoint itself.
    pub(super) is_self: bool,
    /// The connection that is being opened, or stands.
    pub(super) link: Option<LinkKey>,
    /// From where the connection is being opened, if that is known.
    pub(super) from: Option<SocketAddr>,
    /// The ways that were tried since a connection was wanted, all in vain.
    pub(super) attempts: Vec<Attempt>,
    /// Whether the peer was told that it shall connect to us: its connection is awaited.
    pub(super) awaited: bool,
    /// How often that was in vain.
    pub(super) times_awaited: u32,
    /// One-sided work that could not be posted yet, in order.
    pub(super) work: VecDeque<Work>,
    /// The peer is in the list of those with such work.
    pub(super) is_listed: bool,
    /// Requests of the application under way with it.
    pub(super) under_way: usize,
    /// Atomics of these that are calls.
    pub(super) calls: usize,
    /// Why what is under way fails, when it does.
    pub(super) failure: Option<EndpointFailure>,
}

impl Peer {
    fn new(address: Address, is_self: bool) -> Self {
        Self {
            address,
            id: 0,
            is_self,
            link: None,
            from: None,
            attempts: Vec::new(),
            awaited: false,
            times_awaited: 0,
            work: VecDeque::new(),
            is_listed: false,
            under_way: 0,
            calls: 0,
            failure: None,
        }
    }
}

/// All of them.
pub(super) struct Peers {
    all: Vec<Peer>,
    most: usize,
    own: u64,
    by_id: HashMap<u64, PeerId>,
    by_way: HashMap<SocketAddr, PeerId>,
}

impl Peers {
    pub(super) fn new(own: &Address, most: u32) -> Self {
        let mut peers =
            Self { all: Vec::new(), most: most as usize, own: own.id, by_id: HashMap::new(), by_way: HashMap::new() };
        peers.add(own.clone());
        peers
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.all.get(peer.0 as usize)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(peer.0 as usize)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.all.len() as u32).map(PeerId)
    }

    /// The peer with this address, known or new. One that is known by where it is, and not by who it is, is taken for the same.
    pub(super) fn find_or_add(&mut self, address: &Address) -> Result<PeerId, EndpointError> {
        if address.ways.is_empty() {
            return Err(EndpointError::Invalid("an address without any way to reach the peer"));
        }
        if let Some(known) = self.find(address) {
            return Ok(known);
        }
        if self.all.len() >= self.most {
            let limit = self.most as u64;
            return Err(crate::Error::Limit { name: "peers", limit }.into());
        }
        Ok(self.add(address.clone()))
    }

    fn find(&mut self, address: &Address) -> Option<PeerId> {
        if address.id != 0 {
            let known = *self.by_id.get(&address.id)?;
            let peer = &mut self.all[known.0 as usize];
            if peer.address.id != 0 {
                // It may have been known as the one that was there before.
                peer.address.id = address.id;
            }
            return Some(known);
        }
        let known = *address.ways.iter().find_map(|way| self.by_way.get(way))?;
        let peer = &mut self.all[known.0 as usize];
        if !peer.is_self {
            // From now on it is whoever is there.
            peer.address.id = 0;
        }
        Some(known)
    }

    fn add(&mut self, address: Address) -> PeerId {
        let peer = PeerId(self.all.len() as u32);
        let is_self = address.id == self.own;
        if address.id != 0 {
            self.by_id.insert(address.id, peer);
        }
        if address.id == 0 || is_self {
            self.note_ways(&address, peer);
        }
        self.all.push(Peer::new(address, is_self));
        peer
    }

    fn note_ways(&mut self, address: &Address, peer: PeerId) {
        for way in &address.ways {
            self.by_way.insert(*way, peer);
        }
    }

    /// A peer says who it is: it may be another one than before.
    pub(super) fn meet(&mut self, peer: PeerId, id: u64) {
        let Some(known) = self.all.get_mut(peer.0 as usize) else { return };
        let address = known.address.clone();
        let before = core::mem::replace(&mut known.id, id);
        if before != id && self.by_id.get(&before) == Some(&peer) {
            self.by_id.remove(&before);
        }
        self.by_id.insert(id, peer);
        self.note_ways(&address, peer);
    }

    /// The peer that has connected to us: who is known, or was known at the same ways before it was started again, or else is new. One common way does not make
    /// it another one's successor: hosts have addresses in common, those of containers for example, and so may this endpoint and the caller.
    pub(super) fn find_caller(&mut self, address: &Address) -> Result<PeerId, EndpointError> {
        if let Some(known) = self.by_id.get(&address.id) {
            return Ok(*known);
        }
        let successor = |known: &&PeerId| {
            let known = &self.all[known.0 as usize];
            !known.is_self && (known.address.id == 0 || known.address.ways == address.ways)
        };
        match address.ways.iter().filter_map(|way| self.by_way.get(way)).find(successor) {
            Some(known) => Ok(*known),
            None => self.find_or_add(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each host has as well, and so an endpoint that listens on the same port.
    const SHARED: &str = "172.17.0.1:5000";

    fn address(id: u64, ways: &[&str]) -> Address {
        Address { id, ways: ways.iter().map(|way| way.parse().unwrap()).collect() }
    }

    #[test]
    fn a_caller_is_nobody_else_for_a_way_in_common() {
        let mut peers = Peers::new(&address(1, &[SHARED, "10.0.0.1:5000"]), 16);
        let two = address(2, &[SHARED, "10.0.0.2:5000"]);
        let second = peers.find_caller(&two).unwrap();
        assert!(!peers.get(second).unwrap().is_self, "not this endpoint");
        peers.meet(second, 2);
        let third = peers.find_caller(&address(3, &[SHARED, "10.0.0.3:5000"])).unwrap();
        assert_ne!(third, second);
        assert_eq!(peers.find_caller(&two), Ok(second));
    }

    #[test]
    fn a_caller_that_was_started_again_is_the_same_peer() {
        let mut peers = Peers::new(&address(1, &[SHARED, "10.0.0.1:5000"]), 16);
        let ways = [SHARED, "10.0.0.2:5000"];
        let before = peers.find_caller(&address(2, &ways)).unwrap();
        peers.meet(before, 2);
        assert_eq!(peers.find_caller(&address(20, &ways)), Ok(before));
        let by_way = peers.find_or_add(&address(0, &["10.0.0.3:5000"])).unwrap();
        assert_eq!(peers.find_caller(&address(3, &[SHARED, "10.0.0.3:5000"])), Ok(by_way));
    }
}
