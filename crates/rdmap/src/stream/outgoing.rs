//! What is written into the segments that are sent: whose turn it is, message numbers, headers.

use weft_base::{MessageNumber, Stag};
use weft_wire::ddp::{Header, TAGGED_LENGTH, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{ASKS_RECEIPT, AtomicRequest, Control, Opcode, ReadRequest, Receipt, queue};
use weft_wire::terminate::Terminate;

use crate::config::ReadyKind;
use crate::request::{Operation, Payload, RemoteTarget};
use crate::requester::{Requester, SINK_OFFSET};
use crate::send::Entry;

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Terminate,
    Ready(ReadyKind),
    /// An answer to the peer.
    Answer,
    /// A request of this side.
    Request,
    /// What is reported to the peer about messages.
    Receipt,
}

/// The state of sending that belongs to no single request.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The ready-to-receive message that is due.
    pub(super) ready: Option<ReadyKind>,
    /// Nothing may be sent before the peer has.
    pub(super) is_silent: bool,
    /// The message that has begun and is not whole: its segments are not interleaved with others.
    pub(super) begun: Option<Source>,
    /// Answers and requests take turns, message by message. A request that needs an answer goes before both.
    pub(super) answers_next: bool,
    pub(super) send_number: MessageNumber,
    pub(super) request_number: MessageNumber,
    pub(super) answer_number: MessageNumber,
    pub(super) writer: HeaderWriter,
}

impl Outgoing {
    pub(super) fn new(ready: Option<ReadyKind>, is_silent: bool) -> Self {
        Self {
            ready,
            is_silent,
            begun: None,
            answers_next: true,
            send_number: MessageNumber::FIRST,
            request_number: MessageNumber::FIRST,
            answer_number: MessageNumber::FIRST,
            writer: HeaderWriter::default(),
        }
    }

    /// Whether a message may begin: none is to go first.
    pub(super) fn is_between_messages(&self) -> bool {
        !self.is_silent && self.ready.is_none() && self.begun.is_none()
    }

    /// A zero-length RDMA Write goes next, if something was written before and all of that is whole.
    pub(super) fn nudge(&mut self) {
        if self.writer.length() > 0 && self.is_between_messages() {
            self.ready = Some(ReadyKind::Write);
        }
    }

    /// The peer has sent something.
    pub(super) fn speak(&mut self) {
        self.is_silent = false;
    }

    pub(super) fn abandon(&mut self) {
        self.ready = None;
        self.begun = None;
    }
}

/// Room for a segment, which the stream below may send as several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of the ULPDU of each.
    pub(super) max_ulpdu: u32,
    /// How many there may be. At least 1.
    pub(super) most: u32,
    /// The most in the middle of a long message. At least 1.
    pub(super) mid_message: u32,
}

impl Room {
    /// How many of the bytes that are left go into a segment behind headers of this length, and whether those are all
    /// (RFC 5041 section 5.2: a message of length zero is one segment).
    pub(super) fn cut(self, left: u32, header: usize) -> (u32, bool) {
        let payload = |parts: u32| (self.max_ulpdu - header as u32).saturating_mul(parts);
        let goes_on = left > payload(self.most.saturating_mul(2));
        let room = payload(if goes_on { self.mid_message.min(self.most) } else { self.most });
        (left.min(room), left <= room)
    }
}

/// What goes into one segment of a request.
pub(super) struct Piece {
    /// Bytes of its payload.
    pub(super) take: u32,
    /// Whether the request has no segment after this.
    pub(super) whole: bool,
}

impl Piece {
    /// A message of RDMAP's own making: one segment, no payload.
    const MESSAGE: Self = Self { take: 0, whole: true };
}

