//! The owners of addresses of IPv4 (RFC 826).

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{ArpEthIpv4Packet, ArpOperation, ArpPacketSlice, EtherType};

use super::neighbours::Word;
use super::{Arrived, EthernetLink, LinkFrame};

const EVERYBODY: [u8; 6] = [0xff; 6];
const NOBODY: [u8; 6] = [0; 6];

impl EthernetLink {
    /// Asks all, or a known host.
    pub(super) fn ask_ipv4(&self, from: Ipv4Addr, of: Ipv4Addr, to: Option<[u8; 6]>) -> LinkFrame {
        self.arp(ArpOperation::REQUEST, to.unwrap_or(EVERYBODY), NOBODY, [from, of])
    }

    fn arp(&self, operation: ArpOperation, to: [u8; 6], target: [u8; 6], [from, of]: [Ipv4Addr; 2]) -> LinkFrame {
        let packet = ArpEthIpv4Packet {
            operation,
            sender_mac: self.hardware,
            sender_ipv4: from.octets(),
            target_mac: target,
            target_ipv4: of.octets(),
        };
        LinkFrame::new(&[&self.ethernet(to, EtherType::ARP), &packet.to_bytes()])
    }

    pub(super) fn parse_arp(&mut self, bytes: &[u8]) -> Option<Arrived> {
        let packet = ArpPacketSlice::from_slice(bytes).ok()?.to_packet();
        let packet = ArpEthIpv4Packet::try_from(packet).ok()?;
        let (sender, target) = (packet.sender_ipv4_addr(), packet.target_ipv4_addr());
        if self.has(IpAddr::V4(sender)) {
            return None;
        }
        let hardware = packet.sender_mac;
        if !self.has(IpAddr::V4(target)) {
            // A host that announces itself asks for itself, or answers (RFC 5227 section 3).
            let is_claim = target == sender;
            let is_known = is_claim && self.neighbours.receive(IpAddr::V4(sender), hardware, Word::Claim);
            return is_known.then_some(Arrived::Neighbour(IpAddr::V4(sender)));
        }
        let is_question = packet.operation == ArpOperation::REQUEST;
        let word = if is_question { Word::Question } else { Word::Answer };
        let is_known = self.neighbours.receive(IpAddr::V4(sender), hardware, word);
        if is_question && self.answers {
            let answer = self.arp(ArpOperation::REPLY, hardware, hardware, [target, sender]);
            return Some(Arrived::Answer(answer));
        }
        is_known.then_some(Arrived::Neighbour(IpAddr::V4(sender)))
    }
}
