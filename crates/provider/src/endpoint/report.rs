//! Turns the NIC's events into completions and counts.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use weft::endpoint::{Completed, Completions as Reports, EndpointFailure, Event, Warning};
use weft_libfabric::abi::{
    FI_ATOMIC, FI_MSG, FI_MULTI_RECV, FI_READ, FI_RECV, FI_REMOTE_CQ_DATA, FI_REMOTE_WRITE, FI_RMA, FI_SEND, FI_TAGGED,
    FI_WRITE,
};

use super::counter_order::{Class, CounterOrder};
use super::many::Many;
use super::op_flags::OpFlags;
use crate::queue::{Completions, Entry, Failure, Source, Tally};
use crate::stderr;

/// The destinations of an endpoint's completions. Called by the thread that runs the NIC.
pub(super) struct Report {
    /// For operations that this side began.
    pub(super) transmit: Option<Arc<Completions>>,
    /// For receives.
    pub(super) receive: Option<Arc<Completions>>,
    /// The endpoint's index there, for sources, once it has one.
    pub(super) place: AtomicU32,
    pub(super) tallies: Tallies,
    pub(super) turns: CounterOrder,
    pub(super) many: Many,
    /// The application's context from opening.
    pub(super) context: usize,
    /// Whether the endpoint is closed: nothing is reported any more.
    pub(super) closed: AtomicBool,
}

/// Counters, by the operations that they count. A counter is bound once, before or after the endpoint is enabled.
#[derive(Default)]
pub(super) struct Tallies {
    pub(super) send: OnceLock<Arc<Tally>>,
    pub(super) receive: OnceLock<Arc<Tally>>,
    pub(super) read: OnceLock<Arc<Tally>>,
    pub(super) write: OnceLock<Arc<Tally>>,
}

impl Tallies {
    /// Whether writes and atomics of this side are counted.
    #[inline]
    pub(super) fn counts_writes(&self) -> bool {
        self.write.get().is_some()
    }
}

impl Reports for Report {
    fn complete(&self, event: Event) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let op_flags = OpFlags::from_bits(event.op_flags);
        if op_flags.has(OpFlags::MANY) {
            return self.complete_many(&event, op_flags);
        }
        let context = if op_flags.has(OpFlags::ANONYMOUS) { self.context } else { event.context as usize };
        self.show(&event, op_flags, self.entry(&event, op_flags, context));
        self.count(&event, op_flags);
    }

    fn warn(&self, warning: &Warning) {
        stderr::complain_of_standstill(warning);
    }
}

impl Report {
    /// A message into a receive of many, or the end of one.
    fn complete_many(&self, event: &Event, op_flags: OpFlags) {
        let key = event.context;
        let Some(buffer) = (if event.last { self.many.remove(key) } else { self.many.get(key) }) else { return };
        let over = if event.last { FI_MULTI_RECV } else { 0 };
        if event.last && event.peer.is_none() && event.outcome.is_ok() {
            // No message: the memory is the application's again.
            return self.push(&self.receive, Entry::new(buffer.context, over));
        }
        let mut entry = self.entry(event, op_flags, buffer.context);
        entry.flags |= over;
        entry.buffer = buffer.start.wrapping_add(event.offset as usize);
        // The last one is always reported, so that the application knows of the end (fi_msg(3), FI_MULTI_RECV).
        let op_flags = if event.last { OpFlags::MANY } else { op_flags };
        self.show(event, op_flags, entry);
        self.count(event, op_flags);
    }

    fn entry(&self, event: &Event, op_flags: OpFlags, context: usize) -> Entry {
        let mut entry = Entry::new(context, flags(event, op_flags));
        if is_receive(event) {
            entry.length = event.length as usize;
            entry.tag = event.tag;
            if let Some(data) = event.data {
                entry.flags |= FI_REMOTE_CQ_DATA;
                entry.data = data;
            }
            entry.source =
                event.peer.map_or(Source::NONE, |peer| Source::new(self.place.load(Ordering::Relaxed), peer));
        }
        entry
    }

    fn show(&self, event: &Event, op_flags: OpFlags, entry: Entry) {
        let queue = if is_receive(event) { &self.receive } else { &self.transmit };
        match &event.outcome {
            Ok(()) if op_flags.has(OpFlags::QUIET) => {}
            Ok(()) => self.push(queue, entry),
            Err(failure) => {
                if matches!(failure, EndpointFailure::Unreachable(_)) {
                    stderr::complain_of_first_unreachable_peer(&failure.to_string());
                }
                if let Some(queue) = queue {
                    queue.push_failure(entry, Failure::from(failure));
                }
            }
        }
    }

    fn push(&self, queue: &Option<Arc<Completions>>, entry: Entry) {
        if let Some(queue) = queue {
            queue.push(entry);
        }
    }

    fn count(&self, event: &Event, op_flags: OpFlags) {
        let succeeded = event.outcome.is_ok();
        let class = match event.completed {
            Completed::Send => return complete(&self.tallies.send, succeeded),
            Completed::Receive => return complete(&self.tallies.receive, succeeded),
            Completed::RemoteWrite => return,
            Completed::Read => Class::Read,
            Completed::Atomic if op_flags.has(OpFlags::FETCHES) => Class::Read,
            Completed::Write | Completed::Atomic => Class::Write,
        };
        self.turns.end(op_flags, class, succeeded, |class, succeeded| self.count_one_sided(class, succeeded));
    }

    fn count_one_sided(&self, class: Class, succeeded: bool) {
        match class {
            Class::Read => complete(&self.tallies.read, succeeded),
            Class::Write => complete(&self.tallies.write, succeeded),
        }
    }

    /// The flags of a one-sided operation that begins now, with a turn if there is a counter.
    #[inline]
    pub(super) fn begin(&self, op_flags: OpFlags) -> OpFlags {
        let counted = self.tallies.read.get().is_some() || self.tallies.write.get().is_some();
        if counted { self.turns.begin(op_flags) } else { op_flags }
    }

    /// It was refused.
    #[cold]
    pub(super) fn take_back(&self, op_flags: OpFlags) {
        self.turns.take_back(op_flags, |class, succeeded| self.count_one_sided(class, succeeded));
    }
}

#[inline]
fn complete(tally: &OnceLock<Arc<Tally>>, succeeded: bool) {
    if let Some(tally) = tally.get() {
        tally.complete(succeeded);
    }
}

const fn is_receive(event: &Event) -> bool {
    matches!(event.completed, Completed::Receive | Completed::RemoteWrite)
}

/// The flags of a completion by fi_cq(3).
const fn flags(event: &Event, op_flags: OpFlags) -> u64 {
    let message = if event.tagged { FI_TAGGED } else { FI_MSG };
    match event.completed {
        Completed::Send => FI_SEND | message,
        Completed::Receive => FI_RECV | message,
        Completed::Write => FI_RMA | FI_WRITE,
        Completed::Read => FI_RMA | FI_READ,
        Completed::Atomic if op_flags.has(OpFlags::FETCHES) => FI_ATOMIC | FI_READ,
        Completed::Atomic => FI_ATOMIC | FI_WRITE,
        Completed::RemoteWrite => FI_RMA | FI_REMOTE_WRITE,
    }
}
