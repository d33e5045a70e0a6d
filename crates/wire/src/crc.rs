//! CRC-32C (Castagnoli), the checksum of MPA (RFC 5044 section 4.4; the polynomial is that of iSCSI, RFC 3720).

use weft_base::Digest;

/// A CRC-32C in the making: fed in order, in pieces of any size. Only the register: what else the algorithm needs is
/// some 300 bytes, which would be moved with it.
#[derive(Clone)]
pub struct Crc32c(u32);

const ALGORITHM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
/// Pieces up to this length are copied to where the library takes eight bytes at a time: to set up a digest, or to go
/// by bytes at both ends, costs more.
const SHORT: usize = 128;

/// What the library takes at once.
#[repr(align(8))]
struct Words([u8; SHORT]);

impl Crc32c {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(u32::MAX)
    }

    /// Of all of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        crc_fast::crc32_iscsi(bytes)
    }

    /// Feeds two pieces, one behind the other. Of short ones it costs what one would.
    pub(crate) fn update_both(&mut self, first: &[u8], second: &[u8]) {
        match after_short(self.0, [first, second]) {
            Some(register) => self.0 = register,
            None => [first, second].iter().for_each(|piece| self.update(piece)),
        }
    }

    fn go_on(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(register) = after_short(self.0, [bytes]) {
            self.0 = register;
            return;
        }
        let mut digest = crc_fast::Digest::new_with_init_state(ALGORITHM, self.0.into());
        digest.update(bytes);
        self.0 = digest.get_state() as u32;
    }

    /// The checksum of everything fed so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        !self.0
    }

    /// The checksum as it is on the wire: little-endian, unlike everything else, because the CRC's bits are sent in the
    /// order of the polynomial's coefficients (RFC 5044 section 4.4).
    #[must_use]
    pub fn wire_bytes(&self) -> [u8; 4] {
        self.value().to_le_bytes()
    }
}

/// The register after a few bytes; `None` of too many, and of less than a register.
///
/// Whatever is in the register is added to the first four bytes that come. So these can bring it along, and zeros can
/// precede them, once the register that the library begins with is taken away.
#[inline]
fn after_short<const N: usize>(register: u32, pieces: [&[u8]; N]) -> Option<u32> {
    const REGISTER: usize = size_of::<u32>();
    let bytes = pieces.iter().fold(0, |bytes, piece| piece.len().saturating_add(bytes));
    if !(REGISTER..=SHORT).contains(&bytes) {
        return None;
    }
    let mut words = Words([0; SHORT]);
    let length = bytes.next_multiple_of(size_of::<u64>());
    let start = length - bytes;
    let mut rest = &mut words.0[start..length];
    for piece in pieces {
        let (place, behind) = rest.split_at_mut(piece.len());
        place.copy_from_slice(piece);
        rest = behind;
    }
    let mut add = |at: usize, register: u32| {
        let place: &mut [u8; REGISTER] = words.0[at..].first_chunk_mut().expect("a register fits");
        *place = (u32::from_le_bytes(*place) ^ register).to_le_bytes();
    };
    add(start, register);
    add(0, u32::MAX);
    Some(!crc_fast::crc32_iscsi(&words.0[..length]))
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Crc32c({:#010x})", self.value())
    }
}

impl Digest for Crc32c {
    #[inline]
    fn update(&mut self, bytes: &[u8]) {
        // Where nothing was fed yet, no digest is to be set up, which is moved as a whole.
        if self.0 == u32::MAX && bytes.len() > SHORT {
            self.0 = !Self::of(bytes);
        } else {
            self.go_on(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(Crc32c::of(b"123456789"), 0xe306_9283);
    }

    /// The FPDUs of RFC 5044 figures 5 and 6, as they are on the wire; the second holds a marker.
    #[test]
    fn vectors_of_the_standard() {
        let send = |message| [0, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, message, 0, 0, 0, 0];
        for (marker_before, message, marker_within, crc) in [
            (&[0; 4][..], 1, &[][..], [0x52, 0x23, 0x99, 0x83]),
            (&[][..], 2, &[0, 0, 0, 0x14][..], [0x84, 0x92, 0x58, 0x98]),
        ] {
            let mut running = Crc32c::new();
            for bytes in [marker_before, &send(message), marker_within, &[0; 24]] {
                running.update(bytes);
            }
            assert_eq!(running.wire_bytes(), crc);
        }
    }

    #[test]
    fn short_pieces_give_what_the_library_gives() {
        let bytes: Vec<u8> = (0..=255).rev().cycle().take(400).collect();
        for length in 0..=2 * SHORT {
            for start in 0..8 {
                let (before, piece) = bytes[..start + length].split_at(start);
                let [mut crc, mut at_once] = [Crc32c::new(), Crc32c::new()];
                crc.update(before);
                crc.update(piece);
                at_once.update_both(before, piece);
                let whole = Crc32c::of(&bytes[..start + length]);
                assert_eq!([crc.value(), at_once.value()], [whole; 2], "{length} bytes from {start}");
            }
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for cut in [0, 1, 3, 4, 5, 7, 8, 9, 64, 127, 128, 129, 500, 872, 996, 999, 1000] {
            let mut crc = Crc32c::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), Crc32c::of(&bytes));
        }
    }
}
