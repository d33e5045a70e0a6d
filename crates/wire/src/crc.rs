//! CRC-32C (Castagnoli), the checksum of MPA (RFC 5044 section 4.4; the polynomial is that of iSCSI, RFC 3720).

use weft_base::Digest;

/// A CRC-32C in the making: fed in order, in pieces of any size. Only the register: what else the algorithm needs is
/// some 300 bytes, which would be moved with it.
#[derive(Clone)]
pub struct Crc32c(u32);

const ALGORITHM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;

impl Crc32c {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(u32::MAX)
    }

    /// Of all of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        crc_fast::checksum(ALGORITHM, bytes) as u32
    }

    /// The checksum of everything fed so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        !self.0
    }

    /// The checksum as it stands on the wire: little-endian, unlike everything else, because the CRC's bits are sent in the
    /// order of the polynomial's coefficients (RFC 5044 section 4.4).
    #[must_use]
    pub fn wire_bytes(&self) -> [u8; 4] {
        self.value().to_le_bytes()
    }
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
    fn update(&mut self, bytes: &[u8]) {
        let mut digest = crc_fast::Digest::new_with_init_state(ALGORITHM, self.0.into());
        digest.update(bytes);
        self.0 = digest.get_state() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(Crc32c::of(b"123456789"), 0xe306_9283);
    }

    /// The FPDUs of RFC 5044 figures 5 and 6, as they stand on the wire; the second holds a marker.
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
    fn pieces_give_what_the_whole_gives() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for cut in [0, 1, 7, 500, 999, 1000] {
            let mut crc = Crc32c::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), Crc32c::of(&bytes));
        }
    }
}
