//! What a NIC has done so far, counted.

use core::ops::AddAssign;

use weft_rdmap::StreamError;

use crate::rail_report::RailReport;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the NIC was made. Bytes are payload bytes unless the name says otherwise.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The names of all counters, in the order of [`Counters::values`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// All counts.
            #[must_use]
            pub const fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name),*]
            }
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Requests that were sent whole: sends, writes, reads, atomics.
    sent_messages,
    /// Messages that were received whole: those that completed a receive.
    received_messages,
    /// System calls that sent.
    sends,
    /// Bytes of the wire that were sent, and those that were lent.
    sent_wire_bytes,
    /// FPDUs that were laid out for sending.
    sent_frames,
    /// Payload bytes that were copied next to their header before sending.
    sent_copied_bytes,
    /// Payload bytes that were sent from where they are.
    sent_gathered_bytes,
    /// Payload bytes that stayed where they are, for the peer's process to copy: through shared memory.
    sent_lent_bytes,
    /// System calls that received something.
    receives,
    /// Bytes of the wire that were received, and those that were borrowed.
    received_wire_bytes,
    /// FPDUs that were received and found good.
    received_frames,
    /// Placements: segments whose payload was copied from staging to its final place.
    placed_copied,
    /// Payload bytes that were copied from staging to their final place.
    placed_copied_bytes,
    /// Placements: segments whose payload, or the rest of it, the operating system wrote straight into its final place.
    placed_direct,
    /// Payload bytes that the operating system wrote straight into their final place.
    placed_direct_bytes,
    /// Placements: segments whose payload was copied from the memory of the peer's process straight into its place.
    placed_borrowed,
    /// Payload bytes that were copied so.
    placed_borrowed_bytes,
    /// Edge, and iWARP over Weft's own TCP: segments that were placed before others that come before them.
    early_frames,
    /// Bytes that had to be kept before they could be placed. iWARP over Weft's own TCP: of FPDUs of which a part was
    /// missing, or that could not be placed before their turn. Edge: of segments that came before their turn, where
    /// they are not placed then ([`OutOfOrder::Copy`](crate::laboratory::OutOfOrder::Copy)).
    kept_bytes,
    /// Connections established.
    connections,
    /// Of these, over Edge.
    edge_connections,
    /// Of these, through shared memory.
    shared_memory_connections,
    /// Of these, those whose peer may lend what it sends, for this process can read its memory: through shared memory,
    /// where the system permits that (ptrace(2), "access mode"). On others long messages go through the ring.
    borrowing_connections,
    /// Connections over iWARP because Edge did not answer, or not in time, or the peer declined shared memory.
    fallbacks,
    /// Calls of endpoints that leave the choice to Weft ([`Transport::Auto`](crate::Transport::Auto)), to hosts that
    /// share two or more links with this one: by Edge, if shared memory is not possible.
    calls_over_several_links,
    /// Such calls to hosts that share one link with this one, or that are behind a router: by iWARP, if shared memory
    /// is not possible.
    calls_over_one_link,
    /// Edge: datagrams that are held to be lost.
    lost_datagrams,
    /// Edge: of these, acknowledged later after all.
    late_datagrams,
    /// Edge: segments that were retransmitted.
    repeated_segments,
    /// Edge: datagrams that sockets of peers had no room for, as the peers report.
    overflowed_datagrams,
    /// Edge: datagrams that arrived with a mark of congestion, as the peers report.
    congestion_marks,
    /// Edge: segments that came with a damaged payload; they are retransmitted.
    damaged_segments,
    /// Edge: rails beside the first that were proved, and carry data.
    rails_opened,
    /// Edge: rails that were silent while others answered: what was under way on them was sent again on those.
    rails_left,
    /// Edge: system calls that received for connections of another engine, which this one serves a port for.
    served_receives,
    /// Edge: system calls that sent for connections of another engine.
    served_sends,
    /// Streams that ended with a damaged frame: a bad CRC or a bad marker.
    frame_errors,
    /// Streams that ended because the peer broke a rule of DDP or RDMAP, rights and bounds included.
    violations,
    /// Streams that ended with a Terminate from the peer.
    remote_errors,
    /// Streams that broke: a reset, or a peer that timed out.
    lost_streams,
    /// Streams that ended with another error found here.
    local_errors,
    /// Connections that failed before they were established.
    failed_starts,
    /// Turns of the event loop that calling threads ran.
    caller_turns,
    /// Turns of the event loop that the NIC's own threads ran.
    thread_turns,
    /// Nanoseconds that calling threads held the engine, their sleep in it not counted; estimated from samples.
    caller_ns,
    /// Nanoseconds that the NIC's own threads held the engine.
    thread_ns,
    /// Times that a calling thread slept in the engine.
    parks,
    /// Times that a thread of the NIC was woken, by packets, work, its timer or an end.
    wake_ups,
    /// Times that a thread of the NIC took over because the caller was away.
    take_overs,
    /// Times that a thread of the NIC called for the caller.
    summons,
    /// Messages that applications have posted to endpoints.
    endpoint_sends,
    /// Payload bytes of these.
    endpoint_sent_bytes,
    /// Messages that endpoints have received.
    endpoint_receives,
    /// Payload bytes of these, as far as there was room for them.
    endpoint_received_bytes,
    /// Writes and reads that applications have posted to endpoints.
    endpoint_transfers,
    /// Payload bytes of these.
    endpoint_transfer_bytes,
    /// Atomic operations that applications have posted to endpoints.
    endpoint_atomics,
    /// Atomic operations that endpoints have executed for their peers because RFC 7306 does not have them.
    endpoint_calls,
    /// Packets that endpoints have sent: RDMAP Sends with one message or several, or with packets of the protocols.
    endpoint_packets,
    /// Packets among these for which no work request was needed.
    passed_packets_sent,
    /// Packets of peers for which no receive request was needed.
    passed_packets_received,
}

impl Counters {
    /// A stream has ended, for this reason.
    pub(crate) fn count_end(&mut self, error: Option<&StreamError>) {
        match error {
            None => {}
            Some(StreamError::Peer(_)) => self.remote_errors += 1,
            Some(StreamError::Violation(_)) => self.violations += 1,
            Some(StreamError::Below(_)) => self.frame_errors += 1,
            Some(StreamError::Lost(_)) => self.lost_streams += 1,
            Some(_) => self.local_errors += 1,
        }
    }
}

/// Where an engine shows its counters to other processes.
pub trait Board: Send + Sync {
    /// These are the counts of this engine now, in the order of [`Counters::NAMES`]. Called often, so it must be cheap.
    fn publish(&self, engine: usize, values: &[u64]);

    /// These are the rails of this engine's connections over Edge now, at most [`RailReport::MOST`], each as
    /// [`RailReport::words`]. Called up to 20 times in a second.
    fn publish_rails(&self, engine: usize, rails: &[[u64; RailReport::WORDS]]) {
        let _ = (engine, rails);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_go_together() {
        let mut counters = Counters { sent_messages: 1, passed_packets_received: 2, ..Counters::default() };
        counters += counters;
        let values = counters.values();
        assert_eq!((Counters::NAMES[0], values[0]), ("sent_messages", 2));
        assert_eq!((Counters::NAMES[values.len() - 1], values[values.len() - 1]), ("passed_packets_received", 4));
    }
}
