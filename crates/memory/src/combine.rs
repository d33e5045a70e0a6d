//! Atomic operations on elements of many types: what libfabric (fi_atomic(3)) and MPI define beyond the 64-bit ones of RFC 7306.

mod update;
mod value;

pub(crate) use update::{Operands, combine_all};

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

impl Element {
    /// Each one, at the place of its code.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::ComplexF32,
        Self::ComplexF64,
    ];

    /// The element with this number on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Bytes of one.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::ComplexF32 => 8,
            Self::ComplexF64 => 16,
        }
    }

    /// What an address must be a multiple of, in bytes: as in C, the size; for a complex number, that of one part.
    #[must_use]
    pub const fn alignment(self) -> usize {
        if self.is_complex() { self.size() / 2 } else { self.size() }
    }

    const fn is_complex(self) -> bool {
        matches!(self, Self::ComplexF32 | Self::ComplexF64)
    }

    const fn is_integer(self) -> bool {
        !self.is_complex() && !matches!(self, Self::F32 | Self::F64)
    }
}

/// What is done with an element, given an operand. The numbers are those on the wire.
///
/// Numbers compare by value: 0.0 equals -0.0, and a NaN is neither equal to, nor less, nor greater than anything, itself included.
/// So a NaN as operand is never a minimum or maximum, one that stands in the element stays, and nothing is swapped in for
/// comparing equal to it. To be true is to be other than 0, which a NaN is; a complex number is when either part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Combine {
    /// The operand takes its place if it is less.
    Min = 0,
    /// The operand takes its place if it is greater.
    Max = 1,
    /// The sum; integers wrap.
    Sum = 2,
    /// The product; integers wrap, complex infinities are not recovered from NaN parts.
    Product = 3,
    /// 1 if either is not 0.
    LogicalOr = 4,
    /// 1 if both are not 0.
    LogicalAnd = 5,
    /// Bit by bit.
    BitOr = 6,
    /// Bit by bit.
    BitAnd = 7,
    /// 1 if exactly one is not 0. Without that, as for the other two logical ones, 0.
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

impl Combine {
    /// Each one, at the place of its code.
    pub const ALL: [Self; 19] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Product,
        Self::LogicalOr,
        Self::LogicalAnd,
        Self::BitOr,
        Self::BitAnd,
        Self::LogicalXor,
        Self::BitXor,
        Self::Read,
        Self::Write,
        Self::SwapIfEqual,
        Self::SwapIfNotEqual,
        Self::SwapIfLessOrEqual,
        Self::SwapIfLess,
        Self::SwapIfGreaterOrEqual,
        Self::SwapIfGreater,
        Self::MaskedSwap,
    ];

    /// The operation with this number on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether an operand goes with it. One does with all but [`Combine::Read`].
    #[must_use]
    pub const fn has_operand(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether a value to compare with, or a mask, goes with it.
    #[must_use]
    pub const fn compares(self) -> bool {
        matches!(
            self,
            Self::SwapIfEqual
                | Self::SwapIfNotEqual
                | Self::SwapIfLessOrEqual
                | Self::SwapIfLess
                | Self::SwapIfGreaterOrEqual
                | Self::SwapIfGreater
                | Self::MaskedSwap
        )
    }

    /// Whether these elements have it: single bits are those of integers, and complex numbers have no order.
    #[must_use]
    pub const fn applies_to(self, element: Element) -> bool {
        match self {
            Self::Sum
            | Self::Product
            | Self::LogicalOr
            | Self::LogicalAnd
            | Self::LogicalXor
            | Self::Read
            | Self::Write
            | Self::SwapIfEqual
            | Self::SwapIfNotEqual => true,
            Self::Min
            | Self::Max
            | Self::SwapIfLessOrEqual
            | Self::SwapIfLess
            | Self::SwapIfGreaterOrEqual
            | Self::SwapIfGreater => !element.is_complex(),
            Self::BitOr | Self::BitAnd | Self::BitXor | Self::MaskedSwap => element.is_integer(),
        }
    }
}

#[cfg(test)]
mod tests;
