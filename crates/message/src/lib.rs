//! Messages between many peers, without I/O: tag matching, protocols by size, credits. The protocols are those of
//! MPI-BIP (Prylli, Tourancheau, Westrelin: The Design for a High-Performance MPI Implementation on the Myrinet
//! Network, EuroPVM/MPI 1999), matched on the NIC as in MPI-BIPng (Prylli, Geoffray, Tourancheau, Westrelin).
//!
//! [`Machine`] is one endpoint's state. It never touches a connection or an application's memory: it uses its [`Host`],
//! the NIC. Its driver calls
//! - commands: [`Machine::send`], [`Machine::receive`], [`Machine::peek`], [`Machine::cancel_receive`],
//!   [`Machine::cancel_send`], [`Machine::call`], [`Machine::answer`];
//! - events from below: `Machine::handle_*`;
//! - and then, while [`Machine::next_ready`] names a peer, [`Machine::poll_packet`], whose bytes are one RDMAP Send to
//!   that peer.
#![forbid(unsafe_code)]

mod chains;
mod hash;
mod host;
mod list;
mod machine;
mod matching;
mod pool;
mod settings;
mod tie_break;

pub use host::{BufferId, CallId, Failure, Host, Parts, Received, RemotePart, Ticket};
pub use machine::{Machine, Peek, RESERVED_PACKETS, Receive, Send, Terms, Violation};
pub use matching::{Match, Matcher, PostedId, UnexpectedId};
pub use settings::Settings;
pub use tie_break::{Decision, Standing, TieBreak};
