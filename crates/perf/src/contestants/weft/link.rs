//! A queue pair and the completions of its work, as all tests of two sides use it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weft::verbs::Waker;
use weft::verbs::{
    Access, CompletionKind, CompletionQueue, Context, Counters, Error, MemoryError, MemoryRegion, PostError,
    PostFailure, Progress, ProtectionDomain, QueuePair, QueuePairOptions, Status, WorkCompletion, WorkRequest,
};

use crate::contestants::weft::demands::{memory_slots, operation, receive_slots};
use crate::host::work::Work;
use crate::model::job::{Job, Kind, Operation, Role, Wait};

/// Id of receives for words between the two sides; smaller ones are slots of the inbox.
const WORD: u64 = u64::MAX;
/// Words that can be in flight at once.
const WORDS: usize = 16;
/// Completions that are taken at a time.
const BATCH: usize = 64;
/// The longest sleep between two checks of the state of the connection.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Empty polls between two checks of the state of the connection.
const POLLS_PER_CHECK: u32 = 1 << 14;

/// What the two sides say to each other beside the data: the length of the message tells which it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// A batch of receives is posted again.
    Credit = 0,
    /// That was all, or: I have it all.
    Done = 1,
}

/// Whether words come to this side. Where messages are received too, they would take each other's receives.
fn hears_words(job: &Job) -> bool {
    match (operation(job), job.kind) {
        (_, Kind::Overlap | Kind::Inserted | Kind::Ratio) => false,
        (Operation::Send | Operation::Notify, Kind::Latency | Kind::PingPing | Kind::Connect | Kind::LogP) => false,
        (Operation::Send, _) => job.role() == Role::Active,
        _ => true,
    }
}

/// A queue pair, and the completions of its requests.
pub(crate) struct Link {
    context: Context,
    completions: CompletionQueue,
    queue_pair: QueuePair,
    /// A byte for words to come into.
    words: MemoryRegion,
    /// Buffers for messages in the inbox, and how large each is.
    memory: (u64, u64),
    sleeps: bool,
    summons: Arc<Summons>,
    batch: Vec<WorkCompletion>,
    empty_polls: u32,
    /// Messages that a signaled request has reported as gone, or as read.
    pub(crate) completed: u64,
    /// Messages received, not yet taken.
    pub(crate) received: u64,
    /// Slots of the inbox that hold them, to be posted again.
    pub(crate) filled: Vec<u64>,
    /// Credits that came and were not used.
    pub(crate) credits: u64,
    done: u64,
}

impl Link {
    /// Whether the NIC calls for the thread that computes. Asked once, it forgets.
    pub(crate) fn is_summoned(&self) -> bool {
        // Polled every microsecond: most of the time a load is enough.
        self.summons.0.load(Ordering::Relaxed) && self.summons.0.swap(false, Ordering::Acquire)
    }

    /// Runs the NIC until it has nothing to do.
    pub(crate) fn answer_summons(&mut self) -> Outcome<()> {
        while self.context.progress() {}
        self.poll()
    }

    /// Makes a queue pair that is ready for whatever may come first.
    pub(crate) fn new(domain: &ProtectionDomain, inbox: &MemoryRegion, context: &Context, job: &Job) -> Outcome<Self> {
        let slots = receive_slots(job);
        let words = if hears_words(job) { WORDS } else { 0 };
        // Beside computation a transfer is two requests; the place of the one that is not signaled may come free a
        // moment after the completion of the other is seen, by a thread of the NIC.
        let requests = if matches!(job.kind, Kind::Overlap | Kind::Inserted | Kind::Ratio) { 4 } else { 2 };
        let (sends, receives) = (requests * job.buffers() + WORDS, (slots + words).max(1));
        let completions = context.create_completion_queue(sends + receives)?;
        let options = QueuePairOptions { send_depth: sends as u32, receive_depth: receives as u32 };
        let queue_pair = domain.create_queue_pair(&completions, &options)?;
        let link = Self {
            context: context.clone(),
            completions,
            queue_pair,
            words: domain.allocate(1, Access::LOCAL_WRITE)?,
            memory: (memory_slots(job) as u64, job.size as u64),
            sleeps: sleeps(context, job.wait == Wait::Block),
            summons: Summons::of(context),
            batch: Vec::with_capacity(BATCH),
            empty_polls: 0,
            completed: 0,
            received: 0,
            filled: Vec::with_capacity(slots),
            credits: 0,
            done: 0,
        };
        (0..slots as u64).try_for_each(|slot| link.receive_into(inbox, slot))?;
        (0..words).try_for_each(|_| link.expect_word())?;
        Ok(link)
    }

    pub(crate) fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    pub(crate) fn counters(&self) -> Counters {
        self.context.counters()
    }

    /// Whether waits sleep from now on.
    pub(crate) fn wait_blocking(&mut self, block: bool) {
        self.sleeps = sleeps(&self.context, block);
    }

    /// Posts a receive into a slot of the inbox. Where there are more receives than memory, they share it.
    fn receive_into(&self, inbox: &MemoryRegion, slot: u64) -> Outcome<()> {
        let (slots, size) = self.memory;
        let start = slot % slots * size;
        Ok(self.queue_pair.post_receive(slot, &[inbox.slice(start..start + size)?])?)
    }

