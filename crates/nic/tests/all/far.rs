//! Endpoints far from each other, in virtual time: how many round trips messages and reads take.

use core::time::Duration;

use crate::side::{Side, connect, run};
use weft_message::Settings;
use weft_nic::{ReceivePost, SendPost, TransferPost};
use weft_simulate::{Behaviour, World};

/// The longest that bytes take in one direction.
const WAY: Duration = Duration::from_millis(8);

/// Two endpoints, with a network between them that holds all that is sent.
fn two(messages: &Settings) -> (World, Side, Side) {
    let world = World::new(3, Behaviour { delay: WAY, capacity: 1 << 26, ..Behaviour::default() });
    let [here, there] = [1, 2].map(|id| Side::open(&world, id, messages.clone()));
    (world, here, there)
}

/// How long it takes until this many messages of this length have come.
fn stream(world: &World, [here, there]: [&Side; 2], count: usize, length: usize) -> Duration {
    let (peer, start) = (here.peer(there), world.now());
    for _ in 0..count {
        there.endpoint.receive(ReceivePost::new(vec![0; length])).unwrap();
        here.endpoint.send(SendPost::new(peer, vec![7; length])).unwrap();
    }
    run(world, [here, there], [count; 2]);
    assert!(here.take().iter().chain(&there.take()).all(|event| event.outcome == Ok(())));
    world.now().since(start)
}

#[test]
fn credits_for_messages_grow_with_the_distance() {
    const MESSAGES: usize = 400;
    for length in [16_000, 40_000] {
        let fixed = Settings { extra_credits: 0, ..Settings::default() };
        let times = [fixed, Settings::default()].map(|settings| {
            let (world, here, there) = two(&settings);
            connect(&world, &here, &there);
            [(); 3].map(|()| stream(&world, [&here, &there], MESSAGES, length))
        });
        // 16 packets at a time take 25 round trips at least.
        let [fixed, grown] = times;
        assert!(fixed.iter().all(|time| *time > 25 * WAY), "{fixed:?}");
        assert!(grown[2] < fixed[2] / 6, "{length}: {grown:?}, {fixed:?}");
    }
}

#[test]
fn messages_that_are_read_and_reads_are_many_at_a_time() {
    let (world, here, there) = two(&Settings::default());
    let peer = connect(&world, &here, &there);
    // A request, a read, its response.
    let time = stream(&world, [&here, &there], 100, 200_000);
    assert!(time < 6 * WAY, "{time:?}");

    let start = world.now();
    for _ in 0..128 {
        here.endpoint.read(TransferPost::new(peer, vec![0; 8], there.place(0))).unwrap();
    }
    run(&world, [&here, &there], [128, 0]);
    let time = world.now().since(start);
    assert!(time < 3 * WAY, "{time:?}");
}
