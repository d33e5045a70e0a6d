//! The verbs: what an RDMA program works with, in the field's words.
//!
//! | here | what it is |
//! |---|---|
//! | [`Context`] | an opened software NIC |
//! | [`ProtectionDomain`] | what belongs together: queue pairs reach only regions of their own domain |
//! | [`MemoryRegion`] | registered memory: local work requests and, as far as its rights go, peers may use it |
//! | [`CompletionQueue`] | where finished work requests are reported |
//! | [`QueuePair`] | a connection's work queues: sends, writes, reads, atomics; receives |
//! | [`SharedReceiveQueue`] | receives for many queue pairs |
//! | [`Listener`], [`IncomingConnection`] | the passive side of connecting |
//! | [`EventChannel`] | one descriptor for all that happens to connections and queues |
//!
//! # What completes when
//! A send or write completes when its bytes have been handed to the stream below and its memory may be used again; that
//! says nothing of the peer. A read or atomic completes when its result is here. A receive completes when its whole
//! message is here, and everything that the peer posted before it (its writes included) is in place. Completions of one
//! queue pair's sends come in the order of posting, and so do those of its receives. Every work request that was taken
//! has exactly one completion, but for sends that are not signaled and succeed.
//!
//! # Sends and receives
//! Post a receive before the peer sends. A Send for which none is posted ends the connection over iWARP and shared
//! memory (RFC 5041 section 7.1), and waits over Edge. How many Sends the peer may have in flight is therefore agreed
//! between the programs, by credits: [`receives_and_credits`] says how.
//!
//! # Waiting for many connections
//! [`QueuePair::connect`], [`Listener::accept`] and [`CompletionQueue::wait`] block. A thread that has more than one
//! thing to wait for begins ([`QueuePair::start_connect`]), takes what is there ([`Listener::try_accept`],
//! [`CompletionQueue::poll`]), and waits for an [`EventChannel`]:
//! ```
//! use std::time::Duration;
//! use weft::verbs::{ConnectOptions, Context, EventKind, ListenOptions, QueuePairOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const LISTENER: u64 = 0;
//! let context = Context::open()?;
//! let channel = context.create_event_channel()?;
//! let domain = context.allocate_protection_domain()?;
//! let completions = context.create_completion_queue(64)?;
//! let listener = context.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
//! listener.set_events(&channel, LISTENER)?;
//!
//! let (caller, called) = (1, 2);
//! let active = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//! let passive = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//! active.set_events(&channel, caller)?;
//! passive.set_events(&channel, called)?;
//! active.start_connect(listener.local_address(), &ConnectOptions::default())?;
//!
//! let mut established = 0;
//! while established < 2 {
//!     // Or poll(2), with the channel's descriptor among others.
//!     let event = channel.wait(Some(Duration::from_secs(10))).ok_or("no event")?;
//!     match event.kind {
//!         EventKind::Requested => {
//!             while let Some(request) = listener.try_accept()? {
//!                 request.accept(&passive, &[])?;
//!             }
//!         }
//!         EventKind::Established => established += 1,
//!         other => return Err(format!("{}: {other}", event.token).into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # In which order writes are placed
//! Memory at the peer ends as if all Writes had come in the order of posting, and one of at most 8 bytes, which may be
//! a flag that is polled, is seen no sooner than all that was posted before it. Longer ones may be placed as they come,
//! over Edge. A request may ask for more ([`WorkRequest::backward_fence`], [`WorkRequest::forward_fence`]), or for less
//! ([`WorkRequest::unordered`]); and for an event at the peer ([`WorkRequest::notify`]).
//!
//! # Memory
//! A region owns its bytes. They are copied in and out ([`MemoryRegion::read`](weft_memory::Region::read),
//! [`MemoryRegion::write`](weft_memory::Region::write)), read as atomics
//! ([`MemoryRegion::load_u64`](weft_memory::Region::load_u64)), or, while no peer may touch them and nothing in flight
//! uses them, borrowed for the time of a closure ([`MemoryRegion::view`](weft_memory::Region::view),
//! [`MemoryRegion::edit`]). So nothing that is in flight can be freed, and nothing that a peer writes is ever behind a
//! Rust reference.
//!
//! # Who does the work
//! With [`Progress::Hybrid`] (the default) the calling thread runs the NIC while it posts, polls or waits, and a thread
//! of the NIC carries on when the caller has been away for 200 us, or longer on an oversubscribed machine (see
//! [`Settings::away`]); with [`Progress::Caller`] no thread does then; with [`Progress::Thread`] that thread does all
//! the work. [`Settings::engines`] spreads connections over cores. [`Settings::laboratory`] is for those who study
//! which stage of the path belongs on which thread.
//!
//! # Callbacks
//! Code that the NIC calls ([`Completions::complete`](crate::endpoint::Completions::complete), what
//! [`Context::wait_until`] asks) can't use a NIC: calls fail with [`Error::InCallback`] there, or do nothing, and waits
//! end at once.
//!
//! # fork
//! A child made by `fork` owns nothing of its parent's NICs: calls fail with [`Error::Forked`], polling finds nothing,
//! and its end sends nothing. It may open a NIC of its own.

mod completion_queue;
mod connect;
mod context;
mod event_channel;
mod memory_region;
mod opened;
mod peer_address;
mod queue_pair;
pub mod receives_and_credits;
mod work_request;

pub use completion_queue::{CompletionQueue, WaitError};
pub use connect::{ConnectOptions, IncomingConnection, ListenOptions, Listener};
pub use context::{Context, ProtectionDomain};
pub use event_channel::EventChannel;
pub use memory_region::{MemoryRegion, RemoteMemory};
pub(crate) use opened::{HandedOver, Opened};
pub use peer_address::{ParseAddressError, PeerAddress};
pub use queue_pair::{QueuePair, QueuePairOptions, SharedReceiveQueue};
pub use weft_base::{MAX_GATHER, MAX_LISTED, PortError, RegionId, Slice, Stag, Waker};
pub use weft_link::{LinkAddress, LinkSettings, ParseLinkError, PortRange};
pub use weft_memory::{Access, Buffer, MemoryError, RegionAttributes, RemoteRight, SliceList, Watch};
pub use weft_nic::offer::{
    Extensions, LowerInfo, LowerStartError, MarkerSpacing, MpaInfo, MpaOffer, MpaStartError, MpaStartMisuse, Offer,
    ReadyKind, ReadyKinds, StartError, StartMisuse, StartReason, Transport,
};
pub use weft_nic::{
    Arm, ChannelEvent, CompletionSink, ConnectionError, ConnectionInfo, Counters, Error, EventKind, FlowShare, JobKey,
    Limits, NamedRails, Out, ParseFlowShareError, ParseRailsError, PostError, PostFailure, Progress, QueuePairNumber,
    RailReport, RailState, Rails, RefusedStart, RequestInfo, Settings, SettingsError, State, Verify, WorkCompletion,
    laboratory,
};
pub use weft_rdmap::{Closed, Completion, CompletionKind, MAX_INLINE, RequestFlags, Status, StreamError, Violation};
pub use weft_wire::rdmap::AtomicCode;
pub use weft_wire::terminate::{Terminate, TerminateCode};
pub use work_request::WorkRequest;
