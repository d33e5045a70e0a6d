//! Packets that are too big for their path: what routers say (RFC 1191, RFC 8201).

use std::net::{IpAddr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Slice, Icmpv4Type, IpNumber, Ipv4HeaderSlice, Ipv6Header};

use super::{Arrived, EthernetLink};
use crate::segment::Flow;

/// Every path of IPv6 carries packets of this many bytes (RFC 8200 section 5).
pub const LEAST_MTU: u32 = 1280;
/// A router that says less of a path of IPv4 is not believed: RFC 791 has hosts take 576, and some paths take a few of
/// those.
const LEAST_MTU_IPV4: u32 = 552;

impl EthernetLink {
    /// A message of ICMP to an address of IPv4.
    pub(super) fn parse_icmp_ipv4(&self, to: IpAddr, bytes: &[u8]) -> Option<Arrived> {
        let message = Icmpv4Slice::from_slice(bytes).ok().filter(|_| self.has(to))?;
        let is_good = message.header().icmp_type.calc_checksum(message.payload()) == message.checksum();
        let Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded { next_hop_mtu }) =
            message.icmp_type()
        else {
            return None;
        };
        let cause = message.payload();
        let header = Ipv4HeaderSlice::from_slice(cause).ok().filter(|_| is_good)?;
        let is_segment = header.protocol() == IpNumber::TCP;
        let ends = [header.source_addr().into(), header.destination_addr().into()];
        let mtu = u32::from(next_hop_mtu);
        let is_believed = is_segment && mtu >= LEAST_MTU_IPV4;
        self.too_big(mtu, ends, &cause[header.slice().len()..]).filter(|_| is_believed)
    }

    /// A router says that a packet of ours was too big.
    pub(super) fn parse_too_big_ipv6(&self, mtu: u32, cause: &[u8]) -> Option<Arrived> {
        let (header, rest) = Ipv6Header::from_slice(cause).ok()?;
        let ends = [header.source_addr().into(), header.destination_addr().into()];
        // Nothing smaller is a path's (RFC 8201 section 4).
        let is_believed = header.next_header == IpNumber::TCP && mtu >= LEAST_MTU;
        self.too_big(mtu, ends, rest).filter(|_| is_believed)
    }

    /// Only the owner of the connection can find out that the packet is one of it.
    fn too_big(&self, mtu: u32, [source, destination]: [IpAddr; 2], segment: &[u8]) -> Option<Arrived> {
        let (ports, rest) = segment.split_first_chunk::<4>().filter(|_| self.has(source))?;
        let sequence = u32::from_be_bytes(*rest.first_chunk::<4>()?);
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        let flow = Flow { local: SocketAddr::new(source, port(0)), remote: SocketAddr::new(destination, port(2)) };
        Some(Arrived::TooBig { flow, sequence, mtu })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use etherparse::{Icmpv4Header, Ipv4Header};

    use super::*;
    use crate::segment::Checksum;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn link() -> EthernetLink {
        EthernetLink::new([2, 0, 0, 0, 0, 1], OURS, 4)
    }

    fn packet(from: Ipv4Addr, to: Ipv4Addr, protocol: IpNumber, payload: &[u8]) -> Vec<u8> {
        let mut header = Ipv4Header::new(payload.len() as u16, 64, protocol, from.octets(), to.octets()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        [&header.to_bytes()[..], payload].concat()
    }

    /// A router's message about a packet, and its receiver.
    fn frame(mtu: u16, cause: &[u8], to: Ipv4Addr) -> Vec<u8> {
        let kind = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu });
        let message = [&Icmpv4Header::with_checksum(kind, cause).to_bytes()[..], cause].concat();
        let packet = packet(Ipv4Addr::new(10, 0, 0, 9), to, IpNumber::ICMP, &message);
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..], &packet].concat()
    }

    #[test]
    fn a_router_s_word_names_the_segment_and_what_the_path_carries() {
        // The ports, and the number of the first byte: the first eight bytes are all that must be quoted.
        let begun = [0, 7, 0x1f, 0x90, 1, 2, 3, 4];
        let cause = packet(OURS, FAR, IpNumber::TCP, &begun);
        let parse = |frame: &[u8]| link().parse(frame, Checksum::Verify);
        let flow = Flow { local: SocketAddr::new(OURS.into(), 7), remote: SocketAddr::new(FAR.into(), 8080) };
        let good = frame(1400, &cause, OURS);
        assert_eq!(parse(&good), Arrived::TooBig { flow, sequence: 0x0102_0304, mtu: 1400 });
        let damaged = |at: usize| {
            let mut frame = good.clone();
            frame[at] ^= 1;
            frame
        };
        for (what, frame) in [
            ("damaged", damaged(14 + 20 + 7)),
            ("for somebody else", frame(1400, &cause, FAR)),
            ("of somebody else's packet", frame(1400, &packet(FAR, OURS, IpNumber::TCP, &begun), OURS)),
            ("of no segment", frame(1400, &packet(OURS, FAR, IpNumber::UDP, &begun), OURS)),
            ("cut short", frame(1400, &cause[..27], OURS)),
            ("without a size, as old routers say it", frame(0, &cause, OURS)),
            ("smaller than any path", frame(551, &cause, OURS)),
        ] {
            assert_eq!(parse(&frame), Arrived::Nothing, "{what}");
        }
    }
}
