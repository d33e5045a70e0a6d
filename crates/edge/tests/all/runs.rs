//! Runs: packets that are handled as one give what they give one by one, whatever is wrong with one of them.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::world::{address, bytes, established};
use weft_base::{Gather, MessageNumber, Random, RegionId, Slice, Stag, Time};
use weft_edge::{
    Batch, Confirmation, Connection, Established, Meta, Options, Piece, Run, Segment, Settings, Sink, Source, Verdict,
};
use weft_wire::Crc32c;
use weft_wire::ddp::{Header, TAGGED_LENGTH, Target, UNTAGGED_LENGTH};
use weft_wire::edge::ConnectionId;
use weft_wire::edge::frame::{SegmentOptions, ddp_header_length};
use weft_wire::edge::packet::{self, Builder, HEADER_LENGTH};

const MS: Duration = Duration::from_millis(1);
/// When the packets of [`received`] arrive.
const ARRIVAL: Time = Time::from_nanos(1_000_000_000);
/// Where payload begins in the packets of these tests.
const HEAD: usize = HEADER_LENGTH + 7 + TAGGED_LENGTH;

/// What has arrived, by position.
#[derive(Default)]
struct Store {
    bytes: BTreeMap<u64, u8>,
    runs: usize,
}

impl Store {
    fn put(&mut self, position: u64, payload: &[u8]) -> Verdict {
        let before = self.bytes.len();
        for (at, value) in (position..).zip(payload) {
            assert!(self.bytes.insert(at, *value).is_none_or(|before| before == *value), "position {at}");
        }
        if self.bytes.len() > before { Verdict::Placed } else { Verdict::Duplicate }
    }
}

impl Sink for Store {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, _: Options) -> Verdict {
        let payload = &ulpdu[ddp_header_length(ulpdu[0])..];
        if Crc32c::of(payload) == crc { self.put(position, payload) } else { Verdict::BadPayload }
    }

    fn run(&mut self, position: u64, run: &Run<'_>, _: Options) -> Verdict {
        self.runs += 1;
        if run.parts().any(|(payload, crc)| Crc32c::of(payload) != crc) {
            return Verdict::BadPayload;
        }
        let payload: Vec<u8> = run.parts().flat_map(|(payload, _)| payload.iter().copied()).collect();
        assert_eq!(payload.len(), run.payload_length());
        self.put(position, &payload)
    }
}

fn connection(side: usize, now: Time) -> Connection {
    let settings = Settings { credit: 1 << 20, ..Settings::default() };
    let established = Established { confirmation: Confirmation::Done, ..established(side, &settings) };
    Connection::new(&established, &settings, now)
}

/// Nothing to send.
struct Nothing;

impl Source for Nothing {
    fn next(&mut self, _: u32) -> Option<Segment<'_>> {
        None
    }
}

/// Where a row of packets begins: number, position, and tagged offset.
type Origin = (u64, u64, u64);

/// A packet of side 0 with a part of a message: `skip` bytes behind its beginning, and `length` bytes long.
fn packet((number, position, offset): Origin, index: u64, skip: u64, length: usize) -> Vec<u8> {
    let mut ddp = [0; TAGGED_LENGTH];
    let target = Target::Tagged { stag: Stag(7), offset: offset.wrapping_add(skip) };
    Header { last: false, control: 0x40, target }.emit(&mut ddp);
    let destination = ConnectionId(101);
    let number = number + index;
    let header = packet::Header { ack_now: index == 5, key_phase: false, rail: 0, destination, number };
    let payload = bytes(0, skip, length);
    let mut bytes = vec![];
    let mut builder = Builder::new(&mut bytes, &header);
    builder.segment(position.wrapping_add(skip), None, &SegmentOptions::NONE, &ddp);
    builder.payload(&payload);
    builder.finish();
    bytes
}

const PACKETS: usize = 12;
const PAYLOAD: usize = 1000;

/// Something is wrong with one packet of a row.
const FAULTS: [&str; 11] =
    ["none", "missing", "doubled", "swapped", "payload", "head", "end", "forged", "shorter", "cut", "late"];

fn spoil(fault: &str, at: usize, origin: Origin, packets: &mut Vec<Vec<u8>>) {
    match fault {
        "missing" => drop(packets.remove(at)),
        "doubled" => packets.insert(at, packets[at].clone()),
        "swapped" => packets.swap(at, (at + 1) % PACKETS),
        "payload" => packets[at][HEAD + 20] ^= 0x10,
        "head" => packets[at][HEADER_LENGTH + 3] ^= 0x10,
        // That it ends the message (RFC 5041 figure 3: L).
        "end" => packets[at][HEADER_LENGTH + 7] ^= 0x40,
        // Whoever can write a header check can say anything.
        "forged" => {
            packets[at][HEADER_LENGTH + 4] ^= 0x10;
            packet::reseal(&mut packets[at], origin.0 + at as u64);
        }
        "shorter" => packets[at] = packet(origin, at as u64, (at * PAYLOAD) as u64, PAYLOAD - 300),
        "cut" => packets[at].truncate(HEAD + 2),
        "late" => {
            let late = packets.remove(at);
            packets.push(late);
        }
        _ => {}
    }
}

