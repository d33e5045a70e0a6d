//! What a lower layer sees of the connection above it.

use std::sync::Arc;

use weft_base::Time;
use weft_rdmap::{Arrival, OrderConstraint, Placement, Status, Verdict, Violation};

use super::completion::report_sends;
use super::{PacketSinks, Running};
use crate::counters::Counters;
use crate::ids::State;
use crate::lower::{StreamCell, StreamGuard, StreamSink};
use crate::queues::queue_pair::QueuePair;

/// The stream of a connection, and what gets what arrives on it.
pub(super) struct ConnectionSink<'a> {
    stream: &'a mut StreamCell,
    queue_pair: &'a Arc<QueuePair>,
    packets: &'a mut dyn PacketSinks,
}

impl Running {
    pub(super) fn above<'a>(&'a mut self, packets: &'a mut dyn PacketSinks) -> ConnectionSink<'a> {
        ConnectionSink { stream: &mut self.stream, queue_pair: &self.queue_pair, packets }
    }
}

impl ConnectionSink<'_> {
    /// A short Send goes from the frame into its receive request, where nothing is in its way; what a receipt
    /// acknowledges is reported.
    fn receive_whole(&mut self, arrival: Arrival, ulpdu: &[u8], counters: &mut Counters) -> bool {
        let stream = &mut self.stream.hold();
        if stream.has_receipts() && stream.take_whole_receipt(arrival, ulpdu) {
            report_sends(stream, self.queue_pair, counters);
            return true;
        }
        let Some(start) = stream.find_whole_send(arrival, ulpdu) else { return false };
        let receives = &mut self.queue_pair.receive_source();
        let Some(completion) = stream.receive_whole_send(arrival, ulpdu, start, receives) else { return false };
        if completion.length > 0 {
            counters.placed_copied += 1;
            counters.placed_copied_bytes += u64::from(completion.length);
        }
        counters.received_messages += 1;
        self.queue_pair.complete_receive(completion);
        true
    }
}

impl StreamSink for ConnectionSink<'_> {
    #[inline]
    fn stream(&mut self) -> StreamGuard<'_> {
        self.stream.hold()
    }

    #[inline]
    fn locate(&mut self, arrival: Arrival, constraint: OrderConstraint, length: u32, head: &[u8]) -> Verdict {
        self.stream.hold().handle_demanding(arrival, constraint, length, head, &mut self.queue_pair.receive_source())
    }

    fn placed(&mut self, placement: &Placement, counters: &mut Counters) -> Result<(), Violation> {
        let stream = &mut self.stream.hold();
        let delivered = stream.handle_placed(placement);
        // Also when it went wrong: what was delivered before is reported.
        while let Some(completion) = stream.poll_receive_completion() {
            counters.received_messages += u64::from(completion.status == Status::Success);
            self.queue_pair.complete_receive(completion);
        }
        delivered
    }

    fn packet(&mut self, arrival: Arrival, ulpdu: &[u8], now: Time, counters: &mut Counters) -> bool {
        let Some(upper) = self.queue_pair.upper() else { return self.receive_whole(arrival, ulpdu, counters) };
        let stream = &mut self.stream.hold();
        if stream.has_receipts() {
            // What takes packets counts none.
            return false;
        }
        let Some(start) = stream.find_whole_send(arrival, ulpdu) else { return false };
        if !self.packets.take(upper, self.queue_pair, &ulpdu[start..], now) {
            return false;
        }
        stream.take_whole_send(arrival);
        counters.received_messages += 1;
        counters.passed_packets_received += 1;
        true
    }

    fn go_on(&mut self) -> bool {
        self.stream.hold().go_on(self.queue_pair.receives().unpromised())
    }

    fn passes_packets(&self) -> bool {
        !self.queue_pair.has_posted() && self.queue_pair.state() == State::Ready
    }
}
