//! Experiments with who runs the NIC, for measurements.

pub(in crate::progress) mod selective_interrupt;
mod summons;

pub(crate) use self::summons::Summons;
