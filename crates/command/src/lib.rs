//! What the subcommands of `weft` share: how they fail, what they print, connections as they use them, and the words
//! that their options have.
#![forbid(unsafe_code)]

pub mod amount;
pub mod connection;
pub mod destination;
pub mod environment;
pub mod failure;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod provider;
pub mod rights;
pub mod scratch;
pub mod shape;
pub mod switch;
pub mod table;
pub mod target;
pub mod transport;
pub mod verbs;

/// The version of this command.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from; `unknown` outside a repository.
pub const COMMIT: &str = env!("WEFT_COMMIT");
