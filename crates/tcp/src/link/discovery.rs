//! Which host has an address of IPv6 (RFC 4861), and whether another host has ours (RFC 4862).

use std::net::{IpAddr, Ipv6Addr};

use etherparse::icmpv6::{Icmpv6PayloadSlice, NdpOptionSlice, NdpOptionsIterator, NeighborAdvertisementHeader};
use etherparse::{EtherType, Icmpv6Header, Icmpv6Slice, Icmpv6Type, IpNumber, Ipv6Header, Ipv6HeaderSlice, Ipv6Slice};

use super::neighbours::Word;
use super::{Arrived, EthernetLink, LinkFrame};

#[cfg(test)]
mod tests;

/// A packet with fewer has passed a router, and is none of the link's (RFC 4861 section 7.1).
const NO_HOP: u8 = 255;
/// All hosts of a link (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// What says a hardware address of Ethernet: of the source, of the target (RFC 4861 section 4.6.1, RFC 2464 section 6).
const SOURCE_HARDWARE: [u8; 2] = [1, 1];
const TARGET_HARDWARE: [u8; 2] = [2, 1];

/// The group of hosts that have this address, or one that ends alike (RFC 4291 section 2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., one, two, three] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, one, two, three])
}

/// The hardware address of a group (RFC 2464 section 7).
#[must_use]
pub fn group_hardware(group: Ipv6Addr) -> [u8; 6] {
    let [.., one, two, three, four] = group.octets();
    [0x33, 0x33, one, two, three, four]
}

impl EthernetLink {
    /// Asks all hosts that may have it, or a known one (RFC 4861 section 4.3).
    pub(super) fn ask_ipv6(&self, from: Ipv6Addr, of: Ipv6Addr, to: Option<[u8; 6]>) -> LinkFrame {
        let group = solicited_node(of);
        let (address, hardware) = to.map_or((group, group_hardware(group)), |hardware| (of, hardware));
        // A host without an address gives no hardware address either.
        let own = self.option(SOURCE_HARDWARE);
        let option = if from.is_unspecified() { &[][..] } else { &own };
        let body = [&of.octets()[..], option].concat();
        self.icmp(Icmpv6Type::NeighborSolicitation, from, address, hardware, &body)
    }

    /// Says which host has an address: to the asker, or to all when the asker has no address yet (RFC 4861 section
    /// 7.2.4).
    fn advertise(&self, own: Ipv6Addr, to: Ipv6Addr, hardware: [u8; 6]) -> LinkFrame {
        let is_anonymous = to.is_unspecified();
        let (to, hardware) = if is_anonymous { (ALL_NODES, group_hardware(ALL_NODES)) } else { (to, hardware) };
        let kind = NeighborAdvertisementHeader { router: false, solicited: !is_anonymous, r#override: true };
        let body = [&own.octets()[..], &self.option(TARGET_HARDWARE)].concat();
        self.icmp(Icmpv6Type::NeighborAdvertisement(kind), own, to, hardware, &body)
    }

    fn option(&self, kind: [u8; 2]) -> [u8; 8] {
        let ([kind, length], [a, b, c, d, e, f]) = (kind, self.hardware);
        [kind, length, a, b, c, d, e, f]
    }

    fn icmp(&self, kind: Icmpv6Type, from: Ipv6Addr, to: Ipv6Addr, hardware: [u8; 6], body: &[u8]) -> LinkFrame {
        // A body of some bytes always has a checksum.
        let header = Icmpv6Header::with_checksum(kind, from.octets(), to.octets(), body);
        let header = header.map(|header| header.to_bytes()).unwrap_or_default();
        let packet = Ipv6Header {
            payload_length: (header.len() + body.len()) as u16,
            next_header: IpNumber::IPV6_ICMP,
            hop_limit: NO_HOP,
            source: from.octets(),
            destination: to.octets(),
            ..Ipv6Header::default()
        };
        LinkFrame::new(&[&self.ethernet(hardware, EtherType::IPV6), &packet.to_bytes(), &header, body])
    }

    /// A message of ICMPv6, in a frame that came from this hardware address.
    pub(super) fn parse_icmp(&mut self, packet: &Ipv6Slice<'_>, from: [u8; 6]) -> Option<Arrived> {
        let header = packet.header();
        let message = Icmpv6Slice::from_slice(packet.payload().payload).ok()?;
        let is_for_us = self.is_for_us(header.destination_addr());
        if !is_for_us || !message.is_checksum_valid(header.source(), header.destination()) {
            return None;
        }
        let is_of_link = header.hop_limit() == NO_HOP && message.code_u8() == 0;
        match (message.icmp_type(), message.payload_slice().ok()?) {
            (Icmpv6Type::PacketTooBig { mtu }, Icmpv6PayloadSlice::PacketTooBig(cause)) => {
                self.parse_too_big_ipv6(mtu, cause.invoking_packet())
            }
            (_, Icmpv6PayloadSlice::NeighborSolicitation(asked)) if is_of_link => {
                let hardware = hardware_of(asked.options_iterator())?;
                self.handle_solicitation(&header, asked.target_address(), hardware.source, from)
            }
            (Icmpv6Type::NeighborAdvertisement(kind), Icmpv6PayloadSlice::NeighborAdvertisement(told))
                if is_of_link =>
            {
                let hardware = hardware_of(told.options_iterator())?;
                // A group cannot have asked (RFC 4861 section 7.1.2).
                let is_answer = kind.solicited;
                if is_answer && header.destination_addr().is_multicast() {
                    return None;
                }
                self.handle_advertisement(told.target_address(), kind, hardware.target, from)
            }
            _ => None,
        }
    }

    fn is_for_us(&self, destination: Ipv6Addr) -> bool {
        let is_ours = |own: Ipv6Addr| destination == own || destination == solicited_node(own);
        destination == ALL_NODES || self.addresses_v6().any(is_ours)
    }

    fn addresses_v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.addresses.iter().filter_map(|own| if let IpAddr::V6(own) = own { Some(*own) } else { None })
    }

