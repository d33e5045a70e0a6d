//! Which counters belong together, and what they are called.

/// Counters that are shown together.
pub(super) struct Group {
    pub(super) heading: &'static str,
    /// Each with what a person calls it.
    pub(super) counters: &'static [(&'static str, &'static str)],
    /// How much of two counters the first one is.
    pub(super) share: Option<Share>,
}

pub(super) struct Share {
    pub(super) words: &'static str,
    pub(super) part: &'static str,
    pub(super) rest: &'static str,
}

/// All that this version knows. What a newer NIC counts besides is shown under its own name.
pub(super) const GROUPS: &[Group] = &[
    Group {
        heading: "traffic",
        counters: &[
            ("connections", "connections established"),
            ("sent_messages", "requests sent"),
            ("received_messages", "messages received"),
            ("sent_wire_bytes", "bytes sent"),
            ("received_wire_bytes", "bytes received"),
            ("sends", "system calls that sent"),
            ("receives", "system calls that received"),
        ],
        share: None,
    },
    Group {
        heading: "what carried connections",
        counters: &[
            ("edge_connections", "over Edge"),
            ("shared_memory_connections", "through shared memory"),
            ("borrowing_connections", "of these, reading the peer's"),
            ("fallbacks", "over iWARP, for another way failed"),
            ("calls_over_several_links", "auto: Edge, several links join the hosts"),
            ("calls_over_one_link", "auto: iWARP, one link joins the hosts"),
        ],
        share: None,
    },
    Group {
        heading: "Edge",
        counters: &[
            ("lost_datagrams", "datagrams lost"),
            ("late_datagrams", "of these, only late"),
            ("repeated_segments", "segments sent again"),
            ("overflowed_datagrams", "dropped by peers' sockets"),
            ("congestion_marks", "marked as congested"),
            ("damaged_segments", "damaged segments received"),
            ("rails_opened", "further rails opened"),
            ("rails_left", "rails left for being silent"),
            ("served_receives", "receive calls for another engine"),
            ("served_sends", "send calls for another engine"),
        ],
        share: None,
    },
    Group {
        heading: "endpoints",
        counters: &[
            ("endpoint_sends", "messages sent"),
            ("endpoint_receives", "messages received"),
            ("endpoint_sent_bytes", "payload of messages sent"),
            ("endpoint_received_bytes", "payload of messages received"),
            ("endpoint_transfers", "writes and reads"),
            ("endpoint_transfer_bytes", "payload of writes and reads"),
            ("endpoint_atomics", "atomic operations"),
            ("endpoint_calls", "atomic operations done for peers"),
            ("endpoint_packets", "packets sent"),
            ("passed_packets_sent", "sent without a work request"),
            ("passed_packets_received", "received without a receive request"),
        ],
        share: None,
    },
    Group {
        heading: "frames",
        counters: &[
            ("sent_frames", "sent"),
            ("received_frames", "received"),
            ("sent_copied_bytes", "payload sent by copy"),
            ("sent_gathered_bytes", "payload sent from its place"),
            ("sent_lent_bytes", "payload fetched by the peer"),
        ],
        share: None,
    },
    Group {
        heading: "placement",
        counters: &[
            ("placed_copied", "segments copied"),
            ("placed_direct", "segments direct"),
            ("placed_borrowed", "segments fetched from the peer"),
            ("placed_copied_bytes", "payload copied"),
            ("placed_direct_bytes", "payload direct"),
            ("placed_borrowed_bytes", "payload fetched"),
            ("early_frames", "frames placed early"),
            ("kept_bytes", "bytes kept for others"),
        ],
        share: Some(Share { words: "direct", part: "placed_direct_bytes", rest: "placed_copied_bytes" }),
    },
    Group {
        heading: "who ran the engine",
        counters: &[
            ("caller_turns", "turns of callers"),
            ("thread_turns", "turns of the NIC's threads"),
            ("caller_ns", "time of callers"),
            ("thread_ns", "time of the NIC's threads"),
            ("parks", "sleeps of callers"),
            ("wake_ups", "wake-ups of the NIC's threads"),
            ("take_overs", "take-overs by the NIC's threads"),
            ("summons", "calls for the caller"),
        ],
        share: Some(Share { words: "the NIC's threads", part: "thread_ns", rest: "caller_ns" }),
    },
    Group {
        heading: "connections that ended in errors",
        counters: &[
            ("frame_errors", "damaged frames"),
            ("violations", "peer broke a rule"),
            ("remote_errors", "terminated by the peer"),
            ("lost_streams", "reset, or peer not heard of"),
            ("local_errors", "other errors here"),
            ("failed_starts", "never stood"),
        ],
        share: None,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft::verbs::Counters;

    use super::*;

    #[test]
    fn each_counter_has_one_place() {
        let placed: Vec<_> = GROUPS.iter().flat_map(|group| group.counters.iter().map(|(name, _)| *name)).collect();
        let known: BTreeSet<_> = Counters::NAMES.iter().copied().collect();
        assert_eq!(placed.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(placed.len(), known.len());
        let shares = GROUPS.iter().filter_map(|group| group.share.as_ref());
        assert!(shares.flat_map(|share| [share.part, share.rest]).all(|name| known.contains(name)));
    }
}
