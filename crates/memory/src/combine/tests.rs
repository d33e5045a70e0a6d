use std::sync::atomic::Ordering;
use std::thread;

use proptest::prelude::*;
use weft_base::{DomainId, Slice};

use super::*;
use crate::{Access, AtomicOperation, Limits, MemoryError, Region, Registry, RemoteRight};

/// A number of any type, in types wide enough for all.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Integer(i128),
    Float(f64),
    Complex(f64, f64),
}

use Number::{Complex, Float, Integer};

fn decode(element: Element, bytes: &[u8]) -> Number {
    macro_rules! of {
        ($type:ty, $bytes:expr) => {
            <$type>::from_ne_bytes($bytes.try_into().unwrap())
        };
    }
    match element {
        Element::I8 => Integer(of!(i8, bytes).into()),
        Element::U8 => Integer(of!(u8, bytes).into()),
        Element::I16 => Integer(of!(i16, bytes).into()),
        Element::U16 => Integer(of!(u16, bytes).into()),
        Element::I32 => Integer(of!(i32, bytes).into()),
        Element::U32 => Integer(of!(u32, bytes).into()),
        Element::I64 => Integer(of!(i64, bytes).into()),
        Element::U64 => Integer(of!(u64, bytes).into()),
        Element::F32 => Float(of!(f32, bytes).into()),
        Element::F64 => Float(of!(f64, bytes)),
        Element::ComplexF32 => Complex(of!(f32, bytes[..4]).into(), of!(f32, bytes[4..]).into()),
        Element::ComplexF64 => Complex(of!(f64, bytes[..8]), of!(f64, bytes[8..])),
        _ => panic!("{element:?} is no number"),
    }
}

fn encode(element: Element, number: Number) -> Vec<u8> {
    match (element, number) {
        (_, Integer(value)) => lowest(value, element.size()),
        (Element::F32, Float(value)) => (value as f32).to_ne_bytes().to_vec(),
        (_, Float(value)) => value.to_ne_bytes().to_vec(),
        (Element::ComplexF32, Complex(a, b)) => [(a as f32).to_ne_bytes(), (b as f32).to_ne_bytes()].concat(),
        (_, Complex(a, b)) => [a.to_ne_bytes(), b.to_ne_bytes()].concat(),
    }
}