impl Outgoing {
    /// Writes the headers of a request's next segment.
    pub(super) fn write(&mut self, sequence: u64, entry: &mut Entry, requester: &mut Requester, room: Room) -> Piece {
        match &entry.request.operation {
            Operation::Send { payload, solicited, invalidate } => {
                self.write_send(payload, entry.formed, &mut entry.number, of_send(*solicited, *invalidate), room)
            }
            Operation::SendImmediate { payload, solicited, immediate } => {
                let head = (immediate_opcode(*solicited), *immediate);
                self.write_send(payload, entry.formed, &mut entry.number, head, room)
            }
            Operation::Write { payload, target } => self.write_tagged(payload.length(), entry.formed, target, room),
            Operation::WriteImmediate { payload, target, .. } if !entry.write_formed => {
                let piece = self.write_tagged(payload.length(), entry.formed, target, room);
                entry.write_formed = piece.whole;
                Piece { whole: false, ..piece }
            }
            Operation::WriteImmediate { immediate, solicited, .. } | Operation::Immediate { immediate, solicited } => {
                let number = advance(&mut self.send_number);
                entry.number = Some((queue::SEND, number));
                let opcode = if *solicited { Opcode::ImmediateSolicited } else { Opcode::Immediate };
                self.writer.untagged(opcode, true, 0, queue::SEND, number, 0);
                self.writer.append(&immediate.to_be_bytes());
                Piece::MESSAGE
            }
            Operation::Read { sink, source } => {
                let number = advance(&mut self.request_number);
                entry.number = Some((queue::READ_REQUEST, number));
                let sink_stag = requester.start_read(Some(sequence), *sink);
                self.write_read(number, sink_stag, sink.length(), *source);
                Piece::MESSAGE
            }
            Operation::Atomic { code, data, mask, compare, compare_mask, target, .. } => {
                let number = advance(&mut self.request_number);
                entry.number = Some((queue::READ_REQUEST, number));
                let (identifier, stag, offset) = (requester.start_atomic(sequence), target.stag, target.offset);
                let (code, data, mask, compare, compare_mask) = (*code, *data, *mask, *compare, *compare_mask);
                let request = AtomicRequest { code, identifier, stag, offset, data, mask, compare, compare_mask };
                self.writer.untagged(Opcode::AtomicRequest, true, 0, queue::READ_REQUEST, number, 0);
                self.writer.append(&request.emit());
                Piece::MESSAGE
            }
        }
    }

    /// Writes the header of a Send or a Write that is one segment, and counts nothing yet: [`Outgoing::pass`] does.
    pub(super) fn write_whole(&mut self, operation: &Operation) -> Option<&[u8]> {
        match operation {
            Operation::Send { solicited, invalidate, .. } => {
                let (opcode, word) = of_send(*solicited, *invalidate);
                self.writer.untagged(opcode, true, word, queue::SEND, self.send_number, 0);
            }
            Operation::SendImmediate { solicited, immediate, .. } => {
                let opcode = immediate_opcode(*solicited);
                self.writer.untagged(opcode, true, *immediate, queue::SEND, self.send_number, 0);
            }
            Operation::Write { target, .. } => {
                self.writer.tagged(Opcode::Write, true, target.stag, target.offset);
            }
            _ => return None,
        }
        Some(self.writer.bytes())
    }

    /// What was written by [`Outgoing::write_whole`] goes out. Returns the number of its message, if it has one.
    pub(super) fn pass(&mut self, operation: &Operation) -> Option<MessageNumber> {
        self.on_written(Source::Request, true);
        operation.is_send().then(|| advance(&mut self.send_number))
    }

    /// The next segment of a Send with this opcode, and this word of its header.
    fn write_send(
        &mut self,
        payload: &Payload,
        formed: u32,
        number: &mut Option<(u32, MessageNumber)>,
        (opcode, word): (Opcode, u32),
        room: Room,
    ) -> Piece {
        let (take, last) = room.cut(payload.length() - formed, UNTAGGED_LENGTH);
        let (_, number) = *number.get_or_insert_with(|| (queue::SEND, advance(&mut self.send_number)));
        self.writer.untagged(opcode, last, word, queue::SEND, number, formed);
        Piece { take, whole: last }
    }

