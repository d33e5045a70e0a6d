//! The checks of a segment: all of them, before a byte of it is placed (RFC 5041 section 7.1, RFC 5040 section 7.2, RFC
//! 7306 section 8.2).

use weft_base::{Gather, MessageNumber, Stag};
use weft_memory::RemoteRight;
use weft_wire::ddp::{Header, HeaderError, Target};
use weft_wire::rdmap::{
    AtomicRequest, AtomicResponse, Control, ControlError, IMMEDIATE_LENGTH, Opcode, ReadRequest, Receipt, queue,
};
use weft_wire::terminate::Terminate;

use super::Stream;
use super::placing::{Cut, agree, is_immediate};
use crate::order::Turn;
use crate::request::ReceiveSource;
use crate::segment::{Arrival, Effect, Later, OrderConstraint, Part, Placement, Received, ResponsePart, Verdict};
use crate::untagged::Missing;
use crate::violation::{Context, Violation};

/// A segment whose header was read.
struct Head<'a> {
    header: Header,
    opcode: Opcode,
    /// What follows the header, as far as it is in hand.
    rest: &'a [u8],
    /// Bytes that follow the header.
    payload: u32,
}

/// A segment comes before its turn.
#[derive(Clone, Copy)]
struct Early;

impl Stream {
    /// Checks a segment and says where its payload belongs. Nothing is delivered by this, and nothing may be placed
    /// unless this says so.
    ///
    /// `length` is the length of the whole ULPDU, `head` at least its first `min(length, HEAD_LENGTH)` bytes.
    pub fn handle_segment(
        &mut self,
        arrival: Arrival,
        length: u32,
        head: &[u8],
        receives: &mut dyn ReceiveSource,
    ) -> Verdict {
        self.handle_demanding(arrival, OrderConstraint::default(), length, head, receives)
    }

    /// As [`Stream::handle_segment`], where the sender demands something of the order of placement.
    pub fn handle_demanding(
        &mut self,
        arrival: Arrival,
        constraint: OrderConstraint,
        length: u32,
        head: &[u8],
        receives: &mut dyn ReceiveSource,
    ) -> Verdict {
        if !self.state.receives() {
            return Verdict::Fatal(Violation::NotReceiving(self.state));
        }
        let is_too_early = constraint.after > self.order.next();
        match self.order.turn(arrival) {
            Turn::Now => self.find_place(arrival, None, constraint, (length, head), receives),
            Turn::Duplicate => Verdict::Drop,
            _ if is_too_early => Verdict::Later(Later::Early),
            Turn::Early => self.find_place(arrival, Some(Early), constraint, (length, head), receives),
            Turn::Full => Verdict::Later(Later::Early),
            Turn::Partial(run) => self.handle_part((arrival, run), constraint, (length, head), receives),
        }
    }

    /// Of a segment only this run of positions was not placed before.
    fn handle_part(
        &mut self,
        (whole, run): (Arrival, Arrival),
        constraint: OrderConstraint,
        (length, head): (u32, &[u8]),
        receives: &mut dyn ReceiveSource,
    ) -> Verdict {
        if !self.config.lower.cuts_again && !self.config.ordered_writes {
            // Never of a lower layer that keeps segments as they were sent: whatever this is, it is no news.
            return Verdict::Drop;
        }
        let early = match self.order.turn(run) {
            Turn::Now => None,
            Turn::Early => Some(Early),
            _ => return Verdict::Later(Later::Early),
        };
        let mut context = Context { header: None, length };
        if let Err(violation) = self.read_head(&mut context, head) {
            return self.unplaced(Missing::Violation(violation), (run, early), &context);
        }
        let cut = match Cut::of(whole, run, length, head) {
            Ok(cut) => cut,
            Err(violation) => return self.refuse(violation, &context),
        };
        if self.contradicts_early(whole, head) {
            let contradiction = Violation::Contradiction { start: whole.start, end: whole.end };
            return self.refuse(contradiction, &context);
        }
        match self.find_place(run, early, constraint, (cut.length, &cut.head[..cut.known]), receives) {
            Verdict::Place(placement) => {
                let header_length = placement.header_length + cut.skip;
                let is_partial = placement.is_partial || run.end < whole.end;
                Verdict::Place(Placement { header_length, is_partial, ..placement })
            }
            verdict => verdict,
        }
    }

    /// Whether the header of a segment contradicts those of early ones that it overlaps. Of those that have had their
    /// turn nothing is kept.
    fn contradicts_early(&self, whole: Arrival, head: &[u8]) -> bool {
        let Ok(header) = Header::parse(head) else { return false };
        self.order.overlapping(whole).any(|(arrival, received)| {
            received.context.header.is_some_and(|kept| !agree((arrival, kept), (whole, header)))
        })
    }

