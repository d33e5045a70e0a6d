//! What the parties of a scenario do, by chance.

use core::time::Duration;

use weft_memory::{Combine, Element};
use weft_nic::{AtomicPost, EndpointError, Level, Match, ReceivePost, SendPost, TransferPost};

use super::Run;
use super::ledger::{Act, Kind, Message, OneSided, Posted, content};
use super::party::{GENERATIONS, Party, SLOT, SLOTS};
use crate::network::Tag;
use crate::pipe::Behaviour;

/// Tags are below this.
const TAGS: u64 = 4;
/// Messages are not longer than this, in bytes.
const LONGEST: u64 = 5000;

impl<T: Tag> Run<T> {
    /// Does one thing, and lets some time pass.
    pub(super) fn step(&mut self) -> Result<(), String> {
        let at = self.random.below(self.parties.len() as u64) as usize;
        let other = self.random.below(self.parties.len() as u64) as usize;
        match self.random.below(24) {
            0..=6 => self.random_send(at, other)?,
            7..=12 => self.random_receive(at, other)?,
            13 => self.random_cancel(at),
            14..=17 => self.random_transfer(at, other)?,
            18..=19 => self.random_atomic(at, other)?,
            // Both at once, which both connect if they are not connected.
            20 => {
                self.random_send(at, other)?;
                self.random_send(other, at)?;
            }
            21 => {
                let pause = Duration::from_micros(self.random.below(4000));
                self.pass(pause, |_| false)?;
            }
            22 if self.faults => self.change_network(),
            23 if self.faults && self.random.one_in(3) => self.reopen(at)?,
            _ => {}
        }
        if self.random.one_in(2) {
            let pause = Duration::from_nanos(self.random.below(300_000));
            self.pass(pause, |_| false)?;
        }
        Ok(())
    }

    fn random_tag(&mut self) -> Option<u64> {
        (!self.random.one_in(5)).then(|| self.random.below(TAGS))
    }

    fn random_length(&mut self) -> usize {
        let below = match self.random.below(8) {
            0 => 1,
            1..=3 => 100,
            4..=5 => 600,
            6 => 2000,
            _ => LONGEST,
        };
        self.random.below(below) as usize
    }

    fn random_level(&mut self) -> Level {
        if self.random.one_in(3) { Level::Delivered } else { Level::TransmitComplete }
    }

    fn random_send(&mut self, from: usize, to: usize) -> Result<(), String> {
        let (tag, length, level) = (self.random_tag(), self.random_length(), self.random_level());
        self.send(from, to, tag, length, level)
    }

    pub(super) fn send(
        &mut self,
        from: usize,
        to: usize,
        tag: Option<u64>,
        length: usize,
        level: Level,
    ) -> Result<(), String> {
        let peer = self.peer(from, to)?;
        let number = self.ledger.messages.len() as u64;
        // What is long enough tells its number by itself.
        let data = (length < 8 || self.random.one_in(2)).then_some(number);
        let inject = length <= 300 && self.random.one_in(3);
        let fence = self.random.one_in(10);
        let context = self.ledger.next_context();
        let post = SendPost {
            tag,
            data,
            inject,
            fence,
            ..SendPost::new(peer, content(number, length)).level(level).context(context)
        };
        self.ledger.messages.push(Message::new(self.parties[from].name, to, &post, length));
        self.parties[from].endpoint.send(post).map_err(refused)?;
        self.ledger.add(context, from, Kind::Send(number));
        Ok(())
    }

    fn random_receive(&mut self, at: usize, other: usize) -> Result<(), String> {
        let source = (!self.random.one_in(3)).then_some(other);
        let matching =
            self.random_tag().map(|tag| Match { tag, ignore: [0, 0, 0, 1, u64::MAX][self.random.below(5) as usize] });
        let many = self.random.one_in(4).then(|| self.random.below(300));
        let room = if self.random.one_in(2) { LONGEST as usize } else { 8 + self.random_length() };
        let mut post = ReceivePost { matching, many, ..ReceivePost::new(vec![0xa5; room]) };
        if let Some(other) = source {
            post = post.from(self.peer(at, other)?);
        }
        self.post_receive(at, source, post)
    }

    pub(super) fn post_receive(&mut self, at: usize, source: Option<usize>, post: ReceivePost) -> Result<(), String> {
        let context = self.ledger.next_context();
        let posted = Posted::new(source, post.matching, post.many.is_some(), post.memory.length());
        self.parties[at].endpoint.receive(post.context(context)).map_err(refused)?;
        self.ledger.add(context, at, Kind::Receive(posted));
        Ok(())
    }

    fn random_cancel(&mut self, at: usize) {
        let open: Vec<u64> =
            self.ledger.open().into_iter().filter(|context| self.ledger.requests[context].at == at).collect();
        if !open.is_empty() {
            let chosen = open[self.random.below(open.len() as u64) as usize];
            self.cancel(chosen);
        }
    }

    /// A slot with which nothing is in flight, if this is one.
    fn random_slot(&mut self, at: usize, other: usize) -> Option<(OneSided, Vec<u8>)> {
        let slot = self.random.below(SLOTS as u64) as usize;
        let (writer, target) = (self.parties[at].name, self.parties[other].name);
        let bytes = self.ledger.free_slot((writer, target, slot))?;
        Some((OneSided { writer, target, slot, act: Act::Read, place: 0..SLOT, check: false, reported: true }, bytes))
    }

