//! The settings that the environment has (`FI_WEFT_*`): of the provider for libfabric, of the library for MPI's
//! windows, and of the command `weft`, which all honour the same.
//!
//! | here | what it is |
//! |---|---|
//! | [`VARIABLES`] | all there are: their names, meanings, possible values and defaults |
//! | [`get`] | what the environment of this process says, read once |
//! | [`Parameters`] | what it comes to: settings of NICs and endpoints, and which interfaces they use |
//! | [`notes`] | what else a user should know: old names, and names that mean nothing |
//! | [`read`] | the same from any list of variables |
//!
//! Nine variables are for users. What is left is for tuning, and is in one more, `FI_WEFT_TUNE`, as `key=value` pairs
//! separated by commas. Until the next release a key is also taken as a variable of its own (`FI_WEFT_SHORT` for
//! `short`), with a [`Note`] that says the new form.
//!
//! A library that opens a NIC with [`verbs::Settings`](crate::verbs::Settings) of its own reads nothing of this.

mod interfaces;
#[cfg(test)]
mod pages;
mod parameters;
mod reading;
mod table;
mod values;

pub use interfaces::{Interface, InterfaceChoice, explain_none, explain_unknown_rails, reachable};
pub use parameters::Parameters;
pub use reading::{Note, Read, Wrong, get, notes, read};
pub use table::{Audience, TUNE, TUNE_DEFAULT, VARIABLES, Variable, tune_help};
