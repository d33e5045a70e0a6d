//! `fi_ops_atomic`: atomic operations on peers' memory, and the supported combinations.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use libc::ssize_t;
use weft::endpoint::{AtomicPost, Combine, Element, IoBuffer, RemotePlace};
use weft_libfabric::abi::{
    FI_ATOMIC_READ, FI_COMPARE_ATOMIC, FI_CSWAP, FI_FETCH_ATOMIC, FI_MSWAP, fi_addr_t, fi_atomic_attr, fi_datatype,
    fi_ioc, fi_msg_atomic, fi_op, fi_ops_atomic, fid_domain, fid_ep,
};

use super::core::Core;
use super::flags::{TRANSMIT, Transmit, check};
use super::handle::{Endpoint, ep};
use super::memory::{TOO_LONG, copy_elements, lend_elements};
use super::op_flags::OpFlags;
use super::rma::place;
use crate::border::{borrow, count, status};
use crate::domain::Domain;
use crate::errno::Errno;

pub(super) static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

/// The three families of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Changes the value.
    Base,
    /// Returns the old value.
    Fetch,
    /// Compares first, and returns the old value.
    Compare,
}

/// A supported operation on elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    element: Element,
    combine: Combine,
}

impl Operation {
    /// From C's numbers.
    ///
    /// # Errors
    /// This family has no such operation, or not for these elements.
    fn new(family: Family, datatype: fi_datatype, op: fi_op) -> Result<Self, Errno> {
        // Weft has further elements, whose numbers libfabric uses for others.
        let element = usize::try_from(datatype).ok().and_then(|number| Element::ALL.get(number));
        let element = *element.ok_or(Errno::UNSUPPORTED)?;
        let combine = u8::try_from(op).ok().and_then(Combine::from_code).ok_or(Errno::UNSUPPORTED)?;
        let belongs = match family {
            Family::Base => op < FI_CSWAP && op != FI_ATOMIC_READ,
            Family::Fetch => op < FI_CSWAP,
            Family::Compare => (FI_CSWAP..=FI_MSWAP).contains(&op),
        };
        if belongs && combine.applies_to(element) { Ok(Self { element, combine }) } else { Err(Errno::UNSUPPORTED) }
    }

    /// The maximum number of elements of one operation.
    const fn most(self, bytes: u32) -> usize {
        bytes as usize / self.element.size()
    }
}

/// One piece of elements, which may be NULL if it is not used.
const fn piece(start: *const c_void, count: usize) -> fi_ioc {
    fi_ioc { addr: start.cast_mut(), count }
}

/// An array of pieces.
#[derive(Clone, Copy)]
struct Pieces {
    start: *const fi_ioc,
    count: usize,
}

impl Pieces {
    const NONE: Self = Self { start: core::ptr::null(), count: 0 };

    const fn one(piece: &fi_ioc) -> Self {
        Self { start: piece, count: 1 }
    }
}

/// The common parameters of the three families.
struct Atomic {
    operands: Pieces,
    compare: Pieces,
    result: Pieces,
    peer: fi_addr_t,
    place: RemotePlace,
    /// Elements at the peer, if known.
    count: Option<usize>,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
}

