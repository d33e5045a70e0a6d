//! Lists of slices that one slice names, as an indirect memory key of a NIC names others: what a work request gathers
//! from and scatters to stays a few words long, and the path of a single slice does not know of lists.
//!
//! A list has no rights and no pins of its own. A pin of the list pins every slice of it, with the rights that the use
//! needs.

use arrayvec::ArrayVec;
use weft_base::{MAX_LISTED, RegionId, Slice};

use crate::MemoryError;
use crate::standing::Standing;

/// The slices of a list.
pub(crate) type Pieces = ArrayVec<Slice, MAX_LISTED>;

/// Where the generations of a place end: the bit above marks a list.
const LAST_GENERATION: u32 = RegionId::LIST - 1;

/// All lists of a table. A place is used again when its list is over, so what is posted again and again allocates
/// nothing.
#[derive(Default)]
pub(crate) struct Lists {
    places: Vec<ListPlace>,
    free: Vec<u32>,
}

struct ListPlace {
    generation: u32,
    list: Option<List>,
}

/// A list, which stays while its owner or work in flight needs it.
pub(crate) struct List {
    pub(crate) pieces: Pieces,
    /// It names no memory, and can be pinned nevertheless.
    pub(crate) is_void: bool,
    pub(crate) standing: Standing,
}

impl Lists {
    pub(crate) fn insert(&mut self, pieces: Pieces, is_void: bool) -> Result<RegionId, MemoryError> {
        let list = Some(List { pieces, is_void, standing: Standing::new() });
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.list = list;
            return Ok(RegionId { index, generation: RegionId::LIST | place.generation });
        }
        let full = MemoryError::Limit { name: "lists", limit: u64::from(u32::MAX) };
        let index = u32::try_from(self.places.len()).map_err(|_| full)?;
        self.places.push(ListPlace { generation: 0, list });
        Ok(RegionId { index, generation: RegionId::LIST })
    }

    pub(crate) fn find(&self, region: RegionId) -> Result<&List, MemoryError> {
        match self.places.get(region.index as usize) {
            Some(ListPlace { generation, list: Some(list) }) if RegionId::LIST | *generation == region.generation => {
                Ok(list)
            }
            _ => Err(MemoryError::Gone(region)),
        }
    }

    /// Takes out a list that neither its owner nor work in flight needs any more. Returns its slices.
    pub(crate) fn sweep(&mut self, region: RegionId) -> Option<Pieces> {
        let list = self.find(region).ok().filter(|list| list.standing.is_over())?;
        let pieces = list.pieces.clone();
        let place = self.places.get_mut(region.index as usize)?;
        place.list = None;
        if place.generation < LAST_GENERATION {
            place.generation += 1;
            self.free.push(region.index);
        }
        Some(pieces)
    }
}

impl List {
    /// The slices that make up a part of the list.
    ///
    /// # Errors
    /// It reaches past the end.
    pub(crate) fn part(&self, offset: u64, length: u32) -> Result<Pieces, MemoryError> {
        let whole = self.pieces.iter().map(|piece| u64::from(piece.length)).sum();
        let (mut skip, mut left) = (offset, length);
        let mut part = Pieces::new();
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= u64::from(piece.length) {
                skip -= u64::from(piece.length);
                continue;
            }
            // It is less than the length of the piece.
            let from = skip as u32;
            let take = left.min(piece.length - from);
            part.push(piece.part(from, take));
            (skip, left) = (0, left - take);
        }
        if left > 0 {
            return Err(MemoryError::OutOfBounds { offset, length: length.into(), region_length: whole });
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests;
