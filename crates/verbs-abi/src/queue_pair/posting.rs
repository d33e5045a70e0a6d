//! Work that the program posts, and the connection that it goes to.

use std::collections::VecDeque;
use std::time::Instant;

use weft::verbs::{PostError, WorkRequest};

use super::conversion::opcode_of_request;
use super::state::{Posting, send_in};
use super::{Post, QueuePair, Waiting};
use crate::abi::*;
use crate::border::lock;
use crate::errno::Errno;
use crate::slices::Unfit;

/// A list of requests was taken only in part: the first that was not, and why.
pub(crate) struct PostFailure {
    pub(crate) at: *mut ibv_send_wr,
    pub(crate) error: Errno,
}

impl QueuePair {
    /// Posts a list of requests.
    ///
    /// # Errors
    /// One was not taken; those before it were.
    ///
    /// # Safety
    /// The list, and what its requests name, can be read.
    #[inline]
    pub(crate) unsafe fn post_send(&self, list: *mut ibv_send_wr) -> Result<(), PostFailure> {
        let mut post = lock(&self.post);
        let mut next = list;
        // SAFETY: The caller's promise.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: The caller's promise.
            unsafe { self.post_one(&mut post, wr) }.map_err(|error| PostFailure { at: next, error })?;
            next = wr.next;
        }
        Ok(())
    }

    /// # Safety
    /// What the request names can be read.
    unsafe fn post_one(&self, post: &mut Post, wr: &ibv_send_wr) -> Result<(), Errno> {
        match send_in(self.state()) {
            Posting::Posted => {}
            Posting::Flushed => {
                self.fail_request(wr.wr_id, opcode_of_request(wr.opcode), IBV_WC_WR_FLUSH_ERR);
                return Ok(());
            }
            Posting::Refused => return Err(Errno::INVALID),
        }
        // SAFETY: The caller's promise.
        let request = match unsafe { self.convert(post, wr) } {
            Ok(request) => request,
            Err(Unfit::Refused(error)) => return Err(error),
            Err(Unfit::Memory) => return self.fail_here(wr, IBV_WC_LOC_PROT_ERR),
        };
        if !post.is_ready {
            return self.keep(post, request, wr);
        }
        let Some(connection) = &post.connection else { return Err(Errno::INVALID) };
        let posted = connection.post(request);
        // The request keeps it as long as it is under way.
        post.list = None;
        match posted {
            Ok(()) => {
                post.posted += 1;
                Ok(())
            }
            Err(PostError::Memory(_)) => self.fail_here(wr, IBV_WC_LOC_PROT_ERR),
            Err(PostError::Ended) => self.post_to_the_ended(wr),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a request until there is a connection.
    fn keep(&self, post: &mut Post, request: WorkRequest, wr: &ibv_send_wr) -> Result<(), Errno> {
        if post.backlog.len() >= self.parts.cap.max_send_wr as usize {
            return Err(Errno::NO_MEMORY);
        }
        let list = post.list.take();
        post.backlog.push_back(Waiting { request, list, id: wr.wr_id, opcode: opcode_of_request(wr.opcode) });
        post.posted += 1;
        if post.waits_since.is_none() {
            post.waits_since = Some(Instant::now());
            // The thread of the rendezvous counts the time from here.
            self.parts.nic.bell().ring(self.number());
        }
        Ok(())
    }

    /// The peer has ended: the request is not answered.
    fn post_to_the_ended(&self, wr: &ibv_send_wr) -> Result<(), Errno> {
        if lock(&self.unanswered).completions.len() >= self.parts.cap.max_send_wr as usize {
            return Err(Errno::NO_MEMORY);
        }
        let completion = self.failed(wr.wr_id, opcode_of_request(wr.opcode), IBV_WC_WR_FLUSH_ERR);
        if !self.keep_unanswered(completion) {
            self.parts.send_completions.push(completion, true);
        }
        Ok(())
    }

    /// A request was taken, and fails at once; the queue pair with it.
    fn fail_here(&self, wr: &ibv_send_wr, status: i32) -> Result<(), Errno> {
        let is_first = self.break_down();
        let status = if is_first { status } else { IBV_WC_WR_FLUSH_ERR };
        self.fail_request(wr.wr_id, opcode_of_request(wr.opcode), status);
        Ok(())
    }

    /// A send request has failed.
    pub(super) fn fail_request(&self, id: u64, opcode: i32, status: i32) {
        self.parts.send_completions.push(self.failed(id, opcode, status), true);
    }

    fn failed(&self, id: u64, opcode: i32, status: i32) -> ibv_wc {
        ibv_wc { wr_id: id, status, opcode, qp_num: self.number(), ..ibv_wc::default() }
    }

    /// The connection is established: what waited for it goes out. The lock of the work is held.
    pub(super) fn flush_backlog(&self, post: &mut Post) {
        post.is_ready = true;
        post.waits_since = None;
        let mut backlog = core::mem::take(&mut post.backlog);
        while let Some(waiting) = backlog.pop_front() {
            let Some(connection) = &post.connection else { break };
            let posted = connection.post(waiting.request);
            drop(waiting.list);
            if let Err(error) = posted {
                let status = match error {
                    PostError::Memory(_) => IBV_WC_LOC_PROT_ERR,
                    _ => IBV_WC_RETRY_EXC_ERR,
                };
                let is_first = self.break_down();
                self.fail_request(waiting.id, waiting.opcode, if is_first { status } else { IBV_WC_WR_FLUSH_ERR });
                self.fail_backlog(backlog, IBV_WC_WR_FLUSH_ERR);
                return;
            }
        }
    }

    /// What waited for a connection fails: the first with `status`, the others are flushed.
    pub(super) fn fail_backlog(&self, backlog: VecDeque<Waiting>, status: i32) {
        let mut status = status;
        for waiting in backlog {
            self.fail_request(waiting.id, waiting.opcode, status);
            status = IBV_WC_WR_FLUSH_ERR;
        }
    }
}
