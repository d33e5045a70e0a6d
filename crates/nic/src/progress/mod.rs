//! Which thread runs an engine: calling threads and the NIC's own, the hand-over between them, and how long each spins
//! before it sleeps.

pub(crate) mod background;
pub(crate) mod handover;
mod selective_interrupt;
pub(crate) mod worker;
