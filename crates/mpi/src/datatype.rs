//! Datatypes of the program, flattened: MPI tells how each was made (MPI 4.1 section 5.1.13).

use core::ffi::c_int;
use core::ptr;

use crate::abi::{Aint, Combiner, Handle, abi};
use crate::fault::Fault;
use crate::layout::Layout;
use crate::library;

/// So deep may types be made of types.
const DEPTH: usize = 64;

/// How a type was made.
struct Made {
    combiner: Combiner,
    integers: Vec<c_int>,
    addresses: Vec<Aint>,
    kinds: Vec<Handle>,
}

/// Where the bytes of a datatype are; with `whole` pairs are taken with their gaps ([`Layout::of`]).
///
/// # Errors
/// It was made in a way of which nothing is known here.
pub(crate) fn layout(kind: Handle, whole: bool) -> Result<Layout, Fault> {
    flatten(abi().handle(kind), whole, DEPTH)
}

fn flatten(kind: Handle, whole: bool, depth: usize) -> Result<Layout, Fault> {
    if let Some(element) = abi().element(kind) {
        return Ok(Layout::of(element, whole));
    }
    let extent = extent(kind)?;
    let made = how(kind)?;
    if made.combiner == Combiner::Named {
        return named(kind, extent);
    }
    if depth == 0 {
        return Err(Fault::kind(format!("a datatype made of others more than {DEPTH} deep")));
    }
    let inner: Result<Vec<Layout>, Fault> = made.kinds.iter().map(|kind| flatten(*kind, whole, depth - 1)).collect();
    release(&made.kinds);
    combine(&made, &inner?, extent).ok_or_else(|| Fault::kind("a datatype of too many pieces, or that wraps".into()))
}

fn extent(kind: Handle) -> Result<Aint, Fault> {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: Both can be written. The library judges the handle.
    check(unsafe { library::Type_get_extent(kind, &raw mut lower, &raw mut extent) })?;
    Ok(extent)
}

fn check(code: c_int) -> Result<(), Fault> {
    if code == 0 { Ok(()) } else { Err(Fault::library(code)) }
}

/// One that Weft has no elements for, as MPI_REAL16. None of them has gaps.
fn named(kind: Handle, extent: Aint) -> Result<Layout, Fault> {
    let mut size = 0;
    // SAFETY: It can be written.
    check(unsafe { library::Type_size(kind, &raw mut size) })?;
    let size = usize::try_from(size).map_err(|_| Fault::kind("a datatype without a size".into()))?;
    Ok(Layout::plain(size, extent, None))
}

fn how(kind: Handle) -> Result<Made, Fault> {
    let abi = abi();
    let [mut integers, mut addresses, mut kinds, mut combiner] = [0; 4];
    // SAFETY: All can be written.
    check(unsafe {
        library::Type_get_envelope(kind, &raw mut integers, &raw mut addresses, &raw mut kinds, &raw mut combiner)
    })?;
    let unknown = || Fault::kind(format!("a datatype with the combiner {combiner}, of which nothing is known here"));
    let combiner = abi.combiner(combiner).ok_or_else(unknown)?;
    let (i, a, k) = (integers.max(0) as usize, addresses.max(0) as usize, kinds.max(0) as usize);
    let mut made = Made { combiner, integers: vec![0; i], addresses: vec![0; a], kinds: Vec::new() };
    if combiner == Combiner::Named {
        return Ok(made);
    }
    let mut raw = vec![0_u64; k];
    // SAFETY: Each has room for as many as the library has just said, whatever a handle's width.
    check(unsafe {
        let (to, at) = (made.integers.as_mut_ptr(), made.addresses.as_mut_ptr());
        library::Type_get_contents(kind, integers, addresses, kinds, to, at, raw.as_mut_ptr().cast())
    })?;
    made.kinds = match abi.handle_bytes {
        // SAFETY: There are `k` handles of 4 bytes, in room for twice as many.
        4 => (0..k).map(|at| unsafe { raw.as_ptr().cast::<u32>().add(at).read() } as Handle).collect(),
        _ => raw.iter().map(|handle| *handle as Handle).collect(),
    };
    Ok(made)
}

/// What the library gave of derived types is to be freed again.
fn release(kinds: &[Handle]) {
    for mut kind in kinds.iter().copied().filter(|kind| abi().element(*kind).is_none()) {
        let (mut i, mut a, mut k, mut combiner) = (0, 0, 0, 0);
        // SAFETY: All can be written.
        let code = unsafe { library::Type_get_envelope(kind, &raw mut i, &raw mut a, &raw mut k, &raw mut combiner) };
        if code == 0 && abi().combiner(combiner) != Some(Combiner::Named) {
            // SAFETY: The handle is this library's own.
            unsafe { library::Type_free(ptr::from_mut(&mut kind)) };
        }
    }
}