/// Two connections that have received these packets, joined and one by one, and what each has placed.
fn received(packets: &[Vec<u8>]) -> ([Connection; 2], [Store; 2]) {
    let meta = Meta { from: address(0), local: 0, ecn: 2, now: ARRIVAL };
    let [mut together, mut apart] = [connection(1, ARRIVAL), connection(1, ARRIVAL)];
    let [mut all, mut each] = [Store::default(), Store::default()];
    joined(packets).iter().for_each(|(bytes, size)| together.receive_all(bytes, *size, &meta, &mut all));
    packets.iter().for_each(|packet| apart.receive(packet, &meta, &mut each));
    ([together, apart], [all, each])
}

/// As a kernel joins datagrams: of one size, but the last may be shorter.
fn joined(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, usize)> {
    let mut rows: Vec<(Vec<u8>, usize)> = vec![];
    for packet in packets {
        match rows.last_mut() {
            Some((bytes, size)) if bytes.len() % *size == 0 && packet.len() <= *size => bytes.extend_from_slice(packet),
            _ => rows.push((packet.clone(), packet.len())),
        }
    }
    rows
}

#[test]
fn one_wrong_packet_anywhere_changes_nothing_for_the_others() {
    // Numbers, positions and offsets wrap in the middle of the second.
    let origins = [(0, 0, 0), ((1 << 32) - 6, (1 << 48) - 5500, u64::MAX - 4500)];
    for (origin, fault, at) in origins
        .into_iter()
        .flat_map(|origin| FAULTS.map(|fault| (origin, fault)))
        .flat_map(|(origin, fault)| (0..PACKETS).map(move |at| (origin, fault, at)))
    {
        let mut packets: Vec<Vec<u8>> =
            (0..PACKETS).map(|index| packet(origin, index as u64, (index * PAYLOAD) as u64, PAYLOAD)).collect();
        spoil(fault, at, origin, &mut packets);
        let ([mut together, mut apart], [all, each]) = received(&packets);
        let what = format!("{fault} {at} from {origin:?}");
        assert!(all.bytes == each.bytes, "{what}: {} and {} bytes", all.bytes.len(), each.bytes.len());
        assert_eq!(together.counters(), apart.counters(), "{what}");
        // Behind the last number none is a new one.
        let is_last_first = (fault, at) == ("swapped", PACKETS - 1);
        assert!((all.runs > 0 || is_last_first) && each.runs == 0, "{what}");
        if fault == "none" {
            assert_eq!((all.runs, all.bytes.len()), (1, PACKETS * PAYLOAD));
        }
        let acknowledge = |connection: &mut Connection| {
            let mut batch = Batch::new(4, 1 << 17);
            assert!(
                connection.next_timeout().is_some_and(|due| due <= ARRIVAL),
                "an acknowledgement was asked for: {what}"
            );
            connection.transmit(&mut Nothing, ARRIVAL, &mut batch);
            batch.bytes
        };
        // The packet that asks for it at once may be the one that does not count.
        if at != 5 && fault != "cut" {
            assert_eq!(acknowledge(&mut together), acknowledge(&mut apart), "{what}");
        }
    }
}

/// Packets of messages of every kind, with their numbers, one behind the other.
fn any_messages(random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let mut number = [0, (1 << 32) - 30][random.below(2) as usize];
    let mut position = [0, (1 << 48) - 3000][random.below(2) as usize];
    let mut packets = vec![];
    while packets.len() < 60 {
        let (size, count) = (1 + random.below(300) as usize, 1 + random.below(70));
        let (unordered, asks) = (random.one_in(3), 1 + random.below(20));
        let (is_tagged, offset) = (random.one_in(2), random.next_u64());
        for part in 0..count {
            let is_last = part + 1 == count;
            let length = if is_last { 1 + random.below(size as u64) as usize } else { size };
            let skip = part * size as u64;
            let target = if is_tagged {
                Target::Tagged { stag: Stag(7), offset: offset.wrapping_add(skip) }
            } else {
                let offset = (offset as u32).wrapping_add(skip as u32);
                Target::Untagged { word: 3, queue: 0, number: MessageNumber(9), offset }
            };
            let mut ddp = [0; UNTAGGED_LENGTH];
            let head = Header { last: is_last, control: 0x40, target }.emit(&mut ddp);
            let ack_now = number % asks == 0;
            let destination = ConnectionId(101);
            let header = packet::Header { ack_now, key_phase: false, rail: 0, destination, number };
            let payload = bytes(0, position, length);
            let mut packet = vec![];
            let mut builder = Builder::new(&mut packet, &header);
            builder.segment(position, None, &SegmentOptions { unordered, fence: None }, &ddp[..head]);
            builder.payload(&payload);
            builder.finish();
            packets.push((number, packet));
            (number, position) = (number + 1, position + length as u64 + u64::from(is_last));
        }
    }
    packets
}

