//! Callers that wait until something of them is known.

use weft_base::{PeerId, Time};
use weft_wire::message::Hello;

use super::peers::Origin;
use crate::engine::listening::RequestKey;
use crate::ids::LinkKey;
use crate::offer::RequestInfo;

/// A caller that claims to be the peer that we are connected with. The call is decided when that connection has turned
/// out to be dead, or to live.
pub(super) struct PendingTakeover {
    pub(super) request: RequestKey,
    pub(super) info: RequestInfo,
    /// That connection.
    pub(super) asked: LinkKey,
    /// When it counts as alive.
    pub(super) until: Time,
}

/// A caller that was let in.
pub(super) struct Unconfirmed {
    pub(super) key: LinkKey,
    pub(super) peer: PeerId,
    pub(super) hello: Hello,
    pub(super) origin: Origin,
}