/// The lowest bytes of a number, in the order of this machine: the number modulo what they hold.
fn lowest(value: i128, size: usize) -> Vec<u8> {
    let mut bytes = value.to_le_bytes()[..size].to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

/// What fi_atomic(3) says, `addr` being `before` and `buf` being `operand`. `None` for what it does not have.
fn model(element: Element, operation: Combine, before: Number, operand: Number, compare: Number) -> Option<Number> {
    // A sum or product of two `f32` in `f64` and then rounded is the one of `f32`.
    let round = |value: f64| {
        if element.size() == 4 || element == Element::ComplexF32 { f64::from(value as f32) } else { value }
    };
    let truth = |is_true: bool| match before {
        Integer(_) => Integer(is_true.into()),
        Float(_) => Float(f64::from(u8::from(is_true))),
        Complex(..) => Complex(f64::from(u8::from(is_true)), 0.0),
    };
    let is_true = |number| match number {
        Integer(value) => value != 0,
        Float(value) => value != 0.0,
        Complex(a, b) => a != 0.0 || b != 0.0,
    };
    let swap_if = |condition: bool| Some(if condition { operand } else { before });
    let order = |a, b| match (a, b) {
        (Integer(a), Integer(b)) => a.partial_cmp(&b),
        (Float(a), Float(b)) => a.partial_cmp(&b),
        _ => None,
    };
    let ordered = !matches!(before, Complex(..));
    let compared = order(compare, before);
    match operation {
        Combine::Min => {
            ordered.then(|| if order(operand, before).is_some_and(|o| o.is_lt()) { operand } else { before })
        }
        Combine::Max => {
            ordered.then(|| if order(operand, before).is_some_and(|o| o.is_gt()) { operand } else { before })
        }
        Combine::Sum => Some(match (before, operand) {
            (Integer(a), Integer(b)) => Integer(a + b),
            (Float(a), Float(b)) => Float(round(a + b)),
            (Complex(a, b), Complex(c, d)) => Complex(round(a + c), round(b + d)),
            _ => unreachable!(),
        }),
        Combine::Product => Some(match (before, operand) {
            (Integer(a), Integer(b)) => Integer(a.wrapping_mul(b)),
            (Float(a), Float(b)) => Float(round(a * b)),
            (Complex(a, b), Complex(c, d)) => {
                Complex(round(round(a * c) - round(b * d)), round(round(a * d) + round(b * c)))
            }
            _ => unreachable!(),
        }),
        Combine::LogicalOr => Some(truth(is_true(before) || is_true(operand))),
        Combine::LogicalAnd => Some(truth(is_true(before) && is_true(operand))),
        Combine::LogicalXor => Some(truth(is_true(before) != is_true(operand))),
        Combine::Read => Some(before),
        Combine::Write => Some(operand),
        Combine::SwapIfEqual => swap_if(compare == before),
        Combine::SwapIfNotEqual => swap_if(compare != before),
        Combine::SwapIfLessOrEqual if ordered => swap_if(compared.is_some_and(|o| o.is_le())),
        Combine::SwapIfLess if ordered => swap_if(compared.is_some_and(|o| o.is_lt())),
        Combine::SwapIfGreaterOrEqual if ordered => swap_if(compared.is_some_and(|o| o.is_ge())),
        Combine::SwapIfGreater if ordered => swap_if(compared.is_some_and(|o| o.is_gt())),
        _ => {
            let (Integer(a), Integer(b), Integer(mask)) = (before, operand, compare) else { return None };
            match operation {
                Combine::BitOr => Some(Integer(a | b)),
                Combine::BitAnd => Some(Integer(a & b)),
                Combine::BitXor => Some(Integer(a ^ b)),
                Combine::MaskedSwap => Some(Integer((b & mask) | (a & !mask))),
                _ => None,
            }
        }
    }
}

/// NaNs are as good as each other.
fn same(a: Number, b: Number) -> bool {
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    match (a, b) {
        (Float(a), Float(b)) => same(a, b),
        (Complex(a, b), Complex(c, d)) => same(a, c) && same(b, d),
        _ => a == b,
    }
}

/// A region of `bytes`.
fn region(bytes: Vec<u8>) -> (Registry, DomainId, Region) {
    let registry = Registry::new(7, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    // Pages, so that offsets are as aligned as addresses.
    let region = registry.register_zeroed(domain, bytes.len(), Access::REMOTE_ATOMIC, 0).unwrap();
    region.write(0, &bytes).unwrap();
    (registry, domain, region)
}

fn slice(registry: &Registry, domain: DomainId, region: &Region, offset: usize, length: usize) -> Slice {
    registry.check_remote(domain, region.stag(), offset as u64, length as u32, RemoteRight::Atomic).unwrap()
}

fn element() -> impl Strategy<Value = Element> {
    prop::sample::select(Element::ALL.as_slice())
}

fn operation() -> impl Strategy<Value = Combine> {
    prop::sample::select(Combine::ALL.as_slice())
}

/// Bytes for elements, among which equal ones, zeroes, ones, NaNs and infinities are frequent.
fn numbers(element: Element, count: usize) -> impl Strategy<Value = Vec<u8>> {
    let part = if element.is_complex() { Element::F64 } else { element };
    let part = if element == Element::ComplexF32 { Element::F32 } else { part };
    let special = prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, 2.5, f64::NAN, f64::INFINITY])
        .prop_map(move |value| encode(part, if part.is_integer() { Integer(value as i128) } else { Float(value) }));
    let any = prop::collection::vec(any::<u8>(), part.size());
    let parts = count * element.size() / part.size();
    prop::collection::vec(prop_oneof![special, any], parts).prop_map(|parts| parts.concat())
}

