//! Experiments with who runs the NIC, for measurements.

mod selective_interrupt;
mod summons;

pub(crate) use self::summons::Summons;
