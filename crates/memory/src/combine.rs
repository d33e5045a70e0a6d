//! Atomic operations on elements of many types: what libfabric and MPI define beyond the 64-bit ones of RFC 7306.

/// What an element is. The numbers are those on the wire (`docs/wire.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Element {
    I8 = 0,
    U8 = 1,
    I16 = 2,
    U16 = 3,
    I32 = 4,
    U32 = 5,
    I64 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
    /// Two `f32`: real and imaginary part.
    ComplexF32 = 10,
    /// Two `f64`.
    ComplexF64 = 11,
}

/// What is done with an element, given an operand. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Combine {
    /// The smaller one stays.
    Min = 0,
    /// The larger one stays.
    Max = 1,
    /// The sum; integers wrap.
    Sum = 2,
    /// The product; integers wrap.
    Product = 3,
    /// 1 if either is not 0.
    LogicalOr = 4,
    /// 1 if both are not 0.
    LogicalAnd = 5,
    /// Bit by bit.
    BitOr = 6,
    /// Bit by bit.
    BitAnd = 7,
    /// 1 if exactly one is not 0.
    LogicalXor = 8,
    /// Bit by bit.
    BitXor = 9,
    /// Nothing is changed, and there is no operand.
    Read = 10,
    /// The operand takes its place.
    Write = 11,
    /// The operand takes its place if the value to compare with equals the element.
    SwapIfEqual = 12,
    /// If it differs.
    SwapIfNotEqual = 13,
    /// If the value to compare with is less than or equal to the element.
    SwapIfLessOrEqual = 14,
    /// If it is less.
    SwapIfLess = 15,
    /// If it is greater or equal.
    SwapIfGreaterOrEqual = 16,
    /// If it is greater.
    SwapIfGreater = 17,
    /// The operand's bits take the place of the element's where the mask (given as the value to compare with) has ones.
    MaskedSwap = 18,
}
