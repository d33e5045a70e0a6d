//! The attributes that this provider offers for hints. No C here except the structures.

use core::ffi::c_int;
use core::ptr;

use weft::endpoint::EndpointSettings;
use weft::verbs::Progress;
use weft_libfabric::abi::*;

use super::hints::Hints;
use super::mismatch::Mismatch;
use crate::parameters::Parameters;

/// The offer for an application: all of an info except names and addresses.
pub(crate) struct Offer {
    pub(crate) caps: u64,
    pub(crate) transmit: fi_tx_attr,
    pub(crate) receive: fi_rx_attr,
    pub(crate) endpoint: fi_ep_attr,
    pub(crate) domain: fi_domain_attr,
}

/// The maximum bytes of a completion's error text.
pub(crate) const ERROR_DATA: usize = 1024;
/// Gathered pieces of an operation.
pub(crate) const PIECES: usize = weft::verbs::MAX_GATHER;
/// Version of the wire protocol.
const PROTOCOL_VERSION: u32 = 1;
/// The maximum number of requests in flight of an endpoint.
const MOST_REQUESTS: usize = 1 << 16;
const MOST_RECEIVES: usize = 1 << 20;
/// The default for both directions.
const REQUESTS: usize = 4096;
/// Objects of each kind.
const OBJECTS: usize = 1 << 16;

const MESSAGES: u64 = FI_MSG | FI_TAGGED;
const ONE_SIDED: u64 = FI_RMA | FI_ATOMIC;
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
const MESSAGE_DIRECTIONS: u64 = FI_SEND | FI_RECV;
const ONE_SIDED_DIRECTIONS: u64 = FI_READ | FI_WRITE | REMOTE;
/// An application gets these only if it requests them (`fi_getinfo(3)`, Capabilities).
const PRIMARY: u64 = MESSAGES | ONE_SIDED | MESSAGE_DIRECTIONS | ONE_SIDED_DIRECTIONS | FI_DIRECTED_RECV;
/// More of those, which have other meanings in older versions of the interface.
const PRIMARY_SINCE_2_0: u64 = FI_TAGGED_DIRECTED_RECV;
const DOMAIN_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;
/// An application gets these even if it does not request them,
const SECONDARY: u64 = FI_MULTI_RECV | FI_SOURCE | FI_FENCE | FI_RMA_EVENT | DOMAIN_CAPS;
/// except these, which cost something.
const ON_REQUEST: u64 = FI_SOURCE | FI_RMA_EVENT;
const TRANSMIT: u64 = MESSAGES | ONE_SIDED | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
const RECEIVE: u64 = MESSAGES
    | ONE_SIDED
    | FI_RECV
    | REMOTE
    | FI_RMA_EVENT
    | FI_MULTI_RECV
    | FI_SOURCE
    | FI_DIRECTED_RECV
    | FI_TAGGED_DIRECTED_RECV;

const TRANSMIT_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_MATCH_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MORE
    | FI_FENCE;
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV | FI_MORE;

/// One stream for each peer keeps messages, writes and reads in posting order, except that a read is answered while
/// later operations are accepted (so not `FI_ORDER_WAR` and `FI_ORDER_SAR`); atomics of one endpoint are executed in
/// order.
const ORDER: u64 = FI_ORDER_SAS
    | FI_ORDER_SAW
    | FI_ORDER_WAS
    | FI_ORDER_WAW
    | FI_ORDER_RAS
    | FI_ORDER_RAW
    | FI_ORDER_RAR
    | FI_ORDER_RMA_RAR
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAW
    | ATOMIC_ORDER;
const ATOMIC_ORDER: u64 = FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

/// The preferred modes of peers' access to memory, none of them required: keys that cannot be guessed, and addresses.
const REGISTRATION: c_int = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

const API_1_5: u32 = fi_version(1, 5);
const API_1_8: u32 = fi_version(1, 8);
const API_2_0: u32 = fi_version(2, 0);

impl Offer {
    /// The offer for an application that was built for this version of the interface.
    ///
    /// # Errors
    /// Nothing fits.
    pub(crate) fn new(version: u32, hints: &Hints, parameters: &Parameters) -> Result<Self, Mismatch> {
        let (caps, registration) = capabilities(version, hints)?;
        let limits = &parameters.endpoint;
        Ok(Self {
            caps,
            transmit: transmit(version, hints, caps, limits)?,
            receive: receive(version, hints, caps)?,
            endpoint: endpoint(hints, caps, limits)?,
            domain: domain(version, hints, (registration, key_bytes(caps, registration)), parameters.nic.progress)?,
        })
    }
}

