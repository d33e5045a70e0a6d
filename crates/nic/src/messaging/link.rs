//! A connection of an endpoint: a queue pair, the memory that packets come into, and the memory that they are sent
//! from.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::{DomainId, Gather, PeerId, Time};
use weft_memory::{Access, MemoryError, Region, Registry};
use weft_message::{RESERVED_PACKETS, Settings};
use weft_rdmap::{CompletionKind, InlineBytes, Operation, Payload, ReceiveRequest, RequestFlags, SendRequest};
use weft_wire::message::Hello;

use super::inbox::Inbox;
use super::peers::Origin;
use super::phase::{Event, Phase};
use super::request::Address;
use crate::ids::{LinkKey, UpperId};
use crate::queues::completion_queue::{CompletionQueue, QueuePairNumber, WorkCompletion};
use crate::queues::event_count::EventCount;
use crate::queues::queue_pair::{QueuePair, QueuePairAttributes};

/// What a work request of an endpoint is for. Its id contains this.
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

/// What is kept of a link's start where there is a key.
pub(super) enum Proving {
    /// Our own hello, whose answer is to prove that the peer has the key.
    Asked(Vec<u8>),
    /// The peer has proved it, and so have we; its verdict is awaited.
    Confirmed(Box<Hello>),
    /// A caller, which has been answered.
    Answered(Box<Answered>),
}

/// A caller, which has been answered.
pub(super) struct Answered {
    pub(super) address: Address,
    pub(super) origin: Origin,
    pub(super) hello: Hello,
    /// Both hellos.
    pub(super) request: Vec<u8>,
    pub(super) reply: Vec<u8>,
    /// When it was, and until when its proof is awaited.
    pub(super) since: Time,
    pub(super) until: Time,
}

/// A connection of an endpoint.
pub(super) struct Link {
    pub(super) peer: PeerId,
    pub(super) key: LinkKey,
    pub(super) queue_pair: Arc<QueuePair>,
    registry: Registry,
    pub(super) phase: Phase,
    /// Completions from before it was established, in order.
    pub(super) early: VecDeque<WorkCompletion>,
    pub(super) proving: Option<Proving>,
    /// The serial number of the peer's hello.
    pub(super) peer_serial: u64,
    /// Memory that packets come into.
    inbox: Inbox,
    /// Memory that packets are sent from, once it was needed.
    outbox: Option<Region>,
    /// This many of its slots were used yet.
    opened: u16,
    pub(super) slot_bytes: u32,
    slots: u16,
    /// Slots of the outbox that are free, the one that was used last at the end.
    free: Vec<u16>,
    /// Something was posted without a doorbell to the engine.
    pub(super) is_rung: bool,
    /// The peer has broken the protocol.
    pub(super) is_broken: bool,
    /// Turn of the engine in which the application has sent last, and how many messages since.
    pub(super) burst: (u32, u32),
}

