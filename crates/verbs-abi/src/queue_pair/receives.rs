//! The receives of a queue pair: its own, or a shared queue's.

use std::sync::{Arc, Mutex};

use weft::verbs::{MAX_GATHER, PostError, RegionId, SharedReceiveQueue, Slice, SliceList};

use super::conversion::Unfit;
use super::{Parts, QueuePair};
use crate::abi::*;
use crate::border::lock;
use crate::completion::CompletionQueue;
use crate::errno::Errno;
use crate::limits;
use crate::memory::Domain;
use crate::shared_receive::SharedReceives;

/// Where the receives of a queue pair are. Own ones are in a queue of the NIC that outlives the connection.
pub(super) enum Receives {
    Own(Mutex<SharedReceiveQueue>),
    Shared(Arc<SharedReceives>),
}

impl Receives {
    /// # Errors
    /// A limit is reached.
    pub(super) fn new(parts: &Parts) -> Result<Self, Errno> {
        match &parts.shared_receives {
            Some(shared) => Ok(Self::Shared(Arc::clone(shared))),
            None => Ok(Self::Own(Mutex::new(own(parts)?))),
        }
    }

    /// The queue of the NIC.
    pub(super) fn queue(&self) -> SharedReceiveQueue {
        match self {
            Self::Own(queue) => lock(queue).clone(),
            Self::Shared(shared) => shared.queue.clone(),
        }
    }
}

fn own(parts: &Parts) -> Result<SharedReceiveQueue, Errno> {
    Ok(parts.nic.receive_queue(&parts.domain.domain, parts.cap.max_recv_wr)?)
}

impl QueuePair {
    /// The shared queue that it takes its receives from.
    pub(super) fn shared_receives(&self) -> Option<&SharedReceives> {
        match &self.receives {
            Receives::Own(_) => None,
            Receives::Shared(shared) => Some(shared),
        }
    }

    pub(super) fn receive_queue(&self) -> SharedReceiveQueue {
        self.receives.queue()
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// The state takes none, the queue is full, too many entries, or the queue pair has a shared queue.
    ///
    /// # Safety
    /// `entries` of the request can be read.
    pub(crate) unsafe fn post_receive(&self, request: &ibv_recv_wr) -> Result<(), Errno> {
        let Receives::Own(queue) = &self.receives else { return Err(Errno::INVALID) };
        let queue = lock(queue);
        match self.state() {
            IBV_QPS_RESET => return Err(Errno::INVALID),
            IBV_QPS_ERR => {
                self.complete_receive_with(request.wr_id, IBV_WC_WR_FLUSH_ERR);
                return Ok(());
            }
            _ => {}
        }
        // SAFETY: The caller's promise.
        let entries = unsafe { entries(request.sg_list, request.num_sge, self.parts.cap.max_recv_sge) }?;
        let posted = match slices(&self.parts.domain, entries) {
            Ok(sink) => queue.post_receive(request.wr_id, sink.slices()),
            Err(Unfit::Refused(error)) => return Err(error),
            Err(Unfit::Memory) => return self.refuse_receive(request.wr_id),
        };
        match posted {
            Ok(()) => Ok(()),
            Err(PostError::Memory(_)) => self.refuse_receive(request.wr_id),
            Err(error) => Err(error.into()),
        }
    }

    /// Its memory is not there: the request ends with that, and the queue pair with it.
    fn refuse_receive(&self, id: u64) -> Result<(), Errno> {
        self.complete_receive_with(id, IBV_WC_LOC_PROT_ERR);
        self.break_down();
        Ok(())
    }

    /// A receive has failed.
    pub(super) fn complete_receive_with(&self, id: u64, status: i32) {
        let completion = ibv_wc { wr_id: id, status, opcode: IBV_WC_RECV, qp_num: self.number(), ..ibv_wc::default() };
        self.parts.receive_completions.push(completion, true);
    }

    /// Gives up the receives that wait: with a completion each where they are flushed. Those of a shared queue stay
    /// for others.
    pub(super) fn give_up_receives(&self, is_flushed: bool) {
        match &self.receives {
            Receives::Shared(_) if is_flushed => self.push_event(IBV_EVENT_QP_LAST_WQE_REACHED),
            Receives::Shared(_) => {}
            Receives::Own(queue) => {
                let mut queue = lock(queue);
                let ids = queue.close();
                if is_flushed {
                    ids.into_iter().for_each(|id| self.complete_receive_with(id, IBV_WC_WR_FLUSH_ERR));
                } else if let Ok(new) = own(&self.parts) {
                    *queue = new;
                }
            }
        }
    }

    /// Whose completions receives are.
    pub(crate) fn receive_completions(&self) -> &CompletionQueue {
        &self.parts.receive_completions
    }
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
    if entries.len() > MAX_GATHER {
        return Slices::listed(domain, entries);
    }
    let mut made = Slices { slices: [Slices::NOTHING; MAX_GATHER], count: 0, list: None };
    for entry in entries.iter().filter(|entry| entry.length > 0) {
        made.slices[made.count] = domain.slice(entry)?;
        made.count += 1;
    }
    Ok(made)
}
