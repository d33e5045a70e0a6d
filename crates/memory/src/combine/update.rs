//! Read-modify-write of elements in memory that others use at the same time.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::alone::alone;
use super::kind::{Combine, Element};
use super::operands::Operands;
use super::value::{Complex, Value};
use super::wide;
use crate::guard::Fault;

/// Does `operation` on `count` elements from `at` on.
///
/// # Errors
/// Some are not there any more, which was found under a lock. The caller guards the other touches ([`guard::touch`]).
///
/// # Safety
/// `at` is a multiple of [`Element::alignment`] and valid for reads of `count` elements, and for writes unless the
/// operation is [`Combine::Read`], for any thread's sake until this returns.
pub(crate) unsafe fn combine_all(
    at: *mut u8,
    count: usize,
    element: Element,
    operation: Combine,
    operands: Operands<'_>,
) -> Result<(), Fault> {
    let run = match element {
        Element::I8 => each::<u8, i8>,
        Element::U8 => each::<u8, u8>,
        Element::I16 => each::<u16, i16>,
        Element::U16 => each::<u16, u16>,
        Element::I32 => each::<u32, i32>,
        Element::U32 => each::<u32, u32>,
        Element::I64 => each::<u64, i64>,
        Element::U64 => each::<u64, u64>,
        Element::F32 => each::<u32, f32>,
        Element::F64 => each::<u64, f64>,
        Element::ComplexF32 if at.addr().is_multiple_of(8) => each::<u64, Complex<f32>>,
        Element::ComplexF32 => each::<[u32; 2], Complex<f32>>,
        Element::ComplexF64 => each::<[u64; 2], Complex<f64>>,
        // SAFETY: The caller's promise.
        _ => return unsafe { wide::each(at, count, element, operation, operands) },
    };
    // SAFETY: The caller's promise; `W` has the size of the element, and `at` is a multiple of its alignment.
    unsafe { run(at, count, operation, operands) }
}

/// As [`combine_all`], for elements that are values of type `V` in memory words of type `W`.
///
/// # Safety
/// As for [`combine_all`], with `W` for the element.
unsafe fn each<W: Word, V: Value + Held<W>>(
    at: *mut u8,
    count: usize,
    operation: Combine,
    operands: Operands<'_>,
) -> Result<(), Fault> {
    let Operands { operand, compare, result } = operands;
    let size = size_of::<W>();
    for start in (0..count).map(|index| index * size) {
        let given = |bytes: &[u8]| V::from_word(bytes.get(start..start + size).map_or(W::ZERO, W::from_bytes));
        let (operand, compare) = (given(operand), given(compare));
        // SAFETY: Inside the elements by the caller's promise, and as well aligned as the first, since the size is a
        // multiple of the alignment.
        let before = unsafe {
            W::update(at.add(start), |word| {
                V::combine(V::from_word(word), operation, operand, compare).map(V::into_word)
            })?
        };
        if let Some(out) = result.get_mut(start..start + size) {
            before.to_bytes(out);
        }
    }
    Ok(())
}

/// What memory is read and written by, as one.
trait Word: Copy {
    const ZERO: Self;

    /// `bytes` are as many as this has.
    fn from_bytes(bytes: &[u8]) -> Self;

    fn to_bytes(self, out: &mut [u8]);

    /// Lets `change` make a new value of the one at `at`, or leave it, and returns the old one. No other update comes
    /// between.
    ///
    /// # Safety
    /// `at` is a multiple of the word's alignment and valid for reads, and for writes if `change` makes a new value,
    /// for any thread's sake until this returns.
    ///
    /// # Errors
    /// It is not there any more. Words that need no lock leave that to the caller that guards the whole operation.
    unsafe fn update(at: *mut u8, change: impl Fn(Self) -> Option<Self>) -> Result<Self, Fault>;
}

