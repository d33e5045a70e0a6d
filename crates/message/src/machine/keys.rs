//! The keys of a machine's records, and their forms for the host and peers.

use slotmap::{Key, new_key_type};

use crate::host::Ticket;

new_key_type! {
    /// A message that this side sends.
    pub(super) struct SendKey;
    /// A call of this side's.
    pub(super) struct CallKey;
    /// A receive.
    pub(super) struct ReceiveKey;
    /// A message that was received or announced.
    pub(super) struct IncomingKey;
    /// A packet whose credit is withheld.
    pub(super) struct PacketKey;
    /// A peer's call.
    pub(super) struct AnswerKey;
}

/// Set in tickets of writes. The lower half of a key is an index, which never grows so far.
pub(super) const WRITE: u64 = 1 << 31;

pub(super) fn write_ticket(key: SendKey) -> Ticket {
    Ticket(key.data().as_ffi() | WRITE)
}

pub(super) fn id<K: Key>(key: K) -> u64 {
    key.data().as_ffi()
}
