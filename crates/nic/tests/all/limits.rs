//! Whatever there is little of has a limit, which has a name. Those of memory are tested in `weft-memory`, those of
//! messages in `weft-message`, of connections in `reasons`, of peers in `leaving`.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_nic::{CompletionQueue, Error, Limits, Offer, Progress, QueuePairAttributes, Settings};
use weft_simulate::{Behaviour, World};

#[test]
fn each_limit_of_a_nic_is_an_error_that_names_it() {
    let limits = Limits {
        queue_pairs: 1,
        listeners: 1,
        completion_queue_entries: 8,
        queue_depth: 4,
        connections: 3,
        ..Limits::default()
    };
    let world = World::new(1, Behaviour::default());
    let nic = world.nic(Settings { progress: Progress::Caller, limits, ..Settings::default() });
    let domain = nic.registry().allocate_domain().unwrap();
    let completions: Arc<CompletionQueue> = nic.create_completion_queue(8).unwrap();
    assert!(matches!(nic.create_completion_queue(9), Err(Error::Depth { asked: 9, most: 8, .. })));
    let attributes = |send_depth, receive_depth| QueuePairAttributes {
        domain,
        send_completions: Arc::clone(&completions),
        receive_completions: Arc::clone(&completions),
        send_depth,
        receive_depth,
        shared_receives: None,
    };
    for (send_depth, receive_depth) in [(5, 4), (4, 5)] {
        let made = nic.create_queue_pair(&attributes(send_depth, receive_depth));
        assert!(matches!(made, Err(Error::Depth { asked: 5, most: 4, .. })), "{send_depth}, {receive_depth}");
    }
    let _queue_pair = nic.create_queue_pair(&attributes(4, 4)).unwrap();
    let another = nic.create_queue_pair(&attributes(4, 4)).map(drop);
    assert_eq!(another, Err(Error::Limit { name: "queue_pairs", limit: 1 }));
    let listen = |backlog| nic.listen(SocketAddr::from(([10, 0, 0, 1], 0)), backlog, Offer::default()).map(drop);
    assert!(matches!(listen(4), Err(Error::Depth { asked: 4, most: 3, .. })));
    assert_eq!(listen(3), Ok(()));
    assert_eq!(listen(3), Err(Error::Limit { name: "listeners", limit: 1 }));
}
