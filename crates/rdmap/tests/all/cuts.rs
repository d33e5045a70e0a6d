//! Where a lower layer cuts segments again, whatever it makes of a message: two cuttings, any order, any loss. Each
//! byte is placed once, and memory and completions are those of the messages.

use crate::pair::{Area, Flying, Refused, Rights, Side, config, memory};
use proptest::prelude::*;
use weft_base::{MessageNumber, Random};
use weft_rdmap::{Arrival, Later, LowerTraits, Role, State, Status, StreamConfig, Violation};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, queue};

/// Bytes of the longest message.
const LONGEST: u32 = 3000;

/// A message: a Send or a Write, its bytes, and where it stands in the order.
struct Message {
    target: Target,
    opcode: Opcode,
    start: u64,
    bytes: Vec<u8>,
}

impl Message {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64 + 1
    }

    /// The segment with these bytes of it.
    fn part(&self, from: usize, to: usize) -> Flying {
        let last = to == self.bytes.len();
        let mut target = self.target;
        match &mut target {
            Target::Tagged { offset, .. } => *offset += from as u64,
            Target::Untagged { offset, .. } => *offset += from as u32,
        }
        let header = Header { last, control: Control { opcode: self.opcode }.emit(), target };
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        bytes.extend(&self.bytes[from..to]);
        let start = self.start + from as u64;
        let end = if last { self.end() } else { self.start + to as u64 };
        Flying { arrival: Arrival { start, end }, bytes }
    }

    /// All of it, cut at random.
    fn cut(&self, random: &mut Random) -> Vec<Flying> {
        let mut parts = Vec::new();
        let mut from = 0;
        loop {
            let to = (from + 1 + random.below(900) as usize).min(self.bytes.len());
            parts.push(self.part(from, to));
            if to == self.bytes.len() {
                return parts;
            }
            from = to;
        }
    }
}

/// A receiver of such messages.
struct Receiver {
    side: Side,
    window: Area,
    inbox: Area,
    messages: Vec<Message>,
    /// How often each position was placed.
    placed: Vec<u8>,
}

impl Receiver {
    fn new(lengths: &[(bool, u32)], lower: LowerTraits, seed: u64) -> Self {
        let registry = memory::registry();
        let config = StreamConfig { reorder_limit: 4096, lower, ..config(Role::Responder) };
        let side = Side::new(&registry, config);
        let room = LONGEST * lengths.len() as u32;
        let window = Area::new(&registry, room, Rights::Write);
        let inbox = Area::new(&registry, room, Rights::Local);
        let mut random = Random::new(seed);
        let (mut start, mut number) = (0, 0);
        let messages: Vec<Message> = lengths
            .iter()
            .enumerate()
            .map(|(index, (is_send, length))| {
                let at = index as u64 * u64::from(LONGEST);
                number += u32::from(*is_send);
                let (target, opcode) = if *is_send {
                    (
                        Target::Untagged { word: 0, queue: queue::SEND, number: MessageNumber(number), offset: 0 },
                        Opcode::Send,
                    )
                } else {
                    (Target::Tagged { stag: window.stag, offset: window.base + at }, Opcode::Write)
                };
                let bytes = (0..*length).map(|_| random.next_u64() as u8).collect();
                let message = Message { target, opcode, start, bytes };
                start = message.end();
                message
            })
            .collect();
        Self { side, window, inbox, messages, placed: vec![0; start as usize] }
    }

    fn post(&mut self, sends: u64) {
        for id in 0..sends {
            self.side.post_receive(id, self.inbox.slice(id * u64::from(LONGEST), LONGEST));
        }
    }

    /// A segment comes. Returns whether all of it is in place then.
    fn take(&mut self, flying: &Flying) -> bool {
        let header = Header::parse(&flying.bytes).unwrap().length() as u32;
        loop {
            let placement = match self.side.locate(flying) {
                Ok(placement) => placement,
                Err(Refused::Drop) => return true,
                Err(Refused::Later(_)) => return false,
                Err(Refused::Violation(violation)) => panic!("{violation}"),
            };
            let from = flying.arrival.start + u64::from(placement.header_length - header);
            for position in from..from + u64::from(placement.sink.length()) {
                self.placed[position as usize] += 1;
            }
            self.side.place(flying, &placement);
            let is_partial = placement.is_partial;
            self.side.stream.handle_placed(&placement).unwrap();
            self.side.poll();
            if !is_partial {
                return true;
            }
        }
    }