    fn write_tagged(&mut self, length: u32, formed: u32, target: &RemoteTarget, room: Room) -> Piece {
        let (take, last) = room.cut(length - formed, TAGGED_LENGTH);
        self.writer.tagged(Opcode::Write, last, target.stag, target.offset + u64::from(formed));
        Piece { take, whole: last }
    }

    pub(super) fn write_read(&mut self, number: MessageNumber, sink_stag: Stag, length: u32, source: RemoteTarget) {
        let (source_stag, source_offset) = (source.stag, source.offset);
        let request = ReadRequest { sink_stag, sink_offset: SINK_OFFSET, length, source_stag, source_offset };
        self.writer.untagged(Opcode::ReadRequest, true, 0, queue::READ_REQUEST, number, 0);
        self.writer.append(&request.emit());
    }

    pub(super) fn write_receipt(&mut self, number: MessageNumber, receipt: &Receipt) {
        self.writer.untagged(Opcode::Receipt, true, 0, queue::RECEIPT, number, 0);
        self.writer.append(&receipt.emit());
    }

    /// A segment was written; `whole`: the last of what must stay together.
    pub(super) fn on_written(&mut self, source: Source, whole: bool) {
        self.begun = if whole { None } else { Some(source) };
        self.answers_next = source == Source::Request;
    }
}

/// Takes the next message number of a queue.
pub(super) fn advance(number: &mut MessageNumber) -> MessageNumber {
    let taken = *number;
    *number = taken.next();
    taken
}

/// The opcode of a Send, and the word of its header.
fn of_send(solicited: bool, invalidate: Option<Stag>) -> (Opcode, u32) {
    let opcode = match (solicited, invalidate.is_some()) {
        (false, false) => Opcode::Send,
        (false, true) => Opcode::SendInvalidate,
        (true, false) => Opcode::SendSolicited,
        (true, true) => Opcode::SendSolicitedInvalidate,
    };
    (opcode, invalidate.map_or(0, |stag| stag.0))
}

/// The opcode of a Send with immediate data.
fn immediate_opcode(solicited: bool) -> Opcode {
    if solicited { Opcode::SendSolicitedImmediate } else { Opcode::SendImmediate }
}

/// Writes headers, and what RDMAP puts behind them.
#[derive(Debug)]
pub(super) struct HeaderWriter {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Default for HeaderWriter {
    fn default() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
    }
}

impl HeaderWriter {
    const ROOM: usize = UNTAGGED_LENGTH + max(max(AtomicRequest::LENGTH, ReadRequest::LENGTH), Terminate::MAX_LENGTH);

    pub(super) fn tagged(&mut self, opcode: Opcode, last: bool, stag: Stag, offset: u64) {
        let control = Control { opcode }.emit();
        self.length = Header { last, control, target: Target::Tagged { stag, offset } }.emit(&mut self.bytes);
    }

    pub(super) fn untagged(
        &mut self,
        opcode: Opcode,
        last: bool,
        word: u32,
        queue: u32,
        number: MessageNumber,
        offset: u32,
    ) {
        let control = Control { opcode }.emit();
        let target = Target::Untagged { word, queue, number, offset };
        self.length = Header { last, control, target }.emit(&mut self.bytes);
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Requests a receipt, in the control byte of the header.
    pub(super) fn ask(&mut self) {
        self.bytes[1] |= ASKS_RECEIPT;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn length(&self) -> u32 {
        self.length as u32
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amid_a_long_message_a_segment_may_be_shorter_than_at_its_end() {
        let room = Room { max_ulpdu: 114, most: 5, mid_message: 3 };
        let cut = |left| room.cut(left, TAGGED_LENGTH);
        assert_eq!([cut(5000), cut(1001)], [(300, false); 2]);
        assert_eq!([cut(1000), cut(501)], [(500, false); 2]);
        assert_eq!([cut(500), cut(99), cut(0)], [(500, true), (99, true), (0, true)]);
        assert_eq!(Room { mid_message: 9, ..room }.cut(5000, TAGGED_LENGTH), (500, false), "at most");
    }
}
