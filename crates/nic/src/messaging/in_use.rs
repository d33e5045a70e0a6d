//! Sends whose peer has them, and whose memory a lower layer may still read: their acknowledgement has not come.

use weft_memory::IoBuffer;

use super::request::Event;

/// A send that is over, but for its memory.
#[derive(Debug)]
pub(super) struct InUse {
    /// Its completion, without the memory.
    pub(super) event: Event,
    pub(super) memory: IoBuffer,
}