    /// Everything is as the messages say.
    fn check(&self) {
        let mut number = 0;
        for (index, message) in self.messages.iter().enumerate() {
            let (area, at) = match message.opcode {
                Opcode::Send => (&self.inbox, number),
                _ => (&self.window, index),
            };
            let at = at * LONGEST as usize;
            assert!(area.bytes()[at..at + message.bytes.len()] == message.bytes, "message {index}");
            let start = message.start as usize;
            assert!(self.placed[start..start + message.bytes.len()].iter().all(|times| *times == 1), "message {index}");
            number += usize::from(message.opcode == Opcode::Send);
        }
        let expected: Vec<(u64, Status)> = (0..number as u64).map(|id| (id, Status::Success)).collect();
        assert_eq!(self.side.received_ids(), expected);
        assert_eq!(self.side.stream.state(), State::Established);
    }
}

const CUTS: LowerTraits = LowerTraits { placements: 1, cuts_again: true, holds_back: true };

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_two_cuttings_in_any_order_place_each_byte_once(
        lengths in prop::collection::vec((any::<bool>(), 0..LONGEST), 1..8), seed: u64,
    ) {
        let sends = lengths.iter().filter(|(is_send, _)| *is_send).count() as u64;
        let mut receiver = Receiver::new(&lengths, CUTS, seed);
        let mut random = Random::new(seed ^ 1);
        // Some receives come late.
        let early = random.below(sends + 1);
        receiver.post(early);
        let mut on_the_way = Vec::new();
        for message in &receiver.messages {
            for cutting in [message.cut(&mut random), message.cut(&mut random)] {
                // What is lost here the other cutting brings, or a later round.
                on_the_way.extend(cutting.into_iter().filter(|_| !random.one_in(3)));
            }
        }
        shuffle(&mut on_the_way, &mut random);
        for flying in &on_the_way {
            receiver.take(flying);
        }
        for id in early..sends {
            receiver.side.post_receive(id, receiver.inbox.slice(id * u64::from(LONGEST), LONGEST));
        }
        let mut missing: Vec<Flying> =
            receiver.messages.iter().flat_map(|message| message.cut(&mut random)).collect();
        shuffle(&mut missing, &mut random);
        for _ in 0..=missing.len() {
            let mut again = Vec::new();
            for flying in missing {
                if !receiver.take(&flying) {
                    again.push(flying);
                }
            }
            missing = again;
        }
        prop_assert!(missing.is_empty(), "{} segments never find their turn", missing.len());
        receiver.check();
    }
}

#[test]
fn several_placements_are_out_at_a_time_and_come_back_in_any_order() {
    let lower = LowerTraits { placements: 4, ..CUTS };
    let mut receiver = Receiver::new(&[(false, 400), (true, 300)], lower, 7);
    receiver.post(1);
    let parts =
        [receiver.messages[0].part(0, 100), receiver.messages[0].part(100, 400), receiver.messages[1].part(0, 300)];
    let mut out: Vec<_> = parts.iter().map(|part| receiver.side.locate(part).unwrap()).collect();
    // What is being placed already must wait.
    let again = receiver.messages[0].part(50, 150);
    assert_eq!(receiver.side.locate(&again).unwrap_err(), Refused::Later(Later::Early));
    // One is given up: its range is free again.
    let given_up = out.remove(1);
    receiver.side.stream.abandon(&given_up);
    let second = receiver.messages[0].part(100, 400);
    out.push(receiver.side.locate(&second).unwrap());
    for (part, placement) in [&parts[0], &parts[2], &second].into_iter().zip(&out) {
        receiver.side.place(part, placement);
    }
    for placement in out.into_iter().rev() {
        receiver.side.stream.handle_placed(&placement).unwrap();
        receiver.side.poll();
    }
    assert!(receiver.side.stream.handle_placed(&given_up).is_ok(), "and counts for nothing");
    assert_eq!(receiver.side.received_ids(), [(0, Status::Success)]);
    assert_eq!(receiver.window.bytes()[..400], receiver.messages[0].bytes);
    assert_eq!(receiver.inbox.bytes()[..300], receiver.messages[1].bytes);
}

