//! Connections and completions as futures, for programs that run in [tokio](https://tokio.rs). With the feature
//! `tokio`.
//!
//! | here | what it is |
//! |---|---|
//! | [`Reactor`] | waits for the events of one NIC in the runtime, with one descriptor |
//! | [`Connection`] | a queue pair: [`Connection::connect`], [`Connection::accept`], [`Connection::ended`] |
//! | [`Listener`] | [`Listener::accept`] |
//! | [`Completions`] | a completion queue as a stream |
//!
//! All else is as in [`verbs`](crate::verbs): posting does not wait, so it needs no future.
//! ```
//! use weft::tokio::Reactor;
//! use weft::verbs::{Access, ConnectOptions, Context, ListenOptions, QueuePairOptions, WorkRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(example())
//! # }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::open()?;
//! let reactor = Reactor::new(&context)?;
//! let domain = context.allocate_protection_domain()?;
//! let mut completions = reactor.create_completion_queue(64)?;
//! let listener = reactor.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
//! let queue_pair = || domain.create_queue_pair(completions.queue(), &QueuePairOptions::default());
//! let (active, passive) = (reactor.attach(queue_pair()?)?, reactor.attach(queue_pair()?)?);
//!
//! let inbox = domain.allocate(64, Access::LOCAL_WRITE)?;
//! passive.post_receive(1, &[inbox.slice(..)?])?;
//! let server = async { passive.accept(listener.accept().await?, &[]).await };
//! let options = ConnectOptions::default();
//! let (connected, accepted) = tokio::join!(active.connect(listener.local_address(), &options), server);
//! connected?;
//! accepted?;
//!
//! active.post(WorkRequest::send_inline(b"hello")?.unsignaled())?;
//! let received = completions.next().await;
//! assert_eq!((received.id, received.length), (1, 5));
//! # Ok(())
//! # }
//! ```
//!
//! # Who runs the NIC
//! A thread of the NIC, while the runtime's threads do other things: [`Reactor::new`] wants
//! [`Progress::Hybrid`](crate::verbs::Progress::Hybrid) (the default), with which tasks that post and poll run it
//! meanwhile, or [`Progress::Thread`](crate::verbs::Progress::Thread). The calls of [`verbs`](crate::verbs) that block
//! (`connect`, `accept`, `wait`, ...) block the runtime's thread.
//!
//! # Futures that are dropped
//! [`Listener::accept`], [`Completions::next`], [`Connection::ended`] and [`Connection::disconnect`] lose nothing when
//! they are dropped: what they wait for is there for the next one. A dropped [`Connection::connect`] or
//! [`Connection::accept`] gives the connection up, which is an error of the queue pair
//! ([`ConnectionError::Abandoned`](crate::verbs::ConnectionError::Abandoned)). So a time limit is a
//! `tokio::time::timeout` around any of them.

mod completions;
mod connection;
mod source;

use core::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use ::tokio::net::unix::pipe;
use weft_nic::Signal;

use self::source::Shared;
use crate::verbs::{Context, Error, EventChannel, ListenOptions, PortError, QueuePair, SettingsError};

pub use self::completions::Completions;
pub use self::connection::{Connection, Listener};

/// Waits in a tokio runtime for the events of a NIC. Clones are the same reactor; its task ends when the last one, and
/// everything made from it, is gone.
#[derive(Clone)]
pub struct Reactor {
    shared: Arc<Shared>,
}

impl Reactor {
    /// A reactor whose task runs in the current runtime.
    ///
    /// # Errors
    /// The NIC has no thread of its own ([`SettingsError::WaitingNeedsThread`]), or there are no more descriptors.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or in one without I/O (`enable_io`).
    pub fn new(context: &Context) -> Result<Self, Error> {
        let progress = context.settings().progress;
        if !progress.is_automatic() {
            return Err(SettingsError::WaitingNeedsThread { progress }.into());
        }
        let (reader, writer) = io::pipe().map_err(refused)?;
        let bell = Arc::new(Bell { writer, _reader: reader.try_clone().map_err(refused)? });
        let channel = EventChannel::with_signal(Arc::clone(&context.opened), bell, &reader)?;
        let readable = pipe::Receiver::from_owned_fd(reader.into()).map_err(refused)?;
        let shared = Arc::new(Shared::new(context.clone(), channel));
        ::tokio::spawn(dispatch(readable, Arc::downgrade(&shared)));
        Ok(Self { shared })
    }

    /// The NIC.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// Makes a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// A capacity of zero, or above the limit.
    pub fn create_completion_queue(&self, capacity: usize) -> Result<Completions, Error> {
        Completions::new(&self.shared, capacity)
    }

    /// Listens for connections. Port number 0 takes a free one.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached.
    pub fn listen(&self, address: SocketAddr, options: &ListenOptions) -> Result<Listener, Error> {
        Listener::new(&self.shared, self.shared.context.listen(address, options)?)
    }

    /// Takes a queue pair that is to be connected or accepted. Its events go to this reactor from now on.
    ///
    /// # Errors
    /// The queue pair is of another NIC.
    pub fn attach(&self, queue_pair: QueuePair) -> Result<Connection, Error> {
        Connection::new(&self.shared, queue_pair)
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

/// What the runtime waits for: a pipe, which it takes without unsafe code, as it does not an eventfd. A byte stands for
/// all events until the channel is empty.
struct Bell {
    writer: PipeWriter,
    /// Nothing is written to a pipe without a reader, though the runtime has ended.
    _reader: PipeReader,
}

impl Signal for Bell {
    fn set(&self) {
        // The few bytes that wait leave room.
        let _ = (&self.writer).write(&[1]);
    }

    fn clear(&self) {
        // The task has read it.
    }
}

/// Wakes the tasks whose events have come. It keeps its end of the pipe, and not the NIC: when that goes, so does the
/// other end, and the pipe is readable.
async fn dispatch(readable: pipe::Receiver, shared: Weak<Shared>) {
    while readable.readable().await.is_ok() {
        let Some(shared) = shared.upgrade() else { return };
        // Before the events are taken: one that comes into an empty channel makes it readable again.
        while matches!(readable.try_read(&mut [0; 64]), Ok(1..)) {}
        // Before the last poll, which leaves the NIC to its own thread then.
        shared.channel.arm();
        while let Some(event) = shared.channel.poll() {
            shared.slots.wake(event.token);
        }
    }
}

fn refused(error: io::Error) -> Error {
    PortError::System(error.raw_os_error().unwrap_or(0)).into()
}
