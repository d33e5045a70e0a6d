//! `fi_fabric`, and the tables of a fabric.

use core::ffi::{c_int, c_void};
use core::mem::size_of;

use weft_libfabric::abi::{fi_fabric_attr, fi_ops, fi_ops_fabric, fid_fabric};

use super::Fabric;
use crate::border::{Header, Users, close_object, give, head, no, status, table};
use crate::domain::opening as domain;
use crate::errno::Errno;
use crate::queue;

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<Fabric>),
    bind: no(),
    control: no(),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static FABRIC: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: no(),
    eq_open: Some(queue::eq_open),
    wait_open: no(),
    trywait: Some(queue::try_wait),
    domain2: Some(domain::open_with_flags),
};

/// `fi_fabric`.
///
/// # Safety
/// As libfabric's: the attributes are NULL or of one of its versions, and `to` is NULL or can be written.
pub(crate) unsafe extern "C" fn open(
    attributes: *mut fi_fabric_attr,
    to: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    status(|| {
        if attributes.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, and the field is there in all versions.
        let api_version = unsafe { (&raw const (*attributes).api_version).read() };
        let header = fid_fabric { fid: head::<Fabric>(context, &OPS), ops: table(&FABRIC), api_version };
        let fabric = Fabric { header: Header::new(header), users: Users::default(), api_version };
        // SAFETY: `to` is NULL or can be written, by this function's contract.
        unsafe { give(fabric, to) }
    })
}
