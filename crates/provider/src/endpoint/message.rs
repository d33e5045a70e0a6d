//! Sends and receives, tagged or not.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use weft::endpoint::{IoBuffer, Level, Match, PeerId, ReceivePost, SendPost};
use weft_libfabric::abi::{FI_COMPLETION, FI_MULTI_RECV, fi_addr_t};

use super::core::{Active, Core};
use super::flags::Transmit;
use super::many::Buffer;
use super::op_flags::OpFlags;
use crate::errno::Errno;

/// A message to send.
pub(super) struct Send {
    pub(super) memory: IoBuffer,
    pub(super) to: fi_addr_t,
    pub(super) tag: Option<u64>,
    pub(super) data: Option<u64>,
    pub(super) context: *mut c_void,
}

/// A receive.
pub(super) struct Receive {
    pub(super) memory: IoBuffer,
    /// The start of its memory, if it is in one piece.
    pub(super) start: Option<*mut c_void>,
    pub(super) from: fi_addr_t,
    pub(super) matching: Option<Match>,
    pub(super) context: *mut c_void,
}

impl Core {
    /// Posts a send.
    #[inline]
    pub(super) fn send(&self, send: Send, flags: u64) -> Result<usize, Errno> {
        let (active, peer) = self.transmit_to(send.to)?;
        let how = Transmit::new(flags, active.selective_transmits);
        self.post_send(active, peer, send, how)
    }

    /// Posts a send of a call that injects.
    #[inline]
    pub(super) fn inject(&self, send: Send, flags: u64) -> Result<usize, Errno> {
        let (active, peer) = self.transmit_to(send.to)?;
        let mut how = Transmit::injected(flags);
        if active.report.tallies.send.get().is_none() {
            // Its completion is not reported, so the peer need not acknowledge it: MPICH requests delivery-complete for
            // everything, because of its one-sided operations.
            how.level = Level::TransmitComplete;
        }
        self.post_send(active, peer, send, how)
    }

    #[inline]
    fn post_send(&self, active: &Active, peer: PeerId, send: Send, how: Transmit) -> Result<usize, Errno> {
        self.posted(active.endpoint.send(SendPost {
            peer,
            tag: send.tag,
            data: send.data,
            memory: send.memory,
            inject: how.inject,
            level: how.level,
            fence: how.fence,
            context: send.context.expose_provenance() as u64,
            op_flags: how.op_flags.to_bits(),
        }))
    }

    /// Posts a receive.
    #[inline]
    pub(super) fn receive(&self, receive: Receive, flags: u64) -> Result<usize, Errno> {
        let (active, source) = self.receive_from(receive.from, receive.matching.is_some())?;
        if flags & FI_MULTI_RECV != 0 {
            return self.receive_many(active, source, receive, flags);
        }
        self.posted(active.endpoint.receive(single(active, source, receive, flags)))
    }

    /// Posts a receive of the message that was set aside under its context.
    pub(super) fn receive_claimed(&self, receive: Receive, flags: u64) -> Result<usize, Errno> {
        let (active, source) = self.receive_from(receive.from, receive.matching.is_some())?;
        let post = single(active, source, receive, flags);
        self.posted(active.endpoint.receive_claimed(post.context, post))
    }

    fn receive_many(
        &self,
        active: &Active,
        source: Option<PeerId>,
        receive: Receive,
        flags: u64,
    ) -> Result<usize, Errno> {
        let start = receive.start.ok_or(Errno::INVALID)?.expose_provenance();
        let least = self.min_multi_receive.load(Ordering::Relaxed);
        let key = active.report.many.add(Buffer { context: receive.context.expose_provenance(), start });
        let mut post = single(active, source, receive, flags);
        post.many = Some(least);
        post.context = key;
        post.op_flags = OpFlags::from_bits(post.op_flags).and(OpFlags::MANY).to_bits();
        self.posted(active.endpoint.receive(post)).inspect_err(|_| {
            active.report.many.remove(key);
        })
    }

    /// Cancels an operation with a context. Returns whether there was one.
    pub(super) fn cancel(&self, context: *mut c_void) -> Result<bool, Errno> {
        let active = self.active()?;
        let context = context.expose_provenance();
        let many = active.report.many.keys(context);
        Ok(many.into_iter().chain([context as u64]).any(|context| active.endpoint.cancel(context)))
    }
}

#[inline]
fn single(active: &Active, source: Option<PeerId>, receive: Receive, flags: u64) -> ReceivePost {
    ReceivePost {
        source,
        matching: receive.matching,
        memory: receive.memory,
        many: None,
        context: receive.context.expose_provenance() as u64,
        op_flags: OpFlags::QUIET.when(active.selective_receives && flags & FI_COMPLETION == 0).to_bits(),
    }
}
