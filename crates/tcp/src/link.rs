//! Ethernet and IPv4 around segments, and ARP: what an address needs that no operating system answers for.

use core::ops::Range;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacketSlice, EtherType, Ethernet2Header, Ethernet2Slice, IpNumber, Ipv4Header,
    Ipv4Slice,
};

use crate::segment::{Checksum, Flow, Segment, SegmentError};

#[cfg(test)]
mod tests;

/// Bytes of the headers of Ethernet and of IPv4 without options.
pub const FRAME_OVERHEAD: usize = ETHERNET + IPV4;
/// Bytes of a frame that asks for a hardware address, or answers.
pub const ARP_FRAME: usize = ETHERNET + ArpEthIpv4Packet::LEN;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const EVERYBODY: [u8; 6] = [0xff; 6];
const NOBODY: [u8; 6] = [0; 6];
/// How many routers a packet may pass.
const TIME_TO_LIVE: u8 = 64;

/// One address on an Ethernet, that the host's own network stack does not have. It answers ARP, and remembers the
/// hardware addresses of a bounded number of neighbours: the one that was heard longest ago is forgotten first, and
/// asked for again when it is needed.
#[derive(Debug)]
pub struct EthernetLink {
    hardware: [u8; 6],
    address: Ipv4Addr,
    neighbours: VecDeque<(Ipv4Addr, [u8; 6])>,
    limit: usize,
}

/// What a frame was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Not for this address, or nothing that it understands.
    Nothing,
    /// A question for its hardware address: this is to be sent back.
    Answer([u8; ARP_FRAME]),
    /// A neighbour has told its hardware address.
    Neighbour(Ipv4Addr),
    /// A segment of TCP: its two ends as this side sees them, and where in the frame its payload stands.
    Segment(Flow, Segment, Range<usize>),
}

/// Why no frame can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The hardware address of the peer is not known: send [`EthernetLink::question`], and try again when it is
    /// answered.
    Unknown(Ipv4Addr),
    /// IP cannot carry the segment.
    Segment(SegmentError),
}

