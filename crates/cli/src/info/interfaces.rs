//! Network interfaces.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use serde::Serialize;
use weft_driver::host_addresses;

use super::kernel_file::first_line;
use weft_command::failure::Failure;

/// A network interface.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Interface {
    name: String,
    /// Switched on, and its carrier there.
    up: bool,
    /// Bytes.
    mtu: Option<u32>,
    /// As the driver says; virtual ones often don't.
    speed_megabits_per_s: Option<u32>,
    /// Each with its prefix length.
    addresses: Vec<String>,
    /// Whether connections over Edge have a rail there, unless settings say otherwise: it is up, is not the loopback,
    /// and has an address beside those of one link.
    rail: bool,
}

impl Interface {
    /// For the table.
    pub(super) fn cells(&self) -> [String; 6] {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        [
            self.name.clone(),
            if self.up { "up" } else { "down" }.into(),
            or_dash(self.mtu.map(|mtu| mtu.to_string())),
            or_dash(self.speed_megabits_per_s.map(speed)),
            if self.rail { "yes" } else { "no" }.into(),
            self.addresses.join(" "),
        ]
    }
}

fn speed(megabits_per_s: u32) -> String {
    if megabits_per_s.is_multiple_of(1000) {
        format!("{} Gb/s", megabits_per_s / 1000)
    } else {
        format!("{megabits_per_s} Mb/s")
    }
}

/// All interfaces, by name.
pub(super) fn all() -> Result<Vec<Interface>, Failure> {
    let entries = getifaddrs().map_err(|error| Failure::Runtime(format!("cannot list interfaces: {error}")))?;
    let mut interfaces = BTreeMap::<String, Interface>::new();
    for entry in entries {
        let interface = interfaces.entry(entry.interface_name.clone()).or_insert_with_key(|name| describe(name));
        interface.up = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        interface.addresses.extend(entry.address.and_then(|address| with_prefix(&address, entry.netmask.as_ref())));
    }
    for host in host_addresses().iter().filter(|host| host.is_running) {
        if let Some(interface) = interfaces.get_mut(&host.interface) {
            interface.rail = true;
        }
    }
    Ok(interfaces.into_values().collect())
}

fn describe(name: &str) -> Interface {
    let attribute = |what| first_line(&format!("/sys/class/net/{name}/{what}"));
    Interface {
        name: name.into(),
        mtu: attribute("mtu").and_then(|text| text.parse().ok()),
        // The kernel says -1 where it does not know.
        speed_megabits_per_s: attribute("speed").and_then(|text| text.parse().ok()).filter(|speed| *speed > 0),
        ..Interface::default()
    }
}

/// `192.0.2.1/24`; `None` for addresses of other families.
fn with_prefix(address: &SockaddrStorage, mask: Option<&SockaddrStorage>) -> Option<String> {
    if let Some(v4) = address.as_sockaddr_in() {
        let ones = mask.and_then(|mask| mask.as_sockaddr_in()).map_or(32, |mask| prefix_v4(mask.ip()));
        return Some(format!("{}/{ones}", v4.ip()));
    }
    let v6 = address.as_sockaddr_in6()?;
    let ones = mask.and_then(|mask| mask.as_sockaddr_in6()).map_or(128, |mask| prefix_v6(mask.ip()));
    Some(format!("{}/{ones}", v6.ip()))
}

fn prefix_v4(mask: Ipv4Addr) -> u32 {
    mask.to_bits().leading_ones()
}

fn prefix_v6(mask: Ipv6Addr) -> u32 {
    mask.to_bits().leading_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let interfaces = all().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(loopback.mtu.is_some_and(|mtu| mtu >= 1280) && !loopback.rail);
        if loopback.up {
            assert!(loopback.addresses.iter().any(|address| address == "127.0.0.1/8"), "{loopback:?}");
        }
    }

    #[test]
    fn speeds_are_readable() {
        assert_eq!(speed(10_000), "10 Gb/s");
        assert_eq!(speed(2500), "2500 Mb/s");
    }
}
