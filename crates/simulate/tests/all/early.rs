//! Out-of-order iWARP below RDMAP, in virtual time: Weft's TCP shows segments as they come, and MPA finds the FPDUs
//! in them. So what is late holds up nothing else, and next to nothing is buffered.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use weft_base::{Random, StreamPosition, Time};
use weft_mpa::{Framer, MarkerSpacing, Reassembler, ReassemblerLimits};
use weft_tcp::{Answer, Connection, Flow, InitialNumbers, Listener, Outgoing, ReceivePolicy, Segment, Settings, State};

const FPDUS: u32 = 2000;
const DELAY: Duration = Duration::from_micros(500);
const MARKERS: Option<MarkerSpacing> = Some(MarkerSpacing::Standard);

/// What the network does: one segment in this many, 0 for none.
#[derive(Clone, Copy, Default)]
struct Faults {
    late: u64,
    lost: u64,
    cut: u64,
}

/// What the receiver has seen.
struct Seen {
    reassembler: Reassembler,
    found: BTreeSet<u64>,
    most_held: usize,
}

impl Seen {
    /// What TCP shows, to MPA.
    fn show(&mut self, position: StreamPosition, bytes: &[u8]) -> bool {
        let found = &mut self.found;
        let kept = self.reassembler.take(position, bytes, &mut |range, frame| {
            assert!(frame.ulpdu().flatten().all(|byte| *byte == range.start.0 as u8), "not what was sent");
            assert!(found.insert(range.start.0), "{range:?} is handed up twice");
        });
        self.most_held = self.most_held.max(self.reassembler.held());
        kept.expect("no FPDU is damaged")
    }
}

struct World {
    now: Time,
    caller: Connection,
    listener: Listener,
    callee: Option<Box<Connection>>,
    seen: Seen,
    wire: BTreeMap<(Time, u64), (bool, Segment, Vec<u8>)>,
    random: Random,
    faults: Faults,
    number: u64,
    framer: Framer,
    starts: BTreeSet<u64>,
    waiting: Option<Vec<u8>>,
    closed: bool,
}

fn flow() -> Flow {
    Flow { local: ([10, 0, 0, 1], 1).into(), remote: ([10, 0, 0, 2], 2).into() }
}

