//! What a connection may use, and how long it waits.

use core::fmt;
use core::time::Duration;

/// What the receiver does with a segment that comes before others that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceivePolicy {
    /// It is shown at once, with its position, to the user of the data ([`Sink`](crate::Sink)). Nothing is buffered
    /// here.
    Place,
    /// It is kept until what is missing has come; the stream is read in order.
    #[default]
    Buffer,
    /// It is dropped, and has to come again. The stream is read in order.
    Drop,
}

/// The algorithm of the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
}

/// Of one connection. Bytes, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of segments that come too early.
    pub policy: ReceivePolicy,
    /// How much may be in flight.
    pub congestion: Congestion,
    /// The largest payload of a segment in either direction, options included: the path's MTU less 40 (IPv4) or 60
    /// (IPv6).
    pub mss: u16,
    /// Bytes that are received beyond what has been read; with [`ReceivePolicy::Place`], beyond the first that is
    /// missing. No memory is used for them in that case; otherwise as for `send_buffer`. At least 1, at most 1 GiB.
    pub receive_window: u32,
    /// Bytes that can be written before the peer has acknowledged them. As much memory is used as was ever needed at a
    /// time since the connection was idle for a second last.
    pub send_buffer: u32,
    /// Ranges of the stream that may be there beyond a gap. A segment that would make one more is dropped.
    pub ranges: usize,
    /// Segments that may be in flight.
    pub segments: usize,
    /// Whether SACK is offered (RFC 2018), without which recovery finds one loss in a round trip.
    pub sack: bool,
    /// Whether timestamps are offered (RFC 7323): 12 bytes of each segment.
    pub timestamps: bool,
    /// The longest that an acknowledgement is put off; below 500 ms (RFC 9293 section 3.8.6.3).
    pub ack_delay: Duration,
    /// The least retransmission time-out. RFC 6298 section 2.4 recommends 1 s; others use 200 ms, and so does the
    /// default.
    pub min_rto: Duration,
    /// The largest retransmission time-out.
    pub max_rto: Duration,
    /// How long a peer may acknowledge nothing of what it was sent before the connection fails (RFC 9293 section
    /// 3.8.3: at least 100 s).
    pub give_up: Duration,
    /// The same for the start of the connection.
    pub connect_timeout: Duration,
    /// Keep-alive; none by default (RFC 9293 section 3.8.4).
    pub keep_alive: Option<KeepAlive>,
    /// How long the side that closed first remembers the connection: twice the longest life of a segment.
    pub time_wait: Duration,
    /// Challenge acknowledgements in a second, at most (RFC 5961 section 7).
    pub challenges: u32,
}

/// Probes of a connection on which nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The first comes after this time.
    pub idle: Duration,
    /// The next ones this long after it.
    pub interval: Duration,
    /// After this many without an answer the connection ends.
    pub probes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: ReceivePolicy::default(),
            congestion: Congestion::default(),
            mss: 1460,
            receive_window: 1 << 20,
            send_buffer: 1 << 20,
            ranges: 256,
            segments: 4096,
            sack: true,
            timestamps: true,
            ack_delay: Duration::from_millis(40),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(60),
            give_up: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(180),
            keep_alive: None,
            time_wait: Duration::from_secs(60),
            challenges: 100,
        }
    }
}

/// A setting that no connection can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Its name.
    pub name: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub least: u64,
    /// What it may be.
    pub most: u64,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, least, most } = self;
        write!(f, "TCP setting {name} is {value}: choose a value from {least} to {most}")
    }
}

impl std::error::Error for SettingError {}

/// The least MSS that is used, whatever a peer says: a smaller one only makes work (CVE-2019-11479).
pub(crate) const MIN_MSS: u16 = 64;

impl Settings {
    /// Whether a connection can have them.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        for (name, value, least, most) in [
            ("mss", u64::from(self.mss), u64::from(MIN_MSS), 65_495),
            ("receive_window", u64::from(self.receive_window), 1, 1 << 30),
            ("send_buffer", u64::from(self.send_buffer), 1, 1 << 30),
            ("ranges", self.ranges as u64, 1, 1 << 16),
            ("segments", self.segments as u64, 2, 1 << 20),
            ("ack_delay in milliseconds", millis(self.ack_delay), 0, 499),
            ("min_rto in milliseconds", millis(self.min_rto), 1, millis(self.max_rto)),
        ] {
            if value < least || value > most {
                return Err(SettingError { name, value, least, most });
            }
        }
        Ok(())
    }

    /// By how many bits windows are shifted so that the field can hold the largest one.
    pub(crate) fn window_shift(&self) -> u8 {
        (0..14).find(|shift| self.receive_window >> shift <= 0xffff).unwrap_or(14)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let error = Settings { mss: 12, ..Settings::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "TCP setting mss is 12: choose a value from 64 to 65495");
        assert!(Settings { ack_delay: Duration::from_millis(500), ..Settings::default() }.check().is_err());
    }

    #[test]
    fn the_scale_is_the_least_that_will_do() {
        let shift = |receive_window| Settings { receive_window, ..Settings::default() }.window_shift();
        assert_eq!([0xffff, 0x1_0000, 1 << 20, 1 << 30].map(shift), [0, 1, 5, 14]);
    }
}
