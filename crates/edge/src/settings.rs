//! Limits and times of a connection.

use core::time::Duration;

/// Resource limits and timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Segments that may be unacknowledged over any path. At the limit no more are taken from the source. The limit is
    /// higher where the paths hold more, up to `in_flight_bytes`.
    pub sent_segments: usize,
    /// Bytes of full datagrams that may be unacknowledged over all rails: the bound of what a connection remembers of
    /// long and fast paths. A path of 670 Mb/s and 100 ms may have that, four times what it holds: segments wait for
    /// one that was lost.
    pub in_flight_bytes: u64,
    /// The maximum number of unsettled packets on a rail. At the limit none with segments are sent.
    pub sent_packets: usize,
    /// The maximum number of rails: 1 to 16. Each takes memory for its packets when it is opened. More than one needs
    /// [`Connection::offer`](crate::Connection::offer) at both sides.
    pub rails: u8,
    /// Whether rails of one local IP address grow together as one flow would (RFC 6356).
    pub couples: bool,
    /// Bytes of inline payload kept until they are acknowledged.
    pub inline_bytes: usize,
    /// The largest datagram to send, in bytes above UDP: what the interface carries. At least 1200.
    pub max_datagram: u16,
    /// The initial window, in datagrams of 1200 bytes (RFC 6928: 10).
    pub initial_window: u32,
    /// Bytes of datagrams that the peer may have in flight: its share of the socket's buffer.
    pub credit: u32,
    /// The maximum number of packets per acknowledgement: mostly the peer requests it sooner, depending on its window.
    pub ack_every: u32,
    /// How long an acknowledgement that was not requested may be delayed.
    pub max_ack_delay: Duration,
    /// A peer that is silent for this long is lost, but not before three probe timeouts (RFC 9000 section 10.1).
    pub peer_timeout: Duration,
    /// An idle connection probes the peer this often, or four times in `peer_timeout` if that is more often: if the
    /// peer's program has ended, its host reports that only in reply to a packet.
    pub keep_alive: Duration,
    /// The longest time between two probes of a silent peer.
    pub max_probe_interval: Duration,
    /// The round trip that is assumed before one was measured (RFC 9002 section 6.2.2: 333 ms).
    pub initial_round_trip: Duration,
    /// A burst is at most what the rail carries in this time. While more waits to be sent, it is as much as one system
    /// call sends (64 KiB), half of the most at least.
    pub batch_time: Duration,
    /// How long a closed connection answers a peer that has not received its last packet.
    pub linger: Duration,
    /// How long after a larger datagram did not pass it is tried again (RFC 8899 section 5.1.1, PMTU_RAISE_TIMER).
    pub raise_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sent_segments: 1024,
            in_flight_bytes: 32 << 20,
            sent_packets: 32 << 10,
            rails: 1,
            couples: true,
            inline_bytes: 256 << 10,
            max_datagram: 1472,
            initial_window: 10,
            credit: 128 << 10,
            ack_every: 132,
            max_ack_delay: Duration::from_millis(1),
            peer_timeout: Duration::from_secs(120),
            keep_alive: Duration::from_millis(1500),
            max_probe_interval: Duration::from_secs(1),
            initial_round_trip: Duration::from_millis(100),
            batch_time: Duration::from_micros(500),
            linger: Duration::from_secs(3),
            raise_after: Duration::from_secs(600),
        }
    }
}
