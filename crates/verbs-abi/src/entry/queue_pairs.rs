//! Queue pairs.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex};

use super::extended_posts;
use super::objects::{
    COND, CompletionObject, ContextObject, DomainObject, MUTEX, QueuePairObject, SharedReceivesObject, Uses,
};
use crate::abi::*;
use crate::border::{Using, begin_end, borrow, find, finish_end, give, pointer, status};
use crate::errno::Errno;
use crate::limits;
use crate::queue_pair::{Changed, Parts, QueuePair};

/// # Safety
/// `domain` is NULL or a protection domain; `init` is NULL or can be read and written, and names objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_create_qp(domain: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: The caller's promise.
        let init = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        // SAFETY: The caller's promise.
        unsafe { create(domain, init, false) }
    })
}

pub(super) unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, init: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: C's callers pass NULL or something that can be read and written.
        let init = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        if context.is_null() || init.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            return Err(Errno::INVALID);
        }
        let is_extended = init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        let has_functions = !is_extended || init.send_ops_flags & !extended_posts::KNOWN == 0;
        if init.comp_mask & !(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 || !has_functions {
            crate::log::info(format_args!("refused: a queue pair with attributes or functions that are not there"));
            return Err(Errno::UNSUPPORTED);
        }
        let mut basic = ibv_qp_init_attr {
            qp_context: init.qp_context,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            cap: init.cap,
            qp_type: init.qp_type,
            sq_sig_all: init.sq_sig_all,
        };
        // SAFETY: C's callers pass objects.
        let made = unsafe { create(init.pd, &mut basic, is_extended) };
        init.cap = basic.cap;
        made
    })
}

/// What is granted of what is wanted.
///
/// # Errors
/// More than a queue pair can have.
fn grant(wanted: &ibv_qp_cap, shares_receives: bool) -> Result<ibv_qp_cap, Errno> {
    let gather = limits::GATHER as u32;
    let fits = wanted.max_send_wr <= limits::REQUESTS
        && (shares_receives || wanted.max_recv_wr <= limits::REQUESTS && wanted.max_recv_sge <= gather)
        && wanted.max_send_sge <= gather
        && wanted.max_inline_data <= limits::INLINE;
    if !fits {
        return Err(Errno::INVALID);
    }
    Ok(ibv_qp_cap {
        max_send_wr: wanted.max_send_wr.max(1),
        max_recv_wr: if shares_receives { 0 } else { wanted.max_recv_wr.max(1) },
        max_send_sge: wanted.max_send_sge.max(1),
        max_recv_sge: if shares_receives { 0 } else { wanted.max_recv_sge.max(1) },
        max_inline_data: wanted.max_inline_data,
    })
}

/// # Safety
/// `domain` is NULL or a protection domain, and what `init` names are objects, or NULL.
unsafe fn create(domain: *mut ibv_pd, init: &mut ibv_qp_init_attr, is_extended: bool) -> Result<*mut ibv_qp, Errno> {
    if init.qp_type != IBV_QPT_RC && init.qp_type != IBV_QPT_UC {
        crate::log::info(format_args!("refused: a queue pair of type {} (there are RC and UC)", init.qp_type));
        return Err(Errno::UNSUPPORTED);
    }
    // SAFETY: The caller's promise.
    let (of_domain, sends, receives) = unsafe {
        (
            find::<DomainObject>(domain)?,
            find::<CompletionObject>(init.send_cq)?,
            find::<CompletionObject>(init.recv_cq)?,
        )
    };
    let shared = match init.srq.is_null() {
        true => None,
        // SAFETY: The caller's promise.
        false => Some(Arc::clone(&unsafe { find::<SharedReceivesObject>(init.srq) }?.receives)),
    };
    let cap = grant(&init.cap, shared.is_some())?;
    // SAFETY: Objects of C's, which only reads this field.
    let context = unsafe { (*domain).context };
    // SAFETY: As above: that they are objects was found before.
    let are_of_it = unsafe {
        (*init.send_cq).context == context
            && (*init.recv_cq).context == context
            && init.srq.as_ref().is_none_or(|srq| srq.context == context)
    };
    if !are_of_it {
        crate::log::info(format_args!("refused: a queue pair with objects of another open device than its domain's"));
        return Err(Errno::INVALID);
    }
    // SAFETY: The open device of the domain.
    let opened = unsafe { ContextObject::of(context) }?;
    let rendezvous = &of_domain.process.rendezvous;
    let number = rendezvous.take_number().ok_or(Errno::NO_MEMORY)?;
    let parts = Parts {
        number,
        nic: Arc::clone(&of_domain.process.nic),
        events: Arc::clone(&of_domain.events),
        domain: Arc::clone(&of_domain.domain),
        send_completions: Arc::clone(&sends.queue),
        receive_completions: Arc::clone(&receives.queue),
        shared_receives: shared.clone(),
        cap,
        kind: init.qp_type,
        signals_all: init.sq_sig_all != 0,
        addresses: opened.addresses.clone(),
        largest_mtu: opened.largest_mtu,
    };
    let queue_pair = QueuePair::new(parts).inspect_err(|_| rendezvous.release_number(number))?;
    let queue_pair = Arc::new(queue_pair);
    init.cap = cap;
    let uses = Uses {
        domain: Using::new(&of_domain.domain),
        send_completions: Using::new(&sends.queue),
        receive_completions: Using::new(&receives.queue),
        shared_receives: shared.as_ref().map(Using::new),
    };
    let c = ibv_qp {
        context,
        qp_context: init.qp_context,
        pd: domain,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: 0,
        qp_num: number,
        state: IBV_QPS_RESET,
        qp_type: init.qp_type,
        mutex: MUTEX,
        cond: COND,
        events_completed: 0,
    };
    let (process, queue_pair_of_c) = (Arc::clone(&of_domain.process), Arc::clone(&queue_pair));
    let object = QueuePairObject {
        c: UnsafeCell::new(extended_posts::extended(c)),
        queue_pair: queue_pair_of_c,
        process,
        init: *init,
        is_extended,
        building: Mutex::default(),
        _uses: uses,
    };
    let given = give(Box::new(object));
    queue_pair.set_address(given.expose_provenance());
    rendezvous.add(&queue_pair);
    Ok(given)
}

