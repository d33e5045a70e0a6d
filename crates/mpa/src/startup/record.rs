//! The Weft record at the end of the private data; its form is described in the [parent module](super).

use weft_wire::mpa::{MarkerSpacing, StartKind};

use super::Extensions;

/// Bytes of the record.
pub(super) const LENGTH: usize = 12;

const VERSION: u8 = 1;
const ATOMICS_AND_IMMEDIATES: u8 = 0x01;
const LARGE_FPDUS: u8 = 0x02;
const MARKER_SPACING: u8 = 0x04;
/// Where in the features the spacing is that the sender of the record wants in what it receives: two bits.
const WANTED_SHIFT: u32 = 3;
/// Where in the features of a reply the spacing is that the responder will keep in what it sends: two bits.
const KEPT_SHIFT: u32 = 5;
const RECEIPTS: u8 = 0x80;

/// What a record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) extensions: Extensions,
    /// How far apart its sender wants markers in what it receives, if it wants any.
    pub(super) wanted: MarkerSpacing,
    /// In a reply: how far apart the responder will put markers into what it sends, if it must.
    pub(super) kept: MarkerSpacing,
}

const fn magic(kind: StartKind) -> &'static [u8; 8] {
    match kind {
        StartKind::Request => b"\xf7WeftReq",
        StartKind::Reply => b"\xf7WeftRep",
    }
}

/// The bytes of a record for a frame of this kind with `private_length` bytes of private data, the record included.
pub(super) fn emit(kind: StartKind, record: &Record, private_length: u16) -> [u8; LENGTH] {
    let set = |condition, bit| if condition { bit } else { 0 };
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(magic(kind));
    bytes[8] = VERSION;
    bytes[9] = set(record.extensions.atomics_and_immediates, ATOMICS_AND_IMMEDIATES)
        | set(record.extensions.large_fpdus, LARGE_FPDUS)
        | set(record.extensions.marker_spacing, MARKER_SPACING)
        | set(record.extensions.receipts, RECEIPTS)
        | spacing_code(record.wanted) << WANTED_SHIFT
        | spacing_code(record.kept) << KEPT_SHIFT;
    bytes[10..].copy_from_slice(&private_length.to_be_bytes());
    bytes
}

/// Takes the record off the end of the application's part of the private data. `private_length` is that of the whole.
pub(super) fn split(kind: StartKind, data: &[u8], private_length: u16) -> (&[u8], Option<Record>) {
    let Some((rest, record)) = data.split_last_chunk::<LENGTH>() else { return (data, None) };
    let [.., version, features, high, low] = *record;
    if record[..8] != magic(kind)[..] || version < VERSION || u16::from_be_bytes([high, low]) != private_length {
        return (data, None);
    }
    let extensions = Extensions {
        atomics_and_immediates: features & ATOMICS_AND_IMMEDIATES != 0,
        large_fpdus: features & LARGE_FPDUS != 0,
        marker_spacing: features & MARKER_SPACING != 0,
        receipts: features & RECEIPTS != 0,
    };
    let record =
        Record { extensions, wanted: spacing(features >> WANTED_SHIFT), kept: spacing(features >> KEPT_SHIFT) };
    (rest, Some(record))
}

const fn spacing_code(spacing: MarkerSpacing) -> u8 {
    match spacing {
        MarkerSpacing::Standard => 0,
        MarkerSpacing::Kilobyte => 1,
        MarkerSpacing::TwoKilobytes => 2,
    }
}

/// The spacing of the two low bits. The code that has no meaning yet is the standard's: always possible, and reported
/// to the peer.
const fn spacing(code: u8) -> MarkerSpacing {
    match code & 3 {
        1 => MarkerSpacing::Kilobyte,
        2 => MarkerSpacing::TwoKilobytes,
        _ => MarkerSpacing::Standard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Record {
        Record { extensions: Extensions::all(), ..Record::default() }
    }

    #[test]
    fn the_record_is_these_bytes() {
        let record = emit(StartKind::Request, &all(), 0x0112);
        assert_eq!(record, *b"\xf7WeftReq\x01\x87\x01\x12");
        let record = emit(StartKind::Request, &Record { extensions: Extensions::usual(), ..all() }, 0x0112);
        assert_eq!(record, *b"\xf7WeftReq\x01\x07\x01\x12");
        let extensions = Extensions { large_fpdus: true, ..Extensions::none() };
        let record = emit(StartKind::Reply, &Record { extensions, ..Record::default() }, 12);
        assert_eq!(record, *b"\xf7WeftRep\x01\x02\x00\x0c");
        let extensions = Extensions { marker_spacing: true, ..Extensions::none() };
        let spacings = Record { extensions, wanted: MarkerSpacing::Kilobyte, kept: MarkerSpacing::TwoKilobytes };
        assert_eq!(emit(StartKind::Reply, &spacings, 12), *b"\xf7WeftRep\x01\x4c\x00\x0c");
    }

    #[test]
    fn the_application_gets_what_it_sent() {
        for wanted in MarkerSpacing::ALL {
            for kept in MarkerSpacing::ALL {
                let record = Record { wanted, kept, ..all() };
                let mut data = b"hello".to_vec();
                data.extend(emit(StartKind::Request, &record, 17));
                assert_eq!(split(StartKind::Request, &data, 17), (&b"hello"[..], Some(record)));
            }
        }
    }

    #[test]
    fn what_is_no_record_stays_with_the_application() {
        let whole = emit(StartKind::Request, &all(), 12);
        assert_eq!(split(StartKind::Reply, &whole, 12), (&whole[..], None), "sent back by an application");
        assert_eq!(split(StartKind::Request, &whole, 13), (&whole[..], None), "not where the private data ends");
        assert_eq!(split(StartKind::Request, &whole[..11], 12), (&whole[..11], None), "cut off");
        for at in 0..9 {
            let mut other = whole;
            other[at] = 0;
            assert_eq!(split(StartKind::Request, &other, 12), (&other[..], None), "byte {at}");
        }
    }

    #[test]
    fn later_versions_and_unknown_features_are_understood_as_far_as_they_go() {
        let mut record = emit(StartKind::Reply, &Record::default(), 12);
        record[8] = 7;
        record[9] = 0x7a;
        // Spacings with the code 3 have no meaning yet: the standard's.
        let known = Extensions { large_fpdus: true, ..Extensions::none() };
        assert_eq!(
            split(StartKind::Reply, &record, 12),
            (&[][..], Some(Record { extensions: known, ..Record::default() }))
        );
    }
}
