//! What goes with an operation.

/// What goes with an operation, element by element, in the machine's byte order: each either empty or as long as the
/// elements.
pub(crate) struct Operands<'a> {
    /// Empty if the operation has none.
    pub(crate) operand: &'a [u8],
    /// Empty if the operation does not compare.
    pub(crate) compare: &'a [u8],
    /// Takes what the elements were before. Empty if that is not wanted.
    pub(crate) result: &'a mut [u8],
}