fn case() -> impl Strategy<Value = (Element, Combine, usize, [Vec<u8>; 3])> {
    (element(), operation(), 0..5_usize).prop_flat_map(|(element, operation, count)| {
        let bytes = || numbers(element, count);
        (Just(element), Just(operation), Just(count), [bytes(), bytes(), bytes()])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn each_operation_does_as_the_model(
        (element, operation, count, [before, operand, compare]) in case(),
        skip in 0..3_usize,
        wanted: bool,
    ) {
        let size = element.size();
        let skip = skip * element.alignment();
        let (registry, domain, region) = region([&vec![0xa5; skip][..], &before, &[0xa5; 16]].concat());
        let target = slice(&registry, domain, &region, skip, before.len());
        let operand = if operation.has_operand() { operand } else { Vec::new() };
        let compare = if operation.compares() { compare } else { Vec::new() };
        let mut result = vec![0xee; if wanted { before.len() } else { 0 }];
        let done = registry.combine(&target, element, operation, &operand, &compare, &mut result);

        let after = region.to_vec();
        prop_assert!(after[..skip].iter().chain(&after[skip + before.len()..]).all(|byte| *byte == 0xa5), "neighbours");
        if !operation.applies_to(element) {
            prop_assert_eq!(done, Err(MemoryError::Inapplicable { element, operation }));
            prop_assert_eq!(&after[skip..skip + before.len()], &before[..]);
            return Ok(());
        }
        prop_assert_eq!(done, Ok(()));
        if wanted {
            prop_assert_eq!(&result, &before);
        }
        for index in 0..count {
            let place = index * size..(index + 1) * size;
            let at = |bytes: &[u8]| bytes.get(place.clone()).map_or(Integer(0), |bytes| decode(element, bytes));
            let expected = model(element, operation, at(&before), at(&operand), at(&compare));
            let expected = expected.map(|number| decode(element, &encode(element, number)));
            let found = decode(element, &after[skip + index * size..][..size]);
            prop_assert!(expected.is_some_and(|expected| same(expected, found)), "{expected:?}, but {found:?}");
        }
    }

    #[test]
    fn only_operations_of_the_model_apply(element in element(), operation in operation()) {
        let number = decode(element, &vec![0; element.size()]);
        prop_assert_eq!(operation.applies_to(element), model(element, operation, number, number, number).is_some());
    }
}

#[test]
fn codes_are_those_of_the_enums() {
    for code in 0..=u8::MAX {
        assert_eq!(Element::from_code(code).map(|element| element as u8), (code < 22).then_some(code));
        assert_eq!(Combine::from_code(code).map(|operation| operation as u8), (code < 19).then_some(code));
    }
}

#[test]
fn a_slice_that_is_not_aligned_is_refused_and_stays() {
    for element in Element::ALL.into_iter().chain(Element::WIDE) {
        let (registry, domain, region) = region(vec![7; 64]);
        let operand = vec![1; element.size()];
        for offset in 0..16 {
            let target = slice(&registry, domain, &region, offset, element.size());
            let done = registry.combine(&target, element, Combine::Write, &operand, &[], &mut []);
            let size = element.alignment() as u64;
            if (offset as u64).is_multiple_of(size) {
                assert_eq!(done, Ok(()));
                region.fill_with(|_| 7).unwrap();
            } else {
                assert_eq!(done, Err(MemoryError::Misaligned { offset: offset as u64, size }));
            }
            assert_eq!(region.to_vec(), [7; 64], "{element:?} at {offset}");
        }
    }
}

#[test]
fn lengths_must_agree() {
    let (registry, domain, region) = region(vec![7; 64]);
    let whole = slice(&registry, domain, &region, 0, 8);
    let part = slice(&registry, domain, &region, 0, 7);
    let (right, wrong) = ([1; 8], [1; 4]);
    let combine = |slice, operation, operand: &[u8], compare: &[u8], result: usize| {
        registry.combine(slice, Element::U32, operation, operand, compare, &mut vec![0; result])
    };
    let mismatch = |slice, given| Err(MemoryError::LengthMismatch { slice, given });
    assert_eq!(combine(&part, Combine::Sum, &right[..7], &[], 0), mismatch(7, 4));
    assert_eq!(combine(&whole, Combine::Sum, &wrong, &[], 0), mismatch(8, 4));
    assert_eq!(combine(&whole, Combine::Sum, &[], &[], 0), mismatch(8, 0));
    assert_eq!(combine(&whole, Combine::Sum, &right, &right, 0), mismatch(0, 8));
    assert_eq!(combine(&whole, Combine::Sum, &right, &[], 4), mismatch(8, 4));
    assert_eq!(combine(&whole, Combine::Read, &right, &[], 8), mismatch(0, 8));
    assert_eq!(combine(&whole, Combine::SwapIfEqual, &right, &wrong, 0), mismatch(8, 4));
    assert_eq!(region.to_vec(), [7; 64]);
    assert_eq!(combine(&whole, Combine::Sum, &right, &[], 8), Ok(()));
}

#[test]
fn a_slice_whose_right_has_ended_is_not_touched() {
    let (registry, domain, region) = region(vec![7; 8]);
    let target = slice(&registry, domain, &region, 0, 8);
    region.invalidate();
    let done = registry.combine(&target, Element::U64, Combine::Write, &[1; 8], &[], &mut []);
    assert_eq!(done, Err(MemoryError::Invalidated(region.id())));
    assert_eq!(region.to_vec(), [7; 8]);
}

#[test]
fn values_that_stay_are_kept_bit_by_bit() {
    let signalling = 0x7f80_0001_u32.to_ne_bytes();
    let (registry, domain, region) = region(signalling.to_vec());
    let target = slice(&registry, domain, &region, 0, 4);
    for operation in [Combine::Min, Combine::Max, Combine::SwapIfEqual, Combine::Read] {
        let operand = if operation.has_operand() { &1.0_f32.to_ne_bytes()[..] } else { &[] };
        let compare = if operation.compares() { &signalling[..] } else { &[] };
        let mut result = [0; 4];
        registry.combine(&target, Element::F32, operation, operand, compare, &mut result).unwrap();
        assert_eq!((result, &region.to_vec()[..]), (signalling, &signalling[..]), "{operation:?}");
    }
}

const ROUNDS: usize = 20_000;
const THREADS: usize = 4;
/// Additions to each of [`MANY`] elements by each thread.
const PASSES: usize = 500;
/// Enough that threads that walk over them meet; of some types more than is touched under the table's lock.
const MANY: usize = 1100;

/// What [`MANY`] elements are when some threads have added 1 (for complex numbers, 1 - i) to each of them.
fn add_from_many_threads(element: Element, skip: usize) -> Vec<Number> {
    let one = match decode(element, &vec![0; element.size()]) {
        Integer(_) => Integer(1),
        Float(_) => Float(1.0),
        Complex(..) => Complex(1.0, -1.0),
    };
    let (registry, domain, region) = region(vec![0; skip + MANY * element.size()]);
    let target = slice(&registry, domain, &region, skip, MANY * element.size());
    let operand = encode(element, one).repeat(MANY);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..PASSES {
                    registry.combine(&target, element, Combine::Sum, &operand, &[], &mut []).unwrap();
                }
            });
        }
    });
    region.to_vec()[skip..].chunks(element.size()).map(|bytes| decode(element, bytes)).collect()
}

