//! Whether another host has an address of IPv6 already (RFC 4862 section 5.4).

use core::time::Duration;
use std::io;
use std::net::Ipv6Addr;

use weft_driver::WaitSet;
use weft_tcp::Arrived;

use super::Stack;

/// One that no host has claimed for this long is free (RFC 4862 section 5.1: one probe, and the RETRANS_TIMER of RFC
/// 4861 section 10).
const PROBE: Duration = Duration::from_secs(1);

impl Stack {
    /// Asks whether any host has the addresses, all at once, and waits. Addresses of IPv4 are not probed.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        let own: Vec<Ipv6Addr> = self.settings.all_v6().collect();
        // The kernel has done so for the host's own.
        if own.is_empty() || self.settings.ports.is_some() {
            return Ok(());
        }
        for address in own {
            let question = self.wire.link.probe(address);
            self.wire.send_or_lose(&question);
        }
        let set = WaitSet::new().map_err(io::Error::other)?;
        set.add(&self.wire, 0).map_err(io::Error::other)?;
        let until = self.now() + PROBE;
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                break;
            }
            set.wait(Some(left), &mut Vec::new()).map_err(io::Error::other)?;
            if !self.wire.has_frame() {
                // An interface that goes down meanwhile would keep it readable.
                self.wire.take_error();
            }
            while let Some(arrived) = self.take_probed() {
                self.handle_probed(arrived)?;
            }
        }
        self.wire.link.end_probe();
        Ok(())
    }

    fn take_probed(&mut self) -> Option<Arrived> {
        let mut arrived = None;
        let is_there = self.wire.show(|link, frame, checksum| arrived = Some(link.parse(frame, checksum)));
        is_there.then(|| arrived.unwrap_or(Arrived::Nothing))
    }

    fn handle_probed(&mut self, arrived: Arrived) -> io::Result<()> {
        match arrived {
            Arrived::Taken(address, hardware) => {
                let [a, b, c, d, e, f] = hardware;
                let who = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                let words = format!(
                    "the address {address} is taken on {}, by {who}: choose a free one",
                    self.settings.interface
                );
                Err(io::Error::new(io::ErrorKind::AddrInUse, words))
            }
            Arrived::Answer(answer) => {
                self.wire.send_or_lose(&answer);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
