//! The files that a kernel has for adapters, of the devices that are shown.
//!
//! As in Linux (Documentation/ABI/stable/sysfs-class-infiniband), a device is a folder below that of the hardware it
//! belongs to, to which `/sys/class/infiniband` links: programs follow `NAME/../..` to it. Here the hardware is an
//! interface of the network.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;
use std::{fs, io};

use super::interfaces::{Shown, at_index, shown};
use super::presentation::Presentation;
use super::report::{gid, guid, of_interface, port_attributes};
use crate::abi::*;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// A line of text.
    Text(String),
    /// A link.
    Link(String),
}

/// Each path, from the root on without its slash.
type Entries = Vec<(String, Entry)>;

/// Links of a path that are followed.
const MOST_LINKS: usize = 8;

/// Writes the files of the devices of this host below a folder, which is there.
///
/// # Errors
/// A file cannot be written.
pub fn write_files(folder: &Path) -> io::Result<()> {
    for (path, entry) in entries(&shown()) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        match entry {
            Entry::Text(text) => fs::write(path, text + "\n")?,
            Entry::Link(to) => std::os::unix::fs::symlink(to, path)?,
        }
    }
    Ok(())
}

/// The text of a file of the devices of this host. `path`: as programs know it, `/sys/class/...`.
pub(crate) fn read_file(path: &str) -> Option<String> {
    read(&entries(&shown()), path)
}

fn read(entries: &Entries, path: &str) -> Option<String> {
    let find = |parts: &[String]| {
        let path = parts.join("/");
        entries.iter().find(|(other, _)| *other == path).map(|(_, entry)| entry)
    };
    let parts_of = |path: &str| path.split('/').map(str::to_owned).collect::<VecDeque<_>>();
    let (mut at, mut rest, mut links) = (Vec::new(), parts_of(path), 0);
    while let Some(part) = rest.pop_front() {
        match part.as_str() {
            "" | "." => continue,
            ".." => drop(at.pop()),
            _ => at.push(part),
        }
        let Some(Entry::Link(to)) = find(&at) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        at.pop();
        let mut parts = parts_of(to);
        parts.append(&mut rest);
        rest = parts;
    }
    match find(&at)? {
        Entry::Text(text) => Some(text.clone()),
        Entry::Link(_) => None,
    }
}

fn entries(all: &[Shown]) -> Entries {
    let mut entries = Entries::new();
    if !all.is_empty() {
        add(&mut entries, "sys/class/infiniband_verbs", [("abi_version", "6".into())]);
        add(&mut entries, "sys/class/infiniband_mad", [("abi_version", "5".into())]);
    }
    for (number, shown) in all.iter().enumerate() {
        add_device(&mut entries, number, shown);
    }
    entries
}

fn add<const N: usize>(entries: &mut Entries, folder: &str, texts: [(&str, String); N]) {
    entries.extend(texts.map(|(file, text)| (format!("{folder}/{file}"), Entry::Text(text))));
}

fn add_device(entries: &mut Entries, number: usize, shown: &Shown) {
    let Shown { name, interface } = shown;
    let hardware = format!("sys/devices/weft/{}", interface.name);
    let [device, verbs] = [format!("infiniband/{name}"), format!("infiniband_verbs/uverbs{number}")];
    let from_class = |path: &str| format!("../../devices/weft/{}/{path}", interface.name);
    let (to_device, to_verbs) = (from_class(&device), from_class(&verbs));
    let [device, verbs] = [device, verbs].map(|path| format!("{hardware}/{path}"));
    let mut link = |path: String, to: String| entries.push((path, Entry::Link(to)));
    link(format!("sys/class/infiniband/{name}"), to_device);
    link(format!("sys/class/infiniband_verbs/uverbs{number}"), to_verbs);
    link(format!("{device}/device"), "../..".into());
    link(format!("{verbs}/device"), "../..".into());
    // Programs want a character device that they may open. They give it to libibverbs, which has no use for it.
    link(format!("dev/infiniband/uverbs{number}"), "/dev/null".into());
    let node = of_interface(&interface.name, "device/numa_node").unwrap_or_else(|| "-1".into());
    add(entries, &hardware, [("vendor", "0x5746".into()), ("device", "0x0001".into()), ("numa_node", node)]);
    let net = format!("{hardware}/net/{}", interface.name);
    add(
        entries,
        &net,
        ["address", "mtu", "operstate"].map(|file| (file, of_interface(&interface.name, file).unwrap_or_default())),
    );
    add(
        entries,
        &verbs,
        [("ibdev", name.clone()), ("abi_version", "1".into()), ("dev", format!("231:{}", 192 + number))],
    );
    let guid = groups(&guid(interface).to_ne_bytes());
    let kind = if Presentation::chosen().node_and_transport().0 == IBV_NODE_RNIC { "4: RNIC" } else { "1: CA" };
    add(
        entries,
        &device,
        [
            ("node_type", kind.into()),
            ("node_guid", guid.clone()),
            ("sys_image_guid", guid),
            ("node_desc", name.clone()),
            ("fw_ver", env!("CARGO_PKG_VERSION").into()),
            ("hw_rev", "0x1".into()),
            ("hca_type", "Weft".into()),
            ("board_id", "Weft".into()),
        ],
    );
    add_port(entries, &format!("{device}/ports/1"), shown);
}