/// The capabilities, and the matching mode of memory registration.
fn capabilities(version: u32, hints: &Hints) -> Result<(u64, c_int), Mismatch> {
    let primary = if version < API_2_0 { PRIMARY } else { PRIMARY | PRIMARY_SINCE_2_0 };
    let lacking = hints.caps & !(primary | SECONDARY);
    if lacking != 0 {
        return Err(Mismatch::Capabilities { whose: "caps", lacking });
    }
    let caps = choose(primary, hints.caps);
    if caps & REMOTE == 0 && caps & FI_RMA_EVENT != 0 {
        return Err(Mismatch::Capabilities {
            whose: "caps, without FI_REMOTE_READ and FI_REMOTE_WRITE",
            lacking: FI_RMA_EVENT,
        });
    }
    let offered = hints.domain.as_ref().map(|domain| domain.mr_mode);
    if caps & ONE_SIDED == 0 || caps & REMOTE == 0 {
        return Ok((caps, registration(version, offered, false)));
    }
    if can_register(version, offered) {
        return Ok((caps, registration(version, offered, true)));
    }
    // An application that has not requested access by peers explicitly can do without.
    if hints.caps & (REMOTE | FI_RMA_EVENT) != 0 {
        return Err(Mismatch::Registration { offered: offered.unwrap_or(0) });
    }
    Ok((caps & !(REMOTE | FI_RMA_EVENT), registration(version, offered, false)))
}

/// The requested primary capabilities, and all of the secondary ones except those that cost something, which must be
/// requested: reporting sources, and counting peers' operations.
const fn choose(primary: u64, wanted: u64) -> u64 {
    if wanted == 0 {
        return primary | SECONDARY;
    }
    expand((wanted & primary) | (SECONDARY & !ON_REQUEST) | (wanted & ON_REQUEST))
}

/// Without a direction, all are meant.
const fn expand(mut caps: u64) -> u64 {
    if caps & MESSAGES != 0 && caps & MESSAGE_DIRECTIONS == 0 {
        caps |= MESSAGE_DIRECTIONS;
    }
    if caps & ONE_SIDED != 0 && caps & ONE_SIDED_DIRECTIONS == 0 {
        caps |= ONE_SIDED_DIRECTIONS;
    }
    caps
}

/// Whether the application's version has a mode of memory registration among those offered.
const fn can_register(version: u32, offered: Option<c_int>) -> bool {
    match offered {
        None | Some(FI_MR_BASIC | FI_MR_SCALABLE | FI_MR_UNSPEC) => true,
        Some(modes) => version >= API_1_5 && modes & (FI_MR_BASIC | FI_MR_SCALABLE) == 0,
    }
}

/// The mode of memory registration, as numbered in the application's version.
const fn registration(version: u32, offered: Option<c_int>, needed: bool) -> c_int {
    match offered {
        Some(modes) if modes & (FI_MR_BASIC | FI_MR_SCALABLE) != 0 => modes,
        _ if version < API_1_5 => FI_MR_BASIC,
        None if needed => REGISTRATION,
        // All that the application supports: the more, the less an attacker can guess.
        Some(modes) if needed => modes & REGISTRATION,
        _ => 0,
    }
}

/// Bytes of a region's key. A key is an STag, so that no more than 4 can be chosen.
const fn key_bytes(caps: u64, registration: c_int) -> usize {
    let is_chosen = caps & REMOTE != 0 && registration & (FI_MR_BASIC | FI_MR_PROV_KEY) == 0;
    if is_chosen { 4 } else { 8 }
}

