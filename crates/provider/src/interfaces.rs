//! The machine's network interfaces, as far as the user permits them.

use std::net::IpAddr;

pub(crate) use weft::settings::{Interface, explain_none, explain_unknown_rails, reachable};

use crate::parameters;

/// The usable interfaces, best first.
pub(crate) fn usable() -> Vec<Interface> {
    parameters::get().map(|parameters| parameters.interfaces.clone()).unwrap_or_default().usable()
}

/// The addresses of an endpoint that listens on all of them, best first: those that other machines can reach, or the
/// loopback's if there is none.
pub(crate) fn addresses() -> Vec<IpAddr> {
    reachable(&usable())
}
