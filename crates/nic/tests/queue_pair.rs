//! Queue pairs in virtual time: what becomes of requests that the event loop has not taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{Gather, Slice};
use weft_memory::Access;
use weft_mpa::Offer;
use weft_nic::{Progress, QueuePairAttributes, Settings, State};
use weft_rdmap::{Operation, Payload, SendRequest, Status};
use weft_simulate::{Behaviour, RawPeer, World};

/// The NIC's own thread would take them; none runs here.
#[test]
fn what_was_posted_and_not_taken_is_flushed_once_and_lets_go_of_its_memory() {
    let world = World::new(5, Behaviour::default());
    let nic = world.nic(Settings { progress: Progress::Thread, ..Settings::default() });
    let domain = nic.registry().allocate_domain().unwrap();
    let completions = nic.create_completion_queue(16).unwrap();
    let attributes = QueuePairAttributes {
        domain,
        send_completions: Arc::clone(&completions),
        receive_completions: Arc::clone(&completions),
        send_depth: 4,
        receive_depth: 4,
        shared_receives: None,
    };
    let queue_pair = nic.create_queue_pair(&attributes).unwrap();
    let listener = nic.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4, weft_nic::Offer::default()).unwrap();
    let mut peer = RawPeer::connect(&world, listener.local_address()).unwrap();
    let accept = || {
        if let Ok(Some((request, _))) = listener.next_request() {
            nic.accept(request, &queue_pair, b"", None).unwrap();
        }
    };
    peer.start(&nic, Offer::default(), accept).expect("the start-up is a good one");
    assert_eq!(queue_pair.state(), State::Ready);
    let region = nic.registry().register(domain, vec![1; 300], Access::LOCAL_WRITE, 0).unwrap();
    for id in 0..3 {
        let payload = Payload::Gather(Gather::from(Slice { region: region.id(), offset: id * 100, length: 100 }));
        let operation = Operation::Send { payload, solicited: false, invalidate: None };
        nic.post_send(&queue_pair, [SendRequest { id, operation, signaled: false, fence: false }]).unwrap();
    }
    nic.destroy_queue_pair(&queue_pair);
    world.run(&[&nic], Duration::from_secs(1), || false);
    for id in 0..3 {
        let completion = completions.take().expect("one for each");
        assert_eq!((completion.id, completion.status), (id, Status::Flushed));
    }
    assert!(completions.take().is_none(), "and no other");
    assert_eq!(region.deregister().map(|bytes| bytes.len()).ok(), Some(300), "nothing uses it any more");
}
