//! An endpoint in virtual time.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_base::{DomainId, PeerId};
use weft_memory::{Access, Region};
use weft_nic::{
    Completions, EndpointAttributes, EndpointSettings, Event, JobKey, MessageEndpoint, Progress, ReceivePost,
    RemotePlace, SendPost, Settings, Warning,
};
use weft_simulate::{SimulatedClock, SimulatedNetwork, SimulatedNic, World};

/// Virtual time in which everything here happens.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);
pub(crate) const WINDOW: usize = 4096;

#[derive(Default)]
pub(crate) struct Inbox(Mutex<Vec<Event>>, Mutex<Vec<Warning>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        self.0.lock().push(event);
    }

    fn warn(&self, warning: &Warning) {
        self.1.lock().push(warning.clone());
    }
}

/// An endpoint on a NIC of its own, with a window that peers may use.
pub(crate) struct Side {
    pub(crate) nic: SimulatedNic,
    pub(crate) domain: DomainId,
    pub(crate) endpoint: MessageEndpoint<SimulatedNetwork, SimulatedClock>,
    pub(crate) window: Region,
    pub(crate) inbox: Arc<Inbox>,
}

impl Side {
    pub(crate) fn open(world: &World, id: u64, messages: weft_message::Settings) -> Self {
        Self::with(world, id, EndpointSettings { messages, ..EndpointSettings::default() })
    }

    pub(crate) fn with(world: &World, id: u64, settings: EndpointSettings) -> Self {
        Self::guarded(world, id, settings, None)
    }

    pub(crate) fn guarded(world: &World, id: u64, settings: EndpointSettings, key: Option<JobKey>) -> Self {
        let nic = world.nic(Settings { progress: Progress::Caller, ..Settings::default() });
        Self::on(nic, id, settings, key)
    }

    pub(crate) fn on(nic: SimulatedNic, id: u64, settings: EndpointSettings, key: Option<JobKey>) -> Self {
        let domain = nic.registry().allocate_domain().unwrap();
        let exposed = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let window = nic.registry().register_zeroed(domain, WINDOW, exposed, 0).unwrap();
        let inbox = Arc::new(Inbox::default());
        let settings = EndpointSettings { linger: Some(Duration::ZERO), ..settings };
        let bind = SocketAddr::from(([10, 0, 0, 1], 500 + id as u16));
        let attributes = EndpointAttributes { settings, key, ..EndpointAttributes::at(bind) };
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let endpoint = MessageEndpoint::open(&nic, domain, &attributes, (id, id), completions).unwrap();
        Self { nic, domain, endpoint, window, inbox }
    }

    pub(crate) fn peer(&self, other: &Self) -> PeerId {
        self.endpoint.peer(other.endpoint.address()).unwrap()
    }

    pub(crate) fn place(&self, offset: u64) -> RemotePlace {
        RemotePlace { stag: self.window.stag(), offset }
    }

    pub(crate) fn count(&self) -> usize {
        self.inbox.0.lock().len()
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        core::mem::take(&mut *self.inbox.0.lock())
    }

    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        core::mem::take(&mut *self.inbox.1.lock())
    }

    pub(crate) fn word(&self) -> u64 {
        u64::from_ne_bytes(self.window.to_vec()[..8].try_into().unwrap())
    }
}

/// Runs both until each has so many completions.
pub(crate) fn run(world: &World, sides: [&Side; 2], counts: [usize; 2]) {
    let done = || sides[0].count() >= counts[0] && sides[1].count() >= counts[1];
    let nics = [&sides[0].nic, &sides[1].nic];
    assert!(world.run(&nics, LIMIT, done), "{:?} of {counts:?}: {:?}", sides.map(Side::count), sides.map(Side::take));
}

/// One message, so that the two are connected.
pub(crate) fn connect(world: &World, from: &Side, to: &Side) -> PeerId {
    let peer = from.peer(to);
    to.endpoint.receive(ReceivePost::new(vec![0; 8])).unwrap();
    from.endpoint.send(SendPost::new(peer, vec![7; 8])).unwrap();
    run(world, [from, to], [1, 1]);
    assert!(from.take().iter().chain(&to.take()).all(|event| event.outcome == Ok(())));
    peer
}
