//! Completions as a stream.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use futures_core::Stream;

use super::source::{Shared, Source, Waiting};
use crate::verbs::{Arm, CompletionQueue, Error, WorkCompletion};

/// A completion queue as a stream of completions, which has no end. One task at a time takes from it.
pub struct Completions {
    queue: CompletionQueue,
    waiting: Waiting,
    /// Its place in the reactor.
    _source: Source,
}

impl Completions {
    pub(super) fn new(shared: &Arc<Shared>, capacity: usize) -> Result<Self, Error> {
        let source = Source::new(shared);
        let queue = shared.context.create_completion_queue_on(&shared.channel, source.token(), capacity)?;
        Ok(Self { queue, waiting: source.waiting(), _source: source })
    }

    /// The queue, for queue pairs that complete on it.
    #[must_use]
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// Waits for the next completion. A future that is dropped has taken none.
    pub async fn next(&mut self) -> WorkCompletion {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<WorkCompletion> {
        if let Some(completion) = self.queue.poll() {
            return Poll::Ready(completion);
        }
        self.waiting.set(context.waker());
        self.queue.arm(Arm::Any);
        // Those that came before the queue was armed are no event.
        self.queue.poll().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Stream for Completions {
    type Item = WorkCompletion;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WorkCompletion>> {
        self.poll(context).map(Some)
    }
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}
