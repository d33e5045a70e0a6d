//! Peeking at unexpected messages: `FI_PEEK`, `FI_CLAIM`, `FI_DISCARD` of `fi_trecvmsg`.

use core::ffi::c_void;
use core::sync::atomic::Ordering;
use weft::endpoint::{Match, Peek};
use weft_libfabric::abi::{FI_CLAIM, FI_DISCARD, FI_PEEK, FI_RECV, FI_REMOTE_CQ_DATA, FI_TAGGED, fi_addr_t};

use super::core::{Active, Core};
use super::message::Receive;
use crate::errno::Errno;
use crate::queue::{Entry, Failure, Source};

impl Core {
    /// All operations of `fi_trecvmsg`.
    pub(super) fn receive_or_peek(&self, receive: Receive, flags: u64) -> Result<usize, Errno> {
        match (flags & FI_PEEK != 0, flags & FI_CLAIM != 0, flags & FI_DISCARD != 0) {
            (false, false, false) => self.receive(receive, flags),
            (false, true, false) => self.receive_claimed(receive, flags),
            (false, true, true) => self.discard_claimed(receive.context),
            (true, claim, discard) if !(claim && discard) => {
                let matching = receive.matching.ok_or(Errno::INVALID)?;
                self.peek(receive.from, matching, receive.context, (claim, discard))
            }
            _ => Err(Errno::BAD_FLAGS),
        }
    }

    /// Its result is a completion: the message's description, or that there is none.
    fn peek(
        &self,
        from: fi_addr_t,
        matching: Match,
        context: *mut c_void,
        (claim, discard): (bool, bool),
    ) -> Result<usize, Errno> {
        // A message is claimed under its context, which must exist as long (fi_tagged(3)).
        if claim && context.is_null() {
            return Err(Errno::INVALID);
        }
        let (active, source) = self.receive_from(from, true)?;
        let context = context.expose_provenance();
        let find = || match discard {
            true => active.endpoint.discard(source, Some(matching)),
            false => active.endpoint.peek(source, Some(matching), claim.then_some(context as u64)),
        };
        let mut found = find()?;
        if found.is_none() {
            self.domain.context().progress_as_caller();
            found = find()?;
        }
        show(active, context, found);
        Ok(0)
    }

    fn discard_claimed(&self, context: *mut c_void) -> Result<usize, Errno> {
        let active = self.active()?;
        let context = context.expose_provenance();
        let thrown = active.endpoint.discard_claimed(context as u64)?;
        show(active, context, Some(thrown));
        Ok(0)
    }
}

fn show(active: &Active, context: usize, found: Option<Peek>) {
    let Some(queue) = &active.report.receive else { return };
    let mut entry = Entry::new(context, FI_RECV | FI_TAGGED);
    let Some(found) = found else { return queue.push_failure(entry, Failure::no_message()) };
    entry.length = found.length as usize;
    entry.tag = found.tag;
    entry.source = Source::new(active.report.place.load(Ordering::Relaxed), found.source);
    if let Some(data) = found.data {
        entry.flags |= FI_REMOTE_CQ_DATA;
        entry.data = data;
    }
    queue.push(entry);
}
