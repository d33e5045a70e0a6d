//! Start-up frames as wholes: header, IRD and ORD, the application's data, Weft record.

use arrayvec::ArrayVec;
use weft_wire::mpa::{
    ENHANCED_LENGTH, Enhanced, MAX_PRIVATE_DATA, START_HEADER_LENGTH, StartError, StartHeader, StartKind,
};

use super::record::{self, Record};
use super::{Malformed, Offer, StartMisuse};

/// The longest start-up frame, in bytes.
pub const MAX_START_FRAME: usize = START_HEADER_LENGTH + MAX_PRIVATE_DATA;

/// The bytes of a start-up frame, ready to be sent.
pub type StartFrame = ArrayVec<u8, MAX_START_FRAME>;

/// What goes into a frame beside the application's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) kind: StartKind,
    pub(super) reject: bool,
    pub(super) revision: u8,
    /// The value of C.
    pub(super) crc: bool,
    pub(super) enhanced: Option<Enhanced>,
    pub(super) record: Option<Record>,
}

/// Builds a frame.
pub(super) fn build(offer: &Offer, content: &Content, data: &[u8]) -> Result<StartFrame, StartMisuse> {
    let limit = offer.room(content.enhanced.is_some(), content.record.is_some());
    if data.len() > limit {
        return Err(StartMisuse::PrivateDataTooLong { given: data.len(), limit });
    }
    let mut frame = StartFrame::new_const();
    frame.extend([0; START_HEADER_LENGTH]);
    if let Some(enhanced) = content.enhanced {
        frame.extend(enhanced.emit());
    }
    frame.extend(data.iter().copied());
    if let Some(record) = content.record {
        let private_length = frame.len() - START_HEADER_LENGTH + record::LENGTH;
        frame.extend(record::emit(content.kind, &record, private_length as u16));
    }
    let header = StartHeader {
        kind: content.kind,
        markers: offer.receive_markers.is_some(),
        crc: content.crc,
        reject: content.reject,
        enhanced: content.enhanced.is_some(),
        revision: content.revision,
        private_length: (frame.len() - START_HEADER_LENGTH) as u16,
    };
    if let Some(bytes) = frame.first_chunk_mut() {
        header.emit(bytes);
    }
    Ok(frame)
}

/// Reads the head of the frame that is due. `None` while it is not there; a wrong key is recognised from its first
/// wrong byte.
pub(super) fn read_header(due: StartKind, bytes: &[u8]) -> Result<Option<StartHeader>, Malformed> {
    if !StartHeader::key_may_follow(due, bytes) {
        return Err(wrong_key(due, bytes));
    }
    let Some(bytes) = bytes.first_chunk::<START_HEADER_LENGTH>() else { return Ok(None) };
    match StartHeader::parse(bytes) {
        Ok(header) => Ok(Some(header)),
        Err(StartError::PrivateLength(announced)) => Err(Malformed::PrivateDataTooLong { announced }),
        Err(StartError::Key) => Err(wrong_key(due, bytes)),
    }
}

/// What is wrong with a key. RFC 5044 section 7.1.2, rule 8: the key of the other role is distinguished from any other.
fn wrong_key(due: StartKind, bytes: &[u8]) -> Malformed {
    let other = match due {
        StartKind::Request => StartKind::Reply,
        StartKind::Reply => StartKind::Request,
    };
    if StartHeader::key_may_follow(other, bytes) {
        return Malformed::WrongRole { received: other };
    }
    let at = (0..bytes.len()).find(|at| !StartHeader::key_may_follow(due, &bytes[..=*at])).unwrap_or_default();
    Malformed::Key { expected: due, at, found: bytes.get(at).copied().unwrap_or_default() }
}

/// A frame taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) enhanced: Option<Enhanced>,
    /// The private data without IRD and ORD.
    pub(super) data: &'a [u8],
    /// All bytes of the frame.
    pub(super) length: usize,
}

/// Takes a frame with this head apart. `None` while it is not all there.
pub(super) fn read_body<'a>(header: &StartHeader, bytes: &'a [u8]) -> Result<Option<Body<'a>>, Malformed> {
    let enhanced = header.enhanced;
    if enhanced && usize::from(header.private_length) < ENHANCED_LENGTH {
        return Err(Malformed::NoRoomForDepths { private_length: header.private_length });
    }
    let length = START_HEADER_LENGTH + usize::from(header.private_length);
    let Some(private) = bytes.get(START_HEADER_LENGTH..length) else { return Ok(None) };
    Ok(Some(match private.split_first_chunk::<ENHANCED_LENGTH>() {
        Some((word, data)) if enhanced => Body { enhanced: Some(Enhanced::parse(word)), data, length },
        _ => Body { enhanced: None, data: private, length },
    }))
}
