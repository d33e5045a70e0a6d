//! Memory that a connection's packets come into, in slots of one size.

use core::ops::Range;

use weft_base::{DomainId, Slice};
use weft_memory::{Access, MemoryError, Region, Registry};

/// Slots in regions: the first ones in one of their own, and each time that the peer is granted more packets as many
/// further ones. The pages of a slot are taken when a packet comes that can't go the short way.
pub(super) struct Inbox {
    slot_bytes: u32,
    /// With the number of the first slot of each.
    regions: Vec<(u16, Region)>,
    slots: u16,
}

impl Inbox {
    pub(super) fn new(registry: &Registry, domain: DomainId, slots: u16, slot_bytes: u32) -> Result<Self, MemoryError> {
        let mut inbox = Self { slot_bytes, regions: Vec::with_capacity(1), slots: 0 };
        inbox.add(registry, domain, slots)?;
        Ok(inbox)
    }

    /// Further slots. Returns their numbers.
    pub(super) fn add(&mut self, registry: &Registry, domain: DomainId, slots: u16) -> Result<Range<u16>, MemoryError> {
        let bytes = usize::from(slots) * self.slot_bytes as usize;
        let region = registry.register_zeroed(domain, bytes, Access::LOCAL_WRITE, 0)?;
        let first = self.slots;
        self.regions.push((first, region));
        self.slots += slots;
        Ok(first..self.slots)
    }

    pub(super) const fn slots(&self) -> u16 {
        self.slots
    }

    /// The memory of a slot. `None`: there is no such slot.
    pub(super) fn slice(&self, slot: u16) -> Option<Slice> {
        let (region, start) = self.find(slot)?;
        region.slice(start..start + u64::from(self.slot_bytes)).ok()
    }

    /// Copies what has arrived into a slot, from its first byte on. `None`: there is no such slot.
    pub(super) fn read(&self, slot: u16, out: &mut [u8]) -> Option<()> {
        let (region, start) = self.find(slot)?;
        region.read(start, out).ok()
    }

    /// The region of a slot, and where in it the slot begins.
    fn find(&self, slot: u16) -> Option<(&Region, u64)> {
        let (first, region) = self.regions.iter().rev().find(|(first, _)| *first <= slot)?;
        Some((region, u64::from(slot - first) * u64::from(self.slot_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_all_regions_are_apart() {
        let registry = Registry::new(7, weft_memory::Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let mut inbox = Inbox::new(&registry, domain, 3, 100).unwrap();
        assert_eq!(inbox.add(&registry, domain, 3).unwrap(), 3..6);
        assert_eq!(inbox.add(&registry, domain, 6).unwrap(), 6..12);
        let places: Vec<_> = (0..inbox.slots()).map(|slot| inbox.slice(slot).unwrap()).collect();
        for (at, place) in places.iter().enumerate() {
            assert_eq!(place.length, 100);
            assert!(places[..at].iter().all(|other| (other.region, other.offset) != (place.region, place.offset)));
        }
        assert!(inbox.slice(12).is_none() && inbox.read(12, &mut [0; 100]).is_none());
        assert!(inbox.read(11, &mut [0; 100]).is_some());
    }
}
