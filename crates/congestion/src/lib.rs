//! Round trips, loss detection, congestion control and pacing, for every transport of Weft that sends packets itself.
//!
//! Nothing here does I/O or asks a clock: time comes in as [`Time`](weft_base::Time), and packets are numbers.
//! One rail (one UDP or TCP flow) has one [`SentPackets`], which holds its [`RoundTrip`] and says, of each packet, that it was
//! acknowledged, lost, or acknowledged after it had been given up. What a call found out comes back as [`Feedback`].
//!
//! Rates are bytes per second, windows are bytes, both of whole packets as the caller counts them.
#![forbid(unsafe_code)]

mod delivery;
mod feedback;
mod filter;
mod reordering;
mod round_trip;
mod sent;

pub use delivery::RateSample;
pub use feedback::Feedback;
pub use reordering::{MAX_PACKET_THRESHOLD, PACKET_THRESHOLD};
pub use round_trip::{MAX_SAMPLE, RoundTrip, RoundTripSettings};
pub use sent::{AckError, Fate, MAX_PROBE_INTERVAL, SendError, SentPackets, Timeout};
