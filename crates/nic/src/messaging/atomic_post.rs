//! Atomic operations as they are posted.

use weft_base::PeerId;
use weft_memory::{Combine, Element, IoBuffer};

use super::request::{EndpointError, Level, RemotePlace};

/// An atomic operation on elements of a peer's memory.
#[derive(Debug)]
pub struct AtomicPost {
    /// Whose memory.
    pub peer: PeerId,
    /// The first element. Its address at the peer must be a multiple of the element's size.
    pub place: RemotePlace,
    /// What the elements are.
    pub element: Element,
    /// What is done with each of them.
    pub operation: Combine,
    /// How many. At most [`super::EndpointSettings::atomic_bytes`] divided by the size of one.
    pub count: u32,
    /// As many operands, one after the other, in the machine's byte order; none for [`Combine::Read`].
    pub operand: Vec<u8>,
    /// As many values to compare with (or, for [`Combine::MaskedSwap`], masks); only for operations that compare.
    pub compare: Vec<u8>,
    /// Takes the value from before the operation, if that is wanted.
    pub result: Option<IoBuffer>,
    /// When it completes, if no result is wanted.
    pub level: Level,
    /// Whether to wait until all that was posted to this peer before has completed.
    pub fence: bool,
    /// Given back with the completion.
    pub context: u64,
    /// Given back with the completion.
    pub op_flags: u32,
}

impl AtomicPost {
    /// Whether it makes sense, where an atomic operation may have at most this many bytes.
    pub(super) fn check(&self, most: u32) -> Result<(), EndpointError> {
        let bytes = u64::from(self.count) * self.element.size() as u64;
        if !self.operation.applies_to(self.element) {
            return Err(EndpointError::Invalid("these elements do not have this operation"));
        }
        if self.count == 0 {
            return Err(EndpointError::Invalid("an atomic operation on no elements"));
        }
        if bytes > u64::from(most) {
            return Err(EndpointError::TooLong { what: "an atomic operation", length: bytes, most: u64::from(most) });
        }
        let expected = |wanted| if wanted { bytes } else { 0 };
        let fits = self.operand.len() as u64 == expected(self.operation.has_operand())
            && self.compare.len() as u64 == expected(self.operation.compares())
            && self.result.as_ref().is_none_or(|result| result.length() as u64 == bytes);
        if fits {
            Ok(())
        } else {
            Err(EndpointError::Invalid(
                "operands, values to compare with or a result of another length than the elements have",
            ))
        }
    }
}
