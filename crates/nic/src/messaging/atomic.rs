//! Atomic operations: by RFC 7306 where it has them, else as calls that the peer's engine executes, in the order in
//! which they come.

use weft_base::{DomainId, NoDigest, PeerId};
use weft_memory::{Combine, Element, IoBuffer, MemoryError, Registry, RemoteRight};
use weft_message::{Failure, Ticket};
use weft_rdmap::{RequestFlags, SendRequest};
use weft_wire::atomic_call::{AtomicCall, AtomicStatus};

use super::atomic_post::AtomicPost;
use super::core::Core;
use super::host::Answered;
use super::link::Purpose;
use super::request::{Completed, EndpointFailure, Event};
use super::transfer::{Transfer, UserAtomic};

/// Bytes of a cell.
const CELL: u64 = 8;

/// Executes a peer's call, and makes the answer to it.
pub(super) fn execute(registry: &Registry, domain: DomainId, owner: u64, body: &[u8]) -> Vec<u8> {
    let mut answer = vec![AtomicStatus::Done as u8];
    if let Err(status) = try_execute(registry, domain, owner, body, &mut answer) {
        answer.clear();
        answer.push(status as u8);
    }
    answer
}

fn try_execute(
    registry: &Registry,
    domain: DomainId,
    owner: u64,
    body: &[u8],
    answer: &mut Vec<u8>,
) -> Result<(), AtomicStatus> {
    let (call, operands) = AtomicCall::parse(body).ok_or(AtomicStatus::NoOperation)?;
    let element = Element::from_code(call.element).ok_or(AtomicStatus::NoOperation)?;
    let operation = Combine::from_code(call.operation).ok_or(AtomicStatus::NoOperation)?;
    if !operation.applies_to(element) {
        return Err(AtomicStatus::NoOperation);
    }
    let bytes = (call.count as usize).checked_mul(element.size()).ok_or(AtomicStatus::NoOperation)?;
    let parts = usize::from(operation.has_operand()) + usize::from(operation.compares());
    // A result is never longer than an answer can be: operands of as many bytes have come, or the length is checked
    // here.
    if bytes == 0 || bytes > MOST || operands.len() != parts * bytes {
        return Err(AtomicStatus::NoOperation);
    }
    let (operand, compare) = operands.split_at(if operation.has_operand() { bytes } else { 0 });
    let length = u32::try_from(bytes).map_err(|_| AtomicStatus::NoOperation)?;
    let slice = registry
        .check_remote(domain, call.stag, call.offset, length, RemoteRight::Atomic)
        .map_err(|_| AtomicStatus::NoAccess)?;
    if call.wants_result {
        answer.resize(1 + bytes, 0);
    }
    registry.combine(&slice, element, operation, operand, compare, &mut answer[1..]).map_err(|error| match error {
        MemoryError::Misaligned { .. } => AtomicStatus::NoOperation,
        _ => AtomicStatus::NoAccess,
    })?;
    registry.report_access(domain, call.stag, RemoteRight::Atomic, owner);
    Ok(())
}

/// Bytes of elements that one call may name.
const MOST: usize = 16 * 1024;

impl Core {
    /// Posts the atomic at the head of a peer's work. Returns whether that made progress.
    pub(super) fn post_atomic(&mut self, peer: PeerId, number: u32) -> bool {
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.get(number) else { return false };
        if atomic.native().is_some() { self.post_native(peer, number) } else { self.post_call(peer, number) }
    }

    fn post_native(&mut self, peer: PeerId, number: u32) -> bool {
        let Some(known) = self.host.peers.get_mut(peer) else { return false };
        // A call may still wait for credit: it was posted before, and is executed before.
        if known.calls > 0 {
            return false;
        }
        let Some(link) = known.link.and_then(|key| self.links.get_mut(key.0)) else { return false };
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.get_mut(number) else { return false };
        let Some(cell) = self.cells.free.pop() else { return false };
        let begin = u64::from(cell) * CELL;
        let slice = self.cells.region.slice(begin..begin + CELL);
        known.under_way += 1;
        known.work.pop_front();
        let Some(operation) = slice.ok().and_then(|sink| atomic.operation(sink)) else { return true };
        atomic.cell = Some(cell);
        let request = SendRequest {
            id: Purpose::Transfer(number).id(link.key),
            operation,
            signaled: true,
            fence: false,
            flags: RequestFlags::NONE,
        };
        let posted = link.post(request);
        self.ring_for(peer);
        if !posted {
            self.finish_native_atomic(number, Err(EndpointFailure::NoMemory));
        }
        true
    }

