//! A helper that opens a link's packet socket for others.

use core::time::Duration;
use std::io;
use std::path::Path;

use weft_driver::{PacketHelper, PacketOffer, PacketRing, PortRule, Served};

use crate::settings::LinkSettings;
use crate::stack::frame_tests;

/// Opens the packet socket of a link for clients that have no right to, and passes it to those that it trusts. Of the
/// host's own addresses it has the rule of the firewall while it exists, so clients need no right for that.
#[derive(Debug)]
pub struct LinkHelper {
    helper: PacketHelper,
    offer: PacketOffer,
    _rule: Option<PortRule>,
}

impl LinkHelper {
    /// Listens at a path for clients of these users. They get this link, and must want it by the same text.
    ///
    /// # Errors
    /// The link cannot be opened: there is no such interface, or a right is missing; or the path cannot be listened at.
    /// The message says why.
    pub fn open(settings: &LinkSettings, path: &Path, users: &[u32]) -> io::Result<Self> {
        let name = settings.to_string();
        let settings = settings.clone().with_addresses_of_host()?;
        let tests = frame_tests(&settings);
        // What cannot be done is reported now, not to the first client.
        drop(PacketRing::open_for(&settings.interface, &tests.iter().map(Vec::as_slice).collect::<Vec<_>>())?);
        let addresses: Vec<_> = settings.addresses.iter().map(|own| own.ip).collect();
        let set = |ports: crate::PortRange| PortRule::set(&settings.interface, &addresses, &(ports.first..=ports.last));
        let rule = settings.ports.map(set).transpose()?;
        let helper = PacketHelper::listen(path, users)?;
        let offer = PacketOffer { interface: settings.interface.clone(), tests, name };
        Ok(Self { helper, offer, _rule: rule })
    }

    /// Waits for a client, at most for `timeout`, and serves it. `None`: no client came.
    ///
    /// # Errors
    /// No packet socket can be opened any more; the client has got the reason.
    pub fn serve(&self, timeout: Duration) -> io::Result<Option<Served>> {
        self.helper.serve(timeout, &self.offer)
    }
}
