//! What a Weft library that is loaded beside the provider shares with it.

use weft::endpoint::EndpointAttributes;
use weft::verbs::Context;

use crate::parameters;

/// Opens a NIC as a domain of the provider does.
///
/// # Errors
/// A variable is invalid, or the NIC cannot be opened: in words.
pub fn open_nic() -> Result<Context, String> {
    let parameters = parameters::get().map_err(ToString::to_string)?;
    Context::with_settings(parameters.nic_settings()).map_err(|error| error.to_string())
}

/// The attributes of the provider's endpoints: reached at all permitted interfaces, on a free port.
///
/// # Errors
/// A variable is invalid, or no interface is permitted: in words.
pub fn endpoint_attributes() -> Result<EndpointAttributes, String> {
    parameters::get().map_err(ToString::to_string)?.endpoint_attributes()
}