    fn find_place(
        &mut self,
        arrival: Arrival,
        early: Option<Early>,
        constraint: OrderConstraint,
        (length, head): (u32, &[u8]),
        receives: &mut dyn ReceiveSource,
    ) -> Verdict {
        if self.placing.is_crowded(arrival, self.config.lower.placements) {
            return Verdict::Later(Later::Early);
        }
        let mut context = Context { header: None, length };
        let (sink, effect) = match self.locate(&mut context, head, early.is_some(), receives) {
            Ok(located) => located,
            Err(missing) => return self.unplaced(missing, (arrival, early), &context),
        };
        let unordered = constraint.unordered && matches!(effect, Effect::Write { .. });
        let (header_length, received) = (length - sink.length(), Received { context, effect, unordered });
        if self.config.ordered_writes {
            let placement = Placement { header_length, sink, is_partial: false, serial: 0, arrival, received };
            return self.place_in_order(placement, early, head);
        }
        let serial = self.placing.begin(arrival, None);
        Verdict::Place(Placement { header_length, sink, is_partial: false, serial, arrival, received })
    }

    /// Out of line: most streams have no need of it.
    #[inline(never)]
    fn place_in_order(&mut self, mut placement: Placement, early: Option<Early>, head: &[u8]) -> Verdict {
        if let Err(missing) = self.arrange(&mut placement, early.is_some(), head) {
            let (arrival, context) = (placement.arrival, placement.received.context);
            return self.unplaced(missing, (arrival, early), &context);
        }
        placement.serial = self.placing.begin(placement.arrival, placement.extent());
        Verdict::Place(placement)
    }

    #[cold]
    fn unplaced(&mut self, missing: Missing, (arrival, early): (Arrival, Option<Early>), context: &Context) -> Verdict {
        match missing {
            Missing::Unpolled => Verdict::Later(Later::Unpolled),
            Missing::Early => Verdict::Later(Later::Early),
            Missing::Violation(Violation::NoBuffer { .. }) if self.config.lower.holds_back => {
                self.put_off(arrival);
                Verdict::Later(Later::NotReady)
            }
            // Whatever is wrong with it, judgement waits for its turn: what comes before it may make it right.
            Missing::Violation(_) if early.is_some() => Verdict::Later(Later::Early),
            Missing::Violation(violation) => self.refuse(violation, context),
        }
    }

    /// A segment breaks a rule. Its CRC has not been seen.
    fn refuse(&mut self, violation: Violation, context: &Context) -> Verdict {
        self.raise(violation, context, None);
        self.is_provisional = self.terminate.is_some();
        Verdict::Fatal(violation)
    }

    /// The payload of a segment will not be placed after all: the segment leaves no trace.
    pub fn abandon(&mut self, placement: &Placement) {
        self.placing.end(placement.serial);
    }

    /// Whether the sink of a placement is still granted: to be checked when placing takes several steps, before each
    /// further one, and when the memory refuses.
    ///
    /// # Errors
    /// It is not: drop the placement. The stream has ended with this violation; without one it continues, and the
    /// segment is to be brought again.
    pub fn recheck(&mut self, placement: &Placement) -> Result<(), Option<Violation>> {
        if !self.state.receives() || !self.placing.is_under_way(placement.serial) {
            return Err(Some(Violation::NotReceiving(self.state)));
        }
        let context = placement.received.context;
        let Some(Header { target: Target::Tagged { stag, offset }, .. }) = context.header else { return Ok(()) };
        if !matches!(placement.received.effect, Effect::Write { .. }) || placement.sink.is_empty() {
            return Ok(());
        }
        let length = placement.sink.length();
        let fault = match self.locate_remote(stag, offset, length, RemoteRight::Write) {
            Ok((slice, _)) if placement.sink.slices() == [slice] => return Ok(()),
            Ok(_) => weft_memory::RemoteFault::InvalidStag,
            Err(fault) => fault,
        };
        if self.order.turn(placement.arrival) != Turn::Now {
            self.placing.end(placement.serial);
            return Err(None);
        }
        let violation = Violation::WriteTarget { stag, offset, length, fault };
        self.raise(violation, &context, None);
        Err(Some(violation))
    }

