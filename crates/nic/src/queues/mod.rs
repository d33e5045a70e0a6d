//! The queues of verbs: queue pairs with their work requests, receive queues, completion queues, and what wakes those
//! who wait for them.

pub(crate) mod completion_queue;
pub(crate) mod event_count;
pub(crate) mod queue_pair;
pub(crate) mod receive_queue;
