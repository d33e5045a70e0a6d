//! What C owns: each object begins with C's structure.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, pthread_cond_t, pthread_mutex_t};

use super::building::Building;
use crate::abi::*;
use crate::border::{Object, Using, is_noted};
use crate::completion::{Channel, CompletionQueue};
use crate::device::{Interface, Shown};
use crate::errno::Errno;
use crate::events::AsyncEvents;
use crate::memory::{Domain, Registration};
use crate::process::Process;
use crate::queue_pair::QueuePair;
use crate::shared_receive::SharedReceives;

/// Of the locks in C's structures, which nothing here uses.
pub(super) const MUTEX: pthread_mutex_t = PTHREAD_MUTEX_INITIALIZER;
pub(super) const COND: pthread_cond_t = PTHREAD_COND_INITIALIZER;

/// A device. It is never freed: a program may keep its address, and there are few.
#[repr(C)]
pub(super) struct DeviceObject {
    pub(super) c: UnsafeCell<ibv_device>,
    /// Libraries of adapters ask behind the structure whether it is one of theirs: `mlx5dv_is_supported` reads there.
    pub(super) _nothing: [u64; 64],
    pub(super) shown: Shown,
    pub(super) number: usize,
}

// SAFETY: C's structure is written before its address is given to C, and only read after that.
unsafe impl Sync for DeviceObject {}
// SAFETY: As above; it has no pointers.
unsafe impl Send for DeviceObject {}

impl DeviceObject {
    /// # Errors
    /// NULL.
    ///
    /// # Safety
    /// NULL, or a device of this library.
    pub(super) unsafe fn of<'a>(device: *mut ibv_device) -> Result<&'a Self, Errno> {
        // SAFETY: The caller's promise: all devices begin a `DeviceObject`.
        unsafe { device.cast::<Self>().as_ref() }.ok_or(Errno::INVALID)
    }

    /// Its interface as it is now; as it was when it was found, if it has gone.
    pub(super) fn interface(&self) -> Interface {
        let gone = || Interface { is_up: false, ..self.shown.interface.clone() };
        crate::device::find(&self.shown.interface.name).unwrap_or_else(gone)
    }
}

/// An open device. C knows the address of its `context`.
#[repr(C)]
pub(super) struct ContextObject {
    pub(super) _verbs: UnsafeCell<verbs_context>,
    pub(super) process: Arc<Process>,
    pub(super) events: Arc<AsyncEvents>,
    pub(super) device: &'static DeviceObject,
    /// The table of GIDs when it was opened.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) largest_mtu: i32,
}

impl ContextObject {
    /// Tells it from objects of other kinds.
    pub(super) const KIND: u8 = 7;

    /// C's address of it.
    pub(super) fn to_c(object: *mut Self) -> *mut ibv_context {
        object.cast::<u8>().wrapping_add(offset_of!(verbs_context, context)).cast()
    }

    /// The object of C's address.
    pub(super) fn of_c(context: *mut ibv_context) -> *mut Self {
        context.cast::<u8>().wrapping_sub(offset_of!(verbs_context, context)).cast()
    }

    /// # Errors
    /// None that is open: NULL, closed before, or of a parent of this process.
    ///
    /// # Safety
    /// No other thread closes it meanwhile.
    pub(super) unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Self, Errno> {
        if !is_noted(context.addr(), Self::KIND) {
            return Err(Errno::INVALID);
        }
        // SAFETY: Given to C when it was opened, so it lies in a `ContextObject`.
        Ok(unsafe { &*Self::of_c(context) })
    }
}

macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident($c:ty, $kind:literal) { $($field:ident: $type:ty),* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(super) struct $name {
                pub(super) c: UnsafeCell<$c>,
                $(pub(super) $field: $type),*
            }

            // SAFETY: repr(C), and C's structure is first, for `UnsafeCell` has the layout of what is in it.
            unsafe impl Object for $name {
                type C = $c;
                const KIND: u8 = $kind;
            }
        )*
    };
}

objects! {
    /// A protection domain.
    DomainObject(ibv_pd, 1) { domain: Arc<Domain>, process: Arc<Process>, events: Arc<AsyncEvents> }
    /// A memory region. Always there, but while it is registered anew.
    RegionObject(ibv_mr, 2) { registration: Mutex<Option<Registration>> }
    /// A completion channel.
    ChannelObject(ibv_comp_channel, 3) { channel: Arc<Channel> }
    /// A shared receive queue.
    SharedReceivesObject(ibv_srq, 5) { receives: Arc<SharedReceives>, _uses: Using<Domain> }
}

/// A completion queue.
#[repr(C)]
pub(super) struct CompletionObject {
    pub(super) c: UnsafeCell<ibv_cq_ex>,
    pub(super) queue: Arc<CompletionQueue>,
    /// The completion that was taken last where they are read one by one.
    pub(super) current: UnsafeCell<ibv_wc>,
    /// Until C destroys the queue: who works for a queue pair may have the queue longer.
    pub(super) _channel: Option<Using<Channel>>,
}

// SAFETY: repr(C), and C's structure is first: an `ibv_cq_ex` begins with an `ibv_cq`.
unsafe impl Object for CompletionObject {
    type C = ibv_cq;
    const KIND: u8 = 4;
}

/// A queue pair, and what can't be destroyed before it.
#[repr(C)]
pub(super) struct QueuePairObject {
    pub(super) c: UnsafeCell<ibv_qp_ex>,
    pub(super) queue_pair: Arc<QueuePair>,
    pub(super) process: Arc<Process>,
    pub(super) init: ibv_qp_init_attr,
    /// Requests are put together by functions.
    pub(super) is_extended: bool,
    pub(super) building: Mutex<Building>,
    pub(super) _uses: Uses,
}

// SAFETY: repr(C), and C's structure is first: an `ibv_qp_ex` begins with an `ibv_qp`.
unsafe impl Object for QueuePairObject {
    type C = ibv_qp;
    const KIND: u8 = 6;
}

/// What a queue pair needs as long as C has it.
#[expect(dead_code, reason = "held, so that it is not destroyed; nothing reads it")]
pub(super) struct Uses {
    pub(super) domain: Using<Domain>,
    pub(super) send_completions: Using<CompletionQueue>,
    pub(super) receive_completions: Using<CompletionQueue>,
    pub(super) shared_receives: Option<Using<SharedReceives>>,
}
