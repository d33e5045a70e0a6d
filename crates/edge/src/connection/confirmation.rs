//! The third message of set-up.

use weft_wire::edge::PROOF_LENGTH;
use weft_wire::edge::frame::Frame;
use weft_wire::edge::packet::Packet;

/// State of the third message of set-up on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The caller: each packet carries it until one was acknowledged.
    Say([u8; PROOF_LENGTH]),
    /// The called side: accepts and sends nothing before it was received.
    Expect([u8; PROOF_LENGTH]),
    /// Confirmed.
    Done,
}

/// Whether a verified packet carries the expected confirmation.
pub(super) fn confirms(packet: &Packet<'_>, expected: &[u8; PROOF_LENGTH]) -> bool {
    let said = packet.frames().find_map(|frame| match frame {
        Frame::Confirm(proof) => Some(proof),
        _ => None,
    });
    said.is_some_and(|proof| is_equal(&proof, expected))
}

/// Compares in constant time.
fn is_equal(a: &[u8; PROOF_LENGTH], b: &[u8; PROOF_LENGTH]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