/// What links of an endpoint are made of.
pub(super) struct Parts<'a> {
    /// The endpoint's number in the engine.
    pub(super) endpoint: usize,
    /// The endpoint's id.
    pub(super) id: u64,
    pub(super) registry: &'a Registry,
    pub(super) domain: DomainId,
    pub(super) completions: &'a Arc<CompletionQueue>,
    pub(super) event_count: &'a Arc<EventCount>,
    pub(super) settings: &'a Settings,
    /// Whether the peer reaches no memory before its identity is known.
    pub(super) is_guarded: bool,
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
        let slot_bytes = parts.settings.packet_bytes;
        let attributes = QueuePairAttributes {
            domain: parts.domain,
            send_completions: Arc::clone(parts.completions),
            receive_completions: Arc::clone(parts.completions),
            send_depth: TRANSFERS + u32::from(slots),
            receive_depth: u32::from(slots) + parts.settings.extra_credits,
            shared_receives: None,
        };
        // Other queue pairs of the NIC are numbered from below.
        let queue_pair = QueuePair::new(QueuePairNumber(1 << 31 | key.0), &attributes, Arc::clone(parts.event_count))
            .guarded(parts.is_guarded)
            .with_upper(UpperId { endpoint: parts.endpoint, link: key, id: parts.id });
        let link = Self {
            peer,
            key,
            queue_pair: Arc::new(queue_pair),
            registry: parts.registry.clone(),
            phase,
            early: VecDeque::new(),
            proving: None,
            peer_serial: 0,
            inbox: Inbox::new(parts.registry, parts.domain, slots, slot_bytes)?,
            outbox: None,
            opened: 0,
            slot_bytes,
            slots,
            free: Vec::new(),
            is_rung: false,
            is_broken: false,
            burst: (0, 0),
        };
        for slot in 0..link.slots {
            link.post_receive(slot);
        }
        Ok(link)
    }

    /// Something has happened that changes its phase.
    pub(super) fn on(&mut self, event: Event) {
        self.phase = self.phase.on(event);
    }

    /// Receives this many packets more at a time. Returns whether it does.
    pub(super) fn add_receives(&mut self, packets: u16) -> bool {
        if self.inbox.slots().checked_add(packets).is_none() {
            return false;
        }
        let Ok(slots) = self.inbox.add(&self.registry, self.queue_pair.domain(), packets) else { return false };
        slots.into_iter().all(|slot| self.post_receive(slot))
    }

    /// A slot takes a packet (again). Returns whether it does: not when the queue pair has ended, for then nothing
    /// comes any more, or all places for completions are taken.
    pub(super) fn post_receive(&self, slot: u16) -> bool {
        let Some(sink) = self.inbox.slice(slot) else { return false };
        let request = ReceiveRequest { id: Purpose::Receive(slot).id(self.key), sink: Gather::from(sink) };
        self.queue_pair.post_receive(&self.registry, request).is_ok()
    }

    /// Reads the packet of this many bytes that was received into a slot, from a copy in `scratch`: others may come
    /// into the region meanwhile. `None` when there is no such packet.
    pub(super) fn inspect_packet<R>(
        &self,
        slot: u16,
        length: u32,
        scratch: &mut [u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let packet = scratch.get_mut(..length.min(self.slot_bytes) as usize)?;
        self.inbox.read(slot, packet)?;
        Some(read(packet))
    }

    /// The first this many bytes of a slot.
    fn range(&self, slot: u16, length: u32) -> core::ops::Range<u64> {
        let start = u64::from(slot) * u64::from(self.slot_bytes);
        start..start + u64::from(length)
    }

    /// Whether a packet of this many bytes that has come on this queue pair is for this link, and would have fit its
    /// receive request.
    pub(super) fn takes(&self, queue_pair: &Arc<QueuePair>, length: usize) -> bool {
        length <= self.slot_bytes as usize && !self.phase.is_early() && Arc::ptr_eq(&self.queue_pair, queue_pair)
    }

    /// Whether what arrives is for the messages' machine: not what arrives late, on a connection that both sides have
    /// agreed to close, for there may be another one by then; nor what arrives from a peer that has broken the
    /// protocol.
    pub(super) fn is_heard(&self) -> bool {
        self.phase != Phase::Ending && !self.is_broken
    }

    /// Whether another packet may be posted. Makes a slot for it if need be.
    pub(super) fn has_room(&mut self) -> bool {
        self.phase == Phase::Up && self.has_place() && (!self.free.is_empty() || self.add_slot())
    }

    /// One more slot of the outbox. Returns whether there may be another, and there is memory for it.
    fn add_slot(&mut self) -> bool {
        if self.opened >= self.slots {
            return false;
        }
        if self.outbox.is_none() {
            let bytes = usize::from(self.slots) * self.slot_bytes as usize;
            self.outbox = self.registry.register_zeroed(self.queue_pair.domain(), bytes, Access::LOCAL_WRITE, 0).ok();
        }
        if self.outbox.is_some() {
            self.free.push(self.opened);
            self.opened += 1;
        }
        self.outbox.is_some()
    }

    /// Whether another work request may be posted.
    pub(super) fn has_place(&self) -> bool {
        self.queue_pair.sends_under_way() < self.queue_pair.send_depth()
    }

    /// Has a packet written, into `scratch`, and posts it. There is room for it. `write` says how long it has become,
    /// or that there is none. Returns whether there was one.
    pub(super) fn post_packet(&mut self, scratch: &mut [u8], write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let most = scratch.len().min(self.slot_bytes as usize);
        let Some(packet) = write(&mut scratch[..most]).map(|length| &scratch[..length]) else { return false };
        let (slot, payload) = if let Some(inline) = InlineBytes::new(packet) {
            (None, Payload::Inline(inline))
        } else {
            let (Some(region), Some(slot)) = (&self.outbox, self.free.pop()) else { return true };
            let range = self.range(slot, packet.len() as u32);
            // Inside of the region, in a slot that nothing uses.
            let Ok(slice) = region.write(range.start, packet).and_then(|()| region.slice(range)) else { return true };
            (Some(slot), Payload::Gather(Gather::from(slice)))
        };
        let request = SendRequest {
            id: Purpose::Packet(slot).id(self.key),
            operation: Operation::Send { payload, solicited: false, invalidate: None },
            signaled: slot.is_some(),
            fence: false,
            flags: RequestFlags::NONE,
        };
        self.post(request);
        true
    }

    /// Posts a packet of the connection's start, before any other.
    pub(super) fn post_first(&mut self, packet: &[u8]) -> bool {
        let Some(inline) = InlineBytes::new(packet) else { return false };
        self.post(SendRequest {
            id: Purpose::Packet(None).id(self.key),
            operation: Operation::Send { payload: Payload::Inline(inline), solicited: false, invalidate: None },
            signaled: false,
            fence: false,
            flags: RequestFlags::NONE,
        })
    }

    /// Takes what arrived first before the link was established, if anything has, and reads it.
    pub(super) fn take_first<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let first = self.early.pop_front()?;
        let (_, Purpose::Receive(slot)) = Purpose::of(first.id) else { return None };
        let is_packet = first.kind != CompletionKind::ReceiveImmediate;
        let length = if is_packet { first.length } else { 0 };
        let outcome = self.inspect_packet(slot, length, &mut vec![0; length as usize], read);
        self.post_receive(slot);
        outcome
    }

    /// Posts a work request, for which there is a place. What fails here is completed when the queue pair's end is
    /// seen. Returns whether it was taken.
    pub(super) fn post(&mut self, request: SendRequest) -> bool {
        let posted = self.queue_pair.submit_one(&self.registry, &request).is_ok();
        self.is_rung |= posted;
        posted
    }

    /// A packet has gone out of a slot.
    pub(super) fn free_slot(&mut self, slot: u16) {
        self.free.push(slot);
    }
}

impl Drop for Link {
    /// Receive requests that no connection has taken give their memory and their places back.
    fn drop(&mut self) {
        self.queue_pair.discard_receives(&self.registry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_never_connected_gives_everything_back() {
        let limits = weft_memory::Limits { regions: 1, ..weft_memory::Limits::default() };
        let registry = Registry::new(7, limits);
        let domain = registry.allocate_domain().unwrap();
        let event_count = Arc::new(EventCount::default());
        let settings = Settings::default();
        // Places for one link.
        let completions = Arc::new(CompletionQueue::new(usize::from(slots(&settings)), Arc::clone(&event_count)));
        let parts = Parts {
            id: 1,
            endpoint: 0,
            registry: &registry,
            domain,
            completions: &completions,
            event_count: &event_count,
            is_guarded: false,
            settings: &settings,
        };
        for _ in 0..100 {
            let link = Link::new(PeerId(1), LinkKey(0), Phase::Opening(0), &parts).unwrap();
            let refused = link.queue_pair.receives().post(&registry, ReceiveRequest { id: 0, sink: Gather::empty() });
            assert!(refused.is_err(), "all places are taken");
        }
        assert!(completions.is_empty(), "nobody is told");
    }

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
