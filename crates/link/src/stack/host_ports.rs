//! Ports of the host's own addresses, which the kernel's TCP is to leave alone.

use std::io;

use weft_driver::{PortReservation, PortRule};

use crate::settings::{LinkSettings, PortRange};

/// What holds as long as this is there: the kernel drops what comes to these ports by the interface, behind the packet
/// socket, and none of its sockets has or takes one of them.
pub(super) struct HostPorts {
    _rule: Option<PortRule>,
    _reservation: PortReservation,
}

impl HostPorts {
    /// Of a link that is helped the helper has the rule.
    ///
    /// # Errors
    /// A port is in use, or the rule cannot be set; the message says why.
    pub(super) fn take(settings: &LinkSettings, ports: PortRange, is_helped: bool) -> io::Result<Self> {
        let range = ports.first..=ports.last;
        let reservation = PortReservation::take(range.clone())?;
        let addresses: Vec<_> = settings.addresses.iter().map(|own| own.ip).collect();
        let set = || PortRule::set(&settings.interface, &addresses, &range);
        let rule = (!is_helped).then(set).transpose()?;
        Ok(Self { _rule: rule, _reservation: reservation })
    }
}
