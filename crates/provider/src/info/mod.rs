//! `fi_getinfo`: the infos for an application, and for which interfaces.

mod hints;
mod interface_offers;
mod list;
mod mismatch;
mod offer;

use core::ffi::{CStr, c_char, c_int};

use weft::endpoint::Address;
use weft_libfabric::abi::{FI_LOG_INFO, FI_NUMERICHOST, FI_PROV_ATTR_ONLY, FI_SOURCE, NEWEST_VERSION, fi_info};

use self::hints::{Hints, Refused, Wish};
use self::interface_offers::{InterfaceOffer, Wanted, interface_offers};
use self::list::List;
use self::offer::Offer;
pub(crate) use self::offer::PIECES;
use crate::addresses::resolve::{Lookup, name, resolve};
use crate::addresses::text;
use crate::border::status;
use crate::errno::Errno;
use crate::parameters::Parameters;
use crate::{interfaces, libfabric, parameters, stderr};

/// `fi_getinfo`.
///
/// # Safety
/// As libfabric's: the pointers are NULL or valid.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    to: *mut *mut fi_info,
) -> c_int {
    status(|| {
        if to.is_null() || version > NEWEST_VERSION {
            return Err(Errno::INVALID);
        }
        // SAFETY: Names are C strings or NULL.
        let (node, service) = unsafe { (name(node)?, name(service)?) };
        // SAFETY: Hints are those of libfabric's callers.
        let list = match unsafe { find(version, node, service, flags, hints) } {
            Ok(list) => list,
            Err(Refused::Mismatch(mismatch)) => {
                libfabric::log(FI_LOG_INFO, &mismatch.to_string());
                return Err(Errno::NO_DATA);
            }
            Err(Refused::Code(code)) => return Err(code),
        };
        // SAFETY: Not NULL, and then it can be written.
        unsafe { to.write(list.into_raw()) };
        Ok(())
    })
}

/// # Safety
/// As for [`Hints::read`].
unsafe fn find(
    version: u32,
    node: Option<&CStr>,
    service: Option<&CStr>,
    flags: u64,
    hints: *const fi_info,
) -> Result<List, Refused> {
    let parameters = settings()?;
    // SAFETY: This function's contract is that one's.
    let mut hints = unsafe { Hints::read(hints) }?;
    let offer = Offer::new(version, &hints, parameters)?;
    let mut list = List::new();
    if flags & FI_PROV_ATTR_ONLY != 0 {
        list.push(&offer, &InterfaceOffer::nowhere(), version, None)?;
        return Ok(list);
    }
    let wanted = wanted(node, service, flags, &mut hints)?;
    let machine = interfaces::usable();
    if machine.is_empty() {
        stderr::complain_once(&interfaces::explain_none());
    }
    for interface_offer in interface_offers(&wanted, machine) {
        list.push(&offer, &interface_offer, version, hints.handle)?;
    }
    if list.is_empty() { Err(Errno::NO_DATA.into()) } else { Ok(list) }
}

/// The user's settings. An invalid value is reported once, and then there is no info: another provider may still work.
fn settings() -> Result<&'static Parameters, Refused> {
    parameters::get().map_err(|wrong| {
        stderr::complain_once(&wrong.to_string());
        Errno::NO_DATA.into()
    })
}

/// Addresses from names, or otherwise from hints (`fi_getinfo(3)`: node and service take precedence; `FI_SOURCE` makes
/// them ours).
fn wanted(node: Option<&CStr>, service: Option<&CStr>, flags: u64, hints: &mut Hints) -> Result<Wanted, Refused> {
    let own = flags & FI_SOURCE != 0;
    let named = named(node, service, own, flags & FI_NUMERICHOST != 0, hints.format)?;
    let (source, destination) = match named {
        None => (hints.source.take(), hints.destination.take().into_iter().collect()),
        Some(addresses) if own => (addresses.into_iter().next(), hints.destination.take().into_iter().collect()),
        Some(addresses) => (hints.source.take(), addresses),
    };
    Ok(Wanted {
        format: hints.format,
        source,
        destination,
        domain: hints.domain_name.take(),
        fabric: hints.fabric_name.take(),
    })
}

/// The addresses of a node and a service. `None` when neither is given.
fn named(
    node: Option<&CStr>,
    service: Option<&CStr>,
    own: bool,
    numeric: bool,
    format: Option<Wish>,
) -> Result<Option<Vec<Address>>, Refused> {
    if node.is_none() && service.is_none() {
        return Ok(None);
    }
    if let Some(address) = node.and_then(|node| node.to_str().ok()).filter(|node| text::is_address(node)) {
        let address = text::read(address).filter(|_| service.is_none()).ok_or(Errno::INVALID)?;
        return Ok(Some(vec![address]));
    }
    let mut paths = resolve(node, service, Lookup { numeric, passive: own });
    paths.retain(|path| format.is_none_or(|Wish(format)| format.takes(path)));
    if paths.is_empty() {
        return Err(Errno::NO_DATA.into());
    }
    Ok(Some(paths.into_iter().map(Address::from).collect()))
}