/// The runs of a type that was made of others; `None`: there are too many, or what it says of itself is no type.
fn combine(made: &Made, inner: &[Layout], extent: Aint) -> Option<Layout> {
    let mut layout = Layout::empty(extent);
    let number = |at: usize| made.integers.get(at).copied().map(|number| number as isize);
    let length = |at: usize| usize::try_from(number(at)?).ok();
    let first = inner.first();
    match made.combiner {
        Combiner::Named => return None,
        Combiner::Duplicate | Combiner::Resized => layout.add(first?, 0, 1)?,
        Combiner::Contiguous => layout.add(first?, 0, length(0)?)?,
        Combiner::Vector | Combiner::ByteVector => {
            let stride = match made.addresses.first() {
                Some(stride) => *stride,
                None => number(2)?.checked_mul(first?.extent)?,
            };
            for block in 0..number(0)? {
                layout.add(first?, block.checked_mul(stride)?, length(1)?)?;
            }
        }
        Combiner::Indexed | Combiner::ByteIndexed | Combiner::Struct => {
            let count = length(0)?;
            for block in 0..count {
                let inner = if made.combiner == Combiner::Struct { inner.get(block)? } else { first? };
                let at = match made.addresses.get(block) {
                    Some(at) => *at,
                    None => number(1 + count + block)?.checked_mul(inner.extent)?,
                };
                layout.add(inner, at, length(1 + block)?)?;
            }
        }
        Combiner::IndexedBlock | Combiner::ByteIndexedBlock => {
            for block in 0..length(0)? {
                let at = match made.addresses.get(block) {
                    Some(at) => *at,
                    None => number(2 + block)?.checked_mul(first?.extent)?,
                };
                layout.add(first?, at, length(1)?)?;
            }
        }
        Combiner::Subarray => subarray(&mut layout, &made.integers, first?)?,
    }
    Some(layout)
}

/// `ndims, sizes, subsizes, starts, order`.
fn subarray(layout: &mut Layout, integers: &[c_int], inner: &Layout) -> Option<()> {
    let dimensions = usize::try_from(*integers.first()?).ok()?;
    let column = |which: usize| -> Option<Vec<isize>> {
        let all = integers.get(1 + which * dimensions..1 + (which + 1) * dimensions)?;
        Some(all.iter().map(|number| *number as isize).collect())
    };
    let (mut sizes, mut parts, mut starts) = (column(0)?, column(1)?, column(2)?);
    // The last dimension is to be the one whose elements are neighbours.
    if *integers.get(1 + 3 * dimensions)? != abi().order_c {
        [&mut sizes, &mut parts, &mut starts].into_iter().for_each(|column| column.reverse());
    }
    rows(layout, inner, (&sizes, &parts, &starts), 0)
}

/// The rows of the dimensions that are left, from element `base` on.
fn rows(
    layout: &mut Layout,
    inner: &Layout,
    (sizes, parts, starts): (&[isize], &[isize], &[isize]),
    base: isize,
) -> Option<()> {
    let (Some(size), Some(part), Some(start)) = (sizes.first(), parts.first(), starts.first()) else { return None };
    let base = base.checked_mul(*size)?.checked_add(*start)?;
    if sizes.len() == 1 {
        return layout.add(inner, base.checked_mul(inner.extent)?, usize::try_from(*part).ok()?);
    }
    (0..*part).try_for_each(|at| rows(layout, inner, (&sizes[1..], &parts[1..], &starts[1..]), base + at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft::window::Element;

    fn made(combiner: Combiner, integers: &[c_int], addresses: &[Aint]) -> Vec<(isize, usize)> {
        let int = Layout::plain(4, 4, Some(Element::I32));
        let double = Layout::plain(8, 8, Some(Element::F64));
        let made = Made { combiner, integers: integers.to_vec(), addresses: addresses.to_vec(), kinds: Vec::new() };
        let layout = combine(&made, &[int, double], 0).unwrap();
        layout.runs.iter().map(|run| (run.offset, run.length)).collect()
    }

    #[test]
    fn each_combiner_has_its_runs() {
        assert_eq!(made(Combiner::Contiguous, &[3], &[]), [(0, 12)]);
        assert_eq!(made(Combiner::Vector, &[2, 1, 3], &[]), [(0, 4), (12, 4)]);
        assert_eq!(made(Combiner::ByteVector, &[2, 1], &[-10]), [(0, 4), (-10, 4)]);
        assert_eq!(made(Combiner::Indexed, &[2, 1, 2, 5, 1], &[]), [(20, 4), (4, 8)]);
        assert_eq!(made(Combiner::ByteIndexed, &[2, 1, 1], &[1, 9]), [(1, 4), (9, 4)]);
        assert_eq!(made(Combiner::IndexedBlock, &[2, 2, 4, 0], &[]), [(16, 8), (0, 8)]);
        assert_eq!(made(Combiner::ByteIndexedBlock, &[2, 1], &[3, 8]), [(3, 4), (8, 4)]);
        assert_eq!(made(Combiner::Struct, &[2, 1, 1], &[0, 8]), [(0, 4), (8, 8)]);
    }

    #[test]
    fn a_subarray_is_rows() {
        // 2 x 2 of 3 x 4, from (1, 1), by rows (MPI_ORDER_C of MPICH); no MPI library is loaded here.
        let rows = made(Combiner::Subarray, &[2, 3, 4, 2, 2, 1, 1, 56], &[]);
        assert_eq!(rows, [(20, 8), (36, 8)]);
        // By columns: neighbours are those of the first dimension.
        let columns = made(Combiner::Subarray, &[2, 4, 3, 2, 2, 1, 1, 57], &[]);
        assert_eq!(columns, [(20, 8), (36, 8)]);
    }
}
