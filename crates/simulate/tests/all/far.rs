//! Edge between hosts that are 100 ms apart, in virtual time: what is short takes one round trip, on a connection that
//! is used the first time or has been used for long.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
use weft_emulate::Settings as Links;
use weft_memory::Access;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, PacketBehaviour, Pair, PairOptions, World};

const WAY: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(20);

fn world() -> World {
    let world = World::new(3, Behaviour::default());
    let links = Links { delay: WAY, ..PacketBehaviour::default().links };
    world.set_packets(PacketBehaviour { links, ..PacketBehaviour::default() });
    world
}

/// How many ways it has taken since then.
fn ways(world: &World, since: weft_base::Time) -> f64 {
    world.now().since(since).as_secs_f64() / WAY.as_secs_f64()
}

/// Its completion is the peer's acknowledgement.
#[test]
fn each_short_write_takes_one_round_trip() {
    for length in [8, 4096, 8192] {
        let (world, options) = (world(), PairOptions::default());
        let pair = Pair::<Edge>::unconnected(&world, &options);
        assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
        let (here, there) = (pair.active.nic.registry(), pair.passive.nic.registry());
        let source = here.register(pair.active.domain, vec![1; length as usize], Access::LOCAL_READ, 0).unwrap();
        let sink = there.register(pair.passive.domain, vec![0; length as usize], Access::REMOTE_WRITE, 0).unwrap();
        let payload = Payload::Gather(Gather::from(Slice { region: source.id(), offset: 0, length }));
        let target = RemoteTarget { stag: sink.stag(), offset: sink.base() };
        let (operation, flags) = (Operation::Write { payload, target }, RequestFlags::NONE);
        for round in 0..40 {
            let (begun, mut completed) = (world.now(), Vec::new());
            let request = SendRequest { id: round, operation, signaled: true, fence: false, flags };
            pair.active.nic.post_send(&pair.active.queue_pair, [request]).unwrap();
            assert!(pair.run(LIMIT, || {
                pair.active.take_sends(&mut completed);
                !completed.is_empty()
            }));
            assert_eq!(completed[0].status, Status::Success);
            let took = ways(&world, begun);
            assert!(took <= 2.1, "{length} bytes, write {round}: {took} ways");
        }
    }
}
