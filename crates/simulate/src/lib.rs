//! NICs in virtual time: in-memory networks from one seed, and the checkers that watch them.
//!
//! A [`World`] is a network, a clock and a random source. NICs made from it are the real ones; only the ports below
//! them and the time are not. What happens follows from the seed alone, so a failure is a seed.
#![forbid(unsafe_code)]

mod datagram;
mod edge_peer;
mod fences;
mod go_back;
mod hostile;
mod messages;
mod network;
mod packets;
mod pair;
mod pipe;
mod rails;
mod raw;
mod ring;
mod scenario;
mod sequence;
mod shuffle;
mod streams;
mod throughput;
mod world;

pub use datagram::SimulatedDatagramPort;
pub use edge_peer::EdgePeer;
pub use fences::{FENCE_EPOCHS, FenceReport, FenceScenario, LogGp, simulate_fences};
pub use hostile::run_hostile;
pub use messages::{MessageBreak, MessageReport, MessageScenario};
pub use network::{PipePort, SimulatedListener, SimulatedNetwork, SimulatedPort, Tag};
pub use packets::PacketBehaviour;
pub use pair::{End, Pair, PairOptions, with_split};
pub use pipe::{Behaviour, Segments};
pub use raw::{RawPeer, offer_of};
pub use ring::{RingBehaviour, RingPort};
pub use scenario::{Break, Report, Scenario};
pub use sequence::{SequenceReport, run_sequence};
pub use shuffle::{Disorder, Shuffle, ShuffleFault, Shuffled};
pub use streams::{FarEnd, StreamReport, StreamScenario};
pub use throughput::{EdgeReport, EdgeScenario};
pub use weft_tcp::ReceivePolicy;
pub use world::{HelperThreads, SimulatedClock, SimulatedNic, World};