/// Something is wrong with any of them.
fn spoil_any(random: &mut Random, packets: &mut Vec<(u64, Vec<u8>)>) {
    let at = random.below(packets.len() as u64 - 1) as usize;
    let (number, packet) = &mut packets[at];
    if packet.len() <= HEAD {
        // It was cut off.
        return;
    }
    match random.below(7) {
        0 => drop(packets.remove(at)),
        1 => packets.insert(at, packets[at].clone()),
        2 => packets.swap(at, at + 1),
        3 => packet.truncate(1 + random.below(packet.len() as u64) as usize),
        4 => {
            packet[2 + random.below(8) as usize] ^= 1 << random.below(8);
            packet::reseal(packet, *number);
        }
        // What may differ in any packet of a run, without options, is in this byte.
        5 => packet[HEADER_LENGTH + 7] ^= 1 << random.below(8),
        _ => {
            for _ in 0..=random.below(3) {
                let (byte, bit) = (random.below(packet.len() as u64) as usize, random.below(8));
                // In a run neither of these is checked of each packet, and neither changes what it brings.
                let is_spared = (byte, bit) == (0, 3) || (HEADER_LENGTH - 4..HEADER_LENGTH).contains(&byte);
                packet[byte] ^= u8::from(!is_spared) << bit;
            }
        }
    }
}

#[test]
fn any_faults_in_any_messages_change_nothing_for_the_others() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, mut runs) = (number("WEFT_EDGE_SEED").unwrap_or(0), 0);
    let count = number("WEFT_EDGE_RUNS").unwrap_or(300);
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let mut packets = any_messages(&mut random);
        for _ in 0..random.below(6) {
            spoil_any(&mut random, &mut packets);
        }
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|(_, packet)| packet).collect();
        let ([together, apart], [all, each]) = received(&packets);
        assert!(all.bytes == each.bytes, "seed {seed}: {} and {} bytes", all.bytes.len(), each.bytes.len());
        assert_eq!(together.counters(), apart.counters(), "seed {seed}");
        runs += all.runs;
    }
    assert!(runs as u64 > count, "{runs} runs");
}

/// Writes of one region, one behind the other.
struct Writes {
    left: u32,
    offset: u64,
    header: Vec<u8>,
}

impl Writes {
    fn give(&mut self, budget: u32, packets: u32) -> Option<(Segment<'_>, u32)> {
        let room = budget - TAGGED_LENGTH as u32;
        let length = self.left.min(room * packets);
        self.left -= length;
        let mut header = [0; TAGGED_LENGTH];
        let target = Target::Tagged { stag: Stag(7), offset: self.offset };
        Header { last: self.left == 0, control: 0x40, target }.emit(&mut header);
        self.header = header.to_vec();
        let gather = Slice { region: RegionId { index: 0, generation: 0 }, offset: self.offset, length }.into();
        self.offset += u64::from(length);
        let (bytes, options, ack_now) = (&[], Options::default(), self.left == 0);
        (length > 0)
            .then_some((Segment { header: &self.header, bytes, gather, is_steady: true, ack_now, options }, room))
    }
}

impl Source for Writes {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        self.give(budget, 1).map(|(segment, _)| segment)
    }

    fn next_run(&mut self, budget: u32, most: u32, _: u32) -> Option<(Segment<'_>, u32)> {
        self.give(budget, most)
    }
}

/// The bytes of the region.
fn gathered(gather: &Gather) -> Vec<u8> {
    gather.slices().iter().flat_map(|slice| bytes(0, slice.offset, slice.length as usize)).collect()
}

