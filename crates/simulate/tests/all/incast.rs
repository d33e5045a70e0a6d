//! Many senders to one receiver at the same time, whose NIC is away now and then: what is in flight from all of them
//! together fits the buffer of its port.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
use weft_memory::{Access, Region};
use weft_nic::State;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};
use weft_simulate::{Behaviour, End, PacketBehaviour, PairOptions, SimulatedNic, World};

const SENDERS: usize = 16;
const WRITES: u64 = 64;
const BYTES: u32 = 32 << 10;
/// How long the receiver is away at a time: a thread that waits for its turn of a processor.
const AWAY: Duration = Duration::from_millis(4);
const LIMIT: Duration = Duration::from_secs(60);

struct Flow {
    sender: End<Edge>,
    receiver: weft_nic::QueuePairNumber,
    sink: Region,
}

fn byte(sender: usize, at: usize) -> u8 {
    (at * 7 + at / 251 + sender * 31) as u8
}

fn write(flow: &Flow, source: &Region, id: u64) {
    let offset = id * u64::from(BYTES);
    let slice = Slice { region: source.id(), offset, length: BYTES };
    let target = RemoteTarget { stag: flow.sink.stag(), offset };
    let operation = Operation::Write { payload: Payload::Gather(Gather::from(slice)), target };
    let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
    flow.sender.nic.post_send(&flow.sender.queue_pair, [request]).unwrap();
}

/// Returns datagrams that the receiver's port had no room for, and those that the senders held to be lost.
fn incast(buffer: u32) -> (u64, u64) {
    let world = World::new(16, Behaviour::default());
    world.set_packets(PacketBehaviour { largest_receive_buffer: buffer, ..PacketBehaviour::default() });
    let options = PairOptions::default();
    let first = End::<Edge>::new(&world, &options, 1);
    let nic = &first.nic;
    let listener = nic.listen(([10, 0, 0, 1], 700).into(), SENDERS as u32, options.passive).unwrap();
    let all = SENDERS * (WRITES as usize * BYTES as usize);
    let mut flows = Vec::new();
    for number in 0..SENDERS {
        let sender = End::<Edge>::new(&world, &options, 0);
        let attributes = weft_nic::QueuePairAttributes {
            domain: first.domain,
            send_completions: first.sends.clone(),
            receive_completions: first.receives.clone(),
            send_depth: 2,
            receive_depth: 2,
            shared_receives: None,
        };
        let queue_pair = nic.create_queue_pair(&attributes).unwrap();
        sender.nic.connect(&sender.queue_pair, listener.local_address(), None, options.active, b"").unwrap();
        let connected = world.run(&[&sender.nic, nic], LIMIT, || {
            if let Ok(Some((request, _))) = listener.next_request() {
                nic.accept(request, &queue_pair, b"", None).unwrap();
            }
            sender.queue_pair.state() == State::Ready
        });
        assert!(connected, "sender {number}");
        let sink = nic.registry().register(first.domain, vec![0; all / SENDERS], Access::REMOTE_WRITE, 0).unwrap();
        flows.push((Flow { sender, receiver: queue_pair.number(), sink }, queue_pair));
    }
    let sources: Vec<Region> = flows
        .iter()
        .enumerate()
        .map(|(number, (flow, _))| {
            let bytes: Vec<u8> = (0..all / SENDERS).map(|at| byte(number, at)).collect();
            flow.sender.nic.registry().register(flow.sender.domain, bytes, Access::LOCAL_READ, 0).unwrap()
        })
        .collect();
    for ((flow, _), source) in flows.iter().zip(&sources) {
        (0..WRITES).for_each(|id| write(flow, source, id));
    }
    let senders: Vec<&SimulatedNic<Edge>> = flows.iter().map(|(flow, _)| &flow.sender.nic).collect();
    let everybody: Vec<&SimulatedNic<Edge>> = senders.iter().copied().chain([nic]).collect();
    let mut done = vec![Vec::new(); SENDERS];
    let begun = world.now();
    while done.iter().any(|done| done.len() < WRITES as usize) {
        assert!(world.now().since(begun) < LIMIT, "{:?}", done.iter().map(Vec::len).collect::<Vec<_>>());
        world.run(&senders, AWAY, || false);
        world.run(&everybody, Duration::from_micros(100), || false);
        flows.iter().zip(&mut done).for_each(|((flow, _), done)| flow.sender.take_sends(done));
    }
    for (number, (flow, queue_pair)) in flows.iter().enumerate() {
        assert_eq!((queue_pair.state(), flow.receiver), (State::Ready, queue_pair.number()));
        let mut bytes = vec![0; all / SENDERS];
        flow.sink.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(number, at)), "sender {number}");
    }
    let lost = senders.iter().map(|nic| nic.counters().lost_datagrams).sum();
    // The counter of each includes what the port as a whole has dropped since they are connected.
    let overflowed = senders.iter().map(|nic| nic.counters().overflowed_datagrams).max();
    (overflowed.unwrap_or(0), lost)
}

#[test]
fn sixteen_who_send_at_once_do_not_overflow_who_is_away() {
    // Without credits it overflows.
    assert_eq!(incast(640 << 10), (0, 0));
}

/// As much as the kernel grants by default, in which not even the least credits of all find room.
#[test]
fn a_small_buffer_overflows_seldom() {
    let (overflowed, lost) = incast(212_992);
    let sent = SENDERS as u64 * WRITES * u64::from(BYTES) / 1400;
    assert!(overflowed < sent / 40, "{overflowed} of {sent} found no room, {lost} were held to be lost");
}
