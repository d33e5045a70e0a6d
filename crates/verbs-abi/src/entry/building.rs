//! Lists of requests that functions put together.

use core::ffi::c_int;

use crate::abi::*;
use crate::errno::Errno;

/// A list of requests that is being put together.
#[derive(Default)]
pub(super) struct Building {
    pub(super) requests: Vec<Built>,
    /// The first thing that was wrong.
    pub(super) error: Option<Errno>,
}

/// A request, and what it names.
pub(super) struct Built {
    pub(super) request: ibv_send_wr,
    pub(super) entries: Vec<ibv_sge>,
    pub(super) inline: Option<Vec<u8>>,
}

impl Building {
    /// Something is wrong with it.
    pub(super) fn refuse(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }
}

impl Built {
    /// Its pointers are set: it is as `ibv_post_send` has it.
    pub(super) fn complete(&mut self, next: *mut ibv_send_wr) {
        if let Some(inline) = &self.inline {
            let (addr, length) = (inline.as_ptr().expose_provenance() as u64, inline.len() as u32);
            self.entries = vec![ibv_sge { addr, length, lkey: 0 }];
            self.request.send_flags |= IBV_SEND_INLINE;
        }
        self.request.next = next;
        self.request.sg_list = self.entries.as_mut_ptr();
        self.request.num_sge = c_int::try_from(self.entries.len()).unwrap_or(c_int::MAX);
    }
}
