//! The arithmetic: what an operation makes of a value.

use super::kind::Combine;

/// A value of one of the types of [`Element`](super::Element).
pub(super) trait Value: Copy {
    /// What takes the place of `before`; `None` if it stays. Operations that the type does not have leave it, too.
    fn combine(before: Self, operation: Combine, operand: Self, compare: Self) -> Option<Self>;
}

/// The operations that every type has.
macro_rules! common {
    ($before:ident, $operation:ident, $operand:ident, $compare:ident, else $($rest:tt)*) => {
        match $operation {
            Combine::Read => None,
            Combine::Write => Some($operand),
            Combine::LogicalOr => Some(Self::truth($before.holds() || $operand.holds())),
            Combine::LogicalAnd => Some(Self::truth($before.holds() && $operand.holds())),
            Combine::LogicalXor => Some(Self::truth($before.holds() != $operand.holds())),
            Combine::SwapIfEqual => ($compare == $before).then_some($operand),
            Combine::SwapIfNotEqual => ($compare != $before).then_some($operand),
            $($rest)*
        }
    };
}

/// Those of the types that have an order, besides.
macro_rules! ordered {
    ($before:ident, $operation:ident, $operand:ident, $compare:ident, else $($rest:tt)*) => {
        common!($before, $operation, $operand, $compare, else
            Combine::Min => ($operand < $before).then_some($operand),
            Combine::Max => ($operand > $before).then_some($operand),
            Combine::SwapIfLessOrEqual => ($compare <= $before).then_some($operand),
            Combine::SwapIfLess => ($compare < $before).then_some($operand),
            Combine::SwapIfGreaterOrEqual => ($compare >= $before).then_some($operand),
            Combine::SwapIfGreater => ($compare > $before).then_some($operand),
            $($rest)*
        )
    };
}

/// What C calls true, and what its logical operators give.
trait Truth {
    fn holds(self) -> bool;
    fn truth(is_true: bool) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => { $(
        impl Truth for $integer {
            fn holds(self) -> bool {
                self != 0
            }

            fn truth(is_true: bool) -> Self {
                Self::from(is_true)
            }
        }

        impl Value for $integer {
            #[inline]
            fn combine(before: Self, operation: Combine, operand: Self, compare: Self) -> Option<Self> {
                ordered!(before, operation, operand, compare, else
                    Combine::Sum => Some(before.wrapping_add(operand)),
                    Combine::Product => Some(before.wrapping_mul(operand)),
                    Combine::BitOr => Some(before | operand),
                    Combine::BitAnd => Some(before & operand),
                    Combine::BitXor => Some(before ^ operand),
                    Combine::MaskedSwap => Some((operand & compare) | (before & !compare)),
                )
            }
        }
    )* };
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($float:ty)*) => { $(
        impl Truth for $float {
            fn holds(self) -> bool {
                self != 0.0
            }

            fn truth(is_true: bool) -> Self {
                if is_true { 1.0 } else { 0.0 }
            }
        }

        impl Value for $float {
            #[inline]
            fn combine(before: Self, operation: Combine, operand: Self, compare: Self) -> Option<Self> {
                ordered!(before, operation, operand, compare, else
                    Combine::Sum => Some(before + operand),
                    Combine::Product => Some(before * operand),
                    Combine::BitOr | Combine::BitAnd | Combine::BitXor | Combine::MaskedSwap => None,
                )
            }
        }

        impl Truth for Complex<$float> {
            fn holds(self) -> bool {
                self.real.holds() || self.imaginary.holds()
            }

            fn truth(is_true: bool) -> Self {
                Self { real: <$float>::truth(is_true), imaginary: 0.0 }
            }
        }

        impl Value for Complex<$float> {
            #[inline]
            fn combine(before: Self, operation: Combine, operand: Self, compare: Self) -> Option<Self> {
                common!(before, operation, operand, compare, else
                    Combine::Sum => Some(Self {
                        real: before.real + operand.real,
                        imaginary: before.imaginary + operand.imaginary,
                    }),
                    Combine::Product => Some(Self {
                        real: before.real * operand.real - before.imaginary * operand.imaginary,
                        imaginary: before.real * operand.imaginary + before.imaginary * operand.real,
                    }),
                    Combine::Min
                    | Combine::Max
                    | Combine::SwapIfLessOrEqual
                    | Combine::SwapIfLess
                    | Combine::SwapIfGreaterOrEqual
                    | Combine::SwapIfGreater
                    | Combine::BitOr
                    | Combine::BitAnd
                    | Combine::BitXor
                    | Combine::MaskedSwap => None,
                )
            }
        }
    )* };
}

floats!(f32 f64);

/// As C lays it out.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Complex<F> {
    pub(super) real: F,
    pub(super) imaginary: F,
}
