//! A peer that sends whatever it likes: no byte lands outside what was granted, no byte leaves that was not, nothing
//! panics, and every request completes exactly once.

use crate::pair::{Area, Flying, Rights, Side, config, gather, inline, memory, send, target};
use proptest::prelude::*;
use weft_base::{MessageNumber, Random, Slice, Stag};
use weft_rdmap::{Arrival, AtomicCode, Closed, Operation, Role, StreamConfig};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, Receipt};

/// Stands in everything that a peer may not read.
const SECRET: u8 = 0xee;

/// A stream with work under way, and memory around it.
struct Scene {
    side: Side,
    window: Area,
    shelf: Area,
    cells: Area,
    inbox: Area,
    sink: Area,
    private: Area,
    foreign: Area,
    /// What the peer might know or guess.
    stags: Vec<Stag>,
    /// Requests: send ids, receive ids.
    posted: [u64; 2],
    random: Random,
    /// Where the next segment starts that has not come.
    position: u64,
    /// Those that came before their turn.
    early: Vec<u64>,
    /// The next message on each queue, for the segments that keep to the rules.
    next_number: [u32; 5],
    /// Receipts are agreed.
    receipts: bool,
    /// What it has promised.
    limit: u32,
    /// The sinks of reads that were asked for, oldest first.
    asked: Vec<Stag>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let registry = memory::registry();
        let domain = memory::other_domain(&registry);
        let area = |rights| Area::new(&registry, 512, rights);
        let extensions = !random.one_in(8);
        let reorder_limit = random.below(8) as usize;
        let ordered_writes = random.one_in(2);
        let limits = StreamConfig { receive_depth: 4, ird: 2, ord: 8, ..config(Role::Responder) };
        let receipts = seed.is_multiple_of(3);
        let config = StreamConfig { extensions, receipts, reorder_limit, ordered_writes, ..limits };
        let mut scene = Self {
            side: Side::new(&registry, config),
            window: area(Rights::Write),
            shelf: area(Rights::Read),
            cells: area(Rights::Atomic),
            inbox: area(Rights::Local),
            sink: area(Rights::Local),
            private: area(Rights::Local),
            foreign: Area::in_domain(&registry, domain, 512, Rights::All),
            stags: Vec::new(),
            posted: [0, 0],
            random,
            position: 0,
            early: Vec::new(),
            next_number: [1; 5],
            receipts,
            limit: 1,
            asked: Vec::new(),
        };
        for area in [&scene.window, &scene.inbox, &scene.sink, &scene.private, &scene.foreign, &scene.cells] {
            area.write(0, &[SECRET; 512]);
        }
        for area in [&scene.window, &scene.shelf, &scene.cells, &scene.private, &scene.foreign] {
            scene.stags.push(area.stag);
        }
        scene.post_work(extensions);
        scene
    }

    fn post_work(&mut self, extensions: bool) {
        for id in 0..6 {
            self.side.post_receive(id, self.inbox.slice(id * 40, 20));
            self.posted[1] += 1;
        }
        for id in 0..8 {
            let operation = match self.random.below(if extensions { 4 } else { 3 }) {
                0 => send(gather(self.private.slice(0, 300))),
                1 => Operation::Write { payload: inline(&[SECRET; 9]), target: target(Stag(1), 1) },
                2 => Operation::Read { sink: self.sink.slice(id * 40, 20).into(), source: target(Stag(1), 1) },
                _ => Operation::Atomic {
                    code: AtomicCode::FetchAdd,
                    data: 1,
                    mask: 0,
                    compare: 0,
                    compare_mask: 0,
                    sink: self.sink.slice(id * 40, 8),
                    target: target(Stag(1), 8),
                },
            };
            self.side.post(id, operation);
            self.posted[0] += 1;
        }
    }

    /// What a peer may change: its window, the receive buffers and sinks that wait for it, and the cells.
    fn may_change(&self, slice: &Slice) -> bool {
        let is_in = |area: &Area| {
            let whole = area.whole();
            slice.region.index == whole.region.index && slice.offset + u64::from(slice.length) <= whole.length.into()
        };
        let is_in_slot = slice.offset % 40 + u64::from(slice.length) <= 20;
        is_in(&self.window) || (is_in(&self.inbox) || is_in(&self.sink)) && is_in_slot
    }

    /// What was sent may have told the peer STags of sinks. It must not have told it anything that it may not read.
    fn watch(&mut self, bytes: &[u8]) -> Result<(), String> {
        let header = Header::parse(bytes).unwrap();
        match Control::parse(header.control).unwrap().opcode {
            Opcode::ReadRequest => {
                let sink = Stag(u32::from_be_bytes(bytes[18..22].try_into().unwrap()));
                self.stags.push(sink);
                self.asked.push(sink);
            }
            Opcode::ReadResponse if bytes[14..].contains(&SECRET) => return Err("a secret was read".to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn stag(&mut self) -> Stag {
        let pick = self.random.below(self.stags.len() as u64 + 1) as usize;
        self.stags.get(pick).copied().unwrap_or(Stag(self.random.next_u64() as u32))
    }

    fn offset(&mut self) -> u64 {
        match self.random.below(8) {
            0 => self.random.next_u64(),
            1 => u64::MAX - self.random.below(16),
            2 => self.random.below(64),
            _ => 0x1000 + self.random.below(600) / 8 * 8,
        }
    }

    fn message(&mut self) -> Vec<u8> {
        let codes = [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 10, 11, 12];
        let code = codes[self.random.below(codes.len() as u64) as usize];
        let control = 0x40 | code;
        let opcode = Control::parse(control).ok().map(|control| control.opcode);
        let is_tagged = opcode.is_some_and(Opcode::is_tagged) != self.random.one_in(30);
        let target = if is_tagged {
            let offset = if opcode == Some(Opcode::ReadResponse) { self.random.below(24) } else { self.offset() };
            Target::Tagged { stag: self.stag(), offset }
        } else {
            let queue = opcode.and_then(Opcode::queue).filter(|_| !self.random.one_in(20));
            Target::Untagged {
                word: self.stag().0,
                queue: queue.unwrap_or(self.random.below(6) as u32),
                number: MessageNumber(1 + self.random.below(3) as u32),
                offset: if self.random.one_in(5) { self.random.below(30) as u32 } else { 0 },
            }
        };
        let header = Header { last: !self.random.one_in(5), control, target };
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        let payload = self.payload(opcode);
        bytes.extend(payload);
        bytes
    }

    fn payload(&mut self, opcode: Option<Opcode>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match opcode {
            Some(Opcode::ReadRequest) => {
                bytes.extend(self.stag().0.to_be_bytes());
                bytes.extend(self.offset().to_be_bytes());
                bytes.extend((self.random.below(700) as u32).to_be_bytes());
                bytes.extend(self.stag().0.to_be_bytes());
                bytes.extend(self.offset().to_be_bytes());
            }
            Some(Opcode::AtomicRequest) => {
                bytes.extend((self.random.below(4) as u32).to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(self.stag().0.to_be_bytes());
                bytes.extend(self.offset().to_be_bytes());
                bytes.extend([1; 32]);
            }
            Some(Opcode::Immediate | Opcode::ImmediateSolicited) => bytes.extend([7; 8]),
            Some(Opcode::AtomicResponse) => {
                bytes.extend((self.random.below(3) as u32).to_be_bytes());
                bytes.extend([9; 8]);
            }
            Some(Opcode::Terminate) => bytes.extend([0x01, 0x02, 0, 0]),
            Some(Opcode::Receipt) => {
                bytes.extend([self.random.below(2) as u8, 0, 0, 0]);
                bytes.extend([(); 2].map(|()| (self.random.below(8) as u32).wrapping_sub(2).to_be_bytes()).concat());
                bytes.extend(self.random.below(3).to_be_bytes());
            }
            _ => bytes.resize(self.random.below(40) as usize, 0x11),
        }
        if self.random.one_in(20) {
            bytes.truncate(self.random.below(bytes.len() as u64 + 1) as usize);
        }
        bytes
    }

    /// A message that keeps to the rules, so that the stream lives long enough to be attacked in earnest.
    fn polite_message(&mut self) -> Vec<u8> {
        let (opcode, payload) = match self.random.below(6) {
            _ if self.receipts && self.random.one_in(3) => {
                self.limit += self.random.below(3) as u32;
                let (limit, wanted) = (MessageNumber(self.limit), MessageNumber(1 << 30));
                let receipt = Receipt { asks: self.random.one_in(2), limit, wanted, placed: 0 };
                (Opcode::Receipt, receipt.emit().to_vec())
            }
            0 => (Opcode::Send, vec![0x22; self.random.below(21) as usize]),
            1 => (Opcode::Write, vec![0x33; self.random.below(100) as usize]),
            2 => {
                let mut request = self.payload(Some(Opcode::ReadRequest));
                request.resize(28, 0);
                request[12..16].copy_from_slice(&40_u32.to_be_bytes());
                request[16..20].copy_from_slice(&self.shelf.stag.0.to_be_bytes());
                request[20..28].copy_from_slice(&(self.shelf.base + self.random.below(400)).to_be_bytes());
                (Opcode::ReadRequest, request)
            }
            3 => {
                let mut request = self.payload(Some(Opcode::AtomicRequest));
                request.resize(52, 0);
                request[3] = 0;
                request[8..12].copy_from_slice(&self.cells.stag.0.to_be_bytes());
                request[12..20].copy_from_slice(&(self.cells.base + 8 * self.random.below(64)).to_be_bytes());
                (Opcode::AtomicRequest, request)
            }
            _ if !self.asked.is_empty() => (Opcode::ReadResponse, vec![0x44; 20]),
            _ => (Opcode::Write, vec![]),
        };
        let target = match opcode.queue() {
            Some(queue) => {
                let number = &mut self.next_number[queue as usize];
                *number += 1;
                Target::Untagged { word: 0, queue, number: MessageNumber(*number - 1), offset: 0 }
            }
            None if opcode == Opcode::ReadResponse => Target::Tagged { stag: self.asked.remove(0), offset: 0 },
            None => Target::Tagged { stag: self.window.stag, offset: self.window.base + self.random.below(400) },
        };
        let header = Header { last: true, control: Control { opcode }.emit(), target };
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        bytes.extend(payload);
        bytes
    }

    fn segment(&mut self) -> Flying {
        if !self.random.one_in(5) {
            let mut bytes = self.polite_message();
            let early = if self.random.one_in(6) { 1 + self.random.below(3) } else { 0 };
            if self.random.one_in(15) {
                bytes.resize(bytes.len() + self.random.below(30) as usize, 0x55);
            }
            let start = self.position + early;
            return Flying { arrival: Arrival { start, end: start + 1 }, bytes };
        }
        let mut bytes = self.message();
        if self.random.one_in(10) {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        if self.random.one_in(40) {
            bytes.truncate(self.random.below(20) as usize);
        }
        let start = match self.random.below(6) {
            0 => self.position + self.random.below(4),
            1 => self.random.below(self.position + 1),
            _ => self.position,
        };
        Flying { arrival: Arrival { start, end: start + 1 }, bytes }
    }

    /// One segment of the peer.
    fn attack(&mut self) -> Result<(), String> {
        let flying = self.segment();
        let Ok(placement) = self.side.locate(&flying) else { return Ok(()) };
        if let Some(slice) = placement.sink.slices().iter().find(|slice| !self.may_change(slice)) {
            return Err(format!("{slice:?} is not the peer's to change"));
        }
        if self.random.one_in(20) {
            // Its CRC was bad after all, and the lower layer has not decided to give up.
            return Ok(());
        }
        self.side.place(&flying, &placement);
        let _ = self.side.stream.handle_placed(&placement);
        if flying.arrival.start >= self.position {
            self.early.push(flying.arrival.start);
        }
        while let Some(at) = self.early.iter().position(|start| *start == self.position) {
            self.early.swap_remove(at);
            self.position += 1;
        }
        self.side.poll();
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.side.stream.grant(&mut self.side.receives);
        match self.random.below(5) {
            0 => {
                if let Some(flying) = self.side.transmit(128 + self.random.below(300) as u32) {
                    self.watch(&flying.bytes)?;
                    self.side.stream.handle_sent(1);
                    self.side.poll();
                }
                Ok(())
            }
            _ => self.attack(),
        }
    }

    /// Nothing is left over, and nothing was touched that must not be.
    fn finish(mut self) -> Result<(), String> {
        self.side.close_below(Closed::Reset);
        let ids = |completions: &[weft_rdmap::Completion]| completions.iter().map(|c| c.id).collect::<Vec<_>>();
        for (ids, posted) in [(ids(&self.side.sent), self.posted[0]), (ids(&self.side.received), self.posted[1])] {
            if ids != (0..posted).collect::<Vec<_>>() {
                return Err(format!("completions of {ids:?}, posted {posted}"));
            }
        }
        let is_whole = |area: &Area| area.bytes() == [SECRET; 512];
        if !is_whole(&self.private) || !is_whole(&self.foreign) || self.shelf.bytes() != [0; 512] {
            return Err("memory that was not granted has changed".to_owned());
        }
        let gaps = |area: &Area| area.bytes().chunks(40).all(|chunk| chunk.iter().skip(20).all(|byte| *byte == SECRET));
        if !gaps(&self.inbox) || !gaps(&self.sink) {
            return Err("bytes between the buffers have changed".to_owned());
        }
        let areas = [&self.window, &self.shelf, &self.cells, &self.inbox, &self.sink, &self.private];
        if areas.iter().any(|area| area.pins() > 0) {
            return Err("pins are left".to_owned());
        }
        Ok(())
    }
}

fn siege(seed: u64, steps: usize) -> Result<(), String> {
    let mut scene = Scene::new(seed);
    for _ in 0..steps {
        scene.step()?;
    }
    scene.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_peer_gets_nowhere(seed in any::<u64>(), steps in 1..60_usize) {
        siege(seed, steps).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn arbitrary_bytes_get_nowhere(
        segments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..8),
    ) {
        let mut scene = Scene::new(1);
        for bytes in segments {
            let arrival = Arrival { start: scene.position, end: scene.position + 1 };
            scene.position += u64::from(scene.side.take(&Flying { arrival, bytes }).is_ok());
        }
        scene.finish().map_err(TestCaseError::fail)?;
    }
}

/// The attack reaches what is granted, so the checks above would see it reach more.
#[test]
fn the_checks_see_what_a_peer_does() {
    let mut changed = [false; 4];
    for seed in 0..400 {
        let mut scene = Scene::new(seed);
        for _ in 0..40 {
            scene.step().unwrap();
        }
        let is_changed =
            [&scene.window, &scene.inbox, &scene.sink, &scene.cells].map(|area| area.bytes() != [SECRET; 512]);
        changed = core::array::from_fn(|at| changed[at] | is_changed[at]);
        // What is granted and what is not are told apart by the very check that the attack runs under.
        assert!(scene.may_change(&scene.window.slice(0, 512)));
        assert!(!scene.may_change(&scene.private.slice(0, 1)));
        assert!(!scene.may_change(&scene.inbox.slice(15, 10)));
    }
    assert_eq!(changed, [true; 4], "window, inbox, sink, cells");
}

/// A write behind the stream's back is found.
#[test]
fn a_stray_byte_is_noticed() {
    for stray in [|scene: &Scene| scene.private.write(7, &[1]), |scene: &Scene| scene.inbox.write(30, &[1])] {
        let scene = Scene::new(3);
        stray(&scene);
        assert!(scene.finish().is_err());
    }
    let mut scene = Scene::new(3);
    scene.posted[0] += 1;
    assert!(scene.finish().is_err());
}