#[test]
fn increments_of_many_threads_add_up() {
    let total = (THREADS * PASSES) as i128;
    let complex = Complex(total as f64, -total as f64);
    for element in Element::ALL {
        let expected = match element {
            Element::F32 | Element::F64 => Float(total as f64),
            Element::ComplexF32 | Element::ComplexF64 => complex,
            _ => decode(element, &encode(element, Integer(total))),
        };
        let found = add_from_many_threads(element, 0);
        assert!(found.iter().all(|number| *number == expected), "{element:?}: not {expected:?} but {found:?}");
    }
    let found = add_from_many_threads(Element::ComplexF32, 4);
    assert!(found.iter().all(|number| *number == complex), "not {complex:?} but {found:?}");
}

#[test]
fn loads_see_sums_whole() {
    let whole = 0x1_0000_0001_u64.to_ne_bytes();
    let complex = encode(Element::ComplexF32, Complex(1.0, 1.0));
    for (element, one) in [(Element::U64, &whole[..]), (Element::ComplexF32, &complex)] {
        let (registry, domain, region) = region(vec![0; MANY * 8]);
        let target = slice(&registry, domain, &region, 0, MANY * 8);
        let operand = one.repeat(MANY);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..PASSES {
                    registry.combine(&target, element, Combine::Sum, &operand, &[], &mut []).unwrap();
                }
            });
            for at in (0..PASSES).flat_map(|_| 0..MANY as u64) {
                let seen = region.load_u64(8 * at, Ordering::Acquire).unwrap();
                assert_eq!(seen >> 32, seen & 0xffff_ffff, "both halves change by as much at once");
            }
        });
    }
}