macro_rules! words {
    ($($word:ty, $atomic:ty;)*) => { $(
        impl Word for $word {
            const ZERO: Self = 0;

            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_ne_bytes)
            }

            fn to_bytes(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }

            unsafe fn update(at: *mut u8, change: impl Fn(Self) -> Option<Self>) -> Result<Self, Fault> {
                // SAFETY: The caller's promise.
                let word = unsafe { <$atomic>::from_ptr(at.cast()) };
                match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change) {
                    Ok(before) | Err(before) => Ok(before),
                }
            }
        }
    )* };
}

words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

macro_rules! pairs {
    ($($half:ty, $atomic:ty;)*) => { $(
        /// Whole only among updates of the same element; each half is whole for everybody.
        impl Word for [$half; 2] {
            const ZERO: Self = [0; 2];

            fn from_bytes(bytes: &[u8]) -> Self {
                let (first, second) = bytes.split_at(size_of::<$half>());
                [<$half>::from_bytes(first), <$half>::from_bytes(second)]
            }

            fn to_bytes(self, out: &mut [u8]) {
                let (first, second) = out.split_at_mut(size_of::<$half>());
                self[0].to_bytes(first);
                self[1].to_bytes(second);
            }

            unsafe fn update(at: *mut u8, change: impl Fn(Self) -> Option<Self>) -> Result<Self, Fault> {
                // SAFETY: The caller's promise: there are two, and they are aligned.
                let halves = unsafe {
                    [<$atomic>::from_ptr(at.cast()), <$atomic>::from_ptr(at.add(size_of::<$half>()).cast())]
                };
                let update = || {
                    let before = halves.map(|half| half.load(Ordering::Acquire));
                    if let Some(after) = change(before) {
                        halves.iter().zip(after).for_each(|(half, after)| half.store(after, Ordering::Release));
                    }
                    before
                };
                // SAFETY: The caller's promise. Loads and stores may stop anywhere.
                unsafe { alone(at, size_of::<Self>(), update) }
            }
        }
    )* };
}

pairs! {
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A value as the memory word `W` holds it.
trait Held<W> {
    fn from_word(word: W) -> Self;
    fn into_word(self) -> W;
}

macro_rules! held {
    ($($value:ty, $word:ty, $from:expr, $into:expr;)*) => { $(
        impl Held<$word> for $value {
            #[inline]
            fn from_word(word: $word) -> Self {
                $from(word)
            }

            #[inline]
            fn into_word(self) -> $word {
                $into(self)
            }
        }
    )* };
}

held! {
    i8, u8, u8::cast_signed, i8::cast_unsigned;
    u8, u8, core::convert::identity, core::convert::identity;
    i16, u16, u16::cast_signed, i16::cast_unsigned;
    u16, u16, core::convert::identity, core::convert::identity;
    i32, u32, u32::cast_signed, i32::cast_unsigned;
    u32, u32, core::convert::identity, core::convert::identity;
    i64, u64, u64::cast_signed, i64::cast_unsigned;
    u64, u64, core::convert::identity, core::convert::identity;
    f32, u32, f32::from_bits, f32::to_bits;
    f64, u64, f64::from_bits, f64::to_bits;
    Complex<f32>, [u32; 2],
        |[real, imaginary]: [u32; 2]| Complex { real: f32::from_bits(real), imaginary: f32::from_bits(imaginary) },
        |complex: Complex<f32>| [complex.real.to_bits(), complex.imaginary.to_bits()];
    Complex<f64>, [u64; 2],
        |[real, imaginary]: [u64; 2]| Complex { real: f64::from_bits(real), imaginary: f64::from_bits(imaginary) },
        |complex: Complex<f64>| [complex.real.to_bits(), complex.imaginary.to_bits()];
}

/// Both parts in one word, each at its place in memory.
impl Held<u64> for Complex<f32> {
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_word(<[u32; 2]>::from_bytes(&word.to_ne_bytes()))
    }

    #[inline]
    fn into_word(self) -> u64 {
        let parts: [u32; 2] = self.into_word();
        let mut bytes = [0; 8];
        parts.to_bytes(&mut bytes);
        u64::from_ne_bytes(bytes)
    }
}
