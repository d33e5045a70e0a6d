//! The software NIC: queue pairs, completion queues, the event loop and who runs it.
#![forbid(unsafe_code)]