#[test]
fn sums_do_not_lose_those_of_rfc_7306() {
    let (registry, domain, region) = region(vec![0; 8]);
    let target = slice(&registry, domain, &region, 0, 8);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                registry.atomic(&target, AtomicOperation::FetchAdd { add: 1, mask: 0 }).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            registry.combine(&target, Element::I64, Combine::Sum, &1_i64.to_ne_bytes(), &[], &mut []).unwrap();
        }
    });
    assert_eq!(region.load_u64(0, Ordering::Acquire), Ok(2 * ROUNDS as u64));
}

/// Pairs that change as one: many threads write pairs of two equal numbers, and read no other ones.
#[test]
fn pairs_are_written_and_read_whole() {
    for element in Element::WIDE.into_iter().filter(|element| element.parts().len() > 1) {
        let (registry, domain, region) = region(vec![0; element.size()]);
        let target = slice(&registry, domain, &region, 0, element.size());
        thread::scope(|scope| {
            for own in 1..=THREADS as u8 {
                let (registry, target) = (&registry, &target);
                scope.spawn(move || {
                    let mut found = vec![0; element.size()];
                    for _ in 0..ROUNDS / 4 {
                        let operand = vec![own; element.size()];
                        registry.combine(target, element, Combine::Write, &operand, &[], &mut []).unwrap();
                        registry.combine(target, element, Combine::Read, &[], &[], &mut found).unwrap();
                        let parts = element.parts().iter().flat_map(|(at, length)| &found[*at..at + length]);
                        assert!(parts.clone().all(|byte| byte == &found[0]), "{element:?}: {found:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn places_of_many_threads_are_found() {
    let (registry, domain, region) = region([&i64::MAX.to_ne_bytes()[..], &[0xff; 8]].concat());
    let target = slice(&registry, domain, &region, 0, 16);
    thread::scope(|scope| {
        for own in 0..THREADS as i64 {
            let (registry, target) = (&registry, &target);
            scope.spawn(move || {
                for round in 0..ROUNDS as i64 / 4 {
                    // The least value is 7, which the threads come to in turns.
                    let value = 7 + (round * 31 + own * 17) % 1000;
                    let operand = [&value.to_ne_bytes()[..], &(own as i32).to_ne_bytes(), &[0; 4]].concat();
                    registry.combine(target, Element::I64AndI32, Combine::Min, &operand, &[], &mut []).unwrap();
                }
            });
        }
    });
    let expected = [&7_i64.to_ne_bytes()[..], &0_i32.to_ne_bytes(), &[0xff; 4]].concat();
    assert_eq!(region.to_vec(), expected, "the gap behind is not written");
}
