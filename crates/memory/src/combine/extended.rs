//! C's `long double` of x86-64: a sign, 15 bits of exponent and 64 of mantissa, whose highest bit is written out, in 16
//! bytes (System V ABI, AMD64 supplement, section 3.1.2). Of other processors' Weft knows only how to move them.

use core::cmp::Ordering;

use super::kind::{Combine, Element, KNOWS_LONG_DOUBLE};
use super::part::Part;

/// A `long double`, as it is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extended(pub(super) [u8; Self::LENGTH]);

impl Extended {
    /// Bytes.
    pub(super) const LENGTH: usize = 16;
    /// The byte with the sign.
    const SIGN: usize = 9;

    /// What it is in units of the least one, without its sign; none for what is no number.
    fn magnitude(self) -> Option<u128> {
        let all = u128::from_le_bytes(self.0) & ((1 << 79) - 1);
        let is_nan = all >> 64 == 0x7fff && all as u64 & (u64::MAX >> 1) != 0;
        (!is_nan).then_some(all)
    }

    fn negated(mut self) -> Self {
        self.0[Self::SIGN] ^= 0x80;
        self
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let signed = |value: &Self| {
            let magnitude = value.magnitude()?.cast_signed();
            Some(if value.0[Self::SIGN] & 0x80 == 0 { magnitude } else { -magnitude })
        };
        Some(signed(self)?.cmp(&signed(other)?))
    }
}

/// What an operation makes of a `long double`, or of a complex number of two.
pub(super) fn combine(element: Element, operation: Combine, before: &[u8; 32], operand: &[u8; 32]) -> Option<[u8; 32]> {
    if !KNOWS_LONG_DOUBLE {
        return None;
    }
    let part = |bytes, which: usize| Extended::at(bytes, which * Extended::LENGTH);
    let (real, imaginary) = (part(before, 0), part(before, 1));
    let (by_real, by_imaginary) = (part(operand, 0), part(operand, 1));
    let (first, second) = match (element, operation) {
        (Element::LongDouble, Combine::Min) => (if by_real < real { by_real } else { return None }, imaginary),
        (Element::LongDouble, Combine::Max) => (if by_real > real { by_real } else { return None }, imaginary),
        (Element::LongDouble, Combine::Product) => (product(real, by_real), imaginary),
        (Element::ComplexLongDouble, Combine::Product) => (
            sum(product(real, by_real), product(imaginary, by_imaginary).negated()),
            sum(product(real, by_imaginary), product(imaginary, by_real)),
        ),
        (Element::LongDouble | Element::ComplexLongDouble, Combine::Sum) => {
            (sum(real, by_real), sum(imaginary, by_imaginary))
        }
        _ => return None,
    };
    let mut bytes = [0; 32];
    bytes[..Extended::LENGTH].copy_from_slice(&first.0);
    bytes[Extended::LENGTH..].copy_from_slice(&second.0);
    Some(bytes)
}

/// Defines a function of two operands by an instruction of the x87 unit, which alone calculates with such numbers.
macro_rules! by_x87 {
    ($name:ident, $instruction:literal) => {
        #[cfg(target_arch = "x86_64")]
        fn $name(mut a: Extended, b: Extended) -> Extended {
            // SAFETY: Both addresses are those of 16 bytes, of which 10 are read, and at the first one written. The
            // unit is empty when a function begins (System V ABI, AMD64 supplement, section 3.2.1), and again at the
            // end.
            unsafe {
                core::arch::asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{a}]",
                    a = in(reg) a.0.as_mut_ptr(),
                    b = in(reg) b.0.as_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            a
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn $name(a: Extended, _: Extended) -> Extended {
            a
        }
    };
}

by_x87!(sum, "faddp st(1), st");
by_x87!(product, "fmulp st(1), st");

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A number that a `f64` holds, too, by its bits.
    fn of(value: f64) -> Extended {
        let mut bytes = [0; Extended::LENGTH];
        let bits = value.to_bits();
        // The highest bit of a mantissa is not written out in a double.
        let (exponent, mantissa) = (bits >> 52 & 0x7ff, bits << 12 >> 1);
        let (exponent, mantissa) = match exponent {
            0 => (0, 0),
            0x7ff => (0x7fff, mantissa | 1 << 63),
            exponent => (exponent + 16383 - 1023, mantissa | 1 << 63),
        };
        bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
        bytes[8..10].copy_from_slice(&((bits >> 63 << 15) as u16 | exponent as u16).to_le_bytes());
        Extended(bytes)
    }

    const VALUES: [f64; 9] = [0.0, -0.0, 1.0, -1.0, 2.5, -1e300, 3.0, f64::INFINITY, f64::NAN];

    #[test]
    fn order_sum_and_product_are_those_of_numbers() {
        for a in VALUES {
            for b in VALUES {
                assert_eq!(of(a).partial_cmp(&of(b)), a.partial_cmp(&b), "{a} {b}");
                let same = |found: Extended, expected: f64| expected.is_nan() || found == of(expected);
                assert!(same(sum(of(a), of(b)), a + b), "{a} + {b}");
                if (a * b).abs() < 1e300 {
                    assert!(same(product(of(a), of(b)), a * b), "{a} * {b}");
                }
            }
        }
    }

    #[test]
    fn more_bits_are_kept_than_a_double_has() {
        let tiny = of(2.0_f64.powi(-63));
        let found = sum(of(1.0), tiny);
        assert!(found > of(1.0) && sum(found, of(-1.0)) == tiny);
    }

    #[test]
    fn complex_numbers_multiply() {
        let complex =
            |real: f64, imaginary: f64| -> [u8; 32] { [of(real).0, of(imaginary).0].concat().try_into().unwrap() };
        let found = combine(Element::ComplexLongDouble, Combine::Product, &complex(1.0, 2.0), &complex(3.0, -4.0));
        let found = found.unwrap();
        assert!(Extended::at(&found, 0) == of(11.0) && Extended::at(&found, 16) == of(2.0));
    }
}
