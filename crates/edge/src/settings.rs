//! Limits and times of a connection.

use core::time::Duration;

/// What a connection may use, and how patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Segments that were sent and are not acknowledged, at most. At the limit no more are taken from the source.
    pub sent_segments: usize,
    /// Packets on a rail that were sent and are not settled, at most. At the limit none with segments are sent.
    pub sent_packets: usize,
    /// Rails, at most: 1 to 16. Each takes memory for its packets when it is opened. More than one takes
    /// [`Connection::offer`](crate::Connection::offer) at both sides.
    pub rails: u8,
    /// Rails that leave by one of this side's IP addresses grow together as one would (RFC 6356).
    pub couples: bool,
    /// Bytes of payload that was given inline, kept until it is acknowledged.
    pub inline_bytes: usize,
    /// The largest datagram to send, in bytes above UDP: what the interface carries. At least 1200.
    pub max_datagram: u16,
    /// The window at first, in datagrams of 1200 bytes (RFC 6928: 10).
    pub initial_window: u32,
    /// Bytes of datagrams that the peer may have under way: its share of the socket's buffer.
    pub credit: u32,
    /// An acknowledgement is sent for so many packets at most: mostly the peer asks for it sooner, by how large its
    /// window is.
    pub ack_every: u32,
    /// How long one is put off that nobody asks for.
    pub max_ack_delay: Duration,
    /// A peer without a word for so long is gone.
    pub peer_timeout: Duration,
    /// A connection on which nothing is under way asks the peer whether it is there so often, or four times in
    /// `peer_timeout` if that is more often: a host that knows that the peer's program has ended says so of that
    /// packet alone.
    pub keep_alive: Duration,
    /// The longest time between two probes of a silent peer.
    pub max_probe_interval: Duration,
    /// The round trip that is assumed before one was measured (RFC 9002 section 6.2.2: 333 ms).
    pub initial_round_trip: Duration,
    /// What leaves at once is at most what the rail carries in this time, and, of more that waits, what it carries in
    /// half of it.
    pub batch_time: Duration,
    /// How long a closed connection answers a peer that has not heard its last word.
    pub linger: Duration,
    /// How long after a larger datagram did not pass it is tried again (RFC 8899 section 5.1.1, PMTU_RAISE_TIMER).
    pub raise_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sent_segments: 1024,
            sent_packets: 2048,
            rails: 1,
            couples: true,
            inline_bytes: 256 << 10,
            max_datagram: 1472,
            initial_window: 10,
            credit: 128 << 10,
            ack_every: 32,
            max_ack_delay: Duration::from_millis(1),
            peer_timeout: Duration::from_secs(120),
            keep_alive: Duration::from_secs(2),
            max_probe_interval: Duration::from_secs(1),
            initial_round_trip: Duration::from_millis(100),
            batch_time: Duration::from_micros(500),
            linger: Duration::from_secs(3),
            raise_after: Duration::from_secs(600),
        }
    }
}
