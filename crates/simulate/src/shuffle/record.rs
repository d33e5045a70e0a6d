//! What goes over the carrier: records of a kind, a position, a body and a check over all of them.

use weft_wire::Crc32c;

/// Bytes before the body: kind, position, length of the body.
const HEAD: usize = 13;
/// Bytes behind the body: the check.
const CHECK: usize = 4;
/// The longest body, in bytes: more than the longest ULPDU.
const MOST_BODY: usize = 1 << 17;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A segment; the position is where it starts.
    Segment,
    /// Everything before the position was placed.
    Acknowledge,
    /// The last segment ends at the position.
    Close,
    /// The connecting end asks.
    Request,
    /// The other end accepts.
    Accept,
    /// It does not.
    Reject,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Segment, Self::Acknowledge, Self::Close, Self::Request, Self::Accept, Self::Reject];
}

/// A record that has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) position: u64,
    pub(super) body: Vec<u8>,
}

/// The carrier has changed bytes: nothing that comes can be understood any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The bytes of a record.
pub(super) fn emit(kind: Kind, position: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + body.len() + CHECK);
    bytes.push(kind as u8);
    bytes.extend(position.to_be_bytes());
    // A body is a ULPDU or less.
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    let check = Crc32c::of(&bytes);
    bytes.extend(check.to_be_bytes());
    bytes
}

/// The record at the start of `bytes` and how many bytes it takes up, if all of it is there.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Record, usize)>, Damaged> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    let [code, position @ .., l0, l1, l2, l3] = *head;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let kind = *Kind::ALL.get(usize::from(code)).ok_or(Damaged)?;
    if length > MOST_BODY {
        return Err(Damaged);
    }
    let end = HEAD + length;
    let Some(check) = bytes.get(end..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    if Crc32c::of(&bytes[..end]) != u32::from_be_bytes(*check) {
        return Err(Damaged);
    }
    let record = Record { kind, position: u64::from_be_bytes(position), body: bytes[HEAD..end].to_vec() };
    Ok(Some((record, end + CHECK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_damage_shows() {
        for kind in Kind::ALL {
            let bytes = emit(kind, 0x0102_0304_0506_0708, b"body");
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut} bytes");
            }
            let record = Record { kind, position: 0x0102_0304_0506_0708, body: b"body".to_vec() };
            assert_eq!(parse(&bytes), Ok(Some((record, bytes.len()))));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(!matches!(parse(&damaged), Ok(Some(_))), "byte {at}");
            }
        }
    }
}
