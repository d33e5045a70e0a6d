//! The tests in one program: it is linked once. Those that depend on a limit, a fork or a count of the whole process
//! have their own.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod messages;
mod misuse;
mod one_sided;
mod queues;
mod remote_counters;
mod tagged;
mod vanishing;
mod vectors;
