//! What a device says of itself.

use core::ffi::{c_char, c_int};
use std::net::IpAddr;

use crate::abi::*;
use crate::device::interfaces::Interface;
use crate::device::presentation::Presentation;
use crate::limits;

/// Of no maker of adapters.
const VENDOR: u32 = 0x02_5746;
/// Bytes of headers between the interface's MTU and the path MTU that adapters would have.
const HEADERS: u64 = 80;

/// A GUID: of the hardware address where there is one (EUI-64), else of the IP address. Network byte order.
pub(crate) fn guid(interface: &Interface) -> u64 {
    u64::from_ne_bytes(match hardware_address(&interface.name) {
        Some([a, b, c, d, e, f]) => [a ^ 2, b, c, 0xff, 0xfe, d, e, f],
        None => match interface.addresses.first() {
            Some(IpAddr::V4(four)) => {
                let [a, b, c, d] = four.octets();
                [2, b'W', b'F', 0xff, a, b, c, d]
            }
            _ => [2, b'W', b'F', 0xff, 0, 0, 0, 1],
        },
    })
}

fn hardware_address(interface: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let text = of_interface(interface, "address")?;
    let mut parts = text.split(':');
    for byte in &mut address {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    (address != [0; 6] && parts.next().is_none()).then_some(address)
}

/// What the kernel says of an interface.
pub(super) fn of_interface(interface: &str, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// The GID of an address: that of IPv6, or of IPv4 mapped into it.
pub(crate) fn gid(address: IpAddr) -> ibv_gid {
    ibv_gid::new(match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    })
}

/// The largest path MTU that fits an interface's MTU.
fn path_mtu(mtu: u64) -> c_int {
    match mtu.saturating_sub(HEADERS) {
        4096.. => IBV_MTU_4096,
        2048.. => IBV_MTU_2048,
        1024.. => IBV_MTU_1024,
        512.. => 2,
        _ => 1,
    }
}

pub(crate) fn port_attributes(interface: &Interface) -> ibv_port_attr {
    let number = |file| of_interface(&interface.name, file).and_then(|text| text.parse::<u64>().ok());
    let mtu = path_mtu(number("mtu").unwrap_or(1500));
    // Megabits in a second. Interfaces without a speed of their own, as the loopback, are shown with 10 Gb/s.
    let shown_as = Presentation::chosen();
    let lid = interface.addresses.first().map_or(0, |address| shown_as.lid(*address));
    let (speed, width) = rate(number("speed").unwrap_or(10_000));
    ibv_port_attr {
        state: if interface.is_up { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
        max_mtu: IBV_MTU_4096,
        active_mtu: mtu,
        gid_tbl_len: interface.addresses.len() as c_int,
        port_cap_flags: IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: limits::MESSAGE,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: 1,
        lid,
        sm_lid: u16::from(lid != 0),
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: width,
        active_speed: speed,
        phys_state: if interface.is_up { 5 } else { 3 },
        link_layer: shown_as.link_layer(),
        flags: 0,
        port_cap_flags2: 0,
        active_speed_ex: 0,
    }
}

/// The speed of a lane and the number of lanes, as InfiniBand numbers them: at most what the interface has.
fn rate(megabits: u64) -> (u8, u8) {
    /// EDR lanes of 25 Gb/s, FDR10 lanes of 10, SDR lanes of 2.5.
    const RATES: [(u64, u8, u8); 7] = [
        (400_000, 128, 2),
        (200_000, 64, 2),
        (100_000, 32, 2),
        (40_000, 8, 2),
        (25_000, 32, 1),
        (10_000, 1, 2),
        (0, 1, 1),
    ];
    let of = |(least, speed, width): &(u64, u8, u8)| (megabits >= *least).then_some((*speed, *width));
    RATES.iter().find_map(of).unwrap_or((1, 1))
}

pub(crate) fn device_attributes(interface: &Interface) -> ibv_device_attr {
    let guid = guid(interface);
    let mut fw_ver = [0; 64];
    for (to, from) in fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from as c_char;
    }
    let (reads, gather) = (c_int::from(limits::READS), limits::GATHER as c_int);
    let queue_pairs = limits::QUEUE_PAIRS as c_int;
    ibv_device_attr {
        fw_ver,
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX,
        page_size_cap: 4096,
        vendor_id: VENDOR,
        vendor_part_id: 1,
        hw_ver: 1,
        max_qp: queue_pairs,
        max_qp_wr: limits::REQUESTS as c_int,
        device_cap_flags: IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN,
        max_sge: gather,
        max_sge_rd: gather,
        max_cq: 65_536,
        max_cqe: limits::COMPLETIONS as c_int,
        max_mr: limits::REGIONS as c_int,
        max_pd: limits::DOMAINS as c_int,
        max_qp_rd_atom: reads,
        max_ee_rd_atom: 0,
        max_res_rd_atom: reads * queue_pairs,
        max_qp_init_rd_atom: reads,
        max_ee_init_rd_atom: 0,
        atomic_cap: IBV_ATOMIC_HCA,
        max_ee: 0,
        max_rdd: 0,
        max_mw: 0,
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_total_mcast_qp_attach: 0,
        max_ah: 0,
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: queue_pairs,
        max_srq_wr: limits::REQUESTS as c_int,
        max_srq_sge: gather,
        max_pkeys: 1,
        local_ca_ack_delay: 0,
        phys_port_cnt: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_mtu_fits_the_interface() {
        let of = |mtu| path_mtu(mtu);
        assert_eq!((of(1500), of(9000), of(65_536), of(1280), of(600)), (3, 5, 5, 3, 2));
    }

    #[test]
    fn addresses_of_ipv4_are_mapped() {
        let octets = gid("192.0.2.7".parse().unwrap()).octets();
        assert_eq!(octets, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]);
    }

    #[test]
    fn no_rate_is_above_that_of_the_interface() {
        assert_eq!(rate(10_000), (1, 2), "4 lanes of 2.5 Gb/s");
        assert_eq!(rate(1000), (1, 1));
        assert_eq!(rate(100_000), (32, 2));
    }
}