/// The datagrams of a batch.
fn datagrams(batch: &Batch) -> Vec<Vec<u8>> {
    let bytes_of = |piece: &Piece| match piece {
        Piece::Row { .. } => unreachable!("a row has nothing but datagrams"),
        Piece::Bytes { start, length } => batch.bytes[*start as usize..][..*length as usize].to_vec(),
        Piece::Payload { start, length, gather, .. } => {
            let payload = [&batch.bytes[*start as usize..][..*length as usize], &gathered(gather)].concat();
            [&payload[..], &Crc32c::of(&payload).to_be_bytes()].concat()
        }
    };
    let whole = |(datagram, index): (&weft_edge::Datagram, u32)| -> Vec<u8> {
        let pieces = &batch.pieces[datagram.pieces.clone()];
        let of_row = pieces[0].of_row(index);
        let bytes: Vec<u8> = of_row.as_ref().map_or(pieces, |row| &row[..]).iter().flat_map(bytes_of).collect();
        assert_eq!(bytes.len(), datagram.length);
        bytes
    };
    let all = batch.datagrams.iter().flat_map(|datagram| (0..datagram.count).map(move |index| (datagram, index)));
    all.map(whole).collect()
}

/// Two sides, and what the second has.
struct Pair {
    sides: [Connection; 2],
    store: Store,
    now: Time,
}

impl Pair {
    fn send(&mut self, side: usize, source: &mut impl Source) -> Vec<Vec<u8>> {
        let mut sent = vec![];
        let mut batch = Batch::new(64, 1 << 18);
        loop {
            let more = self.sides[side].transmit(source, self.now, &mut batch);
            sent.extend(datagrams(&batch));
            batch.clear();
            if !more {
                return sent;
            }
        }
    }

    fn bring(&mut self, side: usize, packets: &[Vec<u8>]) {
        let meta = Meta { from: address(1 - side), local: 0, ecn: 0, now: self.now };
        for (bytes, size) in joined(packets) {
            self.sides[side].receive_all(&bytes, size, &meta, &mut self.store);
        }
    }

    /// The second side acknowledges what it has.
    fn answer(&mut self) {
        self.now = self.now + 2 * MS;
        let packets = self.send(1, &mut Nothing);
        self.bring(0, &packets);
    }

    /// A pair that has exchanged so much that runs are long.
    fn warm() -> (Self, u64) {
        let now = Time::from_nanos(1_000_000_000);
        let mut pair = Self { sides: [0, 1].map(|side| connection(side, now)), store: Store::default(), now };
        let mut source = Writes { left: 400_000, offset: 0, header: vec![] };
        for _ in 0..1000 {
            let packets = pair.send(0, &mut source);
            pair.bring(1, &packets);
            pair.answer();
            if source.left == 0 && pair.sides[0].acknowledged() == pair.sides[0].next_position() {
                return (pair, source.offset);
            }
        }
        panic!("not all was acknowledged: {:?}", pair.sides[0].counters());
    }
}

#[test]
fn half_a_run_is_acknowledged_and_only_the_rest_is_sent_again() {
    type Misses = fn(usize) -> bool;
    let misses: [(&str, Misses); 4] = [
        ("the first half", |at| at < 10),
        ("the second half", |at| at >= 10),
        ("every second one", |at| at % 2 == 1),
        ("one in the middle", |at| at == 7),
    ];
    for (what, misses) in misses {
        let (mut pair, offset) = Pair::warm();
        assert!(pair.store.runs > 5, "{} runs", pair.store.runs);
        let repeated = pair.sides[0].counters().segments_repeated;
        let begin = pair.sides[0].next_position();
        // Full packets.
        let part = pair.sides[0].datagram_size() - HEAD - 4;
        let mut source = Writes { left: 20 * part as u32, offset, header: vec![] };
        let mut packets = vec![];
        while packets.len() < 20 {
            packets.extend(pair.send(0, &mut source));
            pair.now = pair.now + MS;
        }
        assert!(packets.len() == 20 && packets.iter().all(|packet| packet.len() == HEAD + part + 4), "{what}");
        let come: Vec<Vec<u8>> =
            packets.into_iter().enumerate().filter(|(at, _)| !misses(*at)).map(|(_, packet)| packet).collect();
        let missing = 20 - come.len() as u64;
        pair.bring(1, &come);
        pair.answer();
        let first = (0..20).find(|at| misses(*at)).unwrap() as u64;
        assert_eq!(pair.sides[0].acknowledged(), begin + first * part as u64, "{what}");
        for _ in 0..20 {
            if let Some(at) = pair.sides[0].next_timeout() {
                pair.now = pair.now.max(at);
                pair.sides[0].handle_timeout(pair.now);
            }
            let packets = pair.send(0, &mut source);
            pair.bring(1, &packets);
            pair.answer();
        }
        assert_eq!(pair.sides[0].acknowledged(), pair.sides[0].next_position(), "{what}");
        let again = pair.sides[0].counters().segments_repeated - repeated;
        // Where the end is missing, probes tell first.
        assert!((missing..=missing + 4).contains(&again), "{what}: {again} were sent again");
        let sent = pair.sides[0].next_position();
        let placed = pair.store.bytes.range(begin..sent).count() as u64;
        assert_eq!(placed, 20 * part as u64, "{what}");
    }
}
