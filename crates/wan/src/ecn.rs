//! Congestion notification in the header of IP (RFC 3168).

use weft_base::Ecn;

use crate::carrier::Rewrite;

/// What the header says of it; "not capable" where there is none.
pub(crate) fn read(ip: &[u8]) -> Ecn {
    match traffic_class(ip).map(|class| class & 3) {
        Some(1) => Ecn::Capable1,
        Some(2) => Ecn::Capable0,
        Some(3) => Ecn::Congested,
        _ => Ecn::NotCapable,
    }
}

/// The byte that has it: type of service (RFC 791), or traffic class (RFC 8200 section 3).
fn traffic_class(ip: &[u8]) -> Option<u8> {
    match *ip {
        [first, second, ..] if first >> 4 == 4 => Some(second),
        [first, second, ..] if first >> 4 == 6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Writes what the link made of it into the header.
#[derive(Debug)]
pub(crate) struct WriteEcn;

impl Rewrite for WriteEcn {
    fn rewrite(&mut self, ip: &mut [u8], ecn: Ecn) -> bool {
        let bits = match ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable1 => 1,
            Ecn::Capable0 => 2,
            Ecn::Congested => 3,
        };
        match ip.first().map(|first| first >> 4) {
            _ if read(ip) == ecn => false,
            Some(4) if ip.len() >= 20 => {
                let old = u16::from_be_bytes([ip[0], ip[1]]);
                ip[1] = ip[1] & !3 | bits;
                let new = u16::from_be_bytes([ip[0], ip[1]]);
                let checksum = update(u16::from_be_bytes([ip[10], ip[11]]), old, new);
                ip[10..12].copy_from_slice(&checksum.to_be_bytes());
                true
            }
            // No checksum covers it.
            Some(6) if ip.len() >= 40 => {
                ip[1] = ip[1] & !0x30 | bits << 4;
                true
            }
            _ => false,
        }
    }
}

/// A checksum whose text has one word changed (RFC 1624 section 3).
fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(header: &[u8]) -> u16 {
        let mut sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn a_mark_is_written_with_the_checksum() {
        let mut header = vec![0x45, 0x02, 0, 60, 1, 2, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 1, 0, 2];
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!((read(&header), sum(&header)), (Ecn::Capable0, 0xffff));
        for (ecn, changes) in [(Ecn::Capable0, false), (Ecn::Congested, true), (Ecn::NotCapable, true)] {
            let mut header = header.clone();
            assert_eq!(WriteEcn.rewrite(&mut header, ecn), changes);
            assert_eq!((read(&header), sum(&header)), (ecn, 0xffff));
        }
    }

    #[test]
    fn ipv6_and_what_is_neither() {
        let mut bytes = vec![0; 40];
        bytes[..2].copy_from_slice(&[0x61, 0x2f]);
        assert_eq!(read(&bytes), Ecn::Capable0);
        assert!(WriteEcn.rewrite(&mut bytes, Ecn::Congested));
        assert_eq!((read(&bytes), &bytes[..2]), (Ecn::Congested, &[0x61, 0x3f][..]));
        for mut bytes in [vec![], vec![0x45], vec![0x45, 2, 0], vec![0x10; 40]] {
            let before = bytes.clone();
            assert!(!WriteEcn.rewrite(&mut bytes, Ecn::Congested));
            assert_eq!(bytes, before);
        }
    }
}
