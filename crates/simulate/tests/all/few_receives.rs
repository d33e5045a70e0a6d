//! More Sends in flight than receives are posted, over Edge in virtual time: what finds no receive waits, and all of it
//! comes in order once the receives are there. A failure names its case.

use core::time::Duration;
use std::collections::BTreeSet;

use weft_base::{Edge, Gather, Slice};
use weft_memory::{Access, Region};
use weft_nic::Rails;
use weft_nic::laboratory::OutOfOrder;
use weft_rdmap::{Operation, Payload, ReceiveRequest, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, World};

const LIMIT: Duration = Duration::from_secs(100);

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    messages: usize,
    /// Sends that are in flight at a time.
    sends: u32,
    /// Receives that are posted at a time.
    receives: usize,
    /// Bytes of a message.
    length: u32,
    packets: PacketBehaviour,
    networks: usize,
    copies: bool,
}

impl Case {
    fn new(seed: u64, messages: usize, sends: u32, receives: usize) -> Self {
        let packets = PacketBehaviour::default();
        Self { seed, messages, sends, receives, length: 64, packets, networks: 0, copies: false }
    }

    fn connect(&self) -> Pair<Edge> {
        let world = World::new(self.seed, Behaviour::default());
        world.set_packets(self.packets);
        let depth = self.sends.max(self.receives as u32);
        let mut options = PairOptions { depth, networks: self.networks, ..PairOptions::default() };
        options.settings.rails = if self.networks > 1 { Rails::All { flows: 2 } } else { Rails::One };
        options.settings.laboratory.out_of_order = if self.copies { OutOfOrder::Copy } else { OutOfOrder::Place };
        // Losses in bursts may take many hellos in a row.
        options.settings.start_timeout = Duration::from_secs(60);
        let pair = Pair::unconnected(&world, &options);
        assert!(pair.connect(&options), "{self:?}: {:?}", pair.active.queue_pair.error());
        pair
    }

    /// All messages come, each with the bytes of its number.
    fn run(&self) {
        let pair = self.connect();
        let source = region(&pair.active, self.messages * self.length as usize, Access::LOCAL_READ);
        let sink = region(&pair.passive, self.receives * self.length as usize, Access::LOCAL_WRITE);
        for number in 0..self.messages {
            source.write((number * self.length as usize) as u64, &vec![number as u8; self.length as usize]).unwrap();
        }
        let (mut sent, mut done, mut taken) = (0, 0, 0);
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        (0..self.receives).for_each(|slot| self.receive(&pair.passive, &sink, slot));
        let finished = pair.run(LIMIT, || {
            pair.active.take_sends(&mut sends);
            done += sends.drain(..).map(|done| assert_eq!(done.completion.status, Status::Success)).count();
            while sent < self.messages.min(done + self.sends as usize) {
                self.send(&pair.active, &source, sent);
                sent += 1;
            }
            pair.passive.take_receives(&mut receives);
            for receive in receives.drain(..) {
                let (slot, mut bytes) = (taken % self.receives, vec![0; self.length as usize]);
                assert_eq!((receive.completion.id, receive.completion.status), (slot as u64, Status::Success));
                sink.read((slot * self.length as usize) as u64, &mut bytes).unwrap();
                assert!(bytes.iter().all(|byte| *byte == taken as u8), "{self:?}: message {taken} has other bytes");
                taken += 1;
                self.receive(&pair.passive, &sink, slot);
            }
            done == self.messages && taken == self.messages
        });
        assert!(finished, "{self:?}: {taken} messages came, {done} of {sent} Sends completed");
    }

    fn send(&self, end: &End<Edge>, source: &Region, number: usize) {
        let offset = (number * self.length as usize) as u64;
        let slice = Slice { region: source.id(), offset, length: self.length };
        let payload = Payload::Gather(Gather::from(slice));
        let operation = Operation::Send { payload, solicited: false, invalidate: None };
        let request = SendRequest { id: 0, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        end.nic.post_send(&end.queue_pair, [request]).unwrap();
    }

    fn receive(&self, end: &End<Edge>, sink: &Region, slot: usize) {
        let offset = (slot * self.length as usize) as u64;
        let slice = Slice { region: sink.id(), offset, length: self.length };
        let request = ReceiveRequest { id: slot as u64, sink: Gather::from(slice) };
        end.nic.post_receive(&end.queue_pair, request).unwrap();
    }
}

fn region(end: &End<Edge>, bytes: usize, access: Access) -> Region {
    end.nic.registry().register(end.domain, vec![0; bytes], access, 0).unwrap()
}

#[test]
fn all_sends_complete_on_a_good_network() {
    for (messages, sends) in [(64, 64), (200, 200), (500, 128), (5000, 512)] {
        for receives in 1..=4 {
            Case::new(receives as u64, messages, sends, receives).run();
        }
    }
}

#[test]
fn all_sends_complete_whatever_the_packets_carry() {
    for interface_mtu in [1500, 9000, 65_535] {
        for (length, receives) in [(1, 1), (1000, 2), (5000, 3), (20_000, 4)] {
            let packets = PacketBehaviour { interface_mtu, ..PacketBehaviour::default() };
            Case { packets, length, ..Case::new(7, 150, 64, receives) }.run();
        }
    }
}

#[test]
fn all_sends_complete_under_all_faults_together() {
    for seed in 0..24 {
        let length = [8, 600, 4000][(seed % 3) as usize];
        let packets = PacketBehaviour::of_seed(seed);
        let networks = [0, 2, 3][(seed / 3 % 3) as usize];
        let case = Case::new(seed, 120, 64, 1 + (seed % 4) as usize);
        Case { packets, length, networks, copies: seed % 5 == 4, ..case }.run();
    }
}

/// A receiver that posts nothing for a long time costs few wake-ups, and the peer continues when it posts.
#[test]
fn a_connection_that_waits_for_a_receive_wakes_up_seldom() {
    let case = Case::new(3, 1, 8, 1);
    let pair = case.connect();
    let source = region(&pair.active, 64, Access::LOCAL_READ);
    let sink = region(&pair.passive, 64, Access::LOCAL_WRITE);
    case.send(&pair.active, &source, 0);
    let mut times = BTreeSet::new();
    pair.run(Duration::from_secs(2), || {
        times.insert(pair.world.now());
        false
    });
    // One each 200 us would be 10 000.
    assert!(times.len() < 200, "{} wake-ups in two seconds", times.len());
    case.receive(&pair.passive, &sink, 0);
    let (posted, mut receives) = (pair.world.now(), Vec::new());
    assert!(pair.run(LIMIT, || {
        pair.passive.take_receives(&mut receives);
        !receives.is_empty()
    }));
    // A side that polls finds it at once: what remains is a round trip.
    assert!(pair.world.now().since(posted) < Duration::from_millis(2), "{:?}", pair.world.now().since(posted));
}
