//! Sizes and limits of an endpoint.

use core::time::Duration;

use weft_wire::message::MAX_RECORDS;

use crate::machine::{LEAVERS, peer};
use crate::pool;

/// Sizes and limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most bytes of a packet: one RDMAP Send, with whatever messages fit into it.
    pub packet_bytes: u32,
    /// Packets with messages that a peer may have under way to us.
    pub data_credits: u16,
    /// Packets without messages (answers, acknowledgements) that a peer may have under way to us.
    pub control_credits: u16,
    /// Messages up to this many bytes are sent at once, in a packet, but to a peer that is short of memory. At most
    /// what fits into one.
    pub short_bytes: u32,
    /// Messages up to this many bytes are sent at once too, in as many packets as they need. What the credits do not
    /// suffice for follows when they come back. Longer ones are asked for first. At most half of the peers'
    /// `unexpected_bytes`: what can't be kept waits in its packets for its receive, and so does what is sent behind it.
    pub stream_bytes: u64,
    /// Of these, messages longer than this are sent at once only while no more than two requests to their peer (sends,
    /// transfers, atomics) are under way. Else the receiver reads them: who sends many wants throughput, and what is
    /// read goes straight to its place.
    pub alone_bytes: u64,
    /// Messages up to this many bytes are sent as soon as the receiver has said where to: into the receive's memory, or
    /// into a buffer. Longer ones wait for their receive, which reads them.
    pub eager_bytes: u64,
    /// Long messages are read in pieces of this many bytes. A packet of ours waits behind a piece that we are sending.
    pub fragment_bytes: u64,
    /// Pieces of one message that are read at a time.
    pub fragments_under_way: u16,
    /// Bytes of messages that nobody waits for, kept for all peers together, without those of up to 256 bytes. From
    /// half of it on peers are told to ask before they send more than 256 bytes: then the message stays with its
    /// sender, and only its header comes. What they had sent before they knew may go beyond it, up to as much again.
    pub unexpected_bytes: u64,
    /// Messages that nobody waits for, of all peers together: small ones, long ones, and headers of those that stay
    /// with their senders. Each takes up to [`Settings::MESSAGE_BYTES`] beside what `unexpected_bytes` counts. Peers
    /// that send more are slowed down: the credits of their packets are kept back, so that what they send behind that
    /// waits too.
    pub unexpected_messages: u32,
    /// A connection on which nothing is under way is closed after this time. `None`: never.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
    /// Bytes of a packet that are not payload, at most.
    pub const PACKET_OVERHEAD: u32 = 128;

    /// What a message that nobody waits for takes at most, beside what `unexpected_bytes` counts: what is noted of it,
    /// in tables that double when they are full, and up to 256 bytes.
    pub const MESSAGE_BYTES: u64 = 1536;

    /// The most bytes that a machine keeps because of what its peers send, with `connections` of them at a time:
    /// ```text
    ///   unexpected_messages x MESSAGE_BYTES    messages that nobody waits for
    /// + 2 x unexpected_bytes                   their bytes: the budget, and as much beyond it
    /// + 16 x held                              left behind by lost connections
    /// + 2 MiB                                  memory kept to be used again
    /// + connections x (
    ///     held                                 packets whose credits are kept back
    ///   + 2 x answers                          answers to calls that the peer does not take
    ///   + records x 512                        other records that it does not take
    ///   )
    /// held    = data_credits x (2 x packet_bytes + 256 x MESSAGE_BYTES)
    /// answers = 64 KiB + 32 x short_bytes
    /// records = 512 + 256 x data_credits
    /// ```
    /// Not counted: what the application has posted, peers as such, and what a NIC keeps beside it (packets that come
    /// and go, buffers).
    #[must_use]
    pub fn most_kept(&self, connections: u64) -> u64 {
        let places = u64::from(self.unexpected_messages) * Self::MESSAGE_BYTES;
        let bytes = self.unexpected_bytes.saturating_mul(2);
        // A record that waits to be sent, in a queue that doubles when it is full. All packets may bring as many of
        // them as they can before no more credits are given back.
        let records = (peer::CONTROL_BACKLOG + usize::from(self.data_credits) * MAX_RECORDS) as u64 * 512;
        let each = self.left_behind() + peer::most_answer_bytes(self.short_bytes) * 2 + records;
        let all = places
            .saturating_add(bytes)
            .saturating_add(LEAVERS * self.left_behind())
            .saturating_add(pool::KEPT_BYTES as u64);
        all.saturating_add(each.saturating_mul(connections))
    }

    /// Bytes of messages that a peer may have sent before it knows that it should ask: what its credits are good for,
    /// in buffers of powers of two, and what is to follow of the last message.
    pub(crate) fn window(&self) -> u64 {
        let credits = u64::from(self.data_credits) * u64::from(self.packet_bytes);
        credits.saturating_mul(2).saturating_add(pool::capacity(self.stream_bytes))
    }

    /// Bytes of messages that a lost connection may leave behind for which its packets were held: what its credits are
    /// good for.
    pub(crate) fn left_behind(&self) -> u64 {
        let packet = 2 * u64::from(self.packet_bytes) + MAX_RECORDS as u64 * Self::MESSAGE_BYTES;
        packet * u64::from(self.data_credits)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_bytes: 16 * 1024 + Self::PACKET_OVERHEAD,
            data_credits: 16,
            control_credits: 8,
            short_bytes: 16 * 1024,
            stream_bytes: 128 * 1024,
            alone_bytes: 64 * 1024,
            eager_bytes: 128 * 1024,
            fragment_bytes: 1024 * 1024,
            fragments_under_way: 8,
            unexpected_bytes: 64 * 1024 * 1024,
            unexpected_messages: 250_000,
            idle_timeout: None,
        }
    }
}
