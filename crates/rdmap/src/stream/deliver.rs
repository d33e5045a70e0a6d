//! What a segment does when it is in place and its turn has come.

use weft_base::{MessageNumber, NoDigest, Stag};
use weft_memory::{AtomicOperation, MemoryError, RemoteFault, RemoteRight};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{AtomicCode, AtomicRequest, AtomicResponse, Opcode, ReadRequest};

use super::Stream;
use crate::completion::{Completion, CompletionKind, Status};
use crate::order::Turn;
use crate::request::Operation;
use crate::responder::Inbound;
use crate::segment::{Effect, Extent, Part, Placement, Received, SmallWrite, Written};
use crate::violation::{Context, Violation};

impl Stream {
    /// The payload of a segment is in place and its CRC was good. It counts now: it is delivered when everything before
    /// it has been, and then takes effect (RFC 5041 section 5.4).
    ///
    /// # Errors
    /// It, or an early one behind it, turned out wrong, which has ended the stream.
    pub fn handle_placed(&mut self, placement: &Placement) -> Result<(), Violation> {
        if !self.placing.end(placement.serial) || !self.state.receives() {
            return Ok(());
        }
        let Placement { arrival, ref received, .. } = *placement;
        match self.order.turn(arrival) {
            Turn::Now => self.order.advance(arrival),
            Turn::Early => {
                self.order.keep(arrival, *received);
                if self.config.ordered_writes {
                    self.note_early(placement);
                }
                if self.is_stalled() {
                    self.deliver_answers();
                    self.check_drained();
                }
                return Ok(());
            }
            Turn::Duplicate | Turn::Partial(_) | Turn::Full => return Ok(()),
        }
        self.outgoing.speak();
        self.deliver(received)?;
        while self.state.receives() {
            let Some(received) = self.order.pop_due() else { break };
            self.deliver(&received)?;
        }
        if self.config.ordered_writes {
            self.ahead.retire(self.order.next());
        }
        if self.is_stalled() {
            self.deliver_answers();
        }
        self.check_drained();
        Ok(())
    }

    fn deliver(&mut self, received: &Received) -> Result<(), Violation> {
        let done = self.take_effect(&received.effect, &received.context);
        self.awaits_ready_send = false;
        if done.is_ok() {
            self.count_placed(received);
        }
        if let Err(violation) = done {
            let read = match received.effect {
                Effect::ReadRequest { request, .. } => Some(request),
                _ => None,
            };
            self.raise(violation, &received.context, read);
        }
        done
    }

    pub(super) fn take_effect(&mut self, effect: &Effect, context: &Context) -> Result<(), Violation> {
        match effect {
            Effect::Write { .. } => {
                self.written.add(context);
                self.report_write(context);
                Ok(())
            }
            Effect::SmallWrite(small) => {
                self.written.add(context);
                self.deliver_small(small)?;
                self.report_write(context);
                Ok(())
            }
            Effect::Send(part) => self.deliver_send(part),
            Effect::Immediate { part, immediate } => self.deliver_immediate(part, *immediate),
            Effect::ReadRequest { number, request } => self.deliver_read(*number, *request),
            Effect::AtomicRequest { number, request, .. } => self.deliver_atomic(*number, request),
            Effect::ReadResponse(part) => {
                if let Some(sequence) = self.requester.on_response(part)?.and_then(|read| read.sequence) {
                    self.sends.on_answered(sequence, Status::Success);
                }
                Ok(())
            }
            Effect::AtomicResponse { number, response } => self.deliver_atomic_response(*number, *response),
            Effect::Receipt { number, receipt } => self.deliver_receipt(*number, receipt),
            Effect::Terminate(terminate) => {
                self.on_terminated(*terminate);
                Ok(())
            }
            Effect::Done => Ok(()),
            Effect::ReadySend => {
                self.receives.skip_message();
                Ok(())
            }
        }
    }

    /// Reports to the watch of a region that a Write to it is whole. What came before its last segment has been placed.
    #[inline]
    fn report_write(&self, context: &Context) {
        if let Some(Header { last: true, target: Target::Tagged { stag, .. }, .. }) = context.header {
            self.registry.report_access(self.config.domain, stag, RemoteRight::Write, self.owner);
        }
    }

    /// A Write that has waited for its turn. Its rights may have gone meanwhile, and it is checked with the rights of
    /// now.
    #[inline(never)]
    fn deliver_small(&mut self, small: &SmallWrite) -> Result<(), Violation> {
        let (stag, offset, length) = (small.stag, small.offset, small.length.into());
        let refused = |fault| Violation::WriteTarget { stag, offset, length, fault };
        let located = self.locate_remote(stag, offset, length, RemoteRight::Write);
        let (target, address) = located.map_err(refused)?;
        let written = self.write_beneath(target, small.bytes(), Extent { address, length: length.into() });
        // It has gone since the check.
        written.map_err(|_| refused(RemoteFault::InvalidStag))
    }