impl Core {
    /// # Safety
    /// As for `fi_atomicmsg`, `fi_fetch_atomicmsg` and `fi_compare_atomicmsg`.
    unsafe fn atomic(
        &self,
        family: Family,
        atomic: &Atomic,
        how: fn(u64, bool) -> Transmit,
        flags: u64,
    ) -> Result<usize, Errno> {
        let operation = Operation::new(family, atomic.datatype, atomic.op)?;
        let (active, peer) = self.transmit_to(atomic.peer)?;
        let how = how(flags, active.selective_transmits).counted(flags, active.report.tallies.counts_writes());
        let size = operation.element.size();
        let most = operation.most(self.domain.settings().atomic_bytes) * size;
        // SAFETY: This function's contract.
        let (operand, compare, result) = unsafe {
            let operand = match operation.combine.has_operand() {
                true => copy_elements(atomic.operands.start, atomic.operands.count, size, most)?,
                false => Vec::new(),
            };
            let compare = match family {
                Family::Compare => copy_elements(atomic.compare.start, atomic.compare.count, size, most)?,
                Family::Base | Family::Fetch => Vec::new(),
            };
            let result = match family {
                Family::Base => None,
                Family::Fetch | Family::Compare => Some(lend_elements(atomic.result.start, atomic.result.count, size)?),
            };
            (operand, compare, result)
        };
        let bytes = length(operation, &operand, result.as_ref());
        if bytes > most {
            return Err(TOO_LONG);
        }
        let agrees = |length: usize| length == bytes;
        let good = bytes > 0
            && (family != Family::Compare || agrees(compare.len()))
            && result.as_ref().is_none_or(|result| agrees(result.length()))
            && atomic.count.is_none_or(|count| agrees(count.saturating_mul(size)));
        if !good {
            return Err(Errno::INVALID);
        }
        let op_flags = how.op_flags.and(OpFlags::FETCHES.when(family != Family::Base));
        let post = |op_flags: OpFlags| AtomicPost {
            peer,
            place: atomic.place,
            element: operation.element,
            operation: operation.combine,
            count: (bytes / size) as u32,
            operand,
            compare,
            result,
            level: how.level,
            fence: how.fence,
            context: atomic.context.expose_provenance() as u64,
            op_flags: op_flags.to_bits(),
        };
        self.post_one_sided(active, op_flags, |op_flags| active.endpoint.atomic(post(op_flags)))
    }
}

/// Bytes of all elements: of the operands, or, if there are none, of the result.
fn length(operation: Operation, operand: &[u8], result: Option<&IoBuffer>) -> usize {
    if operation.combine.has_operand() { operand.len() } else { result.map_or(0, IoBuffer::length) }
}

fn injected(flags: u64, _selective: bool) -> Transmit {
    Transmit::injected(flags)
}

/// # Safety
/// NULL, or as for `fi_atomicmsg`.
unsafe fn of_message(message: *const fi_msg_atomic, flags: u64) -> Result<Atomic, Errno> {
    use weft_libfabric::abi::FI_REMOTE_CQ_DATA;
    check(flags, TRANSMIT & !FI_REMOTE_CQ_DATA)?;
    let message = NonNull::new(message.cast_mut()).ok_or(Errno::INVALID)?;
    // SAFETY: Not NULL, so C promises the structure and its arrays.
    unsafe {
        let message = message.as_ref();
        // One piece at the peer: an operation is executed there as one.
        if message.rma_iov_count != 1 || message.rma_iov.is_null() {
            return Err(Errno::INVALID);
        }
        let remote = message.rma_iov.read();
        Ok(Atomic {
            operands: Pieces { start: message.msg_iov, count: message.iov_count },
            compare: Pieces::NONE,
            result: Pieces::NONE,
            peer: message.addr,
            place: place(remote.addr, remote.key)?,
            count: Some(remote.count),
            datatype: message.datatype,
            op: message.op,
            context: message.context,
        })
    }
}

/// `fi_query_atomic`.
pub(crate) unsafe extern "C" fn query_atomic(
    domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attributes: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    status(|| {
        // SAFETY: A domain of ours, or NULL.
        let domain = unsafe { borrow::<Domain>(domain) }?;
        let attributes = NonNull::new(attributes).ok_or(Errno::INVALID)?;
        let family = match flags {
            0 => Family::Base,
            FI_FETCH_ATOMIC => Family::Fetch,
            FI_COMPARE_ATOMIC => Family::Compare,
            _ if flags == FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC => return Err(Errno::INVALID),
            // Such as receives of tagged messages.
            _ => return Err(Errno::UNSUPPORTED),
        };
        let operation = Operation::new(family, datatype, op)?;
        let count = operation.most(domain.settings().atomic_bytes);
        // SAFETY: Not NULL, so C promises the structure.
        unsafe { attributes.write(fi_atomic_attr { count, size: operation.element.size() }) };
        Ok(())
    })
}

/// # Safety
/// An endpoint of ours, and room for a number; or NULL.
unsafe fn valid(family: Family, endpoint: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    status(|| {
        // SAFETY: The caller promises an endpoint of ours, or NULL.
        let endpoint = unsafe { ep(endpoint) }?;
        let operation = Operation::new(family, datatype, op)?;
        let count = NonNull::new(count).ok_or(Errno::INVALID)?;
        // SAFETY: Not NULL, so the caller promises the room.
        unsafe { count.write(operation.most(endpoint.core.domain.settings().atomic_bytes)) };
        Ok(())
    })
}