    fn post_call(&mut self, peer: PeerId, number: u32) -> bool {
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.get(number) else { return false };
        let body = body_of(&atomic.post);
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.work.pop_front();
            known.under_way += 1;
            known.calls += 1;
        }
        self.machine.call(peer, Ticket(u64::from(number)), &body, &mut self.host);
        true
    }

    /// An atomic work request has completed.
    pub(super) fn finish_native_atomic(&mut self, number: u32, mut outcome: Result<(), EndpointFailure>) {
        if let Some(Transfer::Atomic(atomic)) = self.host.transfers.get_mut(number)
            && let UserAtomic { cell: Some(cell), post } = &mut **atomic
        {
            let mut bytes = [0; CELL as usize];
            // Inside of the region, and of no other thread.
            let _ = self.cells.region.read(u64::from(*cell) * CELL, &mut bytes);
            self.cells.free.push(*cell);
            if let (Some(result), Ok(())) = (&mut post.result, &outcome) {
                outcome = result.copy_in(0, &bytes, &mut NoDigest).map_err(|_| EndpointFailure::Fault);
            }
        }
        self.finish_atomic(number, outcome);
    }

    /// The answer to a call has come.
    pub(super) fn finish_call(&mut self, answered: Answered) {
        let number = answered.ticket.0 as u32;
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.get_mut(number) else { return };
        let peer = atomic.post.peer;
        let outcome = match &answered.answer {
            Ok(answer) => take_answer(&mut atomic.post, answer),
            Err(Failure::PeerLost) => Err(self.host.why_lost(Some(peer))),
            Err(_) => Err(EndpointFailure::Refused),
        };
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.calls = known.calls.saturating_sub(1);
        }
        self.finish_atomic(number, outcome);
    }

    /// An atomic is over.
    pub(super) fn finish_atomic(&mut self, number: u32, outcome: Result<(), EndpointFailure>) {
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.remove(number) else { return };
        let post = atomic.post;
        self.machine.release(post.peer);
        let length = u64::from(post.count) * post.element.size() as u64;
        self.host.finish(
            post.peer,
            Event {
                completed: Completed::Atomic,
                context: post.context,
                op_flags: post.op_flags,
                tagged: false,
                outcome,
                peer: Some(post.peer),
                length,
                tag: 0,
                data: None,
                offset: 0,
                last: true,
                buffer: post.result.and_then(IoBuffer::into_buffer),
            },
        );
    }

    /// Does an atomic on memory of this endpoint's own domain.
    pub(super) fn do_atomic_with_self(&mut self, number: u32) {
        let Some(Transfer::Atomic(atomic)) = self.host.transfers.get_mut(number) else { return };
        let answer = execute(&self.host.registry, self.host.domain, self.address.id, &body_of(&atomic.post));
        let outcome = take_answer(&mut atomic.post, &answer);
        self.finish_atomic(number, outcome);
    }
}

fn body_of(post: &AtomicPost) -> Vec<u8> {
    let call = AtomicCall {
        operation: post.operation as u8,
        element: post.element as u8,
        wants_result: post.result.is_some(),
        count: post.count,
        stag: post.place.stag,
        offset: post.place.offset,
    };
    [&call.emit()[..], &post.operand, &post.compare].concat()
}

fn take_answer(post: &mut AtomicPost, answer: &[u8]) -> Result<(), EndpointFailure> {
    let (status, result) = answer.split_first().ok_or(EndpointFailure::Refused)?;
    match AtomicStatus::of(*status) {
        Some(AtomicStatus::Done) => {}
        Some(AtomicStatus::NoAccess) => return Err(EndpointFailure::Access),
        Some(AtomicStatus::NoOperation) | None => return Err(EndpointFailure::Operation),
    }
    match &mut post.result {
        Some(memory) if memory.length() == result.len() => {
            memory.copy_in(0, result, &mut NoDigest).map_err(|_| EndpointFailure::Fault)
        }
        Some(_) => Err(EndpointFailure::Refused),
        None => Ok(()),
    }
}
