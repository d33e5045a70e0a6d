//! What a start-up comes to.

use super::{Extensions, ReadyKind};
use crate::{Deframer, Framer, MarkerSpacing};

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that sent the request.
    Initiator,
    /// The one that replied.
    Responder,
}

/// What both sides have agreed on, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Which side this is.
    pub role: Role,
    /// The MPA revision of the reply.
    pub revision: u8,
    /// The peer wants markers, so far apart.
    pub send_markers: Option<MarkerSpacing>,
    /// This side wants markers, and gets them so far apart.
    pub receive_markers: Option<MarkerSpacing>,
    /// CRCs are computed and checked, in both directions.
    pub crc: bool,
    /// How many read requests of the peer this side must take at a time.
    pub ird: u16,
    /// How many read requests this side may have under way at a time.
    pub ord: u16,
    /// The IRD that the peer announced, [`NOT_NEGOTIATED`](super::NOT_NEGOTIATED) when it announced none. RFC 6581
    /// section 9.1: to be shown to the application.
    pub peer_ird: u16,
    /// The ORD that the peer announced, [`NOT_NEGOTIATED`](super::NOT_NEGOTIATED) when it announced none. RFC 6581
    /// section 9.1: to be shown to the application.
    pub peer_ord: u16,
    /// Peer-to-peer: what the initiator opens with, before any other FPDU (RFC 6581 section 5). `None`: its application
    /// sends first.
    pub ready_to_receive: Option<ReadyKind>,
    /// What both sides allow.
    pub extensions: Extensions,
    pub(super) private_data: Box<[u8]>,
}

impl Agreement {
    /// The private data of the peer's application.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Whether this side must not send an FPDU before one of the peer's has come and is verified (RFC 5044
    /// section 7.1.2, rule 4): so it is for the responder, always.
    #[must_use]
    pub fn responder_must_wait(&self) -> bool {
        self.role == Role::Responder
    }

    /// What this side must send before any other FPDU (RFC 6581 section 5).
    #[must_use]
    pub fn must_open_with(&self) -> Option<ReadyKind> {
        self.ready_to_receive.filter(|_| self.role == Role::Initiator)
    }

    /// Lays out what this side sends.
    #[must_use]
    pub const fn framer(&self) -> Framer {
        Framer::new(self.send_markers, self.crc)
    }

    /// Finds what this side receives.
    #[must_use]
    pub const fn deframer(&self) -> Deframer {
        Deframer::new(self.receive_markers, self.crc)
    }
}