#[test]
fn a_send_without_a_receive_waits_where_the_lower_layer_holds_it_back() {
    let mut receiver = Receiver::new(&[(true, 10), (false, 10)], CUTS, 3);
    let parts = [receiver.messages[0].part(0, 10), receiver.messages[1].part(0, 10)];
    assert_eq!(receiver.side.locate(&parts[0]).unwrap_err(), Refused::Later(Later::NotReady));
    assert!(receiver.take(&parts[1]), "a write behind it is none of its business");
    receiver.post(1);
    assert!(receiver.take(&parts[0]));
    receiver.check();
}

#[test]
fn of_a_message_that_is_never_cut_no_part_is_taken() {
    let never = [
        (queue::SEND, Opcode::Immediate, 8),
        (queue::SEND, Opcode::ImmediateSolicited, 8),
        (queue::READ_REQUEST, Opcode::ReadRequest, 28),
    ];
    for (queue, opcode, payload) in never {
        let mut receiver = Receiver::new(&[(false, 100)], CUTS, 3);
        let write = receiver.messages[0].part(0, 100);
        assert!(receiver.take(&write));
        let header = Header {
            last: true,
            control: Control { opcode }.emit(),
            target: Target::Untagged { word: 0, queue, number: MessageNumber::FIRST, offset: 0 },
        };
        let mut bytes = vec![0; header.length() + payload];
        header.emit(&mut bytes);
        let (start, end) = (98, 98 + payload as u64 + 1);
        let refused = receiver.side.locate(&Flying { arrival: Arrival { start, end }, bytes }).unwrap_err();
        assert_eq!(refused, Refused::Violation(Violation::Overlap { start, end }), "{opcode:?}");
        assert_ne!(receiver.side.stream.state(), State::Established);
    }
}

type Change<'a> = &'a dyn Fn(&mut Header, &mut Arrival);

/// The middle of a message has come early, and then a segment around it that `change` has changed.
fn around(is_send: bool, change: Change<'_>) -> Result<(), Refused> {
    let mut receiver = Receiver::new(&[(is_send, 100), (is_send, 50)], CUTS, 3);
    receiver.post(2);
    let (middle, mut around) = (receiver.messages[0].part(40, 100), receiver.messages[0].part(20, 100));
    assert!(receiver.take(&middle));
    let mut header = Header::parse(&around.bytes).unwrap();
    change(&mut header, &mut around.arrival);
    header.emit(&mut around.bytes);
    receiver.side.locate(&around).map(drop)
}

#[test]
fn segments_that_overlap_must_say_the_same_of_their_bytes() {
    for is_send in [false, true] {
        assert_eq!(around(is_send, &|_, _| ()).err(), None);
        let other_place = |header: &mut Header, _: &mut Arrival| match &mut header.target {
            Target::Tagged { offset, .. } => *offset += 1,
            Target::Untagged { offset, .. } => *offset += 1,
        };
        let other_message = |header: &mut Header, _: &mut Arrival| match &mut header.target {
            Target::Tagged { stag, .. } => stag.0 ^= 1,
            Target::Untagged { number, .. } => *number = MessageNumber(2),
        };
        // The byte behind its end is the end of the one that came before.
        let other_end = |header: &mut Header, arrival: &mut Arrival| {
            header.last = false;
            arrival.start += 1;
        };
        let other_kind = |header: &mut Header, _: &mut Arrival| {
            let opcode = if is_send { Opcode::SendSolicited } else { Opcode::ReadResponse };
            header.control = Control { opcode }.emit();
        };
        let changes: [Change<'_>; 4] = [&other_place, &other_message, &other_end, &other_kind];
        for (number, change) in changes.into_iter().enumerate() {
            let refused = around(is_send, change).unwrap_err();
            let is_contradiction = matches!(refused, Refused::Violation(weft_rdmap::Violation::Contradiction { .. }));
            assert!(is_contradiction, "send: {is_send}, change {number}: {refused:?}");
        }
    }
}

#[test]
fn a_message_ends_where_its_early_end_was() {
    // One that came early has ended the message; one that overlaps it goes on behind.
    let mut receiver = Receiver::new(&[(false, 100)], CUTS, 3);
    let last = receiver.messages[0].part(60, 100);
    assert!(receiver.take(&last));
    let mut longer = receiver.messages[0].part(50, 99);
    longer.bytes.extend([0; 3]);
    longer.arrival.end += 3;
    assert_eq!(longer.arrival.end, last.arrival.end + 1);
    let refused = receiver.side.locate(&longer).unwrap_err();
    assert!(matches!(refused, Refused::Violation(weft_rdmap::Violation::Contradiction { .. })), "{refused:?}");
}
