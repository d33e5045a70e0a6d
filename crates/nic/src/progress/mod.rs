//! Which thread runs an engine: calling threads and the NIC's own, the hand-over between them, and how long each spins
//! before it sleeps.

pub(crate) mod background;
pub(crate) mod handover;
mod laboratory;
pub(crate) mod worker;
