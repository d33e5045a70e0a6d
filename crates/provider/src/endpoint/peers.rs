//! Peers by the addresses that the application knows, and back.

use std::sync::Arc;

use weft::endpoint::{Endpoint, PeerId};
use weft_libfabric::abi::errno::FI_EADDRNOTAVAIL;
use weft_libfabric::abi::{FI_ADDR_NOTAVAIL, fi_addr_t};
use weft_lock::{Rank, RwLock};

use crate::addresses::vector::AddressVector;
use crate::border::Held;
use crate::errno::Errno;
use crate::queue::Sources;

/// The peers of an endpoint, as its address vector names them.
pub(super) struct Peers {
    endpoint: Arc<Endpoint>,
    vector: Held<AddressVector>,
    /// The application wants to know who sent what it receives.
    tell: bool,
    known: RwLock<Known>,
}

/// What has been asked already.
#[derive(Default)]
struct Known {
    /// Of the address vector. When that has changed, nothing here counts.
    generation: u64,
    peers: Vec<Option<PeerId>>,
    /// By the peers' places, which may have been others' before.
    addresses: Vec<Option<(PeerId, fi_addr_t)>>,
}

impl Peers {
    pub(super) fn new(endpoint: Arc<Endpoint>, vector: Held<AddressVector>, tell: bool) -> Self {
        Self { endpoint, vector, tell, known: RwLock::new(Rank::KnownPeers, Known::default()) }
    }

    /// Who has this address.
    ///
    /// # Errors
    /// It is not in the address vector, or there are as many peers as there may be.
    #[inline]
    pub(super) fn peer(&self, address: fi_addr_t) -> Result<PeerId, Errno> {
        let known = self.known.read();
        if known.generation == self.vector.generation()
            && let Some(Some(peer)) = known.peers.get(address as usize)
        {
            return Ok(*peer);
        }
        drop(known);
        self.find_peer(address)
    }

    #[cold]
    fn find_peer(&self, address: fi_addr_t) -> Result<PeerId, Errno> {
        let generation = self.vector.generation();
        let found = self.vector.address(address).ok_or(Errno(FI_EADDRNOTAVAIL))?;
        let peer = self.endpoint.peer(&found)?;
        self.learn(generation, |known| put(&mut known.peers, address as usize, peer));
        Ok(peer)
    }

    #[cold]
    fn find_address(&self, peer: PeerId) -> fi_addr_t {
        let generation = self.vector.generation();
        let found = self.endpoint.peer_address(peer).and_then(|address| self.vector.index_of(&address));
        // Whom the application knows stays known: callers that nobody has named are forgotten some time after they have
        // left.
        if let Some(entry) = found.and_then(|index| self.vector.address(index)) {
            let _ = self.endpoint.peer(&entry);
        }
        let address = found.unwrap_or(FI_ADDR_NOTAVAIL);
        self.learn(generation, |known| put(&mut known.addresses, peer.place(), (peer, address)));
        address
    }

    /// Keeps what was asked while the address vector had this generation.
    fn learn(&self, generation: u64, learn: impl FnOnce(&mut Known)) {
        let mut known = self.known.write();
        if known.generation != generation {
            *known = Known { generation, ..Known::default() };
        }
        learn(&mut known);
    }
}

impl Sources for Peers {
    fn address(&self, peer: PeerId) -> fi_addr_t {
        if !self.tell {
            return FI_ADDR_NOTAVAIL;
        }
        let known = self.known.read();
        if known.generation == self.vector.generation()
            && let Some(Some((of, address))) = known.addresses.get(peer.place())
            && *of == peer
        {
            return *address;
        }
        drop(known);
        self.find_address(peer)
    }
}

fn put<T: Clone>(places: &mut Vec<Option<T>>, place: usize, value: T) {
    if places.len() <= place {
        places.resize(place + 1, None);
    }
    places[place] = Some(value);
}
