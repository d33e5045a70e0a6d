//! The sending side of a world.

use std::collections::BTreeSet;

use weft_base::{Gather, Random, RegionId, Slice};
use weft_edge::{Connection, Options, Segment, Source};
use weft_wire::ddp::{Header, Target};

use super::{content, fill};

/// The messages that one side sends: tagged and gathered, or untagged and inline.
pub(crate) struct Sender {
    /// Bytes left of the current message, its progress, and whether it is tagged.
    pub(super) message: Option<(u32, u32, bool)>,
    pub(crate) left: u32,
    longest: u64,
    offset: u64,
    number: u32,
    header: Vec<u8>,
    inline: Vec<u8>,
    random: Random,
    fences: u64,
    pub(crate) end: u64,
    /// Positions after the last segments of messages.
    pub(super) ends: BTreeSet<u64>,
}

impl Sender {
    pub(crate) fn new(messages: u32, longest: u64, fences: u64, seed: u64) -> Self {
        let random = Random::new(seed);
        Self {
            message: None,
            left: messages,
            longest,
            offset: 0,
            number: 0,
            header: vec![],
            inline: vec![],
            random,
            fences,
            end: 0,
            ends: BTreeSet::new(),
        }
    }

    /// Whether a message may be sent past the queue: none has begun.
    pub(super) fn is_between(&self) -> bool {
        self.message.is_none() && self.left > 0
    }

    /// Begins a tagged message of this many bytes.
    pub(crate) fn begin_message(&mut self, bytes: u32) {
        assert!(!self.has_begun(), "one message at a time");
        self.message = Some((bytes, 0, true));
    }

    /// Whether a part of a message is still to be taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.message.is_some()
    }

    /// A message in one segment of no more than `most` bytes of payload, all of it inline.
    pub(super) fn short(&mut self, most: u64) -> Segment<'_> {
        self.left -= 1;
        self.number += 1;
        self.message = Some((self.random.below(most + 1) as u32, 0, false));
        self.next(1000).expect("a message has begun")
    }

    /// Writes an untagged message into the connection's ring. Returns whether that was done.
    pub(super) fn write(&mut self, connection: &mut Connection) -> bool {
        let (number, most) = (self.number + 1, 1 + self.random.below(5000) as u32);
        let length = self.random.below(u64::from(most) + 1) as u32;
        let target = Target::Untagged { word: 0, queue: 0, number: weft_base::MessageNumber(number), offset: 0 };
        let mut header = [0; 18];
        let header_length = Header { last: true, control: 0x40, target }.emit(&mut header);
        let write = |place: &mut [u8]| {
            assert_eq!(place.len(), most as usize);
            fill(&mut place[..length as usize], number.into(), 0);
            Some(length as usize)
        };
        let written = connection.write_message(most, write, || &header[..header_length]);
        if written.is_none() {
            return false;
        }
        assert_eq!(written, Some(Some(length)));
        (self.left, self.number) = (self.left - 1, number);
        self.end += u64::from(length) + 1;
        self.ends.insert(self.end);
        true
    }

    fn begin(&mut self) -> Option<()> {
        if self.message.is_none() {
            self.left = self.left.checked_sub(1)?;
            let tagged = !self.random.one_in(3);
            let most = if tagged { self.longest } else { 600 };
            self.message = Some((self.random.below(most + 1) as u32, 0, tagged));
            self.number += u32::from(!tagged);
        }
        Some(())
    }
}

impl Sender {
    /// The next segment, for this number of packets, and bytes of payload in each.
    fn give(&mut self, budget: u32, packets: u32) -> Option<(Segment<'_>, u32)> {
        assert!(budget >= 128 && packets >= 1);
        self.begin()?;
        let (length, done, tagged) = self.message?;
        let after = if self.fences > 0 && self.end.is_multiple_of(self.fences) { self.end } else { 0 };
        let options = if tagged { Options { unordered: self.fences == 1, after } } else { Options::default() };
        let room = budget - if tagged { 14 } else { 18 };
        let room = if options == Options::default() { room } else { room - Options::MAX_LENGTH as u32 };
        let take = (length - done).min(room * packets);
        let last = done + take == length;
        let target = if tagged {
            Target::Tagged { stag: weft_base::Stag(7), offset: self.offset }
        } else {
            Target::Untagged { word: 0, queue: 0, number: weft_base::MessageNumber(self.number), offset: done }
        };
        let mut header = [0; 18];
        let header_length = Header { last, control: 0x40, target }.emit(&mut header);
        self.header.clear();
        self.header.extend_from_slice(&header[..header_length]);
        self.inline.clear();
        let mut gather = Gather::empty();
        if tagged {
            gather = Slice { region: RegionId { index: 0, generation: 0 }, offset: self.offset, length: take }.into();
            self.offset += u64::from(take);
        } else {
            let parts = content(u64::from(self.number), u64::from(done), take as usize);
            parts.for_each(|part| self.inline.extend_from_slice(part));
        }
        self.message = (!last).then_some((length, done + take, tagged));
        self.end += u64::from(take) + u64::from(last);
        if last {
            self.ends.insert(self.end);
        }
        let ack_now = last && self.random.one_in(2);
        // RDMAP's bytes behind the header are payload to DDP.
        let behind = self.inline.len().min(9);
        self.header.extend(self.inline.drain(..behind));
        let segment = Segment { header: &self.header, bytes: &self.inline, gather, is_steady: true, ack_now, options };
        Some((segment, room))
    }
}

impl Source for Sender {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        self.give(budget, 1).map(|(segment, _)| segment)
    }

    fn next_run(&mut self, budget: u32, most: u32, _: u32) -> Option<(Segment<'_>, u32)> {
        self.give(budget, most)
    }
}