fn transmit(version: u32, hints: &Hints, caps: u64, limits: &EndpointSettings) -> Result<fi_tx_attr, Mismatch> {
    let mut attributes = fi_tx_attr {
        caps: caps & TRANSMIT,
        mode: 0,
        op_flags: 0,
        msg_order: order(version),
        comp_order: FI_ORDER_NONE,
        inject_size: limits.inject_bytes as usize,
        size: REQUESTS,
        iov_limit: PIECES,
        rma_iov_limit: PIECES,
        tclass: 0,
    };
    let Some(wanted) = &hints.transmit else { return Ok(attributes) };
    attributes.caps = narrow("tx_attr.caps", attributes.caps, wanted.caps & !(RECEIVE & !TRANSMIT))?;
    bits("tx_attr.op_flags", wanted.op_flags, TRANSMIT_FLAGS)?;
    bits("tx_attr.msg_order", wanted.msg_order, ORDER)?;
    bits("tx_attr.comp_order", wanted.comp_order, FI_ORDER_NONE)?;
    size("tx_attr.inject_size", wanted.inject_size, attributes.inject_size)?;
    size("tx_attr.iov_limit", wanted.iov_limit, PIECES)?;
    size("tx_attr.rma_iov_limit", wanted.rma_iov_limit, PIECES)?;
    size("tx_attr.size", wanted.size, MOST_REQUESTS)?;
    attributes.op_flags = wanted.op_flags;
    attributes.size = or(wanted.size, REQUESTS);
    Ok(attributes)
}

fn receive(version: u32, hints: &Hints, caps: u64) -> Result<fi_rx_attr, Mismatch> {
    let mut attributes = fi_rx_attr {
        caps: caps & RECEIVE,
        mode: 0,
        op_flags: 0,
        msg_order: order(version),
        comp_order: FI_ORDER_NONE,
        total_buffered_recv: 0,
        size: REQUESTS,
        iov_limit: PIECES,
    };
    let Some(wanted) = &hints.receive else { return Ok(attributes) };
    attributes.caps = narrow("rx_attr.caps", attributes.caps, wanted.caps & !(TRANSMIT & !RECEIVE))?;
    bits("rx_attr.op_flags", wanted.op_flags, RECEIVE_FLAGS)?;
    bits("rx_attr.msg_order", wanted.msg_order, ORDER)?;
    bits("rx_attr.comp_order", wanted.comp_order, FI_ORDER_NONE)?;
    size("rx_attr.iov_limit", wanted.iov_limit, PIECES)?;
    size("rx_attr.size", wanted.size, MOST_RECEIVES)?;
    attributes.op_flags = wanted.op_flags;
    attributes.size = or(wanted.size, REQUESTS);
    Ok(attributes)
}

