//! The memory table: slots, domains, limits. One lock of the registry protects all of it.

use std::collections::HashMap;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_base::{DomainId, MAX_LISTED, RegionId, Slice, Stag, passes_end};

use crate::list::{List, Lists, Pieces};
use crate::memory::{Grant, Memory};
use crate::stag::Stags;
use crate::{Buffer, LocalRight, MemoryError, RemoteFault, RemoteRight, Seed};

/// How much a registry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Protection domains.
    pub domains: u32,
    /// Regions, including those that were dropped while work in flight used them.
    pub regions: u32,
    /// Bytes of all regions together.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { domains: 1024, regions: 65_536, bytes: u64::MAX }
    }
}

/// Set in the generation of slices that came from a STag: they stop working when remote access ends, while slices of
/// the owner and of work in flight continue to work.
pub(crate) const BY_STAG: u32 = 1 << 31;

/// A slot whose generations are used up is never used again. The bit above is for lists.
const LAST_GENERATION: u32 = RegionId::LIST - 1;

pub(crate) struct Table {
    limits: Limits,
    slots: Vec<Slot>,
    free: Vec<u32>,
    lists: Lists,
    stags: Stags,
    domains: HashMap<DomainId, u32>,
    next_domain: u32,
    bytes: u64,
}

struct Slot {
    generation: u32,
    memory: Option<Arc<Memory>>,
}

impl Table {
    pub(crate) fn new(seed: Seed, limits: Limits) -> Self {
        Self {
            limits,
            slots: Vec::new(),
            free: Vec::new(),
            lists: Lists::default(),
            stags: Stags::new(seed),
            domains: HashMap::new(),
            next_domain: 0,
            bytes: 0,
        }
    }

    pub(crate) fn allocate_domain(&mut self) -> Result<DomainId, MemoryError> {
        let full = MemoryError::Limit { name: "domains", limit: u64::from(self.limits.domains) };
        if self.domains.len() as u64 >= u64::from(self.limits.domains) {
            return Err(full);
        }
        let domain = DomainId(self.next_domain);
        self.next_domain = self.next_domain.checked_add(1).ok_or(full)?;
        self.domains.insert(domain, 0);
        Ok(domain)
    }

    pub(crate) fn release_domain(&mut self, domain: DomainId) -> Result<(), MemoryError> {
        match self.domains.get(&domain) {
            None => Err(MemoryError::UnknownDomain(domain)),
            Some(0) => {
                self.domains.remove(&domain);
                Ok(())
            }
            Some(regions) => Err(MemoryError::DomainInUse { domain, regions: *regions }),
        }
    }

    pub(crate) fn insert(&mut self, grant: &Grant<'_>, buffer: Buffer) -> Result<Arc<Memory>, MemoryError> {
        self.admit(grant, buffer.len() as u64)?;
        let index = self.vacant_slot()?;
        let stag = match grant.attributes.stag {
            None => self.stags.issue(index),
            Some(stag) if self.stags.claim(stag, index) => stag,
            Some(stag) => {
                self.free.push(index);
                return Err(MemoryError::StagInUse(stag));
            }
        };
        let slot = &mut self.slots[index as usize];
        let id = RegionId { index, generation: slot.generation };
        let memory = Arc::new(Memory::new(id, stag, grant, buffer));
        slot.memory = Some(Arc::clone(&memory));
        self.bytes += memory.length;
        *self.domains.entry(grant.domain).or_default() += 1;
        Ok(memory)
    }

    fn admit(&self, grant: &Grant<'_>, length: u64) -> Result<(), MemoryError> {
        if !self.domains.contains_key(&grant.domain) {
            return Err(MemoryError::UnknownDomain(grant.domain));
        }
        // So that no tagged offset inside a region wraps (RFC 5041 section 7.1, rule 5).
        let base = grant.attributes.base;
        if passes_end(base, length) {
            return Err(MemoryError::BaseWraps { base, length });
        }
        if self.bytes.checked_add(length).is_none_or(|bytes| bytes > self.limits.bytes) {
            return Err(MemoryError::Limit { name: "bytes", limit: self.limits.bytes });
        }
        Ok(())
    }

