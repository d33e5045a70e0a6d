//! Round trips, loss detection, congestion control and pacing, for every transport of Weft that sends packets itself.
//!
//! Nothing here does I/O or asks a clock: time comes in as [`Time`](weft_base::Time), and packets are numbers.
//! One rail (one UDP or TCP flow) has one [`SentPackets`], which holds its [`RoundTrip`] and says, of each packet, that
//! it was acknowledged, lost, or acknowledged after it had been given up. What a call found out comes back as
//! [`Feedback`], of which a [`Controller`] makes the window. A [`Pacer`] spreads that over the round trip.
//!
//! Rates are bytes per second, windows are bytes, both of whole packets as the caller counts them.
#![forbid(unsafe_code)]

mod controller;
mod coupled;
mod cubic;
mod delay_gated;
mod delivery;
mod ecn;
mod feedback;
mod filter;
mod hystart;
mod pacer;
mod reordering;
mod round_trip;
mod sent;
mod settings;

pub use controller::{Algorithm, Controller};
pub use coupled::Coupling;
pub use cubic::Cubic;
pub use delay_gated::DelayGatedCubic;
pub use delivery::{Delivery, RateSample, Stamp};
pub use ecn::{EcnCounts, EcnFault, EcnState, EcnValidation, TEST_PACKETS, TEST_TIMEOUTS};
pub use feedback::Feedback;
pub use pacer::{MAX_WAIT, Pacer};
pub use reordering::{MAX_PACKET_THRESHOLD, PACKET_THRESHOLD};
pub use round_trip::{MAX_SAMPLE, RoundTrip, RoundTripSettings, share};
pub use sent::{AckError, Fate, MAX_PROBE_INTERVAL, SendError, SentPackets, Timeout};
pub use settings::{ControllerSettings, MAX_WINDOW};