fn other() -> Flow {
    Flow { local: flow().remote, remote: flow().local }
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let settings = Settings { policy: ReceivePolicy::Place, ..Settings::default() };
        let now = Time::from_nanos(1_000_000_000);
        let limits = ReassemblerLimits::default();
        let reassembler = Reassembler::new(MARKERS, true, limits);
        Self {
            now,
            caller: Connection::connect(flow(), settings, 5, now).unwrap(),
            listener: Listener::new(settings, InitialNumbers::new(&[3; 32]), 4).unwrap(),
            callee: None,
            seen: Seen { reassembler, found: BTreeSet::new(), most_held: 0 },
            wire: BTreeMap::new(),
            random: Random::new(seed),
            faults,
            number: 0,
            framer: Framer::new(MARKERS, true),
            starts: BTreeSet::new(),
            waiting: None,
            closed: false,
        }
    }

    fn run(mut self) -> Self {
        while !self.callee.as_ref().is_some_and(|callee| callee.is_finished()) {
            self.write();
            self.transmit();
            let timers = [self.caller.next_timeout(), self.callee.as_ref().and_then(|one| one.next_timeout())];
            let arrival = self.wire.keys().next().map(|(at, _)| *at);
            self.now = timers.into_iter().chain([arrival]).flatten().min().expect("it hangs").max(self.now);
            assert_eq!(self.caller.error(), None);
            self.caller.handle_timeout(self.now);
            if let Some(callee) = &mut self.callee {
                callee.handle_timeout(self.now);
            }
            self.deliver();
        }
        assert_eq!(self.seen.found, self.starts);
        assert!(self.seen.reassembler.is_complete());
        self
    }

    /// FPDUs as large as a segment carries, each of one byte again and again.
    fn write(&mut self) {
        if !self.caller.state().is_synchronised() || self.closed {
            return;
        }
        loop {
            let fpdu = match self.waiting.take() {
                Some(fpdu) => fpdu,
                None if self.starts.len() as u32 == FPDUS => {
                    self.closed = true;
                    return self.caller.close();
                }
                None => self.next_fpdu(),
            };
            if !self.caller.write_unit(&fpdu) {
                self.waiting = Some(fpdu);
                return;
            }
        }
    }

    fn next_fpdu(&mut self) -> Vec<u8> {
        let largest = self.framer.max_ulpdu(self.caller.segment_size() as u32, false);
        let layout = self.framer.frame(largest);
        let start = layout.start().0;
        self.starts.insert(start);
        let ulpdu = vec![start as u8; largest as usize];
        let mut fpdu = vec![0; layout.length()];
        let Ok(()) = layout.write(&[], &mut &ulpdu[..], &mut fpdu);
        fpdu
    }

    fn transmit(&mut self) {
        while let Some(outgoing) = self.caller.poll_transmit(self.now) {
            let payload = payload(&self.caller, &outgoing);
            self.launch(true, outgoing.segment, payload);
        }
        while let Some(mut callee) = self.callee.take() {
            let outgoing = callee.poll_transmit(self.now);
            self.callee = Some(callee);
            let Some(outgoing) = outgoing else { break };
            self.launch(false, outgoing.segment, Vec::new());
        }
    }

    fn launch(&mut self, forth: bool, segment: Segment, payload: Vec<u8>) {
        if payload.len() > 1 && self.happens(self.faults.cut) {
            let at = 1 + self.random.below(payload.len() as u64 - 1) as usize;
            let mut first = segment.clone();
            first.flags.fin = false;
            let second = Segment { sequence: segment.sequence.wrapping_add(at as u32), ..segment };
            self.put(forth, first, payload[..at].to_vec());
            self.put(forth, second, payload[at..].to_vec());
        } else {
            self.put(forth, segment, payload);
        }
    }

    fn put(&mut self, forth: bool, segment: Segment, payload: Vec<u8>) {
        if self.happens(self.faults.lost) {
            return;
        }
        let late = if self.happens(self.faults.late) { self.random.below(200_000) } else { 0 };
        self.number += 1;
        let at = self.now + DELAY + Duration::from_nanos(late);
        self.wire.insert((at, self.number), (forth, segment, payload));
    }

    fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.one_in(one_in)
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (forth, segment, payload) = entry.remove();
            if forth {
                self.arrive(&segment, &payload);
            } else {
                self.caller.handle(&segment, &payload, &mut |_: StreamPosition, _: &[u8]| true, self.now);
            }
        }
    }

    fn arrive(&mut self, segment: &Segment, payload: &[u8]) {
        if self.callee.is_none() {
            match self.listener.handle(&other(), segment, payload.len(), self.now) {
                Answer::Nothing => return,
                Answer::Reply(reply) => return self.put(false, reply, Vec::new()),
                Answer::Accepted(connection) => self.callee = Some(connection),
            }
        }
        let (callee, seen) = (self.callee.as_mut().expect("it was accepted"), &mut self.seen);
        let mut sink = |position: StreamPosition, bytes: &[u8]| seen.show(position, bytes);
        callee.handle(segment, payload, &mut sink, self.now);
        assert_ne!(callee.state(), State::Closed);
    }
}

fn payload(connection: &Connection, outgoing: &Outgoing) -> Vec<u8> {
    let mut payload = vec![0; outgoing.payload_length()];
    connection.copy_payload(&outgoing.payload, &mut payload);
    payload
}

#[test]
fn in_order_nothing_is_kept() {
    let world = World::new(1, Faults::default()).run();
    assert_eq!((world.seen.most_held, world.seen.reassembler.early()), (0, 0));
}

#[test]
fn with_five_percent_late_all_is_placed_at_once_and_nothing_is_kept() {
    let world = World::new(2, Faults { late: 20, ..Faults::default() }).run();
    assert_eq!(world.seen.most_held, 0, "each segment is an FPDU, in which a marker stands");
    let early = world.seen.reassembler.early();
    assert!(early > 200, "{early} of {FPDUS} came early");
}

#[test]
fn lost_segments_hold_up_only_themselves() {
    let world = World::new(3, Faults { lost: 50, late: 20, ..Faults::default() }).run();
    assert_eq!(world.seen.most_held, 0);
    assert!(world.seen.reassembler.early() > 500);
}

#[test]
fn when_a_middlebox_cuts_only_parts_are_kept() {
    for seed in 4..10 {
        let world = World::new(seed, Faults { late: 20, lost: 100, cut: 3 }).run();
        let held = world.seen.most_held;
        assert!(held > 0 && held < 30_000, "{held} bytes were kept");
        assert!(world.seen.reassembler.early() > 500);
    }
}
