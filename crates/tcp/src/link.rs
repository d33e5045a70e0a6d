//! Ethernet and IP around segments, and the owners of addresses: what an address needs for which no operating system
//! answers.

use core::ops::{Deref, Range};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use arrayvec::ArrayVec;
use etherparse::checksum::Sum16BitWords;
use etherparse::{EtherType, Ethernet2Header, Ethernet2Slice, IpNumber, Ipv4Header, Ipv4Slice, Ipv6Header, Ipv6Slice};

use crate::segment::{Checksum, Flow, Segment, SegmentError};
use neighbours::Neighbours;
use routes::Routes;

mod arp;
mod discovery;
mod neighbours;
mod routes;
#[cfg(test)]
mod tests;
mod too_big;

pub use discovery::{group_hardware, solicited_node};
pub use too_big::LEAST_MTU;

/// Bytes of the headers of Ethernet and of IP, at most: those of IPv6.
pub const FRAME_OVERHEAD: usize = ETHERNET + IPV6;
/// Bytes of the longest frame that asks for a hardware address, or answers: one of IPv6.
pub const LONGEST_QUESTION: usize = FRAME_OVERHEAD + 32;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// How many routers a packet may pass.
const TIME_TO_LIVE: u8 = 64;

/// Addresses on an Ethernet that the host's own network stack does not have, of both kinds. It answers hosts that ask
/// for them, and remembers the hardware addresses of a bounded number of neighbours.
///
/// Neighbours are believed as far as that goes without a secret: an answer without a question is ignored, and a known
/// neighbour keeps its hardware address, whatever others say. A claim of another address makes it suspect
/// ([`EthernetLink::poll_doubted`]): then the caller probes it ([`EthernetLink::confirmation`]), and forgets it when it
/// doesn't answer ([`EthernetLink::forget`]); the neighbour that answers the next question to all is believed again.
#[derive(Debug)]
pub struct EthernetLink {
    hardware: [u8; 6],
    addresses: Vec<IpAddr>,
    neighbours: Neighbours,
    routes: Routes,
    answers: bool,
    /// Addresses of which it is not known yet whether they are free.
    probed: Vec<Ipv6Addr>,
}

/// A short frame: a question for a hardware address, or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFrame(ArrayVec<u8, LONGEST_QUESTION>);

impl LinkFrame {
    /// Of parts that are never longer in all.
    fn new(parts: &[&[u8]]) -> Self {
        Self(parts.iter().flat_map(|part| part.iter().copied()).collect())
    }
}

impl Deref for LinkFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// What a frame was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Not for these addresses, or nothing that is understood.
    Nothing,
    /// A question for a hardware address: this is to be sent back.
    Answer(LinkFrame),
    /// The hardware address of a neighbour was learned.
    Neighbour(IpAddr),
    /// A host has the address that was probed, behind that hardware address.
    Taken(Ipv6Addr, [u8; 6]),
    /// A router says that a packet of this flow, with the segment of this sequence number, was larger than what the
    /// path carries: packets of this many bytes, the header of IP included, at least [`LEAST_MTU`] of IPv6 and 552 of
    /// IPv4. Any host can say so: it is believed only of a segment that is in flight (RFC 5927 section 4.1).
    TooBig {
        /// The connection's two ends, as this side sees them.
        flow: Flow,
        /// The position of the segment.
        sequence: u32,
        /// What the path carries.
        mtu: u32,
    },
    /// A segment of TCP: its two ends as this side sees them, and the place of its payload in the frame.
    Segment(Flow, Segment, Range<usize>),
}

/// The headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Their bytes.
    pub length: usize,
    /// Where that of TCP begins.
    pub transport_at: usize,
}

/// Why no frame can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The hardware address of the peer, or of the gateway to it, is not known: send [`EthernetLink::question`], and
    /// try again when it is answered.
    Unknown(IpAddr),
    /// IP cannot carry the segment.
    Segment(SegmentError),
}

