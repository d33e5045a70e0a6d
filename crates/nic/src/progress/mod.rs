//! Who runs an engine: calling threads and the NIC's own, the hand-over between them, and how long each spins before
//! it sleeps.

pub(crate) mod give_way;
pub(crate) mod handover;
mod selective_interrupt;
pub(crate) mod spin;
pub(crate) mod worker;