    /// A host asks for an address (RFC 4861 section 7.2.3).
    fn handle_solicitation(
        &mut self,
        header: &Ipv6HeaderSlice<'_>,
        target: Ipv6Addr,
        told: Option<[u8; 6]>,
        from: [u8; 6],
    ) -> Option<Arrived> {
        let source = header.source_addr();
        if !self.has(IpAddr::V6(target)) || self.has(IpAddr::V6(source)) || source.is_multicast() {
            return None;
        }
        if source.is_unspecified() {
            // A host wants this address for itself (RFC 4861 section 7.1.1, RFC 4862 section 5.4.3).
            let is_probe = told.is_none() && header.destination_addr() == solicited_node(target);
            return match (is_probe && from != self.hardware, self.probed.contains(&target)) {
                (false, _) => None,
                (true, true) => Some(Arrived::Taken(target, from)),
                (true, false) => self.answer(target, source, from),
            };
        }
        if self.probed.contains(&target) {
            return None;
        }
        let is_known = told.is_some_and(|told| self.neighbours.receive(IpAddr::V6(source), told, Word::Question));
        let answer = self.answer(target, source, told.unwrap_or(from));
        answer.or(is_known.then_some(Arrived::Neighbour(IpAddr::V6(source))))
    }

    fn answer(&self, own: Ipv6Addr, to: Ipv6Addr, hardware: [u8; 6]) -> Option<Arrived> {
        self.answers.then(|| Arrived::Answer(self.advertise(own, to, hardware)))
    }

    /// A host says which host has an address (RFC 4861 section 7.2.5).
    fn handle_advertisement(
        &mut self,
        target: Ipv6Addr,
        kind: NeighborAdvertisementHeader,
        told: Option<[u8; 6]>,
        from: [u8; 6],
    ) -> Option<Arrived> {
        if self.has(IpAddr::V6(target)) {
            let is_taken = self.probed.contains(&target) && from != self.hardware;
            return is_taken.then_some(Arrived::Taken(target, told.unwrap_or(from)));
        }
        let address = IpAddr::V6(target);
        let known = self.neighbours.get(address);
        // A host that answers a single asker may leave its hardware address out (RFC 4861 section 4.4).
        let hardware = told.or(known.map(|_| from))?;
        if known.is_some_and(|known| known != hardware) && !kind.r#override {
            return None;
        }
        let word = if kind.solicited { Word::Answer } else { Word::Claim };
        self.neighbours.receive(address, hardware, word).then_some(Arrived::Neighbour(address))
    }
}

/// The hardware addresses that options say.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    source: Option<[u8; 6]>,
    target: Option<[u8; 6]>,
}

/// `None`: the options are damaged (RFC 4861 section 7.1: none has a length of 0).
fn hardware_of(options: NdpOptionsIterator<'_>) -> Option<Told> {
    let mut told = Told::default();
    for option in options {
        match option.ok()? {
            NdpOptionSlice::SourceLinkLayerAddress(option) => told.source = option.link_layer_address().try_into().ok(),
            NdpOptionSlice::TargetLinkLayerAddress(option) => told.target = option.link_layer_address().try_into().ok(),
            _ => {}
        }
    }
    Some(told)
}