impl core::fmt::Display for LinkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown(address) => write!(f, "no answer yet with the hardware address of {address}"),
            Self::Segment(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LinkError {}

impl EthernetLink {
    /// The address `address`, behind the hardware address `hardware`. At most `neighbours` others are remembered, at
    /// least one.
    #[must_use]
    pub fn new(hardware: [u8; 6], address: impl Into<IpAddr>, neighbours: usize) -> Self {
        Self::without_addresses(hardware, neighbours).with(address)
    }

    /// The same, and no address yet.
    #[must_use]
    pub fn without_addresses(hardware: [u8; 6], neighbours: usize) -> Self {
        let neighbours = Neighbours::new(neighbours);
        let routes = Routes::default();
        Self { hardware, addresses: Vec::new(), neighbours, routes, answers: true, probed: Vec::new() }
    }

    /// One more address.
    #[must_use]
    pub fn with(mut self, address: impl Into<IpAddr>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Hosts whose address begins with the same bits as this one are on the link: a host that is in none of these
    /// networks is reached by a gateway, if there is one ([`EthernetLink::with_gateway`]).
    #[must_use]
    pub fn with_network(mut self, address: impl Into<IpAddr>, bits: u8) -> Self {
        self.routes.add_network(address.into(), bits);
        self
    }

    /// A router, by which others of its kind are reached than those on the link.
    #[must_use]
    pub fn with_gateway(mut self, gateway: impl Into<IpAddr>) -> Self {
        self.routes.add_gateway(gateway.into());
        self
    }

    /// The address whose hardware address frames to this address carry: the address itself, or that of a gateway.
    /// Questions are for that one.
    #[must_use]
    pub fn next_hop(&self, to: impl Into<IpAddr>) -> IpAddr {
        self.routes.next_hop(to.into())
    }

    /// The operating system has the addresses, and answers for them: this link doesn't.
    #[must_use]
    pub fn without_answers(mut self) -> Self {
        self.answers = false;
        self
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Asks all for the hardware address of a neighbour (RFC 826, RFC 4861): from one of this link's addresses that is
    /// of the same kind, and reaches as far.
    #[must_use]
    pub fn question(&mut self, of: impl Into<IpAddr>) -> LinkFrame {
        let of = of.into();
        self.neighbours.ask(of);
        self.ask(of, None)
    }

    /// Asks a neighbour that is known whether it still is where it is known to be. `None`: it is not known.
    #[must_use]
    pub fn confirmation(&mut self, of: impl Into<IpAddr>) -> Option<LinkFrame> {
        let of = of.into();
        let hardware = self.neighbours.get(of)?;
        Some(self.ask(of, Some(hardware)))
    }

    fn ask(&self, of: IpAddr, to: Option<[u8; 6]>) -> LinkFrame {
        match of {
            IpAddr::V4(of) => {
                let own =
                    self.addresses.iter().find_map(|own| if let IpAddr::V4(own) = own { Some(*own) } else { None });
                self.ask_ipv4(own.unwrap_or(Ipv4Addr::UNSPECIFIED), of, to)
            }
            IpAddr::V6(of) => {
                let own =
                    self.addresses.iter().filter_map(|own| if let IpAddr::V6(own) = own { Some(*own) } else { None });
                let (alike, other): (Vec<_>, Vec<_>) =
                    own.partition(|own| own.is_unicast_link_local() == of.is_unicast_link_local());
                let own = alike.first().or(other.first());
                self.ask_ipv6(own.copied().unwrap_or(Ipv6Addr::UNSPECIFIED), of, to)
            }
        }
    }

    /// Asks whether any host has one of this link's addresses (RFC 4862 section 5.4), for which the link answers no
    /// question until [`EthernetLink::end_probe`]. A host that has it is shown as [`Arrived::Taken`].
    #[must_use]
    pub fn probe(&mut self, own: Ipv6Addr) -> LinkFrame {
        self.probed.push(own);
        self.ask_ipv6(Ipv6Addr::UNSPECIFIED, own, None)
    }

    /// No host has the addresses that were probed: they are used from now on.
    pub fn end_probe(&mut self) {
        self.probed.clear();
    }

    fn ethernet(&self, to: [u8; 6], ether_type: EtherType) -> [u8; ETHERNET] {
        Ethernet2Header { source: self.hardware, destination: to, ether_type }.to_bytes()
    }

    /// Whether the hardware address of a neighbour is known.
    #[must_use]
    pub fn knows(&self, address: impl Into<IpAddr>) -> bool {
        self.hardware_of(address).is_some()
    }

    /// The hardware address of a neighbour, if it is known.
    #[must_use]
    pub fn hardware_of(&self, address: impl Into<IpAddr>) -> Option<[u8; 6]> {
        self.neighbours.get(address.into())
    }

    /// The next neighbour for which another hardware address was claimed than is known, each once until it has
    /// answered. To be called after [`EthernetLink::parse`].
    pub fn poll_doubted(&mut self) -> Option<IpAddr> {
        self.neighbours.poll_doubted()
    }

    /// Whether a neighbour is known, and has not answered since it became suspect.
    #[must_use]
    pub fn is_doubted(&self, address: IpAddr) -> bool {
        self.neighbours.is_doubted(address)
    }

    /// Forgets a neighbour.
    pub fn forget(&mut self, address: IpAddr) {
        self.neighbours.forget(address);
    }

    /// Reads a frame. Fragments, packets with extension headers before TCP, and those whose header is damaged, are
    /// nothing: TCP finds the size that passes by itself.
    pub fn parse(&mut self, frame: &[u8], checksum: Checksum) -> Arrived {
        let Ok(ethernet) = Ethernet2Slice::from_slice_without_fcs(frame) else { return Arrived::Nothing };
        let is_for_us = ethernet.destination() == self.hardware;
        let found = match ethernet.ether_type() {
            EtherType::ARP => self.parse_arp(ethernet.payload_slice()),
            EtherType::IPV4 if is_for_us => self.parse_ipv4(frame, checksum),
            EtherType::IPV6 => self.parse_ipv6(frame, ethernet.source(), is_for_us, checksum),
            _ => None,
        };
        found.unwrap_or(Arrived::Nothing)
    }

    fn parse_ipv4(&self, frame: &[u8], checksum: Checksum) -> Option<Arrived> {
        let packet = Ipv4Slice::from_slice(&frame[ETHERNET..]).ok()?;
        let header = packet.header();
        // Over the bytes as they came, reserved bits and all (RFC 1071): with its checksum a good header sums up to
        // nothing.
        let is_good = Sum16BitWords::new().add_slice(header.slice()).ones_complement() == 0;
        if !is_good || packet.is_payload_fragmented() {
            return None;
        }
        if header.protocol() == IpNumber::ICMP {
            return self.parse_icmp_ipv4(header.destination_addr().into(), packet.payload().payload);
        }
        if header.protocol() != IpNumber::TCP {
            return None;
        }
        // Whatever the length of the header of IP is.
        let start = ETHERNET + header.slice().len();
        let ends = [header.source_addr().into(), header.destination_addr().into()];
        self.parse_segment(packet.payload().payload, ends, start, checksum)
    }

    fn parse_ipv6(&mut self, frame: &[u8], from: [u8; 6], is_for_us: bool, checksum: Checksum) -> Option<Arrived> {
        let packet = Ipv6Slice::from_slice(&frame[ETHERNET..]).ok()?;
        let header = packet.header();
        // None would be a jumbogram's (RFC 2675), which no link here carries.
        if header.payload_length() == 0 {
            return None;
        }
        match header.next_header() {
            IpNumber::TCP if is_for_us => {
                let ends = [header.source_addr().into(), header.destination_addr().into()];
                self.parse_segment(packet.payload().payload, ends, FRAME_OVERHEAD, checksum)
            }
            IpNumber::IPV6_ICMP => self.parse_icmp(&packet, from),
            _ => None,
        }
    }

    /// `bytes` are at `start` of the frame.
    fn parse_segment(
        &self,
        bytes: &[u8],
        [source, local]: [IpAddr; 2],
        start: usize,
        checksum: Checksum,
    ) -> Option<Arrived> {
        if !self.has(local) {
            return None;
        }
        let (segment, payload) = Segment::parse(bytes, source, local, checksum).ok()?;
        let flow = Flow {
            local: SocketAddr::new(local, segment.destination),
            remote: SocketAddr::new(source, segment.source),
        };
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
        let hardware = self.hardware_to(flow)?;
        self.emit_to(hardware, flow, segment, payload, out, fill)
    }

    /// Writes the headers alone, for a payload of this length behind them that a device is to sum up: in the place of
    /// TCP's checksum is the sum of its pseudo-header. The device may cut the frame, too: the sequence number and the
    /// length are those of the whole.
    ///
    /// # Errors
    /// The neighbour is not known, or IP cannot carry the segment.
    ///
    /// # Panics
    /// When `out` has no room for [`FRAME_OVERHEAD`] and [`MAX_HEADER`](crate::MAX_HEADER) bytes.
    pub fn emit_head(
        &self,
        flow: &Flow,
        segment: &Segment,
        payload: usize,
        out: &mut [u8],
    ) -> Result<FrameHead, LinkError> {
        let hardware = self.hardware_to(flow)?;
        let transport_at = ETHERNET + ip_header(flow.remote.ip());
        let (head, body) = out.split_at_mut(transport_at);
        let length = segment.emit_unsummed(flow, payload, body).map_err(LinkError::Segment)?;
        self.emit_envelope(hardware, flow, length + payload, head)?;
        Ok(FrameHead { length: transport_at + length, transport_at })
    }

    /// Makes a frame without payload for a neighbour that is not known yet: its first six bytes are for the hardware
    /// address.
    ///
    /// # Errors
    /// IP cannot carry the segment.
    pub fn emit_unaddressed(&self, flow: &Flow, segment: &Segment) -> Result<Vec<u8>, LinkError> {
        let mut frame = vec![0; FRAME_OVERHEAD + segment.header_length()];
        let length = self.emit_to([0; 6], flow, segment, 0, &mut frame, |_| ())?;
        frame.truncate(length);
        Ok(frame)
    }

    fn hardware_to(&self, flow: &Flow) -> Result<[u8; 6], LinkError> {
        let next = self.next_hop(flow.remote.ip());
        self.neighbours.get(next).ok_or(LinkError::Unknown(next))
    }

    fn emit_to(
        &self,
        hardware: [u8; 6],
        flow: &Flow,
        segment: &Segment,
        payload: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, LinkError> {
        let (head, body) = out.split_at_mut(ETHERNET + ip_header(flow.remote.ip()));
        let length = segment.emit_with(flow, payload, body, fill).map_err(LinkError::Segment)?;
        self.emit_envelope(hardware, flow, length, head)?;
        Ok(head.len() + length)
    }

    /// Writes the headers of Ethernet and IP for a segment of this length.
    fn emit_envelope(&self, hardware: [u8; 6], flow: &Flow, length: usize, out: &mut [u8]) -> Result<(), LinkError> {
        let (ethernet, head) = out.split_at_mut(ETHERNET);
        let ether_type = packet_header(flow, length, head).ok_or(LinkError::Segment(SegmentError::Addresses))?;
        ethernet.copy_from_slice(&self.ethernet(hardware, ether_type));
        Ok(())
    }
}

const fn ip_header(address: IpAddr) -> usize {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// Writes the header of IP for a segment of this length. `None`: IP does not carry it.
fn packet_header(flow: &Flow, length: usize, out: &mut [u8]) -> Option<EtherType> {
    let payload_length = u16::try_from(length).ok()?;
    match (flow.local.ip(), flow.remote.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Header::new(payload_length, TIME_TO_LIVE, IpNumber::TCP, from.octets(), to.octets());
            let mut header = header.ok()?;
            header.header_checksum = header.calc_header_checksum();
            out.copy_from_slice(&header.to_bytes());
            Some(EtherType::IPV4)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header {
                payload_length,
                next_header: IpNumber::TCP,
                hop_limit: TIME_TO_LIVE,
                source: from.octets(),
                destination: to.octets(),
                ..Ipv6Header::default()
            };
            out.copy_from_slice(&header.to_bytes());
            Some(EtherType::IPV6)
        }
        _ => None,
    }
}
