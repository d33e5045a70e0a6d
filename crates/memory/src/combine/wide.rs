//! Elements of several parts: pairs of a value and where it is, which MPI_MINLOC and MPI_MAXLOC combine (MPI 4.1
//! section 6.9.4), and C's `long double`. Each is as C lays it out; the gaps of a pair are not written.

use core::cmp::Ordering::{Equal, Greater, Less};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::alone::alone;
use super::extended::{self, Extended};
use super::kind::{Combine, Element};
use super::operands::Operands;
use super::part::{Bytes, MOST, Part};
use crate::guard::Fault;

/// As [`combine_all`](super::combine_all), for elements of several parts. Each changes as one only for other updates of
/// the same element; each part does for everybody.
///
/// # Safety
/// As for [`combine_all`](super::combine_all).
pub(super) unsafe fn each(
    at: *mut u8,
    count: usize,
    element: Element,
    operation: Combine,
    operands: Operands<'_>,
) -> Result<(), Fault> {
    let size = element.size();
    for start in (0..count).map(|index| index * size) {
        let mut operand = [0; MOST];
        if let Some(given) = operands.operand.get(start..start + size) {
            operand[..size].copy_from_slice(given);
        }
        // SAFETY: Inside the elements by the caller's promise.
        let place = unsafe { at.add(start) };
        let update = || {
            // SAFETY: As above. The parts are aligned, since the element is and its size is a multiple of the
            // alignment.
            let before = unsafe { load(place, element) };
            if let Some(after) = combine(element, operation, &before, &operand) {
                // SAFETY: As above.
                unsafe { store(place, element, &after) };
            }
            before
        };
        // SAFETY: As above. Loads and stores may stop anywhere.
        let before = unsafe { alone(place, size, update) }?;
        if let Some(out) = operands.result.get_mut(start..start + size) {
            out.copy_from_slice(&before[..size]);
        }
    }
    Ok(())
}

/// The parts of an element, each at its place; the gaps are zero.
///
/// # Safety
/// `at` is a multiple of [`Element::alignment`] and valid for reads, for any thread's sake.
unsafe fn load(at: *mut u8, element: Element) -> Bytes {
    let mut bytes = [0; MOST];
    for &(offset, length) in element.parts() {
        // SAFETY: The caller's promise: each part is inside and aligned.
        unsafe {
            let part = at.add(offset);
            let out = &mut bytes[offset..offset + length];
            match length {
                2 => out.copy_from_slice(&AtomicU16::from_ptr(part.cast()).load(Ordering::Acquire).to_ne_bytes()),
                4 => out.copy_from_slice(&AtomicU32::from_ptr(part.cast()).load(Ordering::Acquire).to_ne_bytes()),
                _ => out.copy_from_slice(&AtomicU64::from_ptr(part.cast()).load(Ordering::Acquire).to_ne_bytes()),
            }
        }
    }
    bytes
}

/// # Safety
/// As for [`load`], and valid for writes.
unsafe fn store(at: *mut u8, element: Element, bytes: &Bytes) {
    for &(offset, length) in element.parts() {
        // SAFETY: The caller's promise: each part is inside and aligned.
        unsafe {
            let part = at.add(offset);
            match length {
                2 => AtomicU16::from_ptr(part.cast()).store(u16::at(bytes, offset), Ordering::Release),
                4 => AtomicU32::from_ptr(part.cast()).store(u32::at(bytes, offset), Ordering::Release),
                _ => AtomicU64::from_ptr(part.cast()).store(u64::at(bytes, offset), Ordering::Release),
            }
        }
    }
}

/// What takes the place of `before`; `None` if it stays.
fn combine(element: Element, operation: Combine, before: &Bytes, operand: &Bytes) -> Option<Bytes> {
    match operation {
        Combine::Write => return Some(*operand),
        Combine::Read => return None,
        _ => {}
    }
    match element {
        Element::I16AndI32 => locate::<i16, i32>(operation, before, operand, 4),
        Element::I32AndI32 => locate::<i32, i32>(operation, before, operand, 4),
        Element::I64AndI32 => locate::<i64, i32>(operation, before, operand, 8),
        Element::F32AndI32 => locate::<f32, i32>(operation, before, operand, 4),
        Element::F64AndI32 => locate::<f64, i32>(operation, before, operand, 8),
        Element::F32AndF32 => locate::<f32, f32>(operation, before, operand, 4),
        Element::F64AndF64 => locate::<f64, f64>(operation, before, operand, 8),
        Element::LongDoubleAndI32 => locate::<Extended, i32>(operation, before, operand, Extended::LENGTH),
        Element::LongDouble | Element::ComplexLongDouble => extended::combine(element, operation, before, operand),
        _ => None,
    }
}

/// MPI_MINLOC and MPI_MAXLOC: the pair with the lesser or greater value; of equal ones, that with the lesser place.
fn locate<V: Part + PartialOrd, P: Part + PartialOrd>(
    operation: Combine,
    before: &Bytes,
    operand: &Bytes,
    place: usize,
) -> Option<Bytes> {
    let wins = match (operation, V::at(operand, 0).partial_cmp(&V::at(before, 0))?) {
        (Combine::Min, order) if order != Equal => order == Less,
        (Combine::Max, order) if order != Equal => order == Greater,
        (Combine::Min | Combine::Max, _) => P::at(operand, place) < P::at(before, place),
        _ => false,
    };
    wins.then_some(*operand)
}

impl Part for Extended {
    fn at(bytes: &Bytes, offset: usize) -> Self {
        let mut own = [0; Self::LENGTH];
        own.copy_from_slice(&bytes[offset..offset + Self::LENGTH]);
        Self(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(value: f64, place: i32) -> Bytes {
        let mut bytes = [0; MOST];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..12].copy_from_slice(&place.to_ne_bytes());
        bytes
    }

    #[test]
    fn the_least_value_wins_and_of_equal_ones_the_first_place() {
        let combine = |operation, before, operand| combine(Element::F64AndI32, operation, &before, &operand);
        let (low, high) = (pair(1.0, 5), pair(2.0, 3));
        assert_eq!(combine(Combine::Min, high, low), Some(low));
        assert_eq!(combine(Combine::Min, low, high), None);
        assert_eq!(combine(Combine::Max, low, high), Some(high));
        assert_eq!(combine(Combine::Max, high, low), None);
        for operation in [Combine::Min, Combine::Max] {
            assert_eq!(combine(operation, low, pair(1.0, 4)), Some(pair(1.0, 4)));
            assert_eq!(combine(operation, low, pair(1.0, 6)), None);
            assert_eq!(combine(operation, low, pair(f64::NAN, 0)), None);
        }
    }

    #[test]
    fn a_part_is_at_its_place_and_gaps_stay() {
        let mut memory = [0x1122_3344_u32; 8];
        let mut operand = [0xff; 16];
        operand[..2].copy_from_slice(&7_i16.to_ne_bytes());
        operand[4..8].copy_from_slice(&9_i32.to_ne_bytes());
        let operands = Operands { operand: &operand[..8], compare: &[], result: &mut [] };
        // SAFETY: There are eight aligned words, of which this is the first pair.
        unsafe { each(memory.as_mut_ptr().cast(), 1, Element::I16AndI32, Combine::Write, operands) }.unwrap();
        let bytes = memory[0].to_ne_bytes();
        assert_eq!((&bytes[..2], &bytes[2..]), (&7_i16.to_ne_bytes()[..], &0x1122_3344_u32.to_ne_bytes()[2..]));
        assert_eq!(memory[1..3], [9, 0x1122_3344]);
    }
}