/// # Safety
/// `queue_pair` is NULL or a queue pair that no other thread modifies; `attr` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_modify_qp(queue_pair: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let (object, attr) = unsafe { (find::<QueuePairObject>(queue_pair)?, attr.as_ref()) };
        let changed = object.queue_pair.modify(attr.ok_or(Errno::INVALID)?, mask)?;
        // SAFETY: The caller's promise. Programs read the field.
        unsafe { (*object.c.get()).qp_base.state = object.queue_pair.state() };
        match changed {
            Changed::Nothing => {}
            Changed::Connect => object.process.rendezvous.connect(&object.queue_pair),
            Changed::Fail => object.queue_pair.fail(),
            Changed::Reset => object.process.rendezvous.close(object.queue_pair.reset(false)),
        }
        Ok(())
    })
}

/// # Safety
/// `queue_pair` is NULL or a queue pair; the others are NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_qp(
    queue_pair: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { find::<QueuePairObject>(queue_pair) }?;
        let attributes = object.queue_pair.attributes();
        // SAFETY: The caller's promise.
        unsafe {
            if !attr.is_null() {
                attr.write(attributes);
            }
            if !init.is_null() {
                init.write(object.init);
            }
            (*object.c.get()).qp_base.state = attributes.qp_state;
        }
        Ok(())
    })
}

/// # Safety
/// A queue pair, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_destroy_qp(queue_pair: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { begin_end::<QueuePairObject>(queue_pair, |_| Ok(())) }?;
        let rendezvous = &object.process.rendezvous;
        rendezvous.remove(&object.queue_pair);
        rendezvous.close(object.queue_pair.reset(true));
        object.queue_pair.withdraw_events();
        // Nothing names it any more.
        rendezvous.release_number(object.queue_pair.number());
        // Meanwhile the program finds the queue pair of an event that it acknowledges.
        object.queue_pair.acknowledgments.wait();
        // SAFETY: Begun above.
        drop(unsafe { finish_end::<QueuePairObject>(queue_pair) });
        Ok(())
    })
}

pub(super) unsafe extern "C" fn post_send(
    queue_pair: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut at = list;
    let result = status(|| {
        // SAFETY: C's callers pass a queue pair, or NULL.
        let object = unsafe { borrow::<QueuePairObject>(queue_pair) }?;
        // SAFETY: C's callers pass a list that can be read, and so can what its requests name.
        unsafe { object.queue_pair.post_send(list) }.map_err(|failure| {
            at = failure.at;
            failure.error
        })
    });
    if result != 0 && !bad.is_null() {
        // SAFETY: C's callers pass something that can be written.
        unsafe { bad.write(at) };
    }
    result
}

pub(super) unsafe extern "C" fn post_recv(
    queue_pair: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = list;
    let result = status(|| {
        // SAFETY: C's callers pass a queue pair, or NULL.
        let object = unsafe { borrow::<QueuePairObject>(queue_pair) }?;
        // SAFETY: A list that ends with NULL.
        while let Some(request) = unsafe { next.as_ref() } {
            // SAFETY: The entries of a request can be read.
            unsafe { object.queue_pair.post_receive(request) }?;
            next = request.next;
        }
        Ok(())
    });
    if result != 0 && !bad.is_null() {
        // SAFETY: C's callers pass something that can be written.
        unsafe { bad.write(next) };
    }
    result
}

/// NULL for one that was not made with functions for its requests.
///
/// # Safety
/// NULL, or a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_qp_to_qp_ex(queue_pair: *mut ibv_qp) -> *mut ibv_qp_ex {
    pointer(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { find::<QueuePairObject>(queue_pair) }?;
        if object.is_extended { Ok(queue_pair.cast()) } else { Err(Errno::INVALID) }
    })
}

/// Data of one request may be placed in any order.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_qp_data_in_order(_: *mut ibv_qp, _: c_int, _: c_uint) -> c_int {
    0
}

/// # Safety
/// `queue_pair` is NULL or a queue pair; `ece` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_ece(queue_pair: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        if queue_pair.is_null() || ece.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it can be written.
        unsafe { ece.write(ibv_ece::default()) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_what_is_had() {
        let wanted = ibv_qp_cap {
            max_send_wr: 10,
            max_recv_wr: 0,
            max_send_sge: 0,
            max_recv_sge: limits::GATHER as u32,
            max_inline_data: 220,
        };
        let granted = grant(&wanted, false).unwrap();
        assert_eq!((granted.max_send_wr, granted.max_recv_wr, granted.max_send_sge), (10, 1, 1));
        let shares = grant(&wanted, true).unwrap();
        assert_eq!((shares.max_recv_wr, shares.max_recv_sge), (0, 0));
        for wrong in [
            ibv_qp_cap { max_inline_data: limits::INLINE + 1, ..wanted },
            ibv_qp_cap { max_send_wr: limits::REQUESTS + 1, ..wanted },
            ibv_qp_cap { max_send_sge: limits::GATHER as u32 + 1, ..wanted },
            ibv_qp_cap { max_recv_wr: u32::MAX, ..wanted },
        ] {
            assert_eq!(grant(&wrong, false), Err(Errno::INVALID), "{wrong:?}");
        }
    }
}