    fn random_transfer(&mut self, at: usize, other: usize) -> Result<(), String> {
        let Some((mut one_sided, mut bytes)) = self.random_slot(at, other) else { return Ok(()) };
        let context = self.ledger.next_context();
        let offset = self.random.below(SLOT as u64) as usize;
        let length = self.random.below((SLOT - offset) as u64 + 1) as usize;
        let mut place = self.parties[other].place(one_sided.writer, one_sided.slot);
        place.offset += offset as u64;
        let peer = self.peer(at, other)?;
        let level = self.random_level();
        let reads = self.random.one_in(3);
        let mut memory = vec![0; length];
        let data = (!reads && self.random.one_in(3)).then_some(context);
        if !reads {
            self.random.fill(&mut memory);
            bytes[offset..offset + length].copy_from_slice(&memory);
            one_sided.act = Act::Write;
            one_sided.check = level == Level::Delivered;
            one_sided.reported = data.is_none();
        } else {
            one_sided.act = Act::Read;
        }
        one_sided.place = offset..offset + length;
        let fence = self.random.one_in(6);
        let inject = !reads && length <= 300 && self.random.one_in(3);
        let post = TransferPost {
            data,
            fence,
            inject,
            ..TransferPost::new(peer, memory, place).level(level).context(context)
        };
        let endpoint = &self.parties[at].endpoint;
        if reads { endpoint.read(post) } else { endpoint.write(post) }.map_err(refused)?;
        self.ledger.occupy(context, at, one_sided, bytes);
        Ok(())
    }

    fn random_atomic(&mut self, at: usize, other: usize) -> Result<(), String> {
        let Some((mut one_sided, mut bytes)) = self.random_slot(at, other) else { return Ok(()) };
        let context = self.ledger.next_context();
        let peer = self.peer(at, other)?;
        let place = self.parties[other].place(one_sided.writer, one_sided.slot);
        // The first goes as RFC 7306 says, the others as a call.
        let (element, count) = [(Element::U64, 1), (Element::U64, 4), (Element::U32, 7)][self.random.below(3) as usize];
        let operation = [Combine::Sum, Combine::Write, Combine::BitXor][self.random.below(3) as usize];
        let mut operand = vec![0; element.size() * count];
        self.random.fill(&mut operand);
        let before = bytes[..operand.len()].to_vec();
        combine(&mut bytes, element, operation, &operand);
        let result = (!self.random.one_in(3)).then(|| vec![0; operand.len()].into());
        let level = self.random_level();
        one_sided.place = 0..before.len();
        one_sided.act = Act::Atomic { before: result.is_some().then_some(before) };
        one_sided.check = result.is_some() || level == Level::Delivered;
        let post = AtomicPost {
            peer,
            place,
            element,
            operation,
            count: count as u32,
            operand,
            compare: Vec::new(),
            result,
            level,
            fence: self.random.one_in(6),
            context,
            op_flags: 0,
        };
        self.parties[at].endpoint.atomic(post).map_err(refused)?;
        self.ledger.occupy(context, at, one_sided, bytes);
        Ok(())
    }

    /// Every connection breaks after some bytes, or the network is slow, or it is well again.
    fn change_network(&mut self) {
        let behaviour = match self.random.below(4) {
            0 => Behaviour { break_after: Some(self.random.below(20_000)), ..self.behaviour },
            1 => Behaviour { delay: Duration::from_millis(self.random.below(20)), ..self.behaviour },
            _ => self.behaviour,
        };
        self.world.set_behaviour(behaviour);
    }

    /// Closes an endpoint, and opens it again under the same address, at once or after a while without one.
    fn reopen(&mut self, at: usize) -> Result<(), String> {
        let (number, generation) = self.parties[at].name;
        if generation + 1 >= GENERATIONS {
            return Ok(());
        }
        self.parties[at].close();
        self.pass(Duration::ZERO, |_| false)?;
        if self.random.one_in(2) {
            // A peer that connects meanwhile is refused.
            let other = self.random.below(self.parties.len() as u64) as usize;
            if other != at {
                self.random_send(other, at)?;
            }
            let pause = Duration::from_micros(self.random.below(2000));
            self.pass(pause, |_| false)?;
        }
        self.ledger.check_closed(at)?;
        let habits = self.parties[at].habits;
        self.parties[at] =
            Party::open((&self.nics[at], self.networks), number, generation + 1, habits, &mut self.random)?;
        Ok(())
    }
}

fn combine(bytes: &mut [u8], element: Element, operation: Combine, operand: &[u8]) {
    for (old, with) in bytes.chunks_exact_mut(element.size()).zip(operand.chunks_exact(element.size())) {
        let word = |bytes: &[u8]| {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        // Little-endian machines, as all that this runs on, or the sum would need to know the element.
        let new = match operation {
            Combine::Sum => word(old).wrapping_add(word(with)),
            Combine::BitXor => word(old) ^ word(with),
            _ => word(with),
        };
        let length = old.len();
        old.copy_from_slice(&new.to_le_bytes()[..length]);
    }
}

fn refused(error: EndpointError) -> String {
    format!("a request was not taken: {error}")
}