    fn vacant_slot(&mut self) -> Result<u32, MemoryError> {
        if let Some(index) = self.free.pop() {
            return Ok(index);
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if index >= self.limits.regions {
            return Err(MemoryError::Limit { name: "regions", limit: u64::from(self.limits.regions) });
        }
        self.slots.push(Slot { generation: 0, memory: None });
        Ok(index)
    }

    /// The owner's handle goes. Work in flight keeps the memory in the table until [`Table::sweep`].
    pub(crate) fn detach(&mut self, memory: &Memory) -> Option<Arc<Memory>> {
        memory.standing.disown();
        if memory.is_stag_chosen {
            self.stags.release(memory.stag);
        } else {
            self.stags.retire(memory.stag);
        }
        self.sweep(memory.id)
    }

    /// Takes a region out of the table when neither its owner nor work in flight needs it any more. The caller frees
    /// it.
    pub(crate) fn sweep(&mut self, region: RegionId) -> Option<Arc<Memory>> {
        let slot = self.slots.get_mut(region.index as usize)?;
        if slot.generation != region.generation & !BY_STAG {
            return None;
        }
        let memory = slot.memory.take_if(|memory| memory.standing.is_over())?;
        if slot.generation < LAST_GENERATION {
            slot.generation += 1;
            self.free.push(region.index);
        }
        self.bytes -= memory.length;
        if let Some(regions) = self.domains.get_mut(&memory.domain) {
            *regions -= 1;
        }
        Some(memory)
    }

    /// Whose slice this is, whatever it may do.
    #[inline]
    fn find(&self, region: RegionId) -> Result<&Arc<Memory>, MemoryError> {
        match self.slots.get(region.index as usize) {
            Some(Slot { generation, memory: Some(memory) }) if *generation == region.generation & !BY_STAG => {
                Ok(memory)
            }
            _ => Err(MemoryError::Gone(region)),
        }
    }

    /// The memory of a slice whose bytes may be touched now.
    #[inline]
    pub(crate) fn reach(&self, region: RegionId) -> Result<&Arc<Memory>, MemoryError> {
        let memory = self.find(region)?;
        if region.generation & BY_STAG != 0 && !memory.standing.is_remote_open() {
            return Err(MemoryError::Invalidated(memory.id));
        }
        if memory.is_borrowed() {
            return Err(MemoryError::Borrowed(memory.id));
        }
        Ok(memory)
    }

    #[inline]
    pub(crate) fn pin(&self, domain: DomainId, slice: &Slice, need: LocalRight) -> Result<(), MemoryError> {
        let memory = match self.reach(slice.region) {
            Ok(memory) => memory,
            Err(_) if slice.region.is_list() => return self.pin_list(domain, slice, need),
            Err(error) => return Err(error),
        };
        if !memory.standing.is_owned() {
            return Err(MemoryError::Gone(memory.id));
        }
        if memory.domain != domain {
            return Err(MemoryError::WrongDomain { region: memory.id, domain });
        }
        if !memory.access.contains(need.access()) {
            return Err(MemoryError::NotPermitted { region: memory.id, need });
        }
        memory.locate(slice.offset, u64::from(slice.length))?;
        memory.standing.pin();
        Ok(())
    }

    /// Pins a list and all its slices, or nothing.
    #[cold]
    fn pin_list(&self, domain: DomainId, slice: &Slice, need: LocalRight) -> Result<(), MemoryError> {
        let list = self.lists.find(slice.region)?;
        if !list.standing.is_owned() {
            return Err(MemoryError::Gone(slice.region));
        }
        if !list.is_void {
            list.part(slice.offset, slice.length)?;
        }
        for (pinned, piece) in list.pieces.iter().enumerate() {
            if let Err(error) = self.pin(domain, piece, need) {
                // No owner can have gone meanwhile, for that takes the write lock: there is nothing to sweep.
                list.pieces[..pinned].iter().for_each(|piece| {
                    self.unpin(piece);
                });
                return Err(error);
            }
        }
        list.standing.pin();
        Ok(())
    }

    /// Returns whether the region, or the list or one of its slices, is to be swept now.
    pub(crate) fn unpin(&self, slice: &Slice) -> bool {
        let Ok(memory) = self.find(slice.region) else {
            if let Ok(list) = self.lists.find(slice.region) {
                return self.unpin_list(list);
            }
            debug_assert!(false, "unpin of {slice:?}, whose region is not there");
            return false;
        };
        let is_over = memory.standing.unpin();
        debug_assert!(is_over.is_ok(), "unpin of {slice:?}, which is not pinned");
        is_over.unwrap_or(false)
    }

    #[cold]
    fn unpin_list(&self, list: &List) -> bool {
        let leftover = list.pieces.iter().fold(false, |leftover, piece| self.unpin(piece) | leftover);
        // After its slices: the thread that ends the last pin of the list sweeps them, and they have no pins of it
        // then.
        let is_over = list.standing.unpin();
        debug_assert!(is_over.is_ok(), "unpin of a list that is not pinned");
        is_over.unwrap_or(false) | leftover
    }

    pub(crate) fn insert_list(&mut self, pieces: Pieces, is_void: bool) -> Result<RegionId, MemoryError> {
        self.lists.insert(pieces, is_void)
    }

    /// The slices that make up a slice of a list.
    #[cold]
    pub(crate) fn pieces(&self, slice: &Slice) -> Result<Pieces, MemoryError> {
        self.lists.find(slice.region)?.part(slice.offset, slice.length)
    }

    /// The owner's handle of a list goes.
    pub(crate) fn detach_list(&mut self, region: RegionId) {
        if let Ok(list) = self.lists.find(region) {
            list.standing.disown();
        }
        // Its slices have no pins of it then.
        let _ = self.lists.sweep(region);
    }

    /// Takes out a list that is over, and those of its regions that are. The caller frees them.
    pub(crate) fn sweep_list(&mut self, region: RegionId) -> ArrayVec<Arc<Memory>, MAX_LISTED> {
        let Ok(list) = self.lists.find(region) else { return ArrayVec::new() };
        let pieces = list.pieces.clone();
        let _ = self.lists.sweep(region);
        pieces.iter().filter_map(|piece| self.sweep(piece.region)).collect()
    }

    /// The checks of RFC 5041 section 7.1 and RFC 5040 section 7.1 for a tagged access, in their order.
    pub(crate) fn locate_remote(
        &self,
        domain: DomainId,
        stag: Stag,
        tagged_offset: u64,
        length: u32,
        need: RemoteRight,
    ) -> Result<(Slice, u64), RemoteFault> {
        let memory = self.granted(domain, stag)?;
        if !memory.access.contains(need.access()) {
            return Err(RemoteFault::NotPermitted(need));
        }
        if passes_end(tagged_offset, length.into()) {
            return Err(RemoteFault::OffsetWraps);
        }
        let inside = tagged_offset.checked_sub(memory.base).and_then(|offset| memory.length.checked_sub(offset));
        if inside.is_none_or(|left| left < u64::from(length)) {
            return Err(RemoteFault::OutOfBounds);
        }
        let region = RegionId { index: memory.id.index, generation: memory.id.generation | BY_STAG };
        let offset = tagged_offset - memory.base;
        Ok((Slice { region, offset, length }, memory.address() + offset))
    }

    /// The region behind a STag that is valid for this domain.
    pub(crate) fn granted(&self, domain: DomainId, stag: Stag) -> Result<&Arc<Memory>, RemoteFault> {
        let slot = self.stags.slot_of(stag).ok_or(RemoteFault::InvalidStag)?;
        let memory = self.slots[slot as usize].memory.as_ref().ok_or(RemoteFault::InvalidStag)?;
        if !memory.standing.is_remote_open() {
            return Err(RemoteFault::InvalidStag);
        }
        // RFC 5042 section 6.1.1: a stream in one domain MUST NOT reach the STag of another.
        if memory.domain != domain {
            return Err(RemoteFault::WrongDomain);
        }
        Ok(memory)
    }
}
