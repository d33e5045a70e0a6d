//! A connection of an endpoint: a queue pair, the memory that packets come into, and the memory that they are sent from.

use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_base::{DomainId, Gather, PeerId};
use weft_memory::{Access, MemoryError, Region, Registry};
use weft_message::{RESERVED_PACKETS, Settings};
use weft_rdmap::{MAX_INLINE, Operation, Payload, ReceiveRequest, SendRequest};

use crate::completion::{CompletionQueue, QueuePairNumber};
use crate::queue_pair::{QueuePair, QueuePairAttributes};
use crate::turnstile::Turnstile;

/// Names a connection of an endpoint: its place in the list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkKey(pub(super) u32);

/// What a work request of an endpoint is for. Stands in its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A packet comes into this slot.
    Receive(u16),
    /// A packet goes out of this slot, or none when it was in the request.
    Packet(Option<u16>),
    /// Part of a one-sided transfer, by its number.
    Transfer(u32),
}

impl Purpose {
    const RECEIVE: u64 = 0;
    const PACKET: u64 = 1;
    const TRANSFER: u64 = 2;
    const NO_SLOT: u64 = 0xffff;
    /// Bits of a link's number.
    const LINKS: u32 = 0x3fff_ffff;

    /// An id: the purpose, the number of the link, and the slot or transfer.
    pub(super) fn id(self, link: LinkKey) -> u64 {
        let (kind, what) = match self {
            Self::Receive(slot) => (Self::RECEIVE, u64::from(slot)),
            Self::Packet(slot) => (Self::PACKET, slot.map_or(Self::NO_SLOT, u64::from)),
            Self::Transfer(number) => (Self::TRANSFER, u64::from(number)),
        };
        kind << 62 | u64::from(link.0 & Self::LINKS) << 32 | what
    }

    /// The link, and the purpose.
    pub(super) fn of(id: u64) -> (LinkKey, Self) {
        let link = LinkKey((id >> 32) as u32 & Self::LINKS);
        let what = id as u32;
        let purpose = match id >> 62 {
            Self::RECEIVE => Self::Receive(what as u16),
            Self::PACKET => Self::Packet((u64::from(what) != Self::NO_SLOT).then_some(what as u16)),
            _ => Self::Transfer(what),
        };
        (link, purpose)
    }
}

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Being opened, by us, this way.
    Opening(usize),
    /// It stands.
    Up,
    /// Its end is under way, or has come.
    Ending,
}

/// A connection of an endpoint.
pub(super) struct Link {
    pub(super) peer: PeerId,
    pub(super) key: LinkKey,
    pub(super) queue_pair: Arc<QueuePair>,
    pub(super) phase: Phase,
    /// The serial number of the peer's hello.
    pub(super) peer_serial: u64,
    inbox: Region,
    outbox: Region,
    slot_bytes: u32,
    slots: u16,
    /// Slots of the outbox that are free.
    free: Vec<u16>,
    /// Something was posted that the engine has not been told of.
    pub(super) is_rung: bool,
    /// The peer has broken the protocol.
    pub(super) is_broken: bool,
    /// Turn of the engine in which the application has sent last, and how many messages since.
    pub(super) burst: (u32, u32),
}

/// What links of an endpoint are made of.
pub(super) struct Parts<'a> {
    pub(super) registry: &'a Registry,
    pub(super) domain: DomainId,
    pub(super) completions: &'a Arc<CompletionQueue>,
    pub(super) turnstile: &'a Arc<Turnstile>,
    pub(super) settings: &'a Settings,
}

/// Work requests of a link under way, beside its packets.
const TRANSFERS: u32 = 128;

/// Packets that a link has memory for, each way.
pub(super) fn slots(settings: &Settings) -> u16 {
    settings.data_credits + settings.control_credits + RESERVED_PACKETS
}