fn endpoint(hints: &Hints, caps: u64, limits: &EndpointSettings) -> Result<fi_ep_attr, Mismatch> {
    let one_sided = |bytes| if caps & ONE_SIDED == 0 { 0 } else { bytes };
    let attributes = fi_ep_attr {
        r#type: FI_EP_RDM,
        protocol: FI_PROTO_IWARP_RDM,
        protocol_version: PROTOCOL_VERSION,
        max_msg_size: usize::MAX >> 1,
        msg_prefix_size: 0,
        max_order_raw_size: one_sided(usize::MAX >> 1),
        // Only atomics keep this order.
        max_order_war_size: one_sided(limits.atomic_bytes as usize),
        max_order_waw_size: one_sided(usize::MAX >> 1),
        mem_tag_format: u64::MAX,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        auth_key_size: 0,
        auth_key: ptr::null_mut(),
        xpu_ctx: ptr::null_mut(),
    };
    let Some(wanted) = &hints.endpoint else { return Ok(attributes) };
    one_of("ep_attr.type", wanted.r#type, &[FI_EP_UNSPEC, FI_EP_RDM])?;
    if wanted.protocol != FI_PROTO_UNSPEC && wanted.protocol != FI_PROTO_IWARP_RDM {
        return Err(Mismatch::Value { what: "ep_attr.protocol", wanted: wanted.protocol.into() });
    }
    size("ep_attr.protocol_version", wanted.protocol_version as usize, PROTOCOL_VERSION as usize)?;
    size("ep_attr.max_msg_size", wanted.max_msg_size, attributes.max_msg_size)?;
    size("ep_attr.tx_ctx_cnt", wanted.tx_ctx_cnt, 1)?;
    size("ep_attr.rx_ctx_cnt", wanted.rx_ctx_cnt, 1)?;
    size("ep_attr.auth_key_size", wanted.auth_key_size, 0)?;
    if caps & ONE_SIDED != 0 {
        size("ep_attr.max_order_raw_size", wanted.max_order_raw_size, attributes.max_order_raw_size)?;
        size("ep_attr.max_order_war_size", wanted.max_order_war_size, attributes.max_order_war_size)?;
        size("ep_attr.max_order_waw_size", wanted.max_order_waw_size, attributes.max_order_waw_size)?;
    }
    Ok(attributes)
}

fn domain(
    version: u32,
    hints: &Hints,
    (mr_mode, mr_key_size): (c_int, usize),
    runs: Progress,
) -> Result<fi_domain_attr, Mismatch> {
    let progress = if runs == Progress::Caller { FI_PROGRESS_MANUAL } else { FI_PROGRESS_AUTO };
    let mut attributes = fi_domain_attr {
        domain: ptr::null_mut(),
        name: ptr::null_mut(),
        threading: FI_THREAD_SAFE,
        control_progress: progress,
        data_progress: progress,
        resource_mgmt: FI_RM_ENABLED,
        // Either will do. An application that leaves it open must not rely on indices (fi_av(3)).
        av_type: FI_AV_UNSPEC,
        mr_mode,
        mr_key_size,
        cq_data_size: 8,
        cq_cnt: OBJECTS,
        ep_cnt: OBJECTS,
        tx_ctx_cnt: OBJECTS,
        rx_ctx_cnt: OBJECTS,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: 0,
        max_ep_srx_ctx: 0,
        cntr_cnt: OBJECTS,
        mr_iov_limit: 1,
        caps: DOMAIN_CAPS,
        mode: 0,
        auth_key: ptr::null_mut(),
        auth_key_size: 0,
        max_err_data: ERROR_DATA,
        mr_cnt: OBJECTS,
        tclass: 0,
        max_ep_auth_key: 0,
        max_group_id: 0,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        max_xpu_ctx_cnt: 0,
    };
    let Some(wanted) = &hints.domain else { return Ok(attributes) };
    one_of("domain_attr.av_type", wanted.av_type, &[FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE])?;
    one_of("domain_attr.resource_mgmt", wanted.resource_mgmt, &[FI_RM_UNSPEC, FI_RM_DISABLED, FI_RM_ENABLED])?;
    at_most("domain_attr.threading", wanted.threading, FI_THREAD_ENDPOINT)?;
    size("domain_attr.cq_data_size", wanted.cq_data_size, attributes.cq_data_size)?;
    // Any threading and any progress is satisfied: the safest, and the most automatic. The application gets back the
    // one that it requested.
    attributes.threading = or(wanted.threading, FI_THREAD_SAFE);
    attributes.control_progress = progress_for("domain_attr.control_progress", wanted.control_progress, progress)?;
    attributes.data_progress = progress_for("domain_attr.data_progress", wanted.data_progress, progress)?;
    attributes.av_type = wanted.av_type;
    if version >= API_1_5 {
        size("domain_attr.mr_key_size", wanted.mr_key_size, attributes.mr_key_size)?;
        size("domain_attr.cntr_cnt", wanted.cntr_cnt, OBJECTS)?;
        size("domain_attr.mr_iov_limit", wanted.mr_iov_limit, attributes.mr_iov_limit)?;
        size("domain_attr.mr_cnt", wanted.mr_cnt, OBJECTS)?;
        size("domain_attr.max_err_data", wanted.max_err_data, ERROR_DATA)?;
        size("domain_attr.auth_key_size", wanted.auth_key_size, 0)?;
        attributes.caps = narrow("domain_attr.caps", DOMAIN_CAPS, wanted.caps)?;
    }
    Ok(attributes)
}

/// The requested progress, if it is supported.
fn progress_for(what: &'static str, wanted: fi_progress, has: fi_progress) -> Result<fi_progress, Mismatch> {
    match wanted {
        FI_PROGRESS_UNSPEC => Ok(has),
        FI_PROGRESS_AUTO if has == FI_PROGRESS_MANUAL => Err(Mismatch::Value { what, wanted: wanted as u64 }),
        FI_PROGRESS_AUTO | FI_PROGRESS_MANUAL | FI_PROGRESS_CONTROL_UNIFIED => Ok(wanted),
        _ => Err(Mismatch::Value { what, wanted: wanted as u64 }),
    }
}

/// Before 1.8 there were no separate orders of RMA and atomics.
const fn order(version: u32) -> u64 {
    if version < API_1_8 { ORDER & u32::MAX as u64 } else { ORDER }
}

/// The requested capabilities of some, and all secondary ones.
fn narrow(whose: &'static str, has: u64, wanted: u64) -> Result<u64, Mismatch> {
    // The whole is narrowed by the info's own request; requesting secondary ones of a context that the info did not
    // request is no mistake.
    let lacking = wanted & !(has | SECONDARY);
    if lacking != 0 {
        return Err(Mismatch::Capabilities { whose, lacking });
    }
    if wanted == 0 { Ok(has) } else { Ok(expand((wanted | SECONDARY) & has) & has) }
}

fn bits(what: &'static str, wanted: u64, possible: u64) -> Result<(), Mismatch> {
    let lacking = wanted & !possible;
    if lacking == 0 { Ok(()) } else { Err(Mismatch::Bits { what, lacking }) }
}

fn size(what: &'static str, wanted: usize, most: usize) -> Result<(), Mismatch> {
    if wanted <= most { Ok(()) } else { Err(Mismatch::Size { what, wanted: wanted as u64, most: most as u64 }) }
}

fn one_of(what: &'static str, wanted: c_int, possible: &[c_int]) -> Result<(), Mismatch> {
    if possible.contains(&wanted) { Ok(()) } else { Err(Mismatch::Value { what, wanted: wanted as u64 }) }
}

fn at_most(what: &'static str, wanted: c_int, most: c_int) -> Result<(), Mismatch> {
    if (0..=most).contains(&wanted) { Ok(()) } else { Err(Mismatch::Value { what, wanted: wanted as u64 }) }
}

/// The requested value, or else the default.
fn or<T: Default + PartialEq>(wanted: T, usual: T) -> T {
    if wanted == T::default() { usual } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = NEWEST_VERSION;
    const OLD: u32 = fi_version(1, 0);

    /// The offer for an application that sets these attributes and leaves the rest open.
    fn ask(version: u32, caps: u64, domain: impl FnOnce(&mut fi_domain_attr)) -> Result<Offer, Mismatch> {
        let mut hints = empty();
        hints.caps = caps;
        domain(hints.domain.as_mut().unwrap());
        Offer::new(version, &hints, &Parameters::default())
    }

    /// Hints as `fi_allocinfo` makes them: everything is there, and zero.
    fn empty() -> Hints {
        // SAFETY: All zeros are each of these.
        unsafe {
            Hints {
                transmit: Some(core::mem::zeroed()),
                receive: Some(core::mem::zeroed()),
                endpoint: Some(core::mem::zeroed()),
                domain: Some(core::mem::zeroed()),
                ..Hints::default()
            }
        }
    }

    #[test]
    fn without_hints_there_is_everything() {
        let offer = Offer::new(NOW, &Hints::default(), &Parameters::default()).unwrap();
        assert_eq!(offer.caps, PRIMARY | PRIMARY_SINCE_2_0 | SECONDARY);
        assert_eq!(offer.domain.mr_mode, REGISTRATION);
        assert_eq!((offer.domain.threading, offer.domain.data_progress), (FI_THREAD_SAFE, FI_PROGRESS_AUTO));
        assert_eq!((offer.domain.av_type, offer.endpoint.protocol), (FI_AV_UNSPEC, FI_PROTO_IWARP_RDM));
        // The first call of Intel MPI requests version 0.0.
        let first = Offer::new(0, &Hints::default(), &Parameters::default()).unwrap();
        assert_eq!((first.caps, first.domain.mr_mode), (PRIMARY | SECONDARY, FI_MR_BASIC));
        assert_eq!(first.transmit.msg_order >> 32, 0);
    }

    #[test]
    fn primary_capabilities_are_those_asked_for_and_secondary_ones_come_along() {
        let offer = ask(NOW, FI_TAGGED | FI_SEND, |_| ()).unwrap();
        assert_eq!(offer.caps, FI_TAGGED | FI_SEND | SECONDARY & !ON_REQUEST);
        assert_eq!(offer.transmit.caps, FI_TAGGED | FI_SEND | FI_FENCE);
        let offer = ask(NOW, FI_MSG | FI_SOURCE, |_| ()).unwrap();
        assert_eq!(offer.caps, FI_MSG | FI_SEND | FI_RECV | SECONDARY & !FI_RMA_EVENT);
        assert_eq!(offer.receive.caps, FI_MSG | FI_RECV | FI_MULTI_RECV | FI_SOURCE);
        let offer = ask(NOW, FI_RMA | FI_RMA_EVENT, |_| ()).unwrap();
        assert_eq!((offer.caps & FI_RMA_EVENT, offer.receive.caps & FI_RMA_EVENT), (FI_RMA_EVENT, FI_RMA_EVENT));
        assert!(
            ask(NOW, FI_MSG | FI_RMA_EVENT, |_| ()).is_err()
                && ask(NOW, FI_RMA | FI_READ | FI_RMA_EVENT, |_| ()).is_err()
        );
        let lacking = ask(NOW, FI_MSG | FI_COLLECTIVE, |_| ()).err();
        assert_eq!(lacking, Some(Mismatch::Capabilities { whose: "caps", lacking: FI_COLLECTIVE }));
    }

    #[test]
    fn bits_that_older_versions_have_for_something_else_are_refused_there() {
        assert!(ask(fi_version(1, 17), FI_TAGGED | FI_TAGGED_DIRECTED_RECV, |_| ()).is_err());
        assert!(ask(NOW, FI_TAGGED | FI_TAGGED_DIRECTED_RECV, |_| ()).is_ok());
    }

    #[test]
    fn modes_of_memory_registration() {
        let modes = |version, caps, offered| {
            ask(version, caps, |domain| domain.mr_mode = offered)
                .map(|offer| (offer.caps & REMOTE != 0, offer.domain.mr_mode))
        };
        let rma = FI_MSG | FI_RMA;
        let target = FI_RMA | FI_REMOTE_WRITE;
        let full = REGISTRATION | FI_MR_ENDPOINT | FI_MR_LOCAL;
        // Messages need none, whatever is offered.
        for offered in [0, full, FI_MR_ALLOCATED] {
            assert_eq!(modes(NOW, FI_TAGGED, offered), Ok((false, 0)), "{offered:#x}");
        }
        assert_eq!(modes(NOW, FI_TAGGED, FI_MR_SCALABLE), Ok((false, FI_MR_SCALABLE)));
        // For access by peers three are preferred, and no more are returned.
        assert_eq!(modes(NOW, rma, full), Ok((true, REGISTRATION)));
        assert_eq!(modes(NOW, rma, FI_MR_BASIC), Ok((true, FI_MR_BASIC)));
        // An application that does not offer them chooses keys and offsets itself.
        for offered in [0, FI_MR_SCALABLE, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED] {
            assert_eq!(modes(NOW, target, offered), Ok((true, offered)));
            assert_eq!(modes(NOW, 0, offered), Ok((true, offered)));
        }
        assert_eq!(modes(NOW, target, FI_MR_LOCAL), Ok((true, 0)));
        let offered = FI_MR_SCALABLE | FI_MR_PROV_KEY;
        assert_eq!(modes(NOW, target, offered), Err(Mismatch::Registration { offered }));
        // Before 1.5 there were two.
        assert_eq!(modes(OLD, target, FI_MR_UNSPEC), Ok((true, FI_MR_BASIC)));
        assert_eq!(modes(OLD, target, FI_MR_BASIC), Ok((true, FI_MR_BASIC)));
        assert_eq!(modes(OLD, target, FI_MR_SCALABLE), Ok((true, FI_MR_SCALABLE)));
        assert!(modes(OLD, target, FI_MR_PROV_KEY).is_err());
    }

    #[test]
    fn keys_of_the_application_have_four_bytes() {
        let keys = |offered, bytes| {
            ask(NOW, FI_RMA, |domain| (domain.mr_mode, domain.mr_key_size) = (offered, bytes))
                .map(|offer| offer.domain.mr_key_size)
        };
        assert_eq!([keys(0, 0), keys(FI_MR_SCALABLE, 4), keys(FI_MR_VIRT_ADDR, 1)], [Ok(4), Ok(4), Ok(4)]);
        assert_eq!([keys(FI_MR_BASIC, 8), keys(REGISTRATION, 8)], [Ok(8), Ok(8)]);
        let too_long = Mismatch::Size { what: "domain_attr.mr_key_size", wanted: 8, most: 4 };
        assert_eq!(keys(0, 8), Err(too_long));
    }

    #[test]
    fn threading_progress_and_vectors_are_those_asked_for() {
        let offer = ask(NOW, FI_TAGGED, |domain| {
            domain.threading = FI_THREAD_DOMAIN;
            domain.data_progress = FI_PROGRESS_MANUAL;
            domain.av_type = FI_AV_MAP;
            domain.resource_mgmt = FI_RM_DISABLED;
        })
        .unwrap();
        assert_eq!(offer.domain.threading, FI_THREAD_DOMAIN);
        assert_eq!((offer.domain.data_progress, offer.domain.control_progress), (FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO));
        assert_eq!((offer.domain.av_type, offer.domain.resource_mgmt), (FI_AV_MAP, FI_RM_ENABLED));
        assert!(ask(NOW, FI_TAGGED, |domain| domain.threading = 6).is_err());
        assert!(ask(NOW, FI_TAGGED, |domain| domain.threading = -1).is_err());
    }

    #[test]
    fn no_automatic_progress_where_callers_run_the_nic() {
        let mut parameters = Parameters::default();
        parameters.nic.progress = Progress::Caller;
        let mut hints = empty();
        assert_eq!(Offer::new(NOW, &hints, &parameters).unwrap().domain.data_progress, FI_PROGRESS_MANUAL);
        hints.domain.as_mut().unwrap().data_progress = FI_PROGRESS_AUTO;
        assert!(Offer::new(NOW, &hints, &parameters).is_err());
    }

    #[test]
    fn the_mpi_libraries_find_what_they_ask_for() {
        let all =
            FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
        let manual = |registration: c_int| {
            move |domain: &mut fi_domain_attr| {
                domain.threading = FI_THREAD_DOMAIN;
                domain.control_progress = FI_PROGRESS_MANUAL;
                domain.data_progress = FI_PROGRESS_MANUAL;
                domain.resource_mgmt = FI_RM_ENABLED;
                domain.av_type = FI_AV_TABLE;
                domain.cq_data_size = 4;
                domain.mr_mode = registration;
            }
        };
        let offer = ask(fi_version(1, 20), all, manual(REGISTRATION | FI_MR_ENDPOINT)).unwrap();
        assert_eq!((offer.caps & all, offer.domain.mr_mode), (all, REGISTRATION));
        let offer = ask(fi_version(1, 14), all, manual(REGISTRATION)).unwrap();
        assert_eq!(offer.caps & all, all);
        let tagged = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
        let open_mpi = |mr_mode| {
            ask(fi_version(1, 9), tagged, |domain| {
                domain.threading = FI_THREAD_SAFE;
                domain.av_type = FI_AV_MAP;
                domain.cq_data_size = 4;
                domain.resource_mgmt = FI_RM_ENABLED;
                domain.mr_mode = mr_mode;
            })
        };
        assert!(open_mpi(FI_MR_UNSPEC).is_ok() && open_mpi(FI_MR_ALLOCATED).is_ok() && open_mpi(FI_MR_BASIC).is_ok());
    }

    #[test]
    fn what_is_too_much_is_named() {
        let mut hints = empty();
        hints.transmit.as_mut().unwrap().inject_size = 1 << 20;
        let error = Offer::new(NOW, &hints, &Parameters::default()).err().unwrap();
        assert_eq!(error.to_string(), "tx_attr.inject_size: 1048576 requested, at most 16384 supported");
        let change = |change: fn(&mut Hints)| {
            let mut hints = empty();
            hints.caps = FI_MSG | FI_RMA;
            change(&mut hints);
            Offer::new(NOW, &hints, &Parameters::default()).is_ok()
        };
        assert!(change(|_| ()));
        assert!(!change(|hints| hints.transmit.as_mut().unwrap().msg_order = FI_ORDER_WAR));
        assert!(change(|hints| {
            hints.transmit.as_mut().unwrap().msg_order = FI_ORDER_RAS | FI_ORDER_WAS | FI_ORDER_RAR;
        }));
        assert!(!change(|hints| hints.transmit.as_mut().unwrap().comp_order = FI_ORDER_STRICT));
        assert!(!change(|hints| hints.transmit.as_mut().unwrap().op_flags = FI_COMMIT_COMPLETE));
        assert!(!change(|hints| hints.transmit.as_mut().unwrap().caps = FI_TAGGED));
        assert!(!change(|hints| hints.receive.as_mut().unwrap().size = MOST_RECEIVES + 1));
        assert!(!change(|hints| hints.endpoint.as_mut().unwrap().r#type = FI_EP_MSG));
        assert!(!change(|hints| hints.endpoint.as_mut().unwrap().tx_ctx_cnt = FI_SHARED_CONTEXT));
        assert!(!change(|hints| hints.endpoint.as_mut().unwrap().auth_key_size = 8));
        assert!(!change(|hints| hints.domain.as_mut().unwrap().mr_cnt = OBJECTS + 1));
        // Capabilities of the other direction are no mistake in a context.
        assert!(change(|hints| hints.transmit.as_mut().unwrap().caps = FI_MSG | FI_RECV));
    }
}
