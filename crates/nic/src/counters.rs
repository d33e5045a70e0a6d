//! What a NIC has done so far, counted.

use core::ops::AddAssign;

/// Counts since the NIC was made. Bytes are payload bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// System calls that sent, and bytes of the wire they took.
    pub sends: u64,
    /// Bytes of the wire that were sent.
    pub sent_wire_bytes: u64,
    /// FPDUs that were laid out for sending.
    pub sent_frames: u64,
    /// Payload bytes that were copied next to their header before sending.
    pub sent_copied_bytes: u64,
    /// Payload bytes that were sent from where they are.
    pub sent_gathered_bytes: u64,
    /// System calls that received something.
    pub receives: u64,
    /// Bytes of the wire that were received.
    pub received_wire_bytes: u64,
    /// FPDUs that were received and found good.
    pub received_frames: u64,
    /// Payload bytes that were copied from staging to their final place.
    pub placed_copied_bytes: u64,
    /// Payload bytes that the operating system wrote straight into their final place.
    pub placed_direct_bytes: u64,
    /// Streams that ended with an error found here.
    pub local_errors: u64,
    /// Streams that ended with a Terminate from the peer.
    pub remote_errors: u64,
    /// Connections established.
    pub connections: u64,
    /// Times the engine slept.
    pub parks: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.sends += other.sends;
        self.sent_wire_bytes += other.sent_wire_bytes;
        self.sent_frames += other.sent_frames;
        self.sent_copied_bytes += other.sent_copied_bytes;
        self.sent_gathered_bytes += other.sent_gathered_bytes;
        self.receives += other.receives;
        self.received_wire_bytes += other.received_wire_bytes;
        self.received_frames += other.received_frames;
        self.placed_copied_bytes += other.placed_copied_bytes;
        self.placed_direct_bytes += other.placed_direct_bytes;
        self.local_errors += other.local_errors;
        self.remote_errors += other.remote_errors;
        self.connections += other.connections;
        self.parks += other.parks;
    }
}
