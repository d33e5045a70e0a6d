//! Endpoints that leave it to Weft what carries their connections: by the links that join two hosts.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use weft_base::IwarpOrEdge;
use weft_nic::{
    Completions, Counters, EndpointAttributes, EndpointSettings, Event, MessageEndpoint, Progress, Rails, ReceivePost,
    SendPost, Settings, Transport,
};
use weft_simulate::{Behaviour, SimulatedClock, SimulatedNetwork, World};

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        self.0.lock().push(event);
    }
}

/// Sends a message between two hosts that share this number of links. Returns the transport that the caller offers, and
/// the counters of its NIC afterwards.
fn call(links: u8, rails: Rails, called: Transport) -> (Option<Transport>, Counters) {
    let world = World::new(9, Behaviour::default());
    let sides = [(1, Transport::Auto), (2, called)].map(|(host, transport)| {
        let addresses: Vec<IpAddr> = (0..links).map(|link| Ipv4Addr::new(10, 0, link, host).into()).collect();
        let settings = Settings { progress: Progress::Caller, rails: rails.clone(), ..Settings::default() };
        let nic = world.nic_over::<IwarpOrEdge>(settings, &addresses);
        let domain = nic.registry().allocate_domain().unwrap();
        let settings = EndpointSettings { transport, linger: Some(Duration::ZERO), ..EndpointSettings::default() };
        let bind = SocketAddr::new(addresses[0], 500 + u16::from(host));
        let attributes = EndpointAttributes { settings, paths: addresses, ..EndpointAttributes::at(bind) };
        let inbox = Arc::new(Inbox::default());
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let endpoint: MessageEndpoint<SimulatedNetwork<IwarpOrEdge>, SimulatedClock> =
            MessageEndpoint::open(&nic, domain, &attributes, (host.into(), host.into()), completions).unwrap();
        (nic, endpoint, inbox)
    });
    let [(nic, caller, _), (other, listener, inbox)] = &sides;
    listener.receive(ReceivePost::new(vec![0; 8])).unwrap();
    caller.send(SendPost::new(caller.peer(listener.address()).unwrap(), vec![7; 8])).unwrap();
    assert!(world.run(&[nic, other], LIMIT, || !inbox.0.lock().is_empty()), "no message came");
    (caller.address().transport, nic.counters())
}

#[test]
fn two_links_are_used_by_edge() {
    let (offered, counters) = call(2, Rails::ALL, Transport::Auto);
    assert_eq!(offered, Some(Transport::Auto));
    assert_eq!((counters.edge_connections, counters.calls_over_several_links), (1, 1));
    assert_eq!(counters.calls_over_one_link, 0);
}

#[test]
fn one_link_is_used_by_iwarp_and_nothing_listens_for_datagrams() {
    let (offered, counters) = call(1, Rails::ALL, Transport::Auto);
    assert_eq!(offered, Some(Transport::SharedMemoryOrIwarp));
    assert_eq!((counters.connections, counters.edge_connections), (1, 0));
}

#[test]
fn a_user_who_wants_one_rail_gets_iwarp_and_one_who_wants_flows_gets_edge() {
    let (_, one) = call(2, Rails::One, Transport::Auto);
    assert_eq!((one.connections, one.edge_connections), (1, 0));
    let (_, flows) = call(1, Rails::All { flows: 2 }, Transport::Auto);
    assert_eq!((flows.edge_connections, flows.calls_over_several_links), (1, 1));
}

#[test]
fn a_peer_that_does_not_speak_edge_is_called_by_iwarp_at_once() {
    let (_, counters) = call(2, Rails::ALL, Transport::SharedMemoryOrIwarp);
    assert_eq!((counters.connections, counters.edge_connections, counters.fallbacks), (1, 0, 0));
}
