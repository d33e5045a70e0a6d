//! Scatter and gather entries, as the NIC has them.

use weft::verbs::{MAX_GATHER, PostError, RegionId, SharedReceiveQueue, Slice, SliceList};

use crate::abi::ibv_sge;
use crate::errno::Errno;
use crate::limits;
use crate::memory::{BadKey, Domain};

/// Why a request was not converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is refused.
    Refused(Errno),
    /// Its memory is not there: it is taken, and fails.
    Memory,
}

impl From<Errno> for Unfit {
    fn from(error: Errno) -> Self {
        Self::Refused(error)
    }
}

impl From<BadKey> for Unfit {
    fn from(BadKey: BadKey) -> Self {
        Self::Memory
    }
}

/// Posts a receive to a queue. One whose memory can't be used is taken: it fails when a message comes for it, and the
/// sender is told so, as adapters do.
///
/// # Errors
/// The queue is full, or the entries are longer together than a message can be.
pub(crate) fn post_receive(
    domain: &Domain,
    queue: &SharedReceiveQueue,
    id: u64,
    entries: &[ibv_sge],
) -> Result<(), Errno> {
    match slices(domain, entries) {
        Ok(sink) => match queue.post_receive(id, sink.slices()) {
            Err(PostError::Memory(_)) => {}
            posted => return Ok(posted?),
        },
        Err(Unfit::Refused(error)) => return Err(error),
        Err(Unfit::Memory) => {}
    }
    let length: u64 = entries.iter().map(|entry| u64::from(entry.length)).sum();
    let nowhere = domain.domain.void(u32::try_from(length).unwrap_or(u32::MAX))?;
    Ok(queue.post_receive(id, &[nowhere.slice()])?)
}

/// The entries of a list.
///
/// # Errors
/// More than `most`, or fewer than none.
///
/// # Safety
/// The list can be read as long as the result is used.
pub(crate) unsafe fn entries<'a>(list: *const ibv_sge, count: i32, most: u32) -> Result<&'a [ibv_sge], Errno> {
    let count = u32::try_from(count).ok().filter(|count| *count <= most).ok_or(Errno::INVALID)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: The caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(list, count as usize) })
}

/// The slices of a list of entries.
pub(crate) struct Slices {
    slices: [Slice; MAX_GATHER],
    count: usize,
    /// What the only slice is the name of, where there are more entries. It is kept until the request is posted.
    pub(crate) list: Option<SliceList>,
}

impl Slices {
    const NOTHING: Slice = Slice { region: RegionId { index: u32::MAX, generation: 0 }, offset: 0, length: 0 };

    /// A single one.
    pub(crate) const fn one(slice: Slice) -> Self {
        let mut slices = [Self::NOTHING; MAX_GATHER];
        slices[0] = slice;
        Self { slices, count: 1, list: None }
    }

    /// They, as a work request takes them.
    #[inline]
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices[..self.count]
    }

    #[cold]
    fn listed(domain: &Domain, entries: &[ibv_sge]) -> Result<Self, Unfit> {
        let mut slices = [Self::NOTHING; limits::GATHER];
        for (slice, entry) in slices.iter_mut().zip(entries).filter(|(_, entry)| entry.length > 0) {
            *slice = domain.slice(entry)?;
        }
        let list = domain.domain.list(&slices[..entries.len()]).map_err(Errno::from)?;
        let whole = list.slice();
        Ok(Self { list: Some(list), ..Self::one(whole) })
    }
}

/// The slices of the entries, of which there are no more than a request may have.
///
/// # Errors
/// [`Unfit::Memory`]; together they are longer than a message can be.
#[inline]
pub(crate) fn slices(domain: &Domain, entries: &[ibv_sge]) -> Result<Slices, Unfit> {
    match entries {
        [only] if only.length > 0 => return Ok(Slices::one(domain.slice(only)?)),
        _ if entries.len() > MAX_GATHER => return Slices::listed(domain, entries),
        _ => {}
    }
    let mut made = Slices { slices: [Slices::NOTHING; MAX_GATHER], count: 0, list: None };
    for entry in entries.iter().filter(|entry| entry.length > 0) {
        made.slices[made.count] = domain.slice(entry)?;
        made.count += 1;
    }
    Ok(made)
}
