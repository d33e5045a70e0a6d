//! `fi_ep_bind`.

use core::ffi::c_int;

use weft_libfabric::abi::errno::FI_EDOMAIN;
use weft_libfabric::abi::{
    FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE,
    FI_RMA_EVENT, FI_SELECTIVE_COMPLETION, FI_SEND, FI_TRANSMIT, FI_WRITE, fid,
};

use super::core::{Bindings, Bound, Core};
use super::handle::ep;
use crate::addresses::vector::AddressVector;
use crate::border::{Held, Object, hold, status};
use crate::errno::Errno;
use crate::queue::{CompletionQueue, Counter, EventQueue, class};

pub(super) unsafe extern "C" fn bind(endpoint: *mut fid, other: *mut fid, flags: u64) -> c_int {
    status(|| {
        // SAFETY: Objects of ours, or NULL; the class says which.
        unsafe {
            let core = &ep(endpoint.cast())?.core;
            let kind = class(other);
            if kind == Ok(FI_CLASS_CNTR) {
                return core.bind_counter(&hold(other.cast())?, flags);
            }
            core.check_inactive()?;
            match kind? {
                FI_CLASS_CQ => core.bind_queue(&hold(other.cast())?, flags),
                FI_CLASS_AV => core.bind_vector(hold(other.cast())?),
                FI_CLASS_EQ => core.bind_events(hold(other.cast())?),
                _ => Err(Errno::INVALID),
            }
        }
    })
}

impl Core {
    fn bind_queue(&self, queue: &Held<CompletionQueue>, flags: u64) -> Result<(), Errno> {
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        self.check_domain(queue.is_of(&self.domain))?;
        let bound = Bound { queue: queue.clone(), selective: flags & FI_SELECTIVE_COMPLETION != 0 };
        let Bindings { transmit, receive, .. } = &mut *self.bindings.lock();
        bind_each(flags, &bound, &mut [(FI_TRANSMIT, transmit), (FI_RECV, receive)])
    }

    /// Peers' operations on this side's memory are counted by endpoints that were opened with `FI_RMA_EVENT`.
    ///
    /// fi_endpoint(3) requires that all objects are bound before an endpoint is enabled. For counters the tcp, sockets
    /// and verbs providers do not enforce it, and Sandia OpenSHMEM relies on that. A counter that is bound late counts
    /// operations posted from then on.
    fn bind_counter(&self, counter: &Held<Counter>, flags: u64) -> Result<(), Errno> {
        let watches = self.capabilities.all & FI_RMA_EVENT != 0 && self.domain.remote().is_some();
        let remote = if watches { FI_REMOTE_READ | FI_REMOTE_WRITE } else { 0 };
        if flags & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE | remote) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        self.check_domain(counter.is_of(&self.domain))?;
        // Locked to the end: the endpoint is not enabled between the binding and the check whether it is.
        let mut bindings = self.bindings.lock();
        let counters = &mut bindings.counters;
        bind_each(
            flags,
            counter,
            &mut [
                (FI_SEND, &mut counters.send),
                (FI_RECV, &mut counters.receive),
                (FI_READ, &mut counters.read),
                (FI_WRITE, &mut counters.write),
                (FI_REMOTE_READ, &mut counters.remote_read),
                (FI_REMOTE_WRITE, &mut counters.remote_write),
            ],
        )?;
        if let Ok(active) = self.active() {
            self.count_with(active, &bindings.counters);
        }
        Ok(())
    }

    fn bind_vector(&self, vector: Held<AddressVector>) -> Result<(), Errno> {
        bind_once(&mut self.bindings.lock().vector, vector)
    }

    /// Accepted, but unused: connectionless endpoints have no events.
    fn bind_events(&self, events: Held<EventQueue>) -> Result<(), Errno> {
        bind_once(&mut self.bindings.lock().events, events)
    }

    fn check_domain(&self, is_of_this: bool) -> Result<(), Errno> {
        if is_of_this { Ok(()) } else { Err(Errno(FI_EDOMAIN)) }
    }
}

/// Binds for each flag that is set, of which there must be one, and where nothing was bound before.
fn bind_each<T: Clone>(flags: u64, bound: &T, places: &mut [(u64, &mut Option<T>)]) -> Result<(), Errno> {
    let wanted = |(flag, _): &&mut (u64, &mut Option<T>)| flags & *flag != 0;
    let mut chosen: Vec<_> = places.iter_mut().filter(wanted).collect();
    if chosen.is_empty() || chosen.iter().any(|(_, place)| place.is_some()) {
        return Err(Errno::INVALID);
    }
    for (_, place) in &mut chosen {
        **place = Some(bound.clone());
    }
    Ok(())
}

fn bind_once<T: Object>(place: &mut Option<Held<T>>, object: Held<T>) -> Result<(), Errno> {
    if place.is_some() {
        return Err(Errno::INVALID);
    }
    *place = Some(object);
    Ok(())
}
