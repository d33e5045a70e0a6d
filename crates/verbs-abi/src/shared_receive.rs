//! Shared receive queues.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;

use weft::verbs::SharedReceiveQueue;

use crate::abi::{IBV_EVENT_SRQ_LIMIT_REACHED, ibv_sge, ibv_srq_attr};
use crate::border::{Counted, Users};
use crate::errno::Errno;
use crate::events::{Acknowledgments, AsyncEvents};
use crate::memory::Domain;
use crate::nic::Nic;
use crate::slices::post_receive;

/// A receive queue that several queue pairs take from.
pub(crate) struct SharedReceives {
    pub(crate) queue: SharedReceiveQueue,
    pub(crate) domain: Arc<Domain>,
    pub(crate) acknowledgments: Acknowledgments,
    events: Arc<AsyncEvents>,
    granted: ibv_srq_attr,
    /// Fewer receives than this make an event, once. 0: none.
    limit: AtomicU32,
    address: AtomicUsize,
    users: Users,
}

impl Counted for SharedReceives {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl SharedReceives {
    /// # Errors
    /// A limit is reached.
    pub(crate) fn new(
        nic: &Nic,
        events: &Arc<AsyncEvents>,
        domain: Arc<Domain>,
        granted: ibv_srq_attr,
    ) -> Result<Self, Errno> {
        Ok(Self {
            queue: nic.receive_queue(&domain.domain, granted.max_wr)?,
            domain,
            acknowledgments: Acknowledgments::default(),
            events: Arc::clone(events),
            granted,
            limit: AtomicU32::new(0),
            address: AtomicUsize::new(0),
            users: Users::default(),
        })
    }

    /// C knows it by this address from now on.
    pub(crate) fn set_address(&self, address: usize) {
        self.address.store(address, Ordering::Release);
    }

    /// What it was made with, and the limit as it is now.
    pub(crate) fn attributes(&self) -> ibv_srq_attr {
        ibv_srq_attr { srq_limit: self.limit.load(Ordering::Acquire), ..self.granted }
    }

    /// Sets the limit.
    ///
    /// # Errors
    /// More than the queue holds.
    pub(crate) fn set_limit(&self, limit: u32) -> Result<(), Errno> {
        if limit > self.granted.max_wr {
            return Err(Errno::INVALID);
        }
        self.limit.store(limit, Ordering::Release);
        self.note_taken();
        Ok(())
    }

    /// A message has taken a receive.
    pub(crate) fn note_taken(&self) {
        let limit = self.limit.load(Ordering::Acquire);
        if limit > 0 && self.queue.len() < limit as usize && self.limit.swap(0, Ordering::AcqRel) > 0 {
            self.events.push(IBV_EVENT_SRQ_LIMIT_REACHED, self.address.load(Ordering::Acquire));
        }
    }

    /// Posts a receive into these entries.
    ///
    /// # Errors
    /// The queue is full, or the entries are longer together than a message can be.
    pub(crate) fn post(&self, id: u64, entries: &[ibv_sge]) -> Result<(), Errno> {
        post_receive(&self.domain, &self.queue, id, entries)
    }

    /// It goes.
    pub(crate) fn end(&self) {
        self.events.withdraw(self.address.load(Ordering::Acquire));
        self.queue.close();
        self.acknowledgments.wait();
    }
}
