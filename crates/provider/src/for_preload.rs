//! What a Weft library that has this code too shares with the provider.

use weft::endpoint::EndpointAttributes;
use weft::verbs::Context;

use crate::{parameters, process};

/// A NIC, and whose it is.
#[derive(Clone, Debug)]
pub struct ProcessNic {
    /// The NIC.
    pub context: Context,
    /// Whether the provider opened it, for a domain that libfabric's user has open.
    pub is_providers: bool,
}

/// The NIC of this process: that of a domain of the provider, if one is open; else a new one, opened as a domain does.
///
/// # Errors
/// A variable is invalid, or the NIC cannot be opened: in words.
pub fn nic() -> Result<ProcessNic, String> {
    if let Some(context) = process::nic() {
        return Ok(ProcessNic { context, is_providers: true });
    }
    let parameters = parameters::get().map_err(ToString::to_string)?;
    let context = Context::with_settings(parameters.nic_settings()).map_err(|error| error.to_string())?;
    Ok(ProcessNic { context, is_providers: false })
}

/// The attributes of the provider's endpoints: reached at all permitted interfaces, on a free port.
///
/// # Errors
/// A variable is invalid, or no interface is permitted: in words.
pub fn endpoint_attributes() -> Result<EndpointAttributes, String> {
    parameters::get().map_err(ToString::to_string)?.endpoint_attributes()
}
