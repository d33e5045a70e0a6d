//! One-sided work of an endpoint with itself: done at once, by copying.

use weft_base::{DomainId, Gather, NoDigest, PeerId, Slice};
use weft_memory::{IoBuffer, Registry, RemoteRight};
use weft_message::Failure;
use weft_rdmap::{Operation, Payload, RemoteTarget};

use super::core::Core;
use super::host::send_of;
use super::request::EndpointFailure;
use super::transfer::{Transfer, UserTransfer, Work};

/// Bytes copied at a time.
const CHUNK: usize = 64 * 1024;
/// The longest range that is checked at a time.
const RANGE: u64 = 1 << 30;

impl Core {
    /// Does work that waited for its turn with this endpoint itself.
    pub(super) fn do_with_self(&mut self, peer: PeerId, work: Work) {
        match work {
            Work::Protocol { ticket, operation } => {
                let done = copy_between(&self.host.registry, self.host.domain, &operation);
                let outcome = if done { Ok(()) } else { Err(Failure::Refused) };
                self.machine.handle_transferred(ticket, outcome, &mut self.host);
            }
            Work::Send(post) => {
                self.count_begun(peer);
                self.machine.send(send_of(*post), &mut self.host);
            }
            Work::User { number, .. } => {
                self.count_begun(peer);
                match self.host.transfers.get_mut(number) {
                    Some(Transfer::User(transfer)) => {
                        let (length, data) = (transfer.length, transfer.immediate());
                        if !copy_user(&self.host.registry, self.host.domain, self.address.id, transfer) {
                            transfer.failure = Some(EndpointFailure::Access);
                        } else if data.is_some() {
                            self.report_remote_write(peer, length, data);
                        }
                        self.finish_transfer(number);
                    }
                    _ => self.do_atomic_with_self(number),
                }
            }
        }
    }

    fn count_begun(&mut self, peer: PeerId) {
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.under_way += 1;
        }
    }
}

/// Copies as a read or write between two peers would. Returns whether the rights and bounds were good.
fn copy_between(registry: &Registry, domain: DomainId, operation: &Operation) -> bool {
    let (local, remote, reads) = match operation {
        Operation::Read { sink, source } => (*sink, *source, true),
        Operation::Write { payload: Payload::Gather(source), target } => (*source, *target, false),
        _ => return false,
    };
    copy_gather(registry, domain, &local, remote, reads).is_some()
}

fn copy_gather(registry: &Registry, domain: DomainId, local: &Gather, remote: RemoteTarget, reads: bool) -> Option<()> {
    let right = if reads { RemoteRight::Read } else { RemoteRight::Write };
    let place = registry.check_remote(domain, remote.stag, remote.offset, local.length(), right).ok()?;
    let mut chunk = vec![0; CHUNK.min(local.length() as usize)];
    let mut done = 0;
    while done < local.length() {
        let now = (local.length() - done).min(CHUNK as u32);
        let (bytes, there): (&mut [u8], Slice) = (&mut chunk[..now as usize], place.part(done, now));
        if reads {
            registry.copy_out(&there, bytes, &mut NoDigest).ok()?;
            registry.copy_in_gather(local, done, bytes, &mut NoDigest).ok()?;
        } else {
            registry.copy_out_gather(local, done, bytes, &mut NoDigest).ok()?;
            registry.copy_in(&there, bytes, &mut NoDigest).ok()?;
        }
        done += now;
    }
    Some(())
}

fn copy_user(registry: &Registry, domain: DomainId, owner: u64, transfer: &mut UserTransfer) -> bool {
    let (length, reads) = (transfer.length, transfer.reads);
    let mut done = 0;
    while done < length {
        let (place, there) = transfer.place(done);
        let now = there.min(RANGE);
        let right = if reads { RemoteRight::Read } else { RemoteRight::Write };
        let Ok(there) = registry.check_remote(domain, place.stag, place.offset, now as u32, right) else {
            return false;
        };
        if !copy_loan(registry, &mut transfer.memory, done as usize, &there, reads) {
            return false;
        }
        registry.report_access(domain, place.stag, right, owner);
        done += now;
    }
    true
}

fn copy_loan(registry: &Registry, memory: &mut IoBuffer, offset: usize, there: &Slice, reads: bool) -> bool {
    let mut chunk = vec![0; CHUNK.min(there.length as usize)];
    let mut done = 0;
    while done < there.length {
        let now = (there.length - done).min(CHUNK as u32);
        let bytes = &mut chunk[..now as usize];
        let part = there.part(done, now);
        let at = offset + done as usize;
        let copied = if reads {
            registry.copy_out(&part, bytes, &mut NoDigest).and_then(|()| memory.copy_in(at, bytes, &mut NoDigest))
        } else {
            memory.copy_out(at, bytes, &mut NoDigest).and_then(|()| registry.copy_in(&part, bytes, &mut NoDigest))
        };
        if copied.is_err() {
            return false;
        }
        done += now;
    }
    true
}
