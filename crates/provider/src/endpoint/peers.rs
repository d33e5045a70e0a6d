//! Maps the application's addresses to peers, and back.

use std::sync::Arc;

use weft::endpoint::{Endpoint, PeerId};
use weft_libfabric::abi::errno::FI_EADDRNOTAVAIL;
use weft_libfabric::abi::{FI_ADDR_NOTAVAIL, fi_addr_t};
use weft_lock::{Rank, RwLock};

use crate::addresses::vector::AddressVector;
use crate::border::Held;
use crate::errno::Errno;
use crate::queue::Sources;

/// The peers of an endpoint, by its address vector.
pub(super) struct Peers {
    endpoint: Arc<Endpoint>,
    vector: Held<AddressVector>,
    /// Whether the application wants the sources of what it receives.
    tell: bool,
    known: RwLock<Known>,
}

/// Cached lookups.
#[derive(Default)]
struct Known {
    /// The generation of the address vector. When that has changed, nothing here is valid.
    generation: u64,
    peers: Vec<Option<PeerId>>,
    /// By the peers' indices, which may have been those of others before.
    addresses: Vec<Option<(PeerId, fi_addr_t)>>,
}

impl Peers {
    pub(super) fn new(endpoint: Arc<Endpoint>, vector: Held<AddressVector>, tell: bool) -> Self {
        Self { endpoint, vector, tell, known: RwLock::new(Rank::KnownPeers, Known::default()) }
    }

    /// The peer with this address.
    ///
    /// # Errors
    /// It is not in the address vector, or the maximum number of peers is reached.
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
        // Peers in the address vector are kept: callers that are not in it are forgotten some time after they have
        // left.
        if let Some(entry) = found.and_then(|index| self.vector.address(index)) {
            let _ = self.endpoint.peer(&entry);
        }
        let address = found.unwrap_or(FI_ADDR_NOTAVAIL);
        self.learn(generation, |known| put(&mut known.addresses, peer.place(), (peer, address)));
        address
    }

    /// Caches a lookup of this generation of the address vector.
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
