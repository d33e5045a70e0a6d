//! Sizes and limits of an endpoint.

use core::time::Duration;

use weft_wire::message::MAX_RECORDS;

use crate::machine::{LEAVERS, peer};
use crate::pool;

/// Sizes and limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The maximum length of a packet: one RDMAP Send, with as many messages as fit into it.
    pub packet_bytes: u32,
    /// Packets with messages that a peer may have in flight to us.
    pub data_credits: u16,
    /// Further such packets, for all peers together. A peer whose messages have waited for credits for a millisecond or
    /// longer is far away: it is granted twice as many, again and again, as long as these last. Each takes memory for a
    /// packet once it is used. 0: none is granted more.
    pub extra_credits: u32,
    /// Packets without messages (answers, acknowledgements) that a peer may have in flight to us.
    pub control_credits: u16,
    /// Messages up to this many bytes are sent at once, in a packet, except to a peer that is short of memory. At most
    /// what fits into one.
    pub short_bytes: u32,
    /// Messages up to this many bytes are sent at once too, in as many packets as they need. The rest follows when
    /// credits return. Longer ones are requested first. At most half of the peers' `unexpected_bytes`: a message that
    /// cannot be kept waits in its packets for its receive, and so does everything sent after it.
    pub stream_bytes: u64,
    /// Of these, messages longer than this are sent at once only while no more than two requests to their peer (sends,
    /// transfers, atomics) are under way. Otherwise the receiver reads them: a sender of many needs throughput, and a
    /// read places the bytes directly.
    pub alone_bytes: u64,
    /// Longer ones, up to this many bytes, are sent at once as well where a round trip takes a millisecond or longer,
    /// for that is longer than a copy: if there are credits for all of the message, and no more than two requests are
    /// under way. At most half of the peers' `unexpected_bytes`.
    pub far_bytes: u64,
    /// Messages up to this many bytes are sent as soon as the receiver has told where to write them: into the receive's
    /// memory, or into a buffer. Longer ones wait for their receive, which reads them.
    pub eager_bytes: u64,
    /// Long messages are read in pieces of this many bytes. Our packets wait behind a piece that we are sending.
    pub fragment_bytes: u64,
    /// Pieces of one message that are read at a time.
    pub fragments_under_way: u16,
    /// Bytes of unexpected messages, kept for all peers together, without those of up to 256 bytes. From half of it on
    /// peers are told to ask before they send more than 256 bytes: then the message stays with its sender, and only its
    /// header is sent. Messages sent before they know it may exceed it, up to as much again.
    pub unexpected_bytes: u64,
    /// Unexpected messages of all peers together: small ones, long ones, and headers of those left with their senders.
    /// Each takes up to [`Settings::MESSAGE_BYTES`] besides its share of `unexpected_bytes`. Peers that send more are
    /// slowed down: the credits of their packets are withheld, so that later ones wait too.
    pub unexpected_messages: u32,
    /// An idle connection is closed after this time. `None`: never.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
    /// The maximum bytes of a packet that are not payload.
    pub const PACKET_OVERHEAD: u32 = 128;

    /// The maximum cost of an unexpected message, besides its share of `unexpected_bytes`: its record, in tables that
    /// double when they are full, and up to 256 bytes.
    pub const MESSAGE_BYTES: u64 = 1536;

    /// The maximum bytes that a machine keeps because of its peers, with `connections` of them at a time:
    /// ```text
    ///   unexpected_messages x MESSAGE_BYTES    unexpected messages
    /// + 2 x unexpected_bytes                   their bytes: the budget, and as much beyond it
    /// + 16 x held                              left behind by lost connections
    /// + 2 MiB                                  pools
    /// + extra                                  packets that peers far away may have in flight beyond the others
    /// + connections x (
    ///     held                                 packets whose credits are withheld
    ///   + 2 x answers                          answers to calls that the peer does not accept
    ///   + records x 512                        other records that it does not accept
    ///   )
    /// held    = data_credits x (2 x packet_bytes + 256 x MESSAGE_BYTES)
    /// answers = 64 KiB + 32 x short_bytes
    /// records = 512 + 256 x data_credits
    /// extra   = extra_credits x (2 x packet_bytes + 256 x (MESSAGE_BYTES + 512))
    /// ```
    /// Not counted: the application's operations, the peers themselves, and the NIC's own memory (packets, buffers).
    #[must_use]
    pub fn most_kept(&self, connections: u64) -> u64 {
        let places = u64::from(self.unexpected_messages) * Self::MESSAGE_BYTES;
        let bytes = self.unexpected_bytes.saturating_mul(2);
        // A record that waits to be sent, in a queue that doubles when it is full. All packets may cause as many of
        // them as they can before no more credits are returned.
        let records = (peer::CONTROL_BACKLOG + usize::from(self.data_credits) * MAX_RECORDS) as u64 * 512;
        let each = self.left_behind() + peer::most_answer_bytes(self.short_bytes) * 2 + records;
        let all = places
            .saturating_add(bytes)
            .saturating_add(LEAVERS * self.left_behind())
            .saturating_add(pool::KEPT_BYTES as u64)
            .saturating_add(u64::from(self.extra_credits) * (self.held_packet() + MAX_RECORDS as u64 * 512));
        all.saturating_add(each.saturating_mul(connections))
    }

    /// Bytes of messages that a peer may have sent before it knows that it should ask: as much as its credits permit,
    /// in buffers of powers of two, and the rest of the last message. `extra` are credits beyond the terms.
    pub(crate) fn window(&self, extra: u32) -> u64 {
        let credits = (u64::from(self.data_credits) + u64::from(extra)) * u64::from(self.packet_bytes);
        credits.saturating_mul(2).saturating_add(pool::capacity(self.stream_bytes))
    }

    /// Bytes of messages that a lost connection may leave behind for which its packets were held: as much as its
    /// credits permit.
    pub(crate) fn left_behind(&self) -> u64 {
        self.held_packet() * u64::from(self.data_credits)
    }

    /// Bytes that a packet takes whose credit is kept back.
    const fn held_packet(&self) -> u64 {
        2 * self.packet_bytes as u64 + MAX_RECORDS as u64 * Self::MESSAGE_BYTES
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_bytes: 16 * 1024 + Self::PACKET_OVERHEAD,
            data_credits: 16,
            extra_credits: 1024,
            control_credits: 8,
            short_bytes: 16 * 1024,
            stream_bytes: 128 * 1024,
            alone_bytes: 64 * 1024,
            far_bytes: 4 * 1024 * 1024,
            eager_bytes: 128 * 1024,
            fragment_bytes: 1024 * 1024,
            fragments_under_way: 8,
            unexpected_bytes: 64 * 1024 * 1024,
            unexpected_messages: 250_000,
            idle_timeout: None,
        }
    }
}
