//! The interface of a machine to the NIC that it is part of.

use weft_base::PeerId;
pub use weft_wire::message::{Parts, RemotePart};

/// Names a one-sided transfer that the machine has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Names a buffer of [`Host::allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u64);

/// Names a call of a peer, until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The message was longer than the receive's memory, which holds the beginning.
    Truncated {
        /// Bytes of the whole message.
        length: u64,
    },
    /// [`crate::Machine::cancel_receive`], [`crate::Machine::cancel_send`].
    Canceled,
    /// The connection to the peer is lost, or could not be made: the NIC knows why.
    PeerLost,
    /// A limit of this side's memory or of its memory table was reached.
    NoMemory,
    /// The peer refused: it had no memory for it, or aborted.
    Refused,
}

/// The result of a completed receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub source: PeerId,
    /// Its tag; 0 for an untagged message.
    pub tag: u64,
    /// The sender's immediate data.
    pub data: Option<u64>,
    /// Offset of the message in the receive's memory: 0 except for receives of many messages.
    pub offset: u64,
    /// Bytes of it that are in the receive's memory.
    pub length: u64,
}

/// The services of the NIC to the machine. The NIC passes itself to every call that may use one of these; none of them
/// calls the machine.
pub trait Host {
    /// The NIC's data of a send: its memory, and what to report when it completes.
    type Send;
    /// The NIC's data of a receive.
    type Receive;

    /// Opens a connection to a peer, for which there is something to send. Answered by
    /// [`crate::Machine::handle_connected`] or [`crate::Machine::handle_lost`].
    fn connect(&mut self, peer: PeerId);
    /// Closes the connection: both sides agree that nothing is under way. No answer.
    fn disconnect(&mut self, peer: PeerId);

    /// A peer is to have this many packets more in flight to us: post receive requests for them on its connection, and
    /// then call [`crate::Machine::handle_room`]. A host that never does grants no more than the terms say.
    fn make_room(&mut self, peer: PeerId, packets: u16) {
        let _ = (peer, packets);
    }

    /// Copies bytes of a message to send.
    fn fetch(&mut self, send: &Self::Send, offset: u64, out: &mut [u8]);
    /// Copies bytes of a received message.
    fn place(&mut self, receive: &mut Self::Receive, offset: u64, bytes: &[u8]);

    /// Lets a peer read the memory of a send, until [`Host::conceal_source`] or [`Host::sent`]. No parts: there is no
    /// room for it now, and the peer is to tell where to write it instead.
    ///
    /// # Errors
    /// A limit is reached.
    fn expose_source(&mut self, peer: PeerId, send: &mut Self::Send) -> Result<Parts, Failure>;
    /// Ends the exposure of a send's memory.
    fn conceal_source(&mut self, send: &mut Self::Send);
    /// Lets a peer write only these `length` bytes of a receive's memory from `offset` on, until [`Host::conceal_sink`]
    /// with this offset or the last [`Host::received`]. A receive of many may have several of these at a time, for
    /// several peers.
    ///
    /// # Errors
    /// A limit is reached.
    fn expose_sink(
        &mut self,
        peer: PeerId,
        receive: &mut Self::Receive,
        offset: u64,
        length: u64,
    ) -> Result<Parts, Failure>;
    /// Ends the exposure of a receive's memory.
    fn conceal_sink(&mut self, receive: &mut Self::Receive, offset: u64);

    /// Reads from a peer's memory into a receive's, from `offset` on. Answered by
    /// [`crate::Machine::handle_transferred`].
    fn read(&mut self, peer: PeerId, ticket: Ticket, receive: &mut Self::Receive, offset: u64, source: RemotePart);
    /// Writes from a send's memory, from `offset` on, into a peer's. Later packets to the peer arrive after it.
    /// Answered by [`crate::Machine::handle_transferred`].
    fn write(&mut self, peer: PeerId, ticket: Ticket, send: &mut Self::Send, offset: u64, sink: RemotePart);

    /// Memory for an unexpected eager message, which a peer may write. `None` when there is none.
    fn allocate(&mut self, peer: PeerId, length: u64) -> Option<(BufferId, RemotePart)>;
    /// Copies the first `length` bytes of a buffer into a receive's memory, from `offset` on.
    fn unload(&mut self, buffer: BufferId, receive: &mut Self::Receive, offset: u64, length: u64);
    /// Frees a buffer.
    fn free(&mut self, buffer: BufferId);

    /// A send waits only for the peer's application. Called at most once for each send; [`Host::sent`] still follows.
    fn announced(&mut self, send: &mut Self::Send);
    /// A send has completed: its memory is the application's again.
    fn sent(&mut self, send: Self::Send, outcome: Result<(), Failure>);
    /// A receive has got a message, or failed; with `last`, it is complete and its memory is the application's again.
    /// `what` is `None` when it is complete without a (further) message.
    fn received(
        &mut self,
        receive: &mut Self::Receive,
        what: Option<Received>,
        outcome: Result<(), Failure>,
        last: bool,
    );

    /// A peer's call: the NIC does what the body asks for and then calls [`crate::Machine::answer`], once.
    fn called(&mut self, peer: PeerId, call: CallId, body: &[u8]);
    /// The answer to [`crate::Machine::call`].
    fn answered(&mut self, ticket: Ticket, answer: Result<&[u8], Failure>);
}
