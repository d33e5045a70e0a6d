//! Registered memory, as the tests see it.

use std::cell::RefCell;
use std::collections::HashMap;

use weft_base::{DomainId, NoDigest, Random, Slice, Stag};
use weft_memory::{Access, Limits, MemoryError, Region, Registry};

/// The domain of both streams.
pub(crate) const DOMAIN: DomainId = DomainId(0);

/// What peers may do with an area. This side may always read and write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    Local,
    Read,
    Write,
    Atomic,
    All,
}

impl Rights {
    fn access(self) -> Access {
        Access::LOCAL_WRITE
            | match self {
                Self::Local => Access::LOCAL_READ,
                Self::Read => Access::REMOTE_READ,
                Self::Write => Access::REMOTE_WRITE,
                Self::Atomic => Access::REMOTE_ATOMIC,
                Self::All => Access::all(),
            }
    }
}

/// A registry with the domain of the tests.
pub(crate) fn registry() -> Registry {
    let registry = Registry::new(1, Limits::default());
    assert_eq!(registry.allocate_domain(), Ok(DOMAIN));
    registry
}

pub(crate) fn other_domain(registry: &Registry) -> DomainId {
    registry.allocate_domain().unwrap()
}

/// A registered region, as long as nobody has counted its pins and found none.
pub(crate) struct Area {
    pub(crate) stag: Stag,
    /// The tagged offset of its first byte.
    pub(crate) base: u64,
    whole: Slice,
    registry: Registry,
    region: RefCell<Result<Region, Vec<u8>>>,
}

impl Area {
    pub(crate) fn new(registry: &Registry, length: u32, rights: Rights) -> Self {
        Self::in_domain(registry, DOMAIN, length, rights)
    }

    pub(crate) fn in_domain(registry: &Registry, domain: DomainId, length: u32, rights: Rights) -> Self {
        let region = registry.register_zeroed(domain, length as usize, rights.access(), 0x1000).unwrap();
        let (stag, base, whole) = (region.stag(), region.base(), region.slice(..).unwrap());
        Self { stag, base, whole, registry: registry.clone(), region: RefCell::new(Ok(region)) }
    }

    pub(crate) fn slice(&self, offset: u64, length: u32) -> Slice {
        Slice { offset, length, ..self.whole }
    }

    pub(crate) fn whole(&self) -> Slice {
        self.whole
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match &*self.region.borrow() {
            Ok(region) => region.to_vec(),
            Err(bytes) => bytes.clone(),
        }
    }

    pub(crate) fn fill(&self, seed: u64) {
        let mut bytes = vec![0; self.whole.length as usize];
        Random::new(seed).fill(&mut bytes);
        self.write(0, &bytes);
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        self.registry.copy_in(&self.slice(offset, bytes.len() as u32), bytes, &mut NoDigest).unwrap();
    }

    pub(crate) fn invalidate(&self) {
        self.registry.invalidate(DOMAIN, self.stag).unwrap();
    }

    /// How many slices of it are pinned. When none is, it is deregistered by this: peers and streams can't use it any
    /// more.
    pub(crate) fn pins(&self) -> u64 {
        let bytes = self.bytes();
        let region = self.region.replace(Err(bytes));
        match region.map(Region::deregister) {
            Ok(Err((region, MemoryError::InFlight { pins }))) => {
                *self.region.borrow_mut() = Ok(region);
                pins
            }
            Ok(Err((_, error))) => panic!("{error}"),
            Ok(Ok(_)) | Err(_) => 0,
        }
    }
}

/// Registers regions and gives them back, one after the other. Returns the STags.
pub(crate) fn spend(registry: &Registry, count: usize) -> impl Iterator<Item = Stag> {
    (0..count).map(|_| registry.register(DOMAIN, vec![0; 1], Access::LOCAL_READ, 0).unwrap().stag())
}

/// After how many regions one is registered whose STag is used again, and after how many it is, when each is given back
/// before the next one. That takes some ten thousands: STags are 32 bits at random, and stay out of use for a while.
pub(crate) fn reuse() -> (usize, usize) {
    let mut turns = HashMap::new();
    for (turn, stag) in spend(&registry(), usize::MAX).enumerate() {
        if let Some(first) = turns.insert(stag, turn) {
            return (first, turn);
        }
    }
    unreachable!("there are no more STags than that")
}

pub(crate) fn read(registry: &Registry, slice: Slice) -> Vec<u8> {
    let mut bytes = vec![0; slice.length as usize];
    registry.copy_out(&slice, &mut bytes, &mut NoDigest).unwrap();
    bytes
}
