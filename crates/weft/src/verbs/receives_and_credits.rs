//! Receives and credits: how many messages a peer may send, and how two programs agree on that.
//!
//! # What takes a receive
//! | request of the peer | takes a receive here |
//! |---|---|
//! | [Send][send], also [solicited], with [invalidate] or [immediate data][message] | one a message, of any length |
//! | [immediate data](super::WorkRequest::immediate), [Write with immediate data](super::WorkRequest::with_immediate) | one, of which no byte is used |
//! | Write, Read, atomic operations | none: the peer names the memory |
//!
//! A receive for messages without bytes needs no slices.
//!
//! [send]: super::WorkRequest::send
//! [solicited]: super::WorkRequest::solicited
//! [invalidate]: super::WorkRequest::invalidate
//! [message]: super::WorkRequest::with_message_immediate
//!
//! Messages take receives in the order in which these were posted. A message that is longer than the receive that it
//! takes is an error at both ends, so all receives of a queue are as long as the longest message.
//!
//! # A message that finds none
//! RDMA has no back-pressure for Sends of its own. What happens depends on what carries the connection
//! ([`LowerInfo`](super::LowerInfo)):
//!
//! - **iWARP and shared memory**: the connection ends, as the standard wants it (RFC 5041 section 7.1): a receive that
//!   is missing is a mistake of the programs. Both queue pairs fail; the peer's request has the status
//!   [`RemoteInvalidRequest`](super::Status::RemoteInvalidRequest).
//! - **iWARP and shared memory between two Wefts that have agreed on [receipts](#receipts)**: the message waits at its
//!   sender.
//! - **Edge**: the message waits at the peer, as on a reliable connection of InfiniBand with unlimited retries (RNR),
//!   and what the peer has posted behind it waits too. What it does not hold up are answers: Reads and atomics of the
//!   side that has no receive complete, and may so overtake Writes that the peer has posted behind its Send. About a
//!   thousand segments of answers (1.4 MB with an MTU of 1500), and answers to 64 Reads at least, get past it; then
//!   they wait for a receive as well. Nor does it hold up the end of the connection:
//!   [`QueuePair::disconnect`](super::QueuePair::disconnect) gives a Send up for which no receive is posted within
//!   [`Settings::close_timeout`](super::Settings::close_timeout), and
//!   [`QueuePair::set_receive_wait`](super::QueuePair::set_receive_wait) has it given up on an open connection.
//!
//! A program that is right over iWARP is right over all of them, so it counts.
//!
//! # Receipts
//! [`Extensions::receipts`](super::Extensions::receipts) in the offers of both ends gives iWARP and shared memory what
//! Edge has: a Send, or a Write with immediate data, waits for a receive, and a request completes when it is in place
//! at the peer, not when its bytes were handed over. With a peer of another make, or one that does not offer them, all
//! is as the standard says ([`MpaInfo::extensions`](super::MpaInfo) tells). They are off by default: acknowledgements
//! are messages of their own, and each request has a place among those under way until it is acknowledged. Where a
//! program answers messages soon after it has received them, with [`Progress::Hybrid`](super::Progress::Hybrid), its
//! answers take the acknowledgements along; else they leave at once.
//!
//! The NIC counts for the program. The receiver promises receives that are posted, and the sender sends no message
//! without a promise, so it waits at its *sender*, and what is posted behind it too; answers to Reads of the peer, its
//! Writes and acknowledgements wait for nothing. How long it waits, and what follows, is as over Edge
//! ([`QueuePair::set_receive_wait`](super::QueuePair::set_receive_wait)).
//!
//! A queue pair's own receives are promised to its peer as soon as it has wanted one, and as they are posted. Those of
//! a shared receive queue are promised to peers that have messages to send, as many as these have, and to no other: so
//! no connection that is quiet holds any back, and each message waits for a question and its answer, a round trip. A
//! shared queue that one connection after the other uses promises all too:
//! [`SharedReceiveQueue::set_serves_one`](super::SharedReceiveQueue::set_serves_one). A receive that is posted for a
//! peer that waits is found when the program polls or waits, else by a timer, after 200 us to 25.6 ms.
//!
//! ```
//! use weft::verbs::{ConnectOptions, Extensions, ListenOptions};
//!
//! let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
//! connect.offer.mpa.extensions = Extensions::all();
//! listen.offer.mpa.extensions = Extensions::all();
//! # assert!(connect.offer.mpa.extensions.receipts && listen.offer.mpa.extensions.receipts);
//! ```
//!
//! # A fixed number
//! Where each message is answered by one, as in remote procedure calls, no credits have to be sent. Both programs know
//! how many requests may be without an answer; each posts that many receives. Two rules keep it so:
//!
//! 1. Post receives **before** [`QueuePair::connect`](super::QueuePair::connect) or
//!    [`IncomingConnection::accept`](super::IncomingConnection::accept): an idle queue pair takes them, and the peer
//!    may send at once when the connection is established.
//! 2. When a message has been taken out of its buffer, post the receive again **before** the answer is sent: the
//!    answer tells the peer that it may send another message.
//!
//! # Credits
//! Where messages are not answered one by one, the receiver grants credits, one for each receive that it has posted,
//! and the sender sends no message without one. A count of all credits ever granted, as a word in the sender's memory
//! into which the receiver Writes, has three advantages over messages that carry credits: a Write takes no receive
//! itself, so no credit has to be kept back for returning credits; one that is lost in a burst does no harm, as the
//! next one has the whole count; and the sender polls its own memory.
//! ```
//! use std::sync::atomic::Ordering;
//! use std::time::Duration;
//! use weft::verbs::{
//!     Access, ConnectOptions, Context, ListenOptions, QueuePairOptions, Status, WorkRequest,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const RECEIVES: u64 = 4;
//! const MESSAGES: u64 = 100;
//! let context = Context::open()?;
//! let domain = context.allocate_protection_domain()?;
//! let completions = context.create_completion_queue(64)?;
//! let sender = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//! let receiver = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//!
//! // The receives, before the connection is established; what they are worth, in the memory of the sender. (The
//! // receiver learns where that is by private data, as a rule.)
//! let inbox = domain.allocate(8 * RECEIVES as usize, Access::LOCAL_WRITE)?;
//! let place = |id: u64| inbox.slice(8 * id..8 * id + 8);
//! for id in 0..RECEIVES {
//!     receiver.post_receive(id, &[place(id)?])?;
//! }
//! let granted = domain.allocate(8, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! granted.write(0, &RECEIVES.to_ne_bytes())?;
//!
//! # let second = Some(Duration::from_secs(10));
//! let listener = context.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
//! sender.start_connect(listener.local_address(), &ConnectOptions::default())?;
//! listener.accept(second)?.accept(&receiver, &[])?;
//! sender.wait_connected(second)?;
//!
//! let (mut sent, mut received) = (0, 0);
//! while received < MESSAGES {
//!     // The sender.
//!     while sent < MESSAGES.min(granted.load_u64(0, Ordering::Acquire)?) {
//!         sender.post(WorkRequest::send_inline(&sent.to_ne_bytes())?.unsignaled())?;
//!         sent += 1;
//!     }
//!     // The receiver: takes the message, posts its receive again, and then grants one more.
//!     if let Some(message) = completions.poll() {
//!         assert_eq!(message.status, Status::Success);
//!         assert_eq!(inbox.load_u64(8 * message.id, Ordering::Acquire)?, received);
//!         received += 1;
//!         receiver.post_receive(message.id, &[place(message.id)?])?;
//!         let count = (RECEIVES + received).to_ne_bytes();
//!         receiver.post(WorkRequest::write_inline(&count, granted.remote(0))?.unsignaled())?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//! The word has 8 bytes and is aligned to 8, so it is never read half written, and it is not seen before what was
//! posted before it. It is in the receiver's byte order: programs for several kinds of machines agree on one. Where
//! grants cost too much, several receives are granted together; the peer stalls if that is more than half of what it
//! has.
//!
//! Credits that messages carry themselves work as well, in the header of messages that flow in the other direction. A
//! message that has nothing but credits takes a receive too: keep one credit for it on each side, or two programs that
//! have used up all theirs wait for each other for ever. [`endpoint`](crate::endpoint) has such a protocol, for
//! messages of any length between many peers.
//!
//! # Shared receive queues
//! Credits of many peers are a promise of many receives, most of which wait for peers that say nothing. A
//! [`SharedReceiveQueue`](super::SharedReceiveQueue) holds as many as are needed together; then credits promise more
//! than there is, and the program posts in time: at each completion, or when
//! [`EventKind::ReceivesLow`](super::EventKind::ReceivesLow) says that few are left
//! ([`set_low_water`](super::SharedReceiveQueue::set_low_water)). A mark of a half leaves as many for what comes until
//! the program runs. When it is late, a message finds no receive, with what follows from that above.
//!
//! # At the end
//! Receives of a queue pair's own queue that no message has taken when the connection ends complete with
//! [`Flushed`](super::Status::Flushed). Those of a shared queue stay there; after
//! [`EventKind::LastReceive`](super::EventKind::LastReceive) the queue pair that has ended takes no more of them, and
//! all that it took are in its completion queue.