    /// Posts again up to `most` of the slots that messages have come into.
    pub(crate) fn repost(&mut self, inbox: &MemoryRegion, most: usize) -> Outcome<()> {
        for _ in 0..most {
            let Some(slot) = self.filled.pop() else { break };
            self.receive_into(inbox, slot)?;
        }
        Ok(())
    }

    fn expect_word(&self) -> Outcome<()> {
        Ok(self.queue_pair.post_receive(WORD, &[self.words.slice(..)?])?)
    }

    /// Says a word.
    pub(crate) fn say(&self, word: Word) -> Outcome<()> {
        Ok(self.queue_pair.post(WorkRequest::send_inline(&[0; 1][..word as usize])?.unsignaled())?)
    }

    /// Waits until the other side is done.
    pub(crate) fn await_done(&mut self) -> Outcome<()> {
        while self.done == 0 {
            self.turn()?;
        }
        self.done -= 1;
        Ok(())
    }

    /// Computes for this long; runs the NIC between two quanta when it calls for this thread.
    pub(crate) fn compute(&mut self, work: &Work, microseconds: f64) -> Outcome<()> {
        let mut outcome = Ok(());
        work.compute(microseconds, || {
            if self.is_summoned() && outcome.is_ok() {
                outcome = self.answer_summons();
            }
        });
        outcome
    }

    /// Calls in once, whatever the waits do, and counts what has completed.
    pub(crate) fn poll(&mut self) -> Outcome<()> {
        self.completions.poll_into(&mut self.batch, BATCH);
        self.count_batch()
    }

    /// Waits until everything that was posted has gone out.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        while self.queue_pair.sends_under_way() > 0 {
            self.context.progress();
            self.count_empty_poll()?;
        }
        Ok(())
    }

    /// Lets the NIC work once, or waits for it, and counts what has completed.
    pub(crate) fn turn(&mut self) -> Outcome<()> {
        if self.sleeps {
            self.batch.extend(self.completions.wait(Some(CHECK_INTERVAL)));
        } else {
            self.completions.poll_into(&mut self.batch, BATCH);
        }
        if self.batch.is_empty() {
            return if self.sleeps { self.check() } else { self.count_empty_poll() };
        }
        self.count_batch()
    }

    fn count_batch(&mut self) -> Outcome<()> {
        let mut batch = std::mem::take(&mut self.batch);
        for completion in batch.drain(..) {
            self.count(&completion)?;
        }
        self.batch = batch;
        Ok(())
    }

    /// Lets the NIC work once, when no completion is expected.
    pub(crate) fn progress(&mut self) -> Outcome<()> {
        if self.context.settings().progress.caller_runs() {
            self.context.progress();
        }
        self.count_empty_poll()
    }

    fn count(&mut self, completion: &WorkCompletion) -> Outcome<()> {
        if completion.status != Status::Success {
            return Err(Broken(format!("a {:?} failed: {}", completion.kind, completion.status)));
        }
        match completion.kind {
            CompletionKind::Receive if completion.id == WORD => {
                self.expect_word()?;
                match completion.length {
                    0 => self.credits += 1,
                    _ => self.done += 1,
                }
            }
            // What a notified put has written is in place, and the receive has nothing.
            CompletionKind::Receive | CompletionKind::ReceiveImmediate => {
                self.received += 1;
                self.filled.push(completion.id);
            }
            _ => self.completed += completion.id,
        }
        Ok(())
    }

    /// Checks now and then whether the connection is still open.
    fn count_empty_poll(&mut self) -> Outcome<()> {
        self.empty_polls += 1;
        if self.empty_polls < POLLS_PER_CHECK {
            return Ok(());
        }
        self.empty_polls = 0;
        self.check()
    }

    fn check(&self) -> Outcome<()> {
        if self.queue_pair.state().has_ended() {
            return Err(Broken("the connection has ended".into()));
        }
        Ok(())
    }

    /// What went wrong, and why the connection ended if it did.
    pub(crate) fn explain(&self, broken: &Broken) -> String {
        match self.queue_pair.error() {
            Some(error) => format!("{}: {error}", broken.0),
            None => broken.0.clone(),
        }
    }
}

/// The NIC's call for the thread that computes.
#[derive(Default)]
struct Summons(AtomicBool);

impl Summons {
    fn of(context: &Context) -> Arc<Self> {
        let summons = Arc::new(Self::default());
        if context.settings().laboratory.selective_interrupt {
            context.set_summons(Arc::clone(&summons) as Arc<dyn Waker>);
        }
        summons
    }
}

impl Waker for Summons {
    fn wake(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether a wait sleeps: a thread that spins would only take the core from the one that runs the NIC.
fn sleeps(context: &Context, block: bool) -> bool {
    context.settings().progress == Progress::Thread || block
}

/// Why a measurement could not continue.
#[derive(Debug)]
pub(crate) struct Broken(String);

impl Broken {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

pub(crate) type Outcome<T> = Result<T, Broken>;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

impl From<PostError> for Broken {
    fn from(error: PostError) -> Self {
        Self(error.to_string())
    }
}

impl From<PostFailure> for Broken {
    fn from(error: PostFailure) -> Self {
        Self(error.to_string())
    }
}

impl From<MemoryError> for Broken {
    fn from(error: MemoryError) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}