impl Link {
    /// A link that is not connected, with all its receives posted.
    pub(super) fn new(peer: PeerId, key: LinkKey, phase: Phase, parts: &Parts<'_>) -> Result<Self, MemoryError> {
        let slots = slots(parts.settings);
        // Rounded up, so that each begins on a cache line.
        let slot_bytes = parts.settings.packet_bytes.next_multiple_of(64);
        let length = usize::from(slots) * slot_bytes as usize;
        let region = |access| parts.registry.register_zeroed(parts.domain, length, access, 0);
        let attributes = QueuePairAttributes {
            domain: parts.domain,
            send_completions: Arc::clone(parts.completions),
            receive_completions: Arc::clone(parts.completions),
            send_depth: TRANSFERS + u32::from(slots),
            receive_depth: u32::from(slots),
            shared_receives: None,
        };
        // Other queue pairs of the NIC are numbered from below.
        let queue_pair = QueuePair::new(QueuePairNumber(1 << 31 | key.0), &attributes, Arc::clone(parts.turnstile));
        let link = Self {
            peer,
            key,
            queue_pair: Arc::new(queue_pair),
            phase,
            peer_serial: 0,
            inbox: region(Access::LOCAL_WRITE)?,
            outbox: region(Access::LOCAL_READ)?,
            slot_bytes,
            slots,
            free: (0..slots).rev().collect(),
            is_rung: false,
            is_broken: false,
            burst: (0, 0),
        };
        for slot in 0..link.slots {
            link.post_receive(slot, parts.registry);
        }
        Ok(link)
    }

    /// A slot takes a packet (again).
    pub(super) fn post_receive(&self, slot: u16, registry: &Registry) {
        let begin = u64::from(slot) * u64::from(self.slot_bytes);
        let Ok(sink) = self.inbox.slice(begin..begin + u64::from(self.slot_bytes)) else { return };
        let request = ReceiveRequest { id: Purpose::Receive(slot).id(self.key), sink: Gather::from(sink) };
        // Refused only when the queue pair has ended: then nothing comes any more.
        let _ = self.queue_pair.post_receive(registry, request);
    }

    /// Copies the packet in a slot out. It is nobody else's, for it has been received, so this can't fail.
    pub(super) fn read_packet(&self, slot: u16, out: &mut [u8]) {
        let begin = u64::from(slot) * u64::from(self.slot_bytes);
        let _ = self.inbox.read(begin, out);
    }

    /// Whether another packet may be posted.
    pub(super) fn has_room(&self) -> bool {
        self.phase == Phase::Up && !self.free.is_empty() && self.has_place()
    }

    /// Whether another work request may be posted.
    pub(super) fn has_place(&self) -> bool {
        self.queue_pair.sends_under_way() < self.queue_pair.send_depth()
    }

    /// Posts a packet. There is room for it.
    pub(super) fn post_packet(&mut self, packet: &[u8], registry: &Registry) {
        let (slot, payload) = if packet.len() <= MAX_INLINE {
            let mut bytes = ArrayVec::new();
            bytes.extend(packet.iter().copied());
            (None, Payload::Inline(bytes))
        } else {
            let Some(slot) = self.free.pop() else { return };
            let begin = u64::from(slot) * u64::from(self.slot_bytes);
            // Inside of the region, which no work request uses here.
            let _ = self.outbox.write(begin, packet);
            let Ok(slice) = self.outbox.slice(begin..begin + packet.len() as u64) else { return };
            (Some(slot), Payload::Gather(Gather::from(slice)))
        };
        let request = SendRequest {
            id: Purpose::Packet(slot).id(self.key),
            operation: Operation::Send { payload, solicited: false, invalidate: None },
            signaled: slot.is_some(),
            fence: false,
        };
        self.post(request, registry);
    }

    /// Posts a work request, for which there is a place. What fails here is completed when the queue pair's end is seen. Returns whether it was taken.
    pub(super) fn post(&mut self, request: SendRequest, registry: &Registry) -> bool {
        let (posted, ..) = self.queue_pair.submit(registry, [request]);
        self.is_rung |= posted > 0;
        posted > 0
    }

    /// A packet has gone out of a slot.
    pub(super) fn free_slot(&mut self, slot: u16) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_say_what_they_are_for() {
        for purpose in [
            Purpose::Receive(0),
            Purpose::Receive(65_535),
            Purpose::Packet(None),
            Purpose::Packet(Some(7)),
            Purpose::Transfer(0),
            Purpose::Transfer(u32::MAX),
        ] {
            for link in [0, 1, 0x3fff_ffff].map(LinkKey) {
                assert_eq!(Purpose::of(purpose.id(link)), (link, purpose));
            }
        }
    }
}
