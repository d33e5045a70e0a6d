//! One NIC's endpoint, and what it exposes.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_base::{DomainId, PeerId, Random};
use weft_memory::{Access, Region};
use weft_nic::{
    Address, Completions, EndpointAttributes, EndpointSettings, Event, Match, MessageEndpoint, RemotePlace,
};

use crate::network::{SimulatedNetwork, Tag};
use crate::rails;
use crate::world::{SimulatedClock, SimulatedNic};

/// Its identity: its number, and how often it was opened before.
pub(super) type Name = (usize, usize);

/// How often an endpoint is opened, at most.
pub(super) const GENERATIONS: usize = 3;
/// The most endpoints.
const PARTIES: usize = 4;
/// Places in each window that only one other, in one of its generations, uses.
pub(super) const SLOTS: usize = 4;
/// Bytes of each.
pub(super) const SLOT: usize = 512;
/// Any tag.
pub(super) const ANY_TAG: Match = Match { tag: 0, ignore: u64::MAX };
/// The first listens there, the others behind it.
const FIRST_PORT: u16 = 500;

/// How an endpoint is set up, also when it is opened again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    packet_bytes: u32,
    short_bytes: u32,
    stream_bytes: u64,
    alone_bytes: u64,
    eager_bytes: u64,
    fragment_bytes: u64,
    credits: (u16, u16),
    unexpected_bytes: u64,
    unexpected_messages: u32,
    idle_timeout: Option<Duration>,
    /// Others are known by their identity, else by their place.
    by_name: bool,
}

impl Habits {
    pub(super) fn random(random: &mut Random, by_name: bool) -> Self {
        let packet_bytes = 320 + random.below(600) as u32;
        let most = u64::from(packet_bytes - weft_message::Settings::PACKET_OVERHEAD);
        Self {
            packet_bytes,
            short_bytes: 170 + random.below(most - 170) as u32,
            stream_bytes: random.below(1500),
            alone_bytes: random.below(1500),
            eager_bytes: 400 + random.below(1500),
            fragment_bytes: 100 + random.below(900),
            credits: (1 + random.below(5) as u16, 1 + random.below(3) as u16),
            unexpected_bytes: random.below(6000),
            unexpected_messages: random.below(20) as u32,
            idle_timeout: random.one_in(2).then(|| Duration::from_micros(20 + random.below(2000))),
            by_name,
        }
    }

    /// An address as it is given to an endpoint.
    pub(super) fn address(&self, address: &Address) -> Address {
        Address { id: if self.by_name { address.id } else { 0 }, ..address.clone() }
    }

    fn settings(&self) -> EndpointSettings {
        let messages = weft_message::Settings {
            packet_bytes: self.packet_bytes,
            short_bytes: self.short_bytes,
            stream_bytes: self.stream_bytes,
            alone_bytes: self.alone_bytes,
            eager_bytes: self.eager_bytes,
            fragment_bytes: self.fragment_bytes,
            data_credits: self.credits.0,
            control_credits: self.credits.1,
            unexpected_bytes: self.unexpected_bytes,
            unexpected_messages: self.unexpected_messages,
            idle_timeout: self.idle_timeout,
            ..weft_message::Settings::default()
        };
        // Closing does not wait: time does not pass meanwhile.
        EndpointSettings { messages, inject_bytes: 300, linger: Some(Duration::ZERO), ..EndpointSettings::default() }
    }
}

/// Completions that were not checked.
#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        self.0.lock().push(event);
    }
}

/// An endpoint.
pub(super) struct Party<T: Tag> {
    pub(super) name: Name,
    pub(super) habits: Habits,
    pub(super) domain: DomainId,
    pub(super) endpoint: MessageEndpoint<SimulatedNetwork<T>, SimulatedClock>,
    pub(super) window: Region,
    inbox: Arc<Inbox>,
}

impl<T: Tag> Party<T> {
    pub(super) fn open(
        (nic, networks): (&SimulatedNic<T>, usize),
        number: usize,
        generation: usize,
        habits: Habits,
        random: &mut Random,
    ) -> Result<Self, String> {
        let domain = nic.registry().allocate_domain().map_err(|error| error.to_string())?;
        let exposed = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let length = PARTIES * GENERATIONS * SLOTS * SLOT;
        let window = nic.registry().register_zeroed(domain, length, exposed, 0).map_err(|error| error.to_string())?;
        let host = if networks > 0 { number } else { 0 };
        let bind = SocketAddr::new(rails::address(host, 0), FIRST_PORT + number as u16);
        let attributes = EndpointAttributes { settings: habits.settings(), ..EndpointAttributes::at(bind) };
        let inbox = Arc::new(Inbox::default());
        let identity = (random.next_u64(), random.next_u64());
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let endpoint = MessageEndpoint::open(nic, domain, &attributes, identity, completions)
            .map_err(|error| error.to_string())?;
        Ok(Self { name: (number, generation), habits, domain, endpoint, window, inbox })
    }

    pub(super) fn address(&self) -> &Address {
        self.endpoint.address()
    }

    pub(super) fn close(&mut self) {
        let _ = self.endpoint.close();
    }

    /// What has completed since the last time.
    pub(super) fn take(&self) -> Vec<Event> {
        core::mem::take(&mut *self.inbox.0.lock())
    }

    /// Which of them a peer is.
    pub(super) fn who(&self, peer: PeerId) -> Option<usize> {
        let address = self.endpoint.peer_address(peer)?;
        Some(usize::from(address.paths.first()?.port() - FIRST_PORT))
    }

    /// Where in its window another has this slot.
    pub(super) fn offset_of_slot(writer: Name, slot: usize) -> u64 {
        (((writer.0 * GENERATIONS + writer.1) * SLOTS + slot) * SLOT) as u64
    }

    /// The place of such a slot, for its writer.
    pub(super) fn place(&self, writer: Name, slot: usize) -> RemotePlace {
        RemotePlace { stag: self.window.stag(), offset: self.window.base() + Self::offset_of_slot(writer, slot) }
    }

    /// The content of such a slot.
    pub(super) fn slot(&self, writer: Name, slot: usize) -> Vec<u8> {
        let mut bytes = vec![0; SLOT];
        self.window.read(Self::offset_of_slot(writer, slot), &mut bytes).expect("it lies in the window");
        bytes
    }
}
