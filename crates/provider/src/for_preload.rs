//! The `FI_WEFT_*` settings, for a Weft library that is loaded next to the provider and must behave alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft::endpoint::EndpointAttributes;
use weft::verbs::{Context, Settings};

use crate::{interfaces, parameters};

/// Opens a NIC as a domain of the provider does.
///
/// # Errors
/// A variable is invalid, or the NIC cannot be opened: in words.
pub fn open_nic() -> Result<Context, String> {
    let parameters = parameters::get().map_err(ToString::to_string)?;
    let rails = interfaces::rails(&parameters.nic.rails);
    Context::with_settings(Settings { rails, ..parameters.nic.clone() }).map_err(|error| error.to_string())
}

/// The attributes of the provider's endpoints: reached at all permitted interfaces, on a free port.
///
/// # Errors
/// A variable is invalid, or no interface is permitted: in words.
pub fn endpoint_attributes() -> Result<EndpointAttributes, String> {
    let parameters = parameters::get().map_err(ToString::to_string)?;
    let paths = interfaces::addresses();
    if paths.is_empty() {
        return Err(interfaces::explain_none());
    }
    let any: IpAddr = match paths.iter().any(IpAddr::is_ipv6) {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let bind = SocketAddr::new(any, 0);
    let (settings, key) = (parameters.endpoint.clone(), parameters.key.clone());
    Ok(EndpointAttributes { bind, paths, settings, engine: None, key })
}
