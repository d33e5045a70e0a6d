//! Completion queues and channels.

mod channel;
mod queue;

pub(crate) use channel::Channel;
pub(crate) use queue::CompletionQueue;