fn add_port(entries: &mut Entries, port: &str, shown: &Shown) {
    let attributes = port_attributes(&shown.interface);
    let is_active = attributes.state == IBV_PORT_ACTIVE;
    let is_infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
    add(
        entries,
        port,
        [
            ("state", if is_active { "4: ACTIVE" } else { "1: DOWN" }.into()),
            ("phys_state", if is_active { "5: LinkUp" } else { "3: Disabled" }.into()),
            ("rate", rate_text(attributes.active_speed, attributes.active_width)),
            ("link_layer", if is_infiniband { "InfiniBand" } else { "Ethernet" }.into()),
            ("lid", format!("{:#x}", attributes.lid)),
            ("lid_mask_count", attributes.lmc.to_string()),
            ("sm_lid", format!("{:#x}", attributes.sm_lid)),
            ("sm_sl", attributes.sm_sl.to_string()),
            ("cap_mask", format!("{:#010x}", attributes.port_cap_flags)),
            ("pkeys/0", "0xffff".into()),
        ],
    );
    let kind = if Presentation::chosen() == Presentation::Roce { "RoCE v2" } else { "IB/RoCE v1" };
    let addresses = &shown.interface.addresses;
    let indices = (0..addresses.len().max(4)).filter_map(|index| Some((index, *at_index(addresses, index)?)));
    for (index, address) in indices {
        entries.push((format!("{port}/gids/{index}"), Entry::Text(gid_text(address))));
        entries.push((format!("{port}/gid_attrs/types/{index}"), Entry::Text(kind.into())));
        entries.push((format!("{port}/gid_attrs/ndevs/{index}"), Entry::Text(shown.interface.name.clone())));
    }
}

fn gid_text(address: IpAddr) -> String {
    groups(&gid(address).octets())
}

/// Groups of two bytes, as kernels write GUIDs and GIDs.
fn groups(bytes: &[u8]) -> String {
    let text = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let groups: Vec<_> = bytes.chunks(2).map(text).collect();
    groups.join(":")
}

/// A rate as kernels write it: of a lane times the number of lanes, which are numbered as InfiniBand does.
fn rate_text(speed: u8, width: u8) -> String {
    // In units of 100 Mb/s.
    let (lane, name) = match speed {
        8 => (100, " FDR10"),
        32 => (250, " EDR"),
        64 => (500, " HDR"),
        128 => (1000, " NDR"),
        _ => (25, ""),
    };
    let lanes = if width == 2 { 4 } else { 1 };
    let rate = lane * lanes;
    let part = if rate % 10 == 0 { String::new() } else { format!(".{}", rate % 10) };
    format!("{}{part} Gb/sec ({lanes}X{name})", rate / 10)
}

#[cfg(test)]
mod tests {
    use super::super::interfaces::Interface;
    use super::*;

    fn entries_of(name: &str, address: &str) -> Entries {
        let interface = Interface { name: "eth7".into(), addresses: vec![address.parse().unwrap()], is_up: true };
        entries(&[Shown { name: name.into(), interface }])
    }

    #[test]
    fn programs_find_files_by_the_links_of_a_class() {
        let entries = entries_of("weft0", "192.0.2.7");
        let of = |path: &str| read(&entries, path).unwrap_or_else(|| panic!("{path}: {entries:?}"));
        let device = "/sys/class/infiniband/weft0";
        assert_eq!(of(&format!("{device}/ports/1/state")), "4: ACTIVE");
        assert_eq!(of(&format!("{device}/ports/1/rate")), "10 Gb/sec (4X)");
        assert_eq!(of(&format!("{device}/ports/1/gids/0")), "0000:0000:0000:0000:0000:ffff:c000:0207");
        assert_eq!(of(&format!("{device}/ports/1/gid_attrs/types/3")), "RoCE v2");
        assert_eq!(of(&format!("{device}/ports//1/gid_attrs/ndevs/0")), "eth7");
        assert_eq!(of(&format!("{device}/node_guid")), "0257:46ff:c000:0207");
        assert_eq!(of(&format!("{device}/device/net/eth7/mtu")), "", "there is no such interface");
        assert_eq!(of(&format!("{device}/../../vendor")), of(&format!("{device}/device/vendor")));
        assert_eq!(of("/sys/class/infiniband_verbs/uverbs0/ibdev"), "weft0");
        for absent in ["/sys/class/infiniband/weft1/node_guid", "/sys/class/infiniband/weft0", "", "/sys"] {
            assert_eq!(read(&entries, absent), None, "{absent}");
        }
        assert!(super::entries(&[]).is_empty());
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let folder = std::env::temp_dir().join(format!("weft-verbs-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        write_files(&folder).unwrap();
        let mut devices = 0;
        for entry in fs::read_dir(folder.join("sys/class/infiniband")).into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            for file in ["node_guid", "ports/1/rate", "device/vendor"] {
                let path = format!("sys/class/infiniband/{name}/{file}");
                let text = fs::read_to_string(folder.join(&path)).unwrap();
                assert_eq!(Some(text.trim_end().to_owned()), read_file(&format!("/{path}")), "{path}");
            }
            devices += 1;
        }
        assert_eq!(devices, shown().len());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rates_are_those_of_the_lanes() {
        assert_eq!(rate_text(1, 1), "2.5 Gb/sec (1X)");
        assert_eq!(rate_text(32, 2), "100 Gb/sec (4X EDR)");
        assert_eq!(rate_text(8, 2), "40 Gb/sec (4X FDR10)");
    }
}
