//! What elements are, and what is done with them.

/// Whether this processor's `long double` is one that Weft can calculate with.
pub(super) const KNOWS_LONG_DOUBLE: bool = cfg!(target_arch = "x86_64");

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
    /// A value, and where it is, as in C a structure of both has them: MPI_SHORT_INT.
    I16AndI32 = 12,
    /// MPI_2INT.
    I32AndI32 = 13,
    /// MPI_LONG_INT.
    I64AndI32 = 14,
    /// MPI_FLOAT_INT.
    F32AndI32 = 15,
    /// MPI_DOUBLE_INT.
    F64AndI32 = 16,
    /// MPI_2REAL.
    F32AndF32 = 17,
    /// MPI_2DOUBLE_PRECISION.
    F64AndF64 = 18,
    /// C's `long double`, of 16 bytes.
    LongDouble = 19,
    /// MPI_LONG_DOUBLE_INT.
    LongDoubleAndI32 = 20,
    /// Two `long double`.
    ComplexLongDouble = 21,
}

impl Element {
    /// Each simple one, at the place of its code: those that libfabric's fi_atomic(3) has, too, with the same numbers.
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

    /// Each other one, in the order of codes: MPI's pairs and `long double`.
    pub const WIDE: [Self; 10] = [
        Self::I16AndI32,
        Self::I32AndI32,
        Self::I64AndI32,
        Self::F32AndI32,
        Self::F64AndI32,
        Self::F32AndF32,
        Self::F64AndF64,
        Self::LongDouble,
        Self::LongDoubleAndI32,
        Self::ComplexLongDouble,
    ];

    /// The element with this number on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().chain(&Self::WIDE).nth(usize::from(code)).copied()
    }

    /// Bytes from one to the next.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::ComplexF32 => 8,
            Self::I16AndI32 | Self::I32AndI32 | Self::F32AndI32 | Self::F32AndF32 => 8,
            Self::I64AndI32 | Self::F64AndI32 | Self::F64AndF64 => 16,
            Self::ComplexF64 | Self::LongDouble => 16,
            Self::LongDoubleAndI32 | Self::ComplexLongDouble => 32,
        }
    }

    /// What an address must be a multiple of, in bytes: as in C, the size; for what has several parts, that of the
    /// longest, and 8 where a `long double` is among them.
    #[must_use]
    pub const fn alignment(self) -> usize {
        match self {
            Self::I16AndI32 | Self::I32AndI32 | Self::F32AndI32 | Self::F32AndF32 | Self::ComplexF32 => 4,
            _ if self.size() > 8 => 8,
            _ => self.size(),
        }
    }

    /// Where the bytes of a pair or `long double` are that mean something: offset and length of each part. What is
    /// between and behind them is never written.
    #[must_use]
    pub const fn parts(self) -> &'static [(usize, usize)] {
        match self {
            Self::I16AndI32 => &[(0, 2), (4, 4)],
            Self::I32AndI32 | Self::F32AndI32 | Self::F32AndF32 => &[(0, 4), (4, 4)],
            Self::I64AndI32 | Self::F64AndI32 => &[(0, 8), (8, 4)],
            Self::F64AndF64 | Self::LongDouble | Self::ComplexF64 => &[(0, 8), (8, 8)],
            Self::LongDoubleAndI32 => &[(0, 8), (8, 8), (16, 4)],
            Self::ComplexLongDouble => &[(0, 8), (8, 8), (16, 8), (24, 8)],
            Self::ComplexF32 => &[(0, 4), (4, 4)],
            Self::I8 | Self::U8 => &[(0, 1)],
            Self::I16 | Self::U16 => &[(0, 2)],
            Self::I32 | Self::U32 | Self::F32 => &[(0, 4)],
            Self::I64 | Self::U64 | Self::F64 => &[(0, 8)],
        }
    }

    /// Whether it is a value and where it is, of which [`Combine::Min`] and [`Combine::Max`] pick one (MPI 4.1 section
    /// 6.9.4).
    #[must_use]
    pub const fn is_pair(self) -> bool {
        self as u8 >= Self::I16AndI32 as u8 && !self.is_long_double()
    }

    const fn is_long_double(self) -> bool {
        matches!(self, Self::LongDouble | Self::ComplexLongDouble)
    }

    pub(super) const fn is_complex(self) -> bool {
        matches!(self, Self::ComplexF32 | Self::ComplexF64)
    }

    pub(super) const fn is_integer(self) -> bool {
        self as u8 <= Self::U64 as u8
    }
}

/// What is done with an element, given an operand. The numbers are those on the wire.
///
/// Numbers compare by value: 0.0 equals -0.0, and a NaN is neither equal to, nor less, nor greater than anything,
/// itself included. So a NaN as operand is never a minimum or maximum, one that the element holds stays, and
/// nothing is swapped in for comparing equal to it. To be true is to be other than 0, which a NaN is; a complex number
/// is when either part is.
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

    /// Whether these elements have it: single bits are those of integers, and complex numbers have no order. Pairs have
    /// minimum and maximum; `long double` has these, sum and product, where the processor is an x86-64. All can be read
    /// and written.
    #[must_use]
    pub const fn applies_to(self, element: Element) -> bool {
        match self {
            Self::Read | Self::Write => true,
            Self::Min | Self::Max if matches!(element, Element::LongDoubleAndI32) => KNOWS_LONG_DOUBLE,
            Self::Min | Self::Max if element.is_pair() => true,
            Self::Min | Self::Max if matches!(element, Element::LongDouble) => KNOWS_LONG_DOUBLE,
            Self::Sum | Self::Product if element.is_long_double() => KNOWS_LONG_DOUBLE,
            _ if element.is_pair() || element.is_long_double() => false,
            Self::Sum
            | Self::Product
            | Self::LogicalOr
            | Self::LogicalAnd
            | Self::LogicalXor
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
