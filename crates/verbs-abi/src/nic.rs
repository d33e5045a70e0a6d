//! The NIC of the process: all open devices use the same one. What ends there is told to the queue pair that it is of.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use weft::verbs::{
    CompletionQueue, CompletionSink, Context, Error, ProtectionDomain, QueuePair, QueuePairNumber, QueuePairOptions,
    Settings, SharedReceiveQueue, WorkCompletion,
};

use crate::border::lock;
use crate::memory::KeyHasher;

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
    completions: CompletionQueue,
    owners: Arc<Owners>,
}

impl Nic {
    /// Opens it.
    ///
    /// # Errors
    /// Those of [`Context::with_settings`].
    pub(crate) fn open(settings: Settings) -> Result<Self, Error> {
        let context = Context::with_settings(settings)?;
        let owners = Arc::new(Owners::default());
        let completions = context.create_completion_sink(Arc::clone(&owners) as Arc<dyn CompletionSink>)?;
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
        let made = domain.create_queue_pair_with(&self.completions, &self.completions, Some(receives), &options)?;
        let mut owners = self.owners.by_number.write().unwrap_or_else(PoisonError::into_inner);
        owners.insert(made.number().0, owner);
        drop(owners);
        Ok(made)
    }

    /// Ends a queue pair of the NIC. Its owner gets the completions of what it flushes, and nothing after that.
    pub(crate) fn end(&self, queue_pair: QueuePair) {
        let number = queue_pair.number();
        drop(queue_pair);
        self.disown(number);
    }

    /// What ends at this queue pair is not told any more.
    pub(crate) fn disown(&self, number: QueuePairNumber) {
        let mut owners = self.owners.by_number.write().unwrap_or_else(PoisonError::into_inner);
        let owner = owners.remove(&number.0);
        drop(owners);
        drop(owner);
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

/// Who each queue pair of the NIC belongs to.
#[derive(Default)]
struct Owners {
    by_number: RwLock<HashMap<u32, Arc<dyn Owner>, BuildHasherDefault<KeyHasher>>>,
    bell: Bell,
}

impl Owners {
    /// Tells the owner of a queue pair something. It takes no lock under which an owner is added or removed.
    #[inline]
    fn tell(&self, queue_pair: QueuePairNumber, what: impl FnOnce(&dyn Owner)) {
        let owners = self.by_number.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get(&queue_pair.0) {
            what(&**owner);
        }
    }
}

impl CompletionSink for Owners {
    fn complete(&self, completion: WorkCompletion) {
        self.tell(completion.queue_pair, |owner| owner.complete(&completion));
    }

    fn connection_ended(&self, queue_pair: QueuePairNumber) {
        self.tell(queue_pair, |owner| self.bell.ring(owner.number()));
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
