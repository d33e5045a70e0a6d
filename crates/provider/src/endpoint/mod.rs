//! `fid_ep`: endpoints as C's objects. A function of the C interface makes a request of its arguments (one module for
//! each table) and posts it ([`core::Core`]); its completion is reported through [`report::Report`].

mod atomic;
mod bind;
mod control;
mod core;
mod counter_order;
mod flags;
mod handle;
mod many;
mod memory;
mod message;
mod name;
mod op_flags;
mod options;
mod peek;
mod peers;
mod report;
mod rma;
mod tagged;
mod untagged;

use ::core::ffi::{c_int, c_void};
use ::core::ptr::NonNull;
use ::core::sync::atomic::AtomicU64;
use std::sync::Arc;

pub(crate) use atomic::query_atomic;
use libc::ssize_t;
use weft_libfabric::abi::errno::FI_ENOENT;
use weft_libfabric::abi::{fi_info, fi_ops, fi_ops_cm, fi_ops_collective, fi_ops_ep, fid, fid_domain, fid_ep};

use self::core::{Capabilities, Core};
pub(crate) use self::handle::Endpoint;
use self::handle::ep;
use crate::addresses::Place;
use crate::border::{Header, Held, Users, close_object, count, give, head, hold, no, status, table};
use crate::domain::Domain;
use crate::errno::Errno;

impl Endpoint {
    fn new(core: Arc<Core>, context: *mut c_void, transmit_flags: u64, receive_flags: u64) -> Self {
        let header = fid_ep {
            fid: head::<Self>(context, &OPS),
            ops: table(&ENDPOINT),
            cm: table(&NAMES),
            msg: table(&untagged::OPS),
            rma: table(&rma::OPS),
            tagged: table(&tagged::OPS),
            atomic: table(&atomic::OPS),
            collective: table(&COLLECTIVE),
        };
        Self {
            header: Header::new(header),
            users: Users::default(),
            transmit_flags: AtomicU64::new(transmit_flags),
            receive_flags: AtomicU64::new(receive_flags),
            core,
        }
    }
}

/// `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    to: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let info = NonNull::new(info).ok_or(Errno::INVALID)?.as_ptr();
        // SAFETY: libfabric's callers pass a domain of ours, an info with attributes, and room for an address; or NULL.
        unsafe {
            let domain: Held<Domain> = hold(domain)?;
            let (capabilities, transmit, receive) = read(info);
            let place = Place::of_info(info)?;
            flags::check(transmit, flags::TRANSMIT)?;
            flags::check(receive, flags::RECEIVE)?;
            let core = Core::new(domain, capabilities, place, context.expose_provenance());
            give(Endpoint::new(Arc::new(core), context, transmit, receive), to)
        }
    })
}

/// `fi_endpoint2`. It supports no flags.
pub(crate) unsafe extern "C" fn open_with_flags(
    domain: *mut fid_domain,
    info: *mut fi_info,
    to: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -Errno::BAD_FLAGS.0;
    }
    // SAFETY: C promises what the function requires.
    unsafe { open(domain, info, to, context) }
}

/// An endpoint's capabilities in an info, and the default flags of its transmits and receives.
///
/// # Safety
/// An info, whose attributes are NULL or valid.
unsafe fn read(info: *const fi_info) -> (Capabilities, u64, u64) {
    // SAFETY: The caller promises it, and the fields are there in all versions.
    unsafe {
        let all = (&raw const (*info).caps).read();
        let mut capabilities = Capabilities { all, receive: all, transmit_size: 0, receive_size: 0 };
        let (mut transmit, mut receive) = (0, 0);
        if let Some(attributes) = NonNull::new((&raw const (*info).tx_attr).read()) {
            transmit = (&raw const (*attributes.as_ptr()).op_flags).read();
            capabilities.transmit_size = (&raw const (*attributes.as_ptr()).size).read();
        }
        if let Some(attributes) = NonNull::new((&raw const (*info).rx_attr).read()) {
            receive = (&raw const (*attributes.as_ptr()).op_flags).read();
            capabilities.receive_size = (&raw const (*attributes.as_ptr()).size).read();
            let own = (&raw const (*attributes.as_ptr()).caps).read();
            capabilities.receive = if own == 0 { all } else { own };
        }
        (capabilities, transmit, receive)
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<Endpoint>),
    bind: Some(bind::bind),
    control: Some(control::control),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static ENDPOINT: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(options::getopt),
    setopt: Some(options::setopt),
    tx_ctx: no(),
    rx_ctx: no(),
    rx_size_left: Some(receive_size_left),
    tx_size_left: Some(transmit_size_left),
    export_xpu: no(),
};

static NAMES: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: Some(name::setname),
    getname: Some(name::getname),
    getpeer: no(),
    connect: no(),
    listen: no(),
    accept: no(),
    reject: no(),
    shutdown: no(),
    join: no(),
};

static COLLECTIVE: fi_ops_collective = fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    barrier: no(),
    broadcast: no(),
    alltoall: no(),
    allreduce: no(),
    allgather: no(),
    reduce_scatter: no(),
    reduce: no(),
    scatter: no(),
    gather: no(),
    msg: no(),
    barrier2: no(),
};

unsafe extern "C" fn cancel(endpoint: *mut fid, context: *mut c_void) -> ssize_t {
    count(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let canceled = unsafe { ep(endpoint.cast()) }?.core.cancel(context)?;
        if canceled { Ok(0) } else { Err(Errno(FI_ENOENT)) }
    })
}

unsafe extern "C" fn transmit_size_left(endpoint: *mut fid_ep) -> ssize_t {
    count(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let core = &unsafe { ep(endpoint) }?.core;
        core.active()?;
        Ok(size_or(core.capabilities.transmit_size, core.domain.settings().send_depth))
    })
}

unsafe extern "C" fn receive_size_left(endpoint: *mut fid_ep) -> ssize_t {
    count(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let core = &unsafe { ep(endpoint) }?.core;
        core.active()?;
        Ok(size_or(core.capabilities.receive_size, core.domain.settings().receive_depth))
    })
}

const fn size_or(size: usize, otherwise: u32) -> usize {
    if size == 0 { otherwise as usize } else { size }
}
