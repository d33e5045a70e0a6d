//! The checksum of the Internet (RFC 1071): a sum of 16-bit words in one's complement, taken 64 bits at a time.

use std::net::IpAddr;

/// The protocol number of TCP.
const TCP: u8 = 6;

/// A sum of pieces, each of which begins at an even place.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(u128);

impl Sum {
    /// Adds a piece. The last byte of one of odd length counts as if a zero followed.
    fn add(self, bytes: &[u8]) -> Self {
        let word = |word: &[u8; 8]| u128::from(u64::from_ne_bytes(*word));
        let (words, rest) = bytes.as_chunks::<8>();
        let (fours, words) = words.as_chunks::<4>();
        let mut sum = self.0;
        for [first, second, third, fourth] in fours {
            sum = sum + word(first) + word(second) + word(third) + word(fourth);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        Self(words.iter().fold(sum + word(&last), |sum, one| sum + word(one)))
    }

    /// In 16 bits, in the order of the network.
    const fn folded(self) -> u16 {
        let (high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        let mut sum = high + (low >> 32) + (low & 0xffff_ffff);
        while sum >> 16 != 0 {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        u16::from_be(sum as u16)
    }
}

/// The checksum of a segment of TCP: over a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1), its header, and
/// its payload. The header has a length that is even, and zeros, or its own checksum, in the checksum's place: then the
/// result is zero when it is good. None: the addresses are of different versions of IP, or it is too long for it.
pub(crate) fn of_segment(from: IpAddr, to: IpAddr, header: &[u8], payload: &[u8]) -> Option<u16> {
    let sum = pseudo_header(from, to, header.len() + payload.len())?;
    Some(!sum.add(header).add(payload).folded())
}

/// The value in the place of the checksum of a segment of this length when a device is to complete it: the sum of the
/// pseudo-header. None: as of [`of_segment`].
pub(crate) fn of_pseudo_header(from: IpAddr, to: IpAddr, length: usize) -> Option<u16> {
    Some(pseudo_header(from, to, length)?.folded())
}

fn pseudo_header(from: IpAddr, to: IpAddr, length: usize) -> Option<Sum> {
    let length = u16::try_from(length).ok()?;
    let sum = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Sum::default().add(&from.octets()).add(&to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => Sum::default().add(&from.octets()).add(&to.octets()),
        _ => return None,
    };
    // Zero, protocol and length, each as a word: their place does not matter to a sum.
    let [high, low] = length.to_be_bytes();
    Some(sum.add(&[0, TCP, high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word by word, as the standard says it.
    fn plain(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        let sum = words.sum::<u32>();
        let once = (sum & 0xffff) + (sum >> 16);
        ((once & 0xffff) + (once >> 16)) as u16
    }

    #[test]
    fn any_length_gives_what_a_sum_of_words_gives() {
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at * at % 251) as u8 ^ 0xa5).collect();
        for length in (0..70).chain([1447, 1448, 1449, 3000]) {
            assert_eq!(Sum::default().add(&bytes[..length]).folded(), plain(&bytes[..length]), "{length}");
        }
        for byte in [0, 0xff] {
            assert_eq!(Sum::default().add(&[byte; 9000]).folded(), plain(&[byte; 9000]));
        }
    }

    #[test]
    fn pieces_are_as_good_as_the_whole() {
        let bytes: Vec<u8> = (0..200_u8).collect();
        for cut in (0..200).step_by(2) {
            let sum = Sum::default().add(&bytes[..cut]).add(&bytes[cut..]);
            assert_eq!(sum.folded(), plain(&bytes), "{cut}");
        }
    }

    /// What a device does: it sums up all of a segment, with the value in the place of the checksum.
    #[test]
    fn a_device_completes_the_sum_of_the_pseudo_header() {
        let ends = [
            (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])),
            (IpAddr::from([0xfd00_u16, 0, 0, 0, 0, 0, 0, 1]), IpAddr::from([0xfd00_u16, 0, 0, 0, 0, 0, 0, 2])),
        ];
        for (from, to) in ends {
            let (mut header, payload) = ([0x5a; 20], [0xa5; 1001]);
            header[16..18].fill(0);
            let whole = of_segment(from, to, &header, &payload);
            let begun = of_pseudo_header(from, to, header.len() + payload.len()).unwrap();
            header[16..18].copy_from_slice(&begun.to_be_bytes());
            assert_eq!(Some(!Sum::default().add(&header).add(&payload).folded()), whole);
        }
    }

    #[test]
    fn addresses_of_two_versions_have_none() {
        let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0_u16; 8]));
        assert_eq!(of_segment(four, six, &[0; 20], &[]), None);
        assert_eq!(of_segment(four, four, &[0; 20], &vec![0; 65_516]), None);
        assert!(of_segment(six, six, &[0; 20], &[]).is_some());
    }
}