    fn locate(
        &mut self,
        context: &mut Context,
        head: &[u8],
        is_early: bool,
        receives: &mut dyn ReceiveSource,
    ) -> Result<(Gather, Effect), Missing> {
        let head = self.read_head(context, head).map_err(Missing::Violation)?;
        let checked = match (head.opcode, head.header.target) {
            (Opcode::Write, Target::Tagged { stag, offset }) => self.locate_write(stag, offset, head.payload),
            (Opcode::ReadResponse, Target::Tagged { stag, offset }) => {
                let part = ResponsePart { stag, offset, length: head.payload, last: head.header.last };
                self.locate_response(&part, is_early)
            }
            (_, Target::Untagged { queue: queue::SEND, number, offset, word }) => {
                return self.locate_send(&head, number, offset, word, is_early, receives);
            }
            (Opcode::ReadRequest, Target::Untagged { number, .. }) => {
                head.message().and_then(|bytes| self.check_read(number, ReadRequest::parse(bytes), is_early))
            }
            (Opcode::AtomicRequest, Target::Untagged { number, .. }) => self.check_atomic(&head, number, is_early),
            (Opcode::AtomicResponse, Target::Untagged { number, .. }) => {
                head.message().map(AtomicResponse::parse).and_then(|response| {
                    if !is_early {
                        self.requester.check_atomic(number, response.identifier)?;
                    }
                    Ok((Gather::empty(), Effect::AtomicResponse { number, response }))
                })
            }
            (Opcode::Receipt, Target::Untagged { number, .. }) => self.check_receipt(&head, number, is_early),
            (Opcode::Terminate, Target::Untagged { number, .. }) => check_terminate(&head, number),
            (opcode, _) => Err(Violation::Model(opcode)),
        };
        checked.map_err(Missing::Violation)
    }

    /// RFC 5040 section 7.2, checks 1 to 3.
    fn read_head<'a>(&self, context: &mut Context, head: &'a [u8]) -> Result<Head<'a>, Violation> {
        let length = context.length;
        let head = &head[..head.len().min(length as usize)];
        let header = Header::parse(head).map_err(|error| match error {
            HeaderError::Short => Violation::Short { length },
            HeaderError::Version { version, tagged } => Violation::DdpVersion { version, tagged },
        })?;
        context.header = Some(header);
        let opcode = match Control::parse(header.control) {
            Ok(control) => control.opcode,
            Err(ControlError::Version(version)) => return Err(Violation::RdmapVersion(version)),
            Err(ControlError::Opcode(code)) => return Err(Violation::UnknownOpcode(code)),
        };
        if is_extension(opcode) && !self.config.extensions {
            return Err(Violation::NotAgreed(opcode));
        }
        if opcode == Opcode::Receipt && !self.config.receipts {
            // To a peer that has not agreed to it there is no such message.
            return Err(Violation::UnknownOpcode(opcode as u8));
        }
        match header.target {
            Target::Tagged { .. } if !opcode.is_tagged() => return Err(Violation::Model(opcode)),
            Target::Untagged { .. } if opcode.is_tagged() => return Err(Violation::Model(opcode)),
            Target::Untagged { queue, .. } if opcode.queue() != Some(queue) => {
                return Err(Violation::Queue { opcode, queue });
            }
            _ => {}
        }
        let rest = &head[header.length()..];
        Ok(Head { header, opcode, rest, payload: length - header.length() as u32 })
    }

    fn locate_write(&self, stag: Stag, offset: u64, length: u32) -> Result<(Gather, Effect), Violation> {
        // RFC 5041 section 5.2: nothing of a segment of length zero is checked but the control fields.
        if length == 0 {
            return Ok((Gather::empty(), Effect::Write { address: 0 }));
        }
        match self.locate_remote(stag, offset, length, RemoteRight::Write) {
            Ok((slice, address)) => Ok((Gather::from(slice), Effect::Write { address })),
            Err(fault) => Err(Violation::WriteTarget { stag, offset, length, fault }),
        }
    }

    fn locate_response(&self, part: &ResponsePart, is_early: bool) -> Result<(Gather, Effect), Violation> {
        let sink = if !is_early {
            self.requester.locate_next(part)?
        } else if part.length == 0 {
            Gather::empty()
        } else {
            self.requester.locate_any(part)?
        };
        Ok((sink, Effect::ReadResponse(*part)))
    }

    /// Sends of all kinds, and immediate data, which uses up a receive request as they do (RFC 7306 section 6.3).
    fn locate_send(
        &mut self,
        head: &Head<'_>,
        number: MessageNumber,
        offset: u32,
        word: u32,
        is_early: bool,
        receives: &mut dyn ReceiveSource,
    ) -> Result<(Gather, Effect), Missing> {
        if self.awaits_ready_send {
            if is_early {
                // Whether message 1 uses up a receive request is known when it has come.
                return Err(Missing::Unpolled);
            }
            if is_ready_send(head, number, offset) {
                return Ok((Gather::empty(), Effect::ReadySend));
            }
        }
        if let Some(receipts) = &self.receipts {
            receipts.check(number).map_err(Missing::Violation)?;
        }
        let immediate = if is_immediate(head.opcode) {
            let bytes: &[u8; IMMEDIATE_LENGTH] = head.message().map_err(Missing::Violation)?;
            Some(u64::from_be_bytes(*bytes))
        } else {
            None
        };
        let length = if immediate.is_some() { 0 } else { head.payload };
        let part = Part { number, opcode: head.opcode, word, offset, length, last: head.header.last };
        let sink = if is_early {
            self.receives.locate_any(&part, receives)?
        } else {
            self.receives.locate_next(&part, receives)?
        };
        let effect = match immediate {
            Some(immediate) => Effect::Immediate { part, immediate },
            None => Effect::Send(part),
        };
        Ok((sink, effect))
    }

    fn check_read(
        &self,
        number: MessageNumber,
        request: ReadRequest,
        is_early: bool,
    ) -> Result<(Gather, Effect), Violation> {
        if !is_early {
            self.responder.check(number)?;
        }
        Ok((Gather::empty(), Effect::ReadRequest { number, request }))
    }

    fn check_receipt(
        &self,
        head: &Head<'_>,
        number: MessageNumber,
        is_early: bool,
    ) -> Result<(Gather, Effect), Violation> {
        let receipt = Receipt::parse(head.message()?);
        if let Some(receipts) = &self.receipts
            && !is_early
        {
            receipts.check_number(number)?;
        }
        Ok((Gather::empty(), Effect::Receipt { number, receipt }))
    }

    fn check_atomic(
        &self,
        head: &Head<'_>,
        number: MessageNumber,
        is_early: bool,
    ) -> Result<(Gather, Effect), Violation> {
        let request = AtomicRequest::parse(head.message()?).map_err(Violation::AtomicCode)?;
        if !is_early {
            self.responder.check(number)?;
        }
        // Whether it may be touched is judged when its turn comes.
        let located = self.locate_remote(request.stag, request.offset, 8, RemoteRight::Atomic);
        let address = located.ok().map(|(_, address)| address);
        Ok((Gather::empty(), Effect::AtomicRequest { number, request, address }))
    }
}

