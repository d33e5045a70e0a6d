//! The stages of a NIC that does part of the work of its host: small tasks joined by bounded belts of blocks.
//!
//! What runs where is [`crate::Split`], after Balaji et al. (SC 2007; papers.md, section 0). On the way out:
//!
//! | split | on the caller | on the NIC's thread |
//! |---|---|---|
//! | offload, coupled | post | [`fetch::insert_markers`] -> [`checksum`] -> [`sending`] |
//! | offload, decoupled | post | [`fetch::fetch`] -> [`fetch::Processing`] -> [`checksum`] -> [`sending`] |
//! | assist | post, [`fetch::insert_markers`] | [`checksum`] -> [`sending`] |
//!
//! Each task looks at what the one before has done so far, does one block of it, and returns: the heart of BIPng (papers.md, section 1). So
//! a large message is cut through, and nothing ever blocks. [`Pipeline::run`] picks whose turn it is by looking at the belts. On the way in,
//! [`incoming`] does the same with what the socket has brought.
//!
//! Without a split none of this is used: there a frame is made in as few passes as there can be ([`super::transmit`]).

mod block;
mod checksum;
mod fetch;
mod host_stage;
mod incoming;
mod job;
mod pipeline;
mod protocol;
mod sending;

pub(super) use host_stage::HostStage;
pub(super) use incoming::Incoming;
pub(super) use pipeline::{Broken, Pipeline};
pub(super) use protocol::{Core, Protocol};
