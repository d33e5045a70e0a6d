//! `fi_domain`, and the tables of a domain.

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use std::sync::{Arc, OnceLock};

use weft::verbs::Context;
use weft_libfabric::abi::{FI_RMA_EVENT, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};

use super::Domain;
use crate::addresses::{Format, vector};
use crate::border::{Header, Users, borrow, close_object, give, head, hold, no, status, table};
use crate::errno::Errno;
use crate::fabric::Fabric;
use crate::process::Shared;
use crate::queue::{self, EventQueue};
use crate::registration::Registration;
use crate::{endpoint, interfaces, memory, parameters, stderr};

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<Domain>),
    bind: Some(bind),
    control: no(),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static DOMAIN: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(vector::open),
    cq_open: Some(queue::cq_open),
    endpoint: Some(endpoint::open),
    scalable_ep: no(),
    cntr_open: Some(queue::cntr_open),
    poll_open: Some(queue::poll_open),
    stx_ctx: no(),
    srx_ctx: no(),
    query_atomic: Some(endpoint::query_atomic),
    query_collective: no(),
    endpoint2: Some(endpoint::open_with_flags),
    xpu_ctx: no(),
};

/// `fi_domain_bind`. Memory is registered synchronously, without an event: the flag that requests one is refused.
unsafe extern "C" fn bind(domain: *mut fid, queue: *mut fid, flags: u64) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        // SAFETY: libfabric's callers pass what fi_domain and fi_eq_open gave, or NULL.
        let (domain, queue) = unsafe { (borrow::<Domain>(domain.cast())?, hold::<EventQueue>(queue.cast())?) };
        domain.events.set(queue).map_err(|_| Errno::INVALID)
    })
}

/// `fi_domain`.
///
/// # Safety
/// As libfabric's: the pointers are NULL or valid.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    to: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: This function's contract is that one's.
    status(|| unsafe { make(fabric, info, to, context) })
}

/// `fi_domain2`. It supports no flags.
///
/// # Safety
/// As for [`open`].
pub(crate) unsafe extern "C" fn open_with_flags(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    to: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -Errno::BAD_FLAGS.0;
    }
    // SAFETY: This function's contract is that one's.
    unsafe { open(fabric, info, to, context) }
}

/// # Safety
/// As for [`open`].
unsafe fn make(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    to: *mut *mut fid_domain,
    context: *mut c_void,
) -> Result<(), Errno> {
    if info.is_null() || to.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: libfabric's callers pass what fi_fabric gave, or NULL.
    let fabric = unsafe { hold::<Fabric>(fabric) }?;
    // SAFETY: Not NULL, and the field is there in all versions.
    let format = Format::from_number(unsafe { (&raw const (*info).addr_format).read() }).ok_or(Errno::INVALID)?;
    // SAFETY: As above; it points to NULL or attributes of a domain, which have always had this field.
    let modes = unsafe { (&raw const (*info).domain_attr).read().as_ref() }.map(|domain| domain.mr_mode);
    let registration = Registration::new(fabric.api_version(), modes);
    // SAFETY: As for the format.
    let watches = unsafe { (&raw const (*info).caps).read() } & FI_RMA_EVENT != 0;
    let parameters = parameters::get().map_err(|_| Errno::INVALID)?;
    if let Some(complaint) = interfaces::explain_unknown_rails(&parameters.nic.rails) {
        stderr::complain_of_rails(&complaint);
    }
    let nic = Context::with_settings(parameters.nic_settings())?;
    let protection = nic.allocate_protection_domain()?;
    let header = fid_domain { fid: head::<Domain>(context, &OPS), ops: table(&DOMAIN), mr: table(&memory::MEMORY) };
    let domain = Domain {
        header: Header::new(header),
        users: Users::default(),
        fabric,
        _shared: Shared::new(&nic),
        context: nic,
        progress: parameters.nic.progress,
        protection,
        format,
        settings: parameters.endpoint.clone(),
        registration,
        remote: watches.then(Arc::default),
        events: OnceLock::new(),
    };
    // SAFETY: `to` is not NULL, and then it can be written.
    unsafe { give(domain, to) }
}
