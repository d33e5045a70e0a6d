//! The stream of [`StreamScenario`] by InfiniBand's recovery ([`machine`]), over the same links.
//!
//! The sender has no congestion control, as an adapter of InfiniBand has none that loss would tell it of: it sends at
//! the rate of its link, up to a window. So it has no queue, and when it goes back nothing stale delays it.

mod machine;

use core::time::Duration;

use weft_base::{Ecn, Random, Time};
use weft_emulate::{Link, Packet};

use crate::streams::{START, StreamReport, StreamScenario, WINDOW, share};
use machine::{FIRST, Message, Requester, Responder, Verdict};

/// RoCE version 2: IPv4, UDP, the base transport header, and the invariant CRC at the end.
const HEADERS: u32 = 20 + 8 + 12 + 4;
/// Payload of a packet of 1500 bytes.
const PAYLOAD: usize = 1500 - HEADERS as usize;
/// What an answer has beside the headers: the ACK extended transport header.
const ANSWER: usize = 4;
/// The time of a retry, of those that InfiniBand has (4.096 us times a power of two): some four round trips. Adapters
/// have 67 ms or longer by default.
const RETRY: Duration = Duration::from_nanos(4096 << 10);

impl StreamScenario {
    /// Sends as many packets as there are FPDUs, each as long as the link carries, and recovers as InfiniBand does: the
    /// receiver takes packets in order only and names a gap once, and the sender goes back to it. The policy, and what
    /// middleboxes do to segments of TCP, have no meaning for it.
    ///
    /// # Errors
    /// A wrong byte, or a packet that never comes: a bug, with what was seen.
    pub fn run_going_back(&self) -> Result<StreamReport, String> {
        Run::new(self).finish()
    }
}

struct Run {
    now: Time,
    requester: Requester,
    responder: Responder,
    links: [Link<Message>; 2],
    /// How long a packet takes to leave.
    departure: Duration,
    /// When the next one may.
    free_at: Time,
    packets: u64,
    /// When each left first.
    left: Vec<Time>,
    took: Vec<Duration>,
}

impl Run {
    fn new(scenario: &StreamScenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let links = [false, true].map(|back| Link::new(scenario.link(back, HEADERS), Random::new(random.next_u64())));
        let frame = u64::from(links[0].settings().frame_bytes + HEADERS) + PAYLOAD as u64;
        let packets = scenario.fpdus.into();
        Self {
            now: START,
            requester: Requester::new(packets, WINDOW / PAYLOAD as u32, RETRY),
            responder: Responder::new(),
            links,
            departure: Duration::from_nanos((frame * 8 * 1_000_000_000).div_ceil(scenario.rate.max(1))),
            free_at: START,
            packets,
            left: Vec::new(),
            took: Vec::new(),
        }
    }

    fn finish(mut self) -> Result<StreamReport, String> {
        while (self.took.len() as u64) < self.packets {
            self.transmit();
            self.now = self.next_time().ok_or_else(|| self.stuck())?.max(self.now);
            self.requester.handle_timeout(self.now);
            while let Some(packet) = self.links[0].deliver(self.now) {
                self.arrive(&packet)?;
            }
            while let Some(packet) = self.links[1].deliver(self.now) {
                self.requester.handle(packet.tag, self.now);
            }
        }
        Ok(self.report())
    }

    fn transmit(&mut self) {
        if self.now < self.free_at {
            return;
        }
        let Some(index) = self.requester.poll_transmit(self.now) else { return };
        if index == self.left.len() as u64 {
            self.left.push(self.now);
        }
        self.free_at = self.now + self.departure;
        self.launch(0, Message::Request(FIRST.plus(index)), vec![index as u8; PAYLOAD]);
    }

    fn launch(&mut self, link: usize, message: Message, bytes: Vec<u8>) {
        self.links[link].send(Packet { bytes, ecn: Ecn::NotCapable, tag: message }, self.now);
    }

    fn arrive(&mut self, packet: &Packet<Message>) -> Result<(), String> {
        let Message::Request(psn) = packet.tag else { return Ok(()) };
        let (verdict, answer) = self.responder.handle(psn);
        if let Some(answer) = answer {
            self.launch(1, answer, vec![0; ANSWER]);
        }
        if verdict == Verdict::Taken {
            let index = self.took.len();
            if packet.bytes.iter().any(|byte| *byte != index as u8) {
                return Err(format!("in place of packet {index} another one was taken, as {psn:?}"));
            }
            let left = self.left.get(index).ok_or_else(|| format!("packet {index} came before it was sent"))?;
            self.took.push(self.now.since(*left));
        }
        Ok(())
    }

    fn next_time(&self) -> Option<Time> {
        let free_at = self.requester.may_send().then_some(self.free_at);
        let others = [free_at, self.requester.next_timeout()];
        others.into_iter().chain(self.links.iter().map(Link::next_time)).flatten().min()
    }

    fn stuck(&self) -> String {
        format!(
            "nothing happens any more: {} of {} packets in place, {:?}",
            self.took.len(),
            self.packets,
            self.requester
        )
    }

    fn report(mut self) -> StreamReport {
        self.took.sort_unstable();
        StreamReport {
            bytes: self.took.len() as u64 * PAYLOAD as u64,
            elapsed: self.left.first().map_or(Duration::ZERO, |began| self.now.since(*began)),
            median: share(&self.took, 50),
            p99: share(&self.took, 99),
            most_buffered: 0,
            early: 0,
            resent: self.requester.resent(),
        }
    }
}