unsafe extern "C" fn writevalid(endpoint: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    // SAFETY: What C promises is what it asks for.
    unsafe { valid(Family::Base, endpoint, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    endpoint: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: What C promises is what it asks for.
    unsafe { valid(Family::Fetch, endpoint, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    endpoint: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: What C promises is what it asks for.
    unsafe { valid(Family::Compare, endpoint, datatype, op, count) }
}

/// # Safety
/// As for [`Core::atomic`], and an endpoint of ours or NULL.
unsafe fn post(
    family: Family,
    endpoint: *mut fid_ep,
    atomic: impl FnOnce() -> Result<Atomic, Errno>,
    flags: Option<u64>,
) -> ssize_t {
    // SAFETY: The caller promises as much.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let flags = flags.unwrap_or_else(|| endpoint.transmit_flags());
        endpoint.core.atomic(family, &atomic()?, Transmit::new, flags)
    })
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    elements: usize,
    _description: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let operand = piece(buffer, elements);
    let atomic = || {
        let (operands, none, place) = (Pieces::one(&operand), Pieces::NONE, place(address, key)?);
        let count = Some(elements);
        Ok(Atomic { operands, compare: none, result: none, peer, place, count, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, and operands that are there during the call.
    unsafe { post(Family::Base, endpoint, atomic, None) }
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    pieces: *const fi_ioc,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let atomic = || {
        let operands = Pieces { start: pieces, count: pieces_count };
        let (none, place) = (Pieces::NONE, place(address, key)?);
        Ok(Atomic { operands, compare: none, result: none, peer, place, count: None, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, and operands that are there during the call.
    unsafe { post(Family::Base, endpoint, atomic, None) }
}

unsafe extern "C" fn writemsg(endpoint: *mut fid_ep, message: *const fi_msg_atomic, flags: u64) -> ssize_t {
    // SAFETY: An endpoint of ours, and a message whose operands are there during the call.
    unsafe { post(Family::Base, endpoint, || of_message(message, flags), Some(flags)) }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    elements: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> ssize_t {
    let operand = piece(buffer, elements);
    count(|| {
        let (operands, none, place) = (Pieces::one(&operand), Pieces::NONE, place(address, key)?);
        let (count, context) = (Some(elements), core::ptr::null_mut());
        let atomic = Atomic { operands, compare: none, result: none, peer, place, count, datatype, op, context };
        // SAFETY: An endpoint of ours, and operands that are there during the call.
        unsafe {
            let endpoint: &Endpoint = ep(endpoint)?;
            endpoint.core.atomic(Family::Base, &atomic, injected, endpoint.transmit_flags())
        }
    })
}

unsafe extern "C" fn readwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    elements: usize,
    _description: *mut c_void,
    result: *mut c_void,
    _result_description: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let (operand, result) = (piece(buffer, elements), piece(result, elements));
    let atomic = || {
        let (operands, result) = (Pieces::one(&operand), Pieces::one(&result));
        let (count, place) = (Some(elements), place(address, key)?);
        Ok(Atomic { operands, compare: Pieces::NONE, result, peer, place, count, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, operands that are there during the call, and room for the result until the
    // completion.
    unsafe { post(Family::Fetch, endpoint, atomic, None) }
}

unsafe extern "C" fn readwritev(
    endpoint: *mut fid_ep,
    pieces: *const fi_ioc,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    results: *mut fi_ioc,
    _result_descriptions: *mut *mut c_void,
    results_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let atomic = || {
        let operands = Pieces { start: pieces, count: pieces_count };
        let (result, place) = (Pieces { start: results, count: results_count }, place(address, key)?);
        Ok(Atomic { operands, compare: Pieces::NONE, result, peer, place, count: None, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, operands that are there during the call, and room for the result until the
    // completion.
    unsafe { post(Family::Fetch, endpoint, atomic, None) }
}

unsafe extern "C" fn readwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    results: *mut fi_ioc,
    _result_descriptions: *mut *mut c_void,
    results_count: usize,
    flags: u64,
) -> ssize_t {
    let result = Pieces { start: results, count: results_count };
    // SAFETY: An endpoint of ours, a message whose operands are there during the call, and room for the result until
    // the completion.
    unsafe {
        let atomic = || Ok(Atomic { result, ..of_message(message, flags)? });
        post(Family::Fetch, endpoint, atomic, Some(flags))
    }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    elements: usize,
    _description: *mut c_void,
    compare: *const c_void,
    _compare_description: *mut c_void,
    result: *mut c_void,
    _result_description: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let (operand, compare, result) = (piece(buffer, elements), piece(compare, elements), piece(result, elements));
    let atomic = || {
        let (operands, compare, result) = (Pieces::one(&operand), Pieces::one(&compare), Pieces::one(&result));
        let (count, place) = (Some(elements), place(address, key)?);
        Ok(Atomic { operands, compare, result, peer, place, count, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, operands that are there during the call, and room for the result until the
    // completion.
    unsafe { post(Family::Compare, endpoint, atomic, None) }
}

unsafe extern "C" fn compwritev(
    endpoint: *mut fid_ep,
    pieces: *const fi_ioc,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    compares: *const fi_ioc,
    _compare_descriptions: *mut *mut c_void,
    compares_count: usize,
    results: *mut fi_ioc,
    _result_descriptions: *mut *mut c_void,
    results_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> ssize_t {
    let atomic = || {
        let operands = Pieces { start: pieces, count: pieces_count };
        let compare = Pieces { start: compares, count: compares_count };
        let (result, place) = (Pieces { start: results, count: results_count }, place(address, key)?);
        Ok(Atomic { operands, compare, result, peer, place, count: None, datatype, op, context })
    };
    // SAFETY: An endpoint of ours, operands that are there during the call, and room for the result until the
    // completion.
    unsafe { post(Family::Compare, endpoint, atomic, None) }
}

unsafe extern "C" fn compwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    compares: *const fi_ioc,
    _compare_descriptions: *mut *mut c_void,
    compares_count: usize,
    results: *mut fi_ioc,
    _result_descriptions: *mut *mut c_void,
    results_count: usize,
    flags: u64,
) -> ssize_t {
    let compare = Pieces { start: compares, count: compares_count };
    let result = Pieces { start: results, count: results_count };
    // SAFETY: An endpoint of ours, a message whose operands are there during the call, and room for the result until
    // the completion.
    unsafe {
        let atomic = || Ok(Atomic { compare, result, ..of_message(message, flags)? });
        post(Family::Compare, endpoint, atomic, Some(flags))
    }
}

#[cfg(test)]
mod tests {
    use weft_libfabric::abi::{
        FI_ATOMIC_WRITE, FI_BXOR, FI_DOUBLE, FI_DOUBLE_COMPLEX, FI_INT8, FI_INT128, FI_LONG_DOUBLE, FI_MIN, FI_SUM,
        FI_UINT64, FI_VOID,
    };

    use super::*;

    #[test]
    fn each_family_has_its_operations() {
        let has = |family, op| Operation::new(family, FI_UINT64, op).is_ok();
        for (op, families) in [
            (FI_SUM, [true, true, false]),
            (FI_ATOMIC_WRITE, [true, true, false]),
            (FI_ATOMIC_READ, [false, true, false]),
            (FI_CSWAP, [false, false, true]),
            (FI_MSWAP, [false, false, true]),
            (FI_MSWAP + 1, [false; 3]),
            (-1, [false; 3]),
        ] {
            assert_eq!([Family::Base, Family::Fetch, Family::Compare].map(|family| has(family, op)), families, "{op}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_elements() {
        let new = |datatype, op| Operation::new(Family::Base, datatype, op);
        assert_eq!(new(FI_INT8, FI_MIN), Ok(Operation { element: Element::I8, combine: Combine::Min }));
        assert_eq!(new(FI_DOUBLE, FI_SUM), Ok(Operation { element: Element::F64, combine: Combine::Sum }));
        assert!(new(FI_DOUBLE_COMPLEX, FI_SUM).is_ok());
        for (datatype, op) in [
            (FI_DOUBLE, FI_BXOR),
            (FI_DOUBLE_COMPLEX, FI_MIN),
            (FI_LONG_DOUBLE, FI_SUM),
            (FI_INT128, FI_SUM),
            (FI_VOID, FI_SUM),
        ] {
            assert_eq!(new(datatype, op), Err(Errno::UNSUPPORTED));
        }
        assert_eq!(new(FI_UINT64, FI_SUM).map(|operation| operation.most(8192)), Ok(1024));
    }
}
