//! Ranks that are threads, each with a NIC of its own.

use std::sync::Arc;
use std::thread;

use weft::endpoint::EndpointAttributes;
use weft::group::Group;
use weft::verbs::{Context, Transport};
use weft::window::Team;

pub(crate) const TRANSPORTS: [Transport; 3] = [Transport::Iwarp, Transport::Edge, Transport::SharedMemory];

/// The team of a group, over the loopback.
pub(crate) fn team_of(mut group: Group, transport: Transport) -> Team {
    let mut attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
    attributes.settings.transport = transport;
    Team::new(&Context::open().unwrap(), &mut group, &attributes).unwrap()
}

/// Runs this at each of this many ranks, and returns what they return.
pub(crate) fn ranks<R: Send + 'static>(
    size: usize,
    transport: Transport,
    body: impl Fn(Team) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let body = Arc::new(body);
    let start = |group: Group| {
        let body = Arc::clone(&body);
        thread::spawn(move || body(team_of(group, transport)))
    };
    let threads: Vec<_> = Group::threads(size).unwrap().into_iter().map(start).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}