impl<'a> Head<'a> {
    /// The bytes of a message that RDMAP reads itself: one segment of exactly this length.
    fn message<const LENGTH: usize>(&self) -> Result<&'a [u8; LENGTH], Violation> {
        let Target::Untagged { queue, offset, .. } = self.header.target else {
            return Err(Violation::Model(self.opcode));
        };
        let expected = LENGTH as u32;
        if offset != 0 {
            return Err(Violation::Offset { queue, offset, expected: 0 });
        }
        if self.payload > expected || !self.header.last {
            let end = u64::from(self.payload) + u64::from(!self.header.last);
            return Err(Violation::TooLong { queue, end, buffer: expected });
        }
        let short = Violation::MessageLength { opcode: self.opcode, length: self.payload, expected };
        self.rest.first_chunk().filter(|_| self.payload == expected).ok_or(short)
    }
}

/// A Terminate may be cut short, but is there at most once.
fn check_terminate(head: &Head<'_>, number: MessageNumber) -> Result<(Gather, Effect), Violation> {
    if number != MessageNumber::FIRST {
        return Err(Violation::Number { queue: queue::TERMINATE, number, expected: MessageNumber::FIRST });
    }
    let (opcode, length) = (head.opcode, head.payload);
    let short = Violation::MessageLength { opcode, length, expected: 4 };
    let terminate = Terminate::parse(head.rest).ok_or(short)?;
    Ok((Gather::empty(), Effect::Terminate(terminate)))
}

fn is_extension(opcode: Opcode) -> bool {
    let is_send = matches!(opcode, Opcode::SendImmediate | Opcode::SendSolicitedImmediate);
    is_send || is_immediate(opcode) || matches!(opcode, Opcode::AtomicRequest | Opcode::AtomicResponse)
}

/// The ready-to-receive Send of RFC 6581 section 9.2: message 1, of length zero. It is none of the user's.
fn is_ready_send(head: &Head<'_>, number: MessageNumber, offset: u32) -> bool {
    let is_plain = head.opcode == Opcode::Send && head.header.last;
    is_plain && number == MessageNumber::FIRST && offset == 0 && head.payload == 0
}
