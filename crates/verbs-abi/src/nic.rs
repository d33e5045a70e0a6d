//! The NIC of the process: all open devices use the same one. What ends there is told to the queue pair that it is of.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use weft::verbs::{
    CompletionQueue, CompletionSink, Context, Error, ProtectionDomain, QueuePair, QueuePairNumber, QueuePairOptions,
    Settings, SharedReceiveQueue, WorkCompletion,
};

use crate::border::lock;

/// Whom the NIC tells of what has ended. It is called by whoever runs the NIC, under its locks: it can't use the NIC.
pub(crate) trait Owner: Send + Sync {
    /// A work request has ended.
    fn complete(&self, completion: &WorkCompletion);
    /// Its number, by which the rendezvous knows it.
    fn number(&self) -> u32;
}

/// The NIC of the process.
pub(crate) struct Nic {
    pub(crate) context: Context,
    /// Of receive queues. What is received from them completes at the queue pairs.
    completions: CompletionQueue,
    owners: Owners,
}

impl Nic {
    /// Opens it.
    ///
    /// # Errors
    /// Those of [`Context::with_settings`].
    pub(crate) fn open(settings: Settings) -> Result<Self, Error> {
        let context = Context::with_settings(settings)?;
        let owners = Owners::default();
        let completions = context.create_completion_sink(owners.sink_of(None))?;
        Ok(Self { context, completions, owners })
    }

    /// Makes a receive queue of this depth.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn receive_queue(&self, domain: &ProtectionDomain, depth: u32) -> Result<SharedReceiveQueue, Error> {
        domain.create_shared_receive_queue(&self.completions, depth.max(1) as usize)
    }

    /// Makes a queue pair of the NIC that takes its receives from `receives`, and tells `owner` what ends.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn queue_pair(
        &self,
        domain: &ProtectionDomain,
        receives: &SharedReceiveQueue,
        send_depth: u32,
        owner: Arc<dyn Owner>,
    ) -> Result<QueuePair, Error> {
        let options = QueuePairOptions { send_depth: send_depth.max(1), receive_depth: 1 };
        let sink = self.owners.sink_of(Some(owner));
        let completions = self.context.create_completion_sink(Arc::clone(&sink) as Arc<dyn CompletionSink>)?;
        let made = domain.create_queue_pair_with(&completions, &completions, Some(receives), &options)?;
        self.owners.add(made.number(), sink);
        Ok(made)
    }

    /// Ends a queue pair of the NIC. Its owner gets the completions of what it flushes, and nothing after that.
    pub(crate) fn end(&self, queue_pair: QueuePair) {
        let number = queue_pair.number();
        drop(queue_pair);
        self.disown(number);
    }

    /// What ends at this queue pair is not told any more. Waits for who tells it just now.
    pub(crate) fn disown(&self, number: QueuePairNumber) {
        self.owners.disown(number);
    }

    /// Runs the NIC for a turn, as the calling thread's part of a poll.
    #[inline]
    pub(crate) fn progress(&self) {
        self.context.progress_as_caller();
    }

    /// Where queue pairs ring that need the rendezvous.
    pub(crate) fn bell(&self) -> &Bell {
        &self.owners.bell
    }
}

/// The owner of each queue pair of the NIC, to disown it by number. Completions do not pass through this list.
#[derive(Default)]
struct Owners {
    by_number: Mutex<HashMap<u32, Arc<OwnerSink>>>,
    bell: Arc<Bell>,
}

impl Owners {
    /// A sink that passes completions to an owner.
    fn sink_of(&self, owner: Option<Arc<dyn Owner>>) -> Arc<OwnerSink> {
        Arc::new(OwnerSink { owner: Mutex::new(owner), bell: Arc::clone(&self.bell) })
    }

    fn add(&self, number: QueuePairNumber, sink: Arc<OwnerSink>) {
        let before = lock(&self.by_number).insert(number.0, sink);
        drop(before);
    }

    fn disown(&self, number: QueuePairNumber) {
        let sink = lock(&self.by_number).remove(&number.0);
        let Some(sink) = sink else { return };
        let owner = lock(&sink.owner).take();
        // It may end a queue pair of the NIC in turn: no lock is held.
        drop(owner);
    }
}

/// The completion sink of one queue pair of the NIC, which passes completions to its owner. A thread that notifies an
/// owner delays no other owner. Once an owner is disowned, no thread notifies it any more.
struct OwnerSink {
    /// `None`: disowned.
    owner: Mutex<Option<Arc<dyn Owner>>>,
    bell: Arc<Bell>,
}

impl OwnerSink {
    #[inline]
    fn notify(&self, what: impl FnOnce(&dyn Owner)) {
        let owner = lock(&self.owner);
        if let Some(owner) = &*owner {
            what(&**owner);
        }
    }
}

impl CompletionSink for OwnerSink {
    fn complete(&self, completion: WorkCompletion) {
        self.notify(|owner| owner.complete(&completion));
    }

    fn connection_ended(&self, _queue_pair: QueuePairNumber) {
        self.notify(|owner| self.bell.ring(owner.number()));
    }
}

/// The numbers of queue pairs that something has happened to, for the thread of the rendezvous.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<Vec<u32>>,
    heard: Condvar,
}

impl Bell {
    /// Something has happened to this queue pair.
    pub(crate) fn ring(&self, number: u32) {
        let mut rung = lock(&self.rung);
        if !rung.contains(&number) {
            rung.push(number);
        }
        drop(rung);
        self.heard.notify_one();
    }

    /// Waits for a ring, at most for `timeout` (`None`: without a limit), and takes all numbers.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Vec<u32> {
        let mut rung = lock(&self.rung);
        if rung.is_empty() {
            rung = match timeout {
                None => self.heard.wait(rung).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => self.heard.wait_timeout(rung, timeout).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        core::mem::take(&mut *rung)
    }
}

#[cfg(test)]
mod tests;