impl core::fmt::Display for LinkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown(address) => write!(f, "nobody has told the hardware address of {address} yet"),
            Self::Segment(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LinkError {}

impl EthernetLink {
    /// The address `address`, behind the hardware address `hardware`. At most `neighbours` others are remembered, at
    /// least one.
    #[must_use]
    pub fn new(hardware: [u8; 6], address: Ipv4Addr, neighbours: usize) -> Self {
        let limit = neighbours.max(1);
        Self { hardware, address, neighbours: VecDeque::with_capacity(limit), limit }
    }

    /// Asks for the hardware address of a neighbour (RFC 826).
    #[must_use]
    pub fn question(&self, of: Ipv4Addr) -> [u8; ARP_FRAME] {
        self.arp(ArpOperation::REQUEST, EVERYBODY, NOBODY, of)
    }

    fn arp(&self, operation: ArpOperation, to: [u8; 6], target: [u8; 6], address: Ipv4Addr) -> [u8; ARP_FRAME] {
        let packet = ArpEthIpv4Packet {
            operation,
            sender_mac: self.hardware,
            sender_ipv4: self.address.octets(),
            target_mac: target,
            target_ipv4: address.octets(),
        };
        let mut frame = [0; ARP_FRAME];
        frame[..ETHERNET].copy_from_slice(&self.ethernet(to, EtherType::ARP));
        frame[ETHERNET..].copy_from_slice(&packet.to_bytes());
        frame
    }

    fn ethernet(&self, to: [u8; 6], ether_type: EtherType) -> [u8; ETHERNET] {
        Ethernet2Header { source: self.hardware, destination: to, ether_type }.to_bytes()
    }

    /// Whether the hardware address of a neighbour is known.
    #[must_use]
    pub fn knows(&self, address: Ipv4Addr) -> bool {
        self.neighbours.iter().any(|(other, _)| *other == address)
    }

    /// The hardware address of a neighbour, if it is known.
    #[must_use]
    pub fn hardware_of(&self, address: Ipv4Addr) -> Option<[u8; 6]> {
        self.neighbours.iter().find(|(other, _)| *other == address).map(|(_, hardware)| *hardware)
    }

    /// Reads a frame. Fragments, and packets whose header is damaged, are nothing: TCP finds the size that passes by
    /// itself.
    pub fn parse(&mut self, frame: &[u8], checksum: Checksum) -> Arrived {
        let Ok(ethernet) = Ethernet2Slice::from_slice_without_fcs(frame) else { return Arrived::Nothing };
        let found = match ethernet.ether_type() {
            EtherType::ARP => self.parse_arp(ethernet.payload_slice()),
            EtherType::IPV4 if ethernet.destination() == self.hardware => self.parse_ipv4(frame, checksum),
            _ => None,
        };
        found.unwrap_or(Arrived::Nothing)
    }

    fn parse_arp(&mut self, bytes: &[u8]) -> Option<Arrived> {
        let packet = ArpPacketSlice::from_slice(bytes).ok()?.to_packet();
        let packet = ArpEthIpv4Packet::try_from(packet).ok()?;
        if packet.target_ipv4_addr() != self.address || packet.sender_ipv4_addr() == self.address {
            return None;
        }
        let (sender, hardware) = (packet.sender_ipv4_addr(), packet.sender_mac);
        self.remember(sender, hardware);
        match packet.operation {
            ArpOperation::REQUEST => Some(Arrived::Answer(self.arp(ArpOperation::REPLY, hardware, hardware, sender))),
            _ => Some(Arrived::Neighbour(sender)),
        }
    }

    fn remember(&mut self, address: Ipv4Addr, hardware: [u8; 6]) {
        self.neighbours.retain(|(other, _)| *other != address);
        if self.neighbours.len() == self.limit {
            self.neighbours.pop_front();
        }
        self.neighbours.push_back((address, hardware));
    }

    fn parse_ipv4(&self, frame: &[u8], checksum: Checksum) -> Option<Arrived> {
        let packet = Ipv4Slice::from_slice(&frame[ETHERNET..]).ok()?;
        let header = packet.header();
        // Over the bytes as they came, reserved bits and all (RFC 1071): with its checksum a good header sums up to
        // nothing.
        let is_good = Sum16BitWords::new().add_slice(header.slice()).ones_complement() == 0;
        let is_ours = header.destination_addr() == self.address && header.protocol() == IpNumber::TCP;
        if !is_good || !is_ours || packet.is_payload_fragmented() {
            return None;
        }
        let bytes = packet.payload().payload;
        let (source, local) = (IpAddr::V4(header.source_addr()), IpAddr::V4(self.address));
        let (segment, payload) = Segment::parse(bytes, source, local, checksum).ok()?;
        let flow = Flow {
            local: SocketAddr::new(local, segment.destination),
            remote: SocketAddr::new(source, segment.source),
        };
        // Whatever the length of the header of IP is.
        let start = ETHERNET + header.slice().len();
        Some(Arrived::Segment(flow, segment, start + payload.start..start + payload.end))
    }

    /// Writes a frame with a segment for a neighbour at the start of `out`; how many bytes it has.
    ///
    /// # Errors
    /// The neighbour is not known, or IP cannot carry the segment.
    ///
    /// # Panics
    /// When `out` has no room for it.
    pub fn emit(&self, flow: &Flow, segment: &Segment, payload: &[u8], out: &mut [u8]) -> Result<usize, LinkError> {
        self.emit_with(flow, segment, payload.len(), out, |to| to.copy_from_slice(payload))
    }

    /// The same; `fill` writes the payload to its place in the frame.
    ///
    /// # Errors
    /// The neighbour is not known, or IP cannot carry the segment.
    ///
    /// # Panics
    /// When `out` has no room for it.
    pub fn emit_with(
        &self,
        flow: &Flow,
        segment: &Segment,
        payload: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, LinkError> {
        let IpAddr::V4(remote) = flow.remote.ip() else { return Err(LinkError::Segment(SegmentError::Addresses)) };
        let known = self.neighbours.iter().find(|(other, _)| *other == remote);
        let (_, hardware) = known.ok_or(LinkError::Unknown(remote))?;
        let (head, body) = out.split_at_mut(FRAME_OVERHEAD);
        let length = segment.emit_with(flow, payload, body, fill).map_err(LinkError::Segment)?;
        let packet = u16::try_from(length).ok().and_then(|length| {
            Ipv4Header::new(length, TIME_TO_LIVE, IpNumber::TCP, self.address.octets(), remote.octets()).ok()
        });
        let mut packet = packet.ok_or(LinkError::Segment(SegmentError::Addresses))?;
        packet.header_checksum = packet.calc_header_checksum();
        head[..ETHERNET].copy_from_slice(&self.ethernet(*hardware, EtherType::IPV4));
        head[ETHERNET..].copy_from_slice(&packet.to_bytes());
        Ok(FRAME_OVERHEAD + length)
    }
}
