//! The Weft record at the end of the private data; its form is described in the [parent module](super).

use weft_wire::mpa::StartKind;

use super::Extensions;

/// Bytes of the record.
pub(super) const LENGTH: usize = 12;

const VERSION: u8 = 1;
const ATOMICS_AND_IMMEDIATES: u8 = 0x01;
const LARGE_FPDUS: u8 = 0x02;

const fn magic(kind: StartKind) -> &'static [u8; 8] {
    match kind {
        StartKind::Request => b"\xf7WeftReq",
        StartKind::Reply => b"\xf7WeftRep",
    }
}

/// The record for a frame of this kind with so many bytes of private data, the record included.
pub(super) fn emit(kind: StartKind, extensions: Extensions, private_length: u16) -> [u8; LENGTH] {
    let set = |condition, bit| if condition { bit } else { 0 };
    let mut record = [0; LENGTH];
    record[..8].copy_from_slice(magic(kind));
    record[8] = VERSION;
    record[9] =
        set(extensions.atomics_and_immediates, ATOMICS_AND_IMMEDIATES) | set(extensions.large_fpdus, LARGE_FPDUS);
    record[10..].copy_from_slice(&private_length.to_be_bytes());
    record
}

/// Takes the record off the end of the application's part of the private data. `private_length` is that of the whole.
pub(super) fn split(kind: StartKind, data: &[u8], private_length: u16) -> (&[u8], Option<Extensions>) {
    let Some((rest, record)) = data.split_last_chunk::<LENGTH>() else { return (data, None) };
    let [.., version, features, high, low] = *record;
    if record[..8] != magic(kind)[..] || version < VERSION || u16::from_be_bytes([high, low]) != private_length {
        return (data, None);
    }
    let extensions = Extensions {
        atomics_and_immediates: features & ATOMICS_AND_IMMEDIATES != 0,
        large_fpdus: features & LARGE_FPDUS != 0,
    };
    (rest, Some(extensions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_these_bytes() {
        let record = emit(StartKind::Request, Extensions::all(), 0x0112);
        assert_eq!(record, *b"\xf7WeftReq\x01\x03\x01\x12");
        let record = emit(StartKind::Reply, Extensions { large_fpdus: true, ..Extensions::none() }, 12);
        assert_eq!(record, *b"\xf7WeftRep\x01\x02\x00\x0c");
    }

    #[test]
    fn the_application_gets_what_it_sent() {
        let mut data = b"hello".to_vec();
        data.extend(emit(StartKind::Request, Extensions::all(), 21));
        assert_eq!(split(StartKind::Request, &data, 21), (&b"hello"[..], Some(Extensions::all())));
    }

    #[test]
    fn what_is_no_record_stays_with_the_application() {
        let whole = emit(StartKind::Request, Extensions::all(), 12);
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
        let mut record = emit(StartKind::Reply, Extensions::none(), 12);
        record[8] = 7;
        record[9] = 0xfe;
        let known = Extensions { atomics_and_immediates: false, large_fpdus: true };
        assert_eq!(split(StartKind::Reply, &record, 12), (&[][..], Some(known)));
    }
}