    fn deliver_send(&mut self, part: &Part) -> Result<(), Violation> {
        let is_whole = self.receives.on_placed(part)?;
        self.written = Written::default();
        if !is_whole {
            return Ok(());
        }
        let invalidated = self.invalidate(part)?;
        let length = self.receives.filled();
        let solicited = matches!(
            part.opcode,
            Opcode::SendSolicited | Opcode::SendSolicitedInvalidate | Opcode::SendSolicitedImmediate
        );
        let has_immediate = matches!(part.opcode, Opcode::SendImmediate | Opcode::SendSolicitedImmediate);
        self.receives.complete(|id| Completion {
            id,
            kind: CompletionKind::Receive,
            status: Status::Success,
            length,
            immediate: has_immediate.then(|| part.word.into()),
            invalidated,
            solicited,
        });
        Ok(())
    }

    /// RFC 5040 section 5.3: a delivered Send with Invalidate invalidates the STag, or ends the stream where it may
    /// not.
    fn invalidate(&mut self, part: &Part) -> Result<Option<Stag>, Violation> {
        if !matches!(part.opcode, Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate) {
            return Ok(None);
        }
        let stag = Stag(part.word);
        match self.registry.invalidate_remote(self.config.domain, stag) {
            Ok(()) => Ok(Some(stag)),
            Err(fault) => {
                self.receives.fail_current(Status::LocalProtection);
                Err(Violation::Invalidate { stag, fault })
            }
        }
    }

    fn deliver_immediate(&mut self, part: &Part, immediate: u64) -> Result<(), Violation> {
        self.receives.on_placed(part)?;
        let length = core::mem::take(&mut self.written).bytes;
        self.receives.complete(|id| Completion {
            id,
            kind: CompletionKind::ReceiveImmediate,
            status: Status::Success,
            length,
            immediate: Some(immediate),
            invalidated: None,
            solicited: part.opcode == Opcode::ImmediateSolicited,
        });
        Ok(())
    }

    /// RFC 5040 section 5.5, rule 12: a read request starts to be processed when it is delivered. Section 5.2.1: one of
    /// length zero is answered without a check of its source.
    fn deliver_read(&mut self, number: MessageNumber, request: ReadRequest) -> Result<(), Violation> {
        self.responder.check(number)?;
        let ReadRequest { source_stag: stag, source_offset: offset, length, .. } = request;
        if length > 0 {
            let checked = self.locate_remote(stag, offset, length, RemoteRight::Read);
            checked.map_err(|fault| Violation::ReadSource { stag, offset, length, fault })?;
            // A read of no bytes only checks whether what came before it is in place, and is not reported.
            self.registry.report_access(self.config.domain, stag, RemoteRight::Read, self.owner);
        }
        self.responder.push(Inbound::Read { number, rest: request });
        Ok(())
    }

    /// RFC 7306 section 5.4, rules 3 and 8: atomics are done when they are delivered, in this order.
    fn deliver_atomic(&mut self, number: MessageNumber, request: &AtomicRequest) -> Result<(), Violation> {
        self.responder.check(number)?;
        let (stag, offset) = (request.stag, request.offset);
        let (target, address) = self
            .locate_remote(stag, offset, 8, RemoteRight::Atomic)
            .map_err(|fault| Violation::AtomicTarget { stag, offset, fault })?;
        let extent = Extent { address, length: 8 };
        let original =
            self.atomic_in_order(target, atomic_operation(request), extent).map_err(|error| match error {
                MemoryError::Misaligned { .. } => Violation::AtomicAlignment { stag, offset },
                // It has gone since the check.
                _ => Violation::AtomicTarget { stag, offset, fault: RemoteFault::InvalidStag },
            })?;
        self.registry.report_access(self.config.domain, stag, RemoteRight::Atomic, self.owner);
        self.responder.push(Inbound::Atomic(AtomicResponse { identifier: request.identifier, original }));
        Ok(())
    }

    fn deliver_atomic_response(&mut self, number: MessageNumber, response: AtomicResponse) -> Result<(), Violation> {
        let Some(sequence) = self.requester.on_atomic(number, response.identifier)?.and_then(|atomic| atomic.sequence)
        else {
            return Ok(());
        };
        let Some(Operation::Atomic { sink, .. }) = self.sends.operation(sequence) else { return Ok(()) };
        let copied = self.registry.copy_in(sink, &response.original.to_ne_bytes(), &mut NoDigest);
        self.sends.on_answered(sequence, if copied.is_ok() { Status::Success } else { Status::LocalProtection });
        Ok(())
    }
}

/// A Swap never comes as such: `weft-wire` makes it a CompareSwap that compares nothing. It is done as what it says all
/// the same.
fn atomic_operation(request: &AtomicRequest) -> AtomicOperation {
    let AtomicRequest { data, mask, compare, compare_mask, .. } = *request;
    match request.code {
        AtomicCode::FetchAdd => AtomicOperation::FetchAdd { add: data, mask },
        AtomicCode::Swap => AtomicOperation::Swap { swap: data, mask: u64::MAX },
        AtomicCode::CompareSwap => AtomicOperation::CompareSwap { swap: data, swap_mask: mask, compare, compare_mask },
    }
}
