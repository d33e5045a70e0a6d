//! The third message of set-up.

use weft_wire::edge::PROOF_LENGTH;
use weft_wire::edge::frame::Frame;
use weft_wire::edge::packet::Packet;

/// The third message of set-up, from this side's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// This side has called: each packet carries it until one has arrived.
    Say([u8; PROOF_LENGTH]),
    /// This side was called: nothing is taken, and nothing sent, before it has come.
    Expect([u8; PROOF_LENGTH]),
    /// It is done.
    Done,
}

/// Whether a packet that was verified confirms as it should.
pub(super) fn confirms(packet: &Packet<'_>, expected: &[u8; PROOF_LENGTH]) -> bool {
    let said = packet.frames().find_map(|frame| match frame {
        Frame::Confirm(proof) => Some(proof),
        _ => None,
    });
    said.is_some_and(|proof| is_equal(&proof, expected))
}

/// In a time that does not depend on where they differ.
fn is_equal(a: &[u8; PROOF_LENGTH], b: &[u8; PROOF_LENGTH]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
