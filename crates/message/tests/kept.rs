//! The memory that a machine keeps because of its peers, in bytes of the allocator, is within the limit of its
//! settings.

use weft_base::{PeerId, Stag, Time};
use weft_message::{
    BufferId, CallId, Failure, Host, Machine, Match, Parts, Receive, Received, RemotePart, Settings, Terms, Ticket,
};
use weft_testing::CountingAllocator;
use weft_wire::message::{Class, Envelope, PACKET_HEADER_LENGTH, PacketHeader, Record};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// It reads at once, and answers calls with the maximum length.
#[derive(Default)]
struct Nobody {
    reads: Vec<Ticket>,
    calls: Vec<CallId>,
}

impl Host for Nobody {
    type Send = ();
    type Receive = ();

    fn connect(&mut self, _: PeerId) {}
    fn disconnect(&mut self, _: PeerId) {}
    fn fetch(&mut self, (): &(), _: u64, _: &mut [u8]) {}
    fn place(&mut self, (): &mut (), _: u64, _: &[u8]) {}
    fn expose_source(&mut self, _: PeerId, (): &mut ()) -> Result<Parts, Failure> {
        Err(Failure::NoMemory)
    }
    fn conceal_source(&mut self, (): &mut ()) {}
    fn expose_sink(&mut self, _: PeerId, (): &mut (), _: u64, length: u64) -> Result<Parts, Failure> {
        Ok([RemotePart { stag: Stag(1), offset: 0, length }].into_iter().collect())
    }
    fn conceal_sink(&mut self, (): &mut (), _: u64) {}
    fn read(&mut self, _: PeerId, ticket: Ticket, (): &mut (), _: u64, _: RemotePart) {
        self.reads.push(ticket);
    }
    fn write(&mut self, _: PeerId, _: Ticket, (): &mut (), _: u64, _: RemotePart) {}
    fn allocate(&mut self, _: PeerId, _: u64) -> Option<(BufferId, RemotePart)> {
        None
    }
    fn unload(&mut self, _: BufferId, (): &mut (), _: u64, _: u64) {}
    fn free(&mut self, _: BufferId) {}
    fn announced(&mut self, (): &mut ()) {}
    fn sent(&mut self, (): (), _: Result<(), Failure>) {}
    fn received(&mut self, (): &mut (), _: Option<Received>, _: Result<(), Failure>, _: bool) {}
    fn called(&mut self, _: PeerId, call: CallId, _: &[u8]) {
        self.calls.push(call);
    }
    fn answered(&mut self, _: Ticket, _: Result<&[u8], Failure>) {}
}

const PEERS: u32 = 16;
const KINDS: usize = 7;

fn settings() -> Settings {
    Settings {
        unexpected_bytes: 1 << 20,
        unexpected_messages: 30_000,
        data_credits: 2,
        extra_credits: 0,
        ..Settings::default()
    }
}

/// A packet full of messages of a kind.
fn packet(kind: usize, whole: usize) -> Vec<u8> {
    let envelope = Envelope { tag: Some(1), data: Some(3) };
    let part = RemotePart { stag: Stag(1), offset: 0, length: 25 };
    let record = match kind {
        0 => Record::Short { envelope, acknowledge: None, length: 0 },
        1 => Record::Short { envelope, acknowledge: Some(4), length: 129 },
        2 => Record::Short { envelope, acknowledge: Some(4), length: 257 },
        3 => Record::Short { envelope, acknowledge: None, length: 8193 },
        4 => Record::Request { envelope, id: 5, length: 100, delivery: true, source: [part; 4].into_iter().collect() },
        5 => Record::Request { envelope, id: 5, length: 70_000, delivery: true, source: Parts::new() },
        _ => Record::Call { id: 6, length: 20 },
    };
    let mut bytes = vec![0; PACKET_HEADER_LENGTH];
    let header = PacketHeader {
        class: Class::Data,
        data_credits: 0,
        control_credits: 0,
        scarce: true,
        waited: true,
        doubled: false,
    };
    header.emit(&mut bytes);
    for _ in 0..256 {
        let (at, length) = (bytes.len(), record.length() + record.body_length());
        if at + length > whole {
            break;
        }
        bytes.resize(at + length, 0);
        record.emit(&mut bytes[at..]);
    }
    bytes
}

/// Runs everything that needs no packets of the peers, which accept everything, and return no credits.
fn go_on(machine: &mut Machine<Nobody>, host: &mut Nobody, out: &mut [u8]) {
    loop {
        let mut any = false;
        while let Some(ticket) = host.reads.pop() {
            machine.handle_transferred(ticket, Ok(()), host);
            any = true;
        }
        while let Some(call) = host.calls.pop() {
            machine.answer(call, &[1; 8192], host);
            any = true;
        }
        while let Some(peer) = machine.next_ready() {
            any |= machine.poll_packet(peer, out, Time::ZERO, host).is_some();
        }
        if !any {
            return;
        }
    }
}

/// Peers send as much as they can of each kind, and accept nothing that would give them credits; the application
/// receives it all, or nothing; they connect again.
fn flood(first: usize, receives: bool) -> i64 {
    let settings = settings();
    let packets: Vec<_> =
        (0..KINDS).map(|kind| packet((first + kind) % KINDS, settings.packet_bytes as usize)).collect();
    let terms = Terms { packet_bytes: settings.packet_bytes, data_credits: 1, control_credits: 1 };
    let mut out = vec![0; settings.packet_bytes as usize];
    let mut host = Nobody { reads: Vec::with_capacity(1 << 14), calls: Vec::with_capacity(1 << 10) };
    let before = ALLOCATOR.bytes();
    let mut machine = Machine::new(settings, 1);
    let mut most = 0;
    for _ in 0..2 {
        for peer in (0..PEERS).map(PeerId) {
            machine.handle_connected(peer, terms, Time::ZERO, &mut host);
            for packet in &packets {
                for _ in 0..1000 {
                    if machine.handle_packet(peer, packet, Time::ZERO, &mut host).is_err() {
                        break;
                    }
                    go_on(&mut machine, &mut host, &mut out);
                    most = most.max(ALLOCATOR.bytes() - before);
                }
                let wanted = Match { tag: 1, ignore: 0 };
                while receives && machine.peek(Some(peer), Some(wanted), None).is_some() {
                    let post =
                        Receive { source: Some(peer), matching: Some(wanted), length: 9000, many: None, user: () };
                    machine.receive(post, &mut host);
                    go_on(&mut machine, &mut host, &mut out);
                    most = most.max(ALLOCATOR.bytes() - before);
                }
            }
        }
    }
    most
}

#[test]
fn what_peers_can_make_a_machine_keep_is_what_its_settings_say() {
    let limit = settings().most_kept(PEERS.into());
    for first in [0, 1, 2, 4, 5] {
        for receives in [false, true] {
            let most = flood(first, receives);
            println!("first {first}, received: {receives}: {most} of {limit} bytes");
            assert!(most > 0 && most as u64 <= limit, "{most} bytes are kept, more than {limit}");
        }
    }
}
