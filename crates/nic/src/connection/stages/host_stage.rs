//! The caller's stage of [`Split::Assist`](crate::Split::Assist).

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use weft_lock::Mutex;
use weft_memory::Registry;

use super::Protocol;
use super::block::BlockRing;
use super::fetch;
use super::pipeline::Pipeline;
use crate::queues::queue_pair::{CallerStage, QueuePair};

/// What a calling thread needs to segment messages and to insert markers itself, beside the NIC's thread that sums up and sends.
pub(crate) struct HostStage {
    protocol: Arc<Mutex<Protocol>>,
    block_ring: Arc<BlockRing>,
    /// There was more to mark than the block ring has room for.
    unfinished: AtomicBool,
}

impl HostStage {
    pub(in crate::connection) fn new(protocol: Arc<Mutex<Protocol>>, pipeline: &Pipeline) -> Self {
        Self { protocol, block_ring: Arc::clone(pipeline.block_ring()), unfinished: AtomicBool::new(false) }
    }
}

impl CallerStage for HostStage {
    /// Whether a calling thread that has time should go on.
    fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Takes what was posted and weaves as much as there is room for. Returns whether the NIC's thread must be told.
    ///
    /// When memory goes away in the middle of a frame, that thread finds the protocol broken, and ends the stream.
    fn work(&self, queue_pair: &QueuePair, registry: &Registry) -> bool {
        let mut protocol = self.protocol.lock();
        let mut any = protocol.take_posted(queue_pair, registry);
        while let Ok(true) = fetch::insert_markers(&mut protocol, &self.block_ring, registry) {
            any = true;
        }
        any |= protocol.is_broken();
        self.unfinished.store(protocol.has_job() && !protocol.is_broken(), Ordering::Relaxed);
        drop(protocol);
        any && self.block_ring.ring()
    }
}
