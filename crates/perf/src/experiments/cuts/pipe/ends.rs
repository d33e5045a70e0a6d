//! The two ends of a pipe, and what all of them share.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_command::failure::Failure;

/// Bytes in flight at most: more than the links and their queues hold.
pub(crate) const WINDOW_BYTES: usize = 3 << 20;

/// How long a wait lasts that nothing ends.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long an end takes that nothing keeps: after it the peer counts as gone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Operations besides messages, of a contestant that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operations {
    /// Additions of 1 to a counter of the peer that have completed.
    pub(crate) completed: u64,
    /// Those whose result was not the count of those before.
    pub(crate) wrong: u64,
}

/// The sending end.
pub(crate) trait Sending {
    /// Hands over the message with this sequence number. Whether there was room for it.
    fn try_send(&mut self, sequence: u64, message: &[u8]) -> Result<bool, Failure>;

    /// Waits for a moment, at most until there is room or a credit comes. The messages that the receiver has taken.
    fn wait(&mut self) -> Result<u64, Failure>;

    /// Ends the stream: all messages are delivered then.
    fn close(self: Box<Self>) -> Result<Option<Operations>, Failure>;
}

/// The receiving end.
pub(crate) trait Receiving {
    /// Waits for a moment, at most until messages come, and hands them over in the order that it promises. Whether the
    /// stream continues.
    fn receive(&mut self, deliver: &mut dyn FnMut(&[u8])) -> Result<bool, Failure>;

    /// Tells the sender how many messages were taken in all.
    fn credit(&mut self, taken: u64) -> Result<(), Failure>;

    /// Ends it. The counter to which the peer's operations added, if it has some.
    fn close(self: Box<Self>) -> Result<Option<u64>, Failure>;
}

/// Messages of `size` bytes that may be in flight.
pub(crate) fn window(size: usize) -> u64 {
    (WINDOW_BYTES / size).clamp(16, 1024) as u64
}
