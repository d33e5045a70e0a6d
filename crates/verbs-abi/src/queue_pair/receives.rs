//! The receives of a queue pair: its own, or a shared queue's.

use std::sync::{Arc, Mutex};

use weft::verbs::SharedReceiveQueue;

use super::state::{Posting, receive_in};
use super::{Parts, QueuePair};
use crate::abi::*;
use crate::border::lock;
use crate::completion::CompletionQueue;
use crate::errno::Errno;
use crate::shared_receive::SharedReceives;
use crate::slices::{entries, post_receive};

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
    let queue = parts.nic.receive_queue(&parts.domain.domain, parts.cap.max_recv_wr)?;
    // Connections of one queue pair follow each other. Where it is connected to itself, one of the two ends receives.
    queue.set_serves_one();
    Ok(queue)
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
    /// The state takes none, the queue is full, too many entries or bytes, or the queue pair has a shared queue.
    ///
    /// # Safety
    /// `entries` of the request can be read.
    pub(crate) unsafe fn post_receive(&self, request: &ibv_recv_wr) -> Result<(), Errno> {
        let Receives::Own(queue) = &self.receives else { return Err(Errno::INVALID) };
        let queue = lock(queue);
        match receive_in(self.state()) {
            Posting::Posted => {}
            Posting::Flushed => {
                self.complete_receive_with(request.wr_id, IBV_WC_WR_FLUSH_ERR);
                return Ok(());
            }
            Posting::Refused => return Err(Errno::INVALID),
        }
        // SAFETY: The caller's promise.
        let entries = unsafe { entries(request.sg_list, request.num_sge, self.parts.cap.max_recv_sge) }?;
        post_receive(&self.parts.domain, &queue, request.wr_id, entries)
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
