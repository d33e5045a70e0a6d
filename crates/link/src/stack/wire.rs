//! The frames of the interface.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use weft_base::Time;
use weft_driver::{FrameTest, InterfaceState, Offload, PacketRing, SegmentationLimits};
use weft_tcp::{
    Checksum, Connection, EthernetLink, FRAME_OVERHEAD, LinkError, MAX_HEADER, group_hardware, solicited_node,
};

use super::train::{Train, TrainLimits};
use crate::settings::LinkSettings;

/// All hosts of a link (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Neighbours whose hardware addresses are remembered.
const NEIGHBOURS: usize = 1024;
/// The limits of the interface are read again with the first connection after this time: two system calls.
const LIMITS_LAST: Duration = Duration::from_secs(1);

/// What tells the frames of ARP.
const ARP: FrameTest = FrameTest::Half(12, 0x0806);
const IPV4: FrameTest = FrameTest::Half(12, 0x0800);
const IPV6: FrameTest = FrameTest::Half(12, 0x86dd);
/// Protocols of IP, at their place in packets of both kinds.
const TCP_OVER_IPV4: FrameTest = FrameTest::Byte(23, 6);
const ICMP_OVER_IPV4: FrameTest = FrameTest::Byte(23, 1);
const TCP_OVER_IPV6: FrameTest = FrameTest::Byte(20, 6);
const ICMP_OVER_IPV6: FrameTest = FrameTest::Byte(20, 58);
/// A header of IPv4 of 20 bytes, and neither "more fragments" nor an offset (RFC 791 section 3.1).
const PLAIN_IPV4: FrameTest = FrameTest::Byte(14, 0x45);
const NO_FRAGMENT: FrameTest = FrameTest::Without(20, 0x3fff);
/// The place of TCP's receiver port.
const PORT_OVER_IPV4: u32 = 36;
const PORT_OVER_IPV6: u32 = 56;

/// What frames are for these addresses: TCP to them, and questions or answers for them; of one that passes, all tests
/// of one of these are true.
pub(crate) fn frame_tests(settings: &LinkSettings) -> Vec<Vec<FrameTest>> {
    let ports = |at| settings.ports.map(|ports| FrameTest::Between(at, ports.first, ports.last));
    let mut all = Vec::new();
    for address in &settings.addresses {
        match address.ip {
            IpAddr::V4(ip) => {
                all.push(vec![ARP]);
                let mut tcp = vec![IPV4, TCP_OVER_IPV4, FrameTest::Word(30, ip.to_bits())];
                if let Some(ports) = ports(PORT_OVER_IPV4) {
                    // Without options and whole: then the port is where the test expects it.
                    tcp.extend([PLAIN_IPV4, NO_FRAGMENT, ports]);
                }
                all.push(tcp);
                // Behind a gateway paths are of many kinds.
                if !settings.gateways.is_empty() {
                    all.push(vec![IPV4, ICMP_OVER_IPV4, FrameTest::Word(30, ip.to_bits())]);
                }
            }
            IpAddr::V6(ip) => {
                let mut tcp = to([IPV6, TCP_OVER_IPV6], ip);
                tcp.extend(ports(PORT_OVER_IPV6));
                all.push(tcp);
                for ip in [ip, solicited_node(ip), ALL_NODES] {
                    all.push(to([IPV6, ICMP_OVER_IPV6], ip));
                }
            }
        }
    }
    // Several addresses have some of them in common.
    let mut once: Vec<Vec<FrameTest>> = Vec::new();
    all.into_iter().for_each(|tests| {
        if !once.contains(&tests) {
            once.push(tests);
        }
    });
    once
}

/// The same of IPv6, to an address.
fn to(tests: [FrameTest; 2], ip: Ipv6Addr) -> Vec<FrameTest> {
    let octets = ip.octets();
    let words = octets.chunks(4).zip((38..).step_by(4));
    let words =
        words.map(|(bytes, at)| FrameTest::Word(at, u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])));
    tests.into_iter().chain(words).collect()
}

/// Opens the ring, or has it from the helper that the settings name; whether that was so.
pub(super) fn open(settings: &LinkSettings) -> io::Result<(PacketRing, bool)> {
    let tests = frame_tests(settings);
    let tests: Vec<_> = tests.iter().map(Vec::as_slice).collect();
    match (PacketRing::open_for(&settings.interface, &tests), &settings.helper) {
        (Err(error), Some(path)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let name = LinkSettings { helper: None, ..settings.clone() }.to_string();
            Ok((PacketRing::from_helper(path, &name, &settings.interface)?.with_long_frames()?, true))
        }
        (opened, _) => Ok((opened?.with_long_frames()?, false)),
    }
}

/// The host's part of the link, by the hardware address of its interface.
fn ethernet(hardware: [u8; 6], settings: &LinkSettings) -> EthernetLink {
    let none = EthernetLink::without_addresses(hardware, NEIGHBOURS);
    let link = settings.addresses.iter().fold(none, |link, own| link.with(own.ip).with_network(own.ip, own.prefix));
    let link = settings.gateways.iter().fold(link, |link, gateway| link.with_gateway(*gateway));
    // For the host's own addresses the kernel answers.
    if settings.ports.is_some() { link.without_answers() } else { link }
}

/// The ring, the addresses, and a frame that had no room.
pub(crate) struct Wire {
    ring: PacketRing,
    pub(super) link: EthernetLink,
    out: Vec<u8>,
    /// Bytes of `out` that are a frame which waits for room, and what is to be done to it.
    waiting: usize,
    offload: Offload,
    /// The kernel completes checksums, and cuts frames that are too long.
    offloads: bool,
    /// How long these may be, and when that was read from the interface.
    train_limits: TrainLimits,
    limits_read: Time,
    /// It refused a frame, or reported an error.
    is_doubted: bool,
}

impl Wire {
    pub(super) fn new(ring: PacketRing, settings: &LinkSettings, now: Time) -> Self {
        let link = ethernet(ring.hardware(), settings);
        let out = vec![0; FRAME_OVERHEAD + usize::from(u16::MAX)];
        let train_limits = TrainLimits::of(SegmentationLimits::of(ring.index()));
        let offload = Offload::default();
        Self { ring, link, out, waiting: 0, offload, offloads: true, train_limits, limits_read: now, is_doubted: false }
    }

    /// Reads the limits of the interface once more, unless that was just now. Its administrator may change them; Linux,
    /// too, reads them anew with each route that a connection takes (`sk_setup_caps`).
    pub(super) fn refresh_limits(&mut self, now: Time) {
        if now.since(self.limits_read) >= LIMITS_LAST {
            self.train_limits = TrainLimits::of(SegmentationLimits::of(self.ring.index()));
            self.limits_read = now;
        }
    }

    /// Has the interface take frames for hosts that have an address that ends like this one.
    pub(super) fn join(&self, address: Ipv6Addr) -> io::Result<()> {
        self.ring.join(group_hardware(solicited_node(address)))
    }

    /// Goes over to the interface that has the name now. What is known of neighbours was known of another link.
    pub(super) fn rebind(&mut self, settings: &LinkSettings, now: Time) -> io::Result<()> {
        self.ring.rebind(&settings.interface)?;
        self.link = ethernet(self.ring.hardware(), settings);
        (self.waiting, self.offloads, self.limits_read) = (0, true, now);
        self.train_limits = TrainLimits::of(SegmentationLimits::of(self.ring.index()));
        Ok(())
    }

    /// What has become of the interface.
    pub(super) fn interface_state(&self, interface: &str) -> InterfaceState {
        self.ring.interface_state(interface)
    }

    /// Whether something has happened to the interface since the last call. Until the next call, the descriptor is
    /// readable.
    pub(super) fn take_error(&self) -> bool {
        !matches!(self.ring.take_error(), Ok(None))
    }

    /// Something may have become of the interface.
    pub(super) const fn doubt_interface(&mut self) {
        self.is_doubted = true;
    }

    pub(super) const fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// Whether it was suspect since the last call.
    pub(super) const fn take_doubt(&mut self) -> bool {
        core::mem::replace(&mut self.is_doubted, false)
    }

    pub(super) const fn mtu(&self) -> usize {
        self.ring.mtu()
    }

    /// The number of the interface.
    pub(super) const fn index(&self) -> u32 {
        self.ring.index()
    }

    pub(super) fn has_frame(&self) -> bool {
        self.ring.has_frame()
    }

    /// Shows the next frame, and what is to be done about its checksum. False: there is none.
    pub(super) fn show(&mut self, take: impl FnOnce(&mut EthernetLink, &[u8], Checksum)) -> bool {
        let Self { ring, link, .. } = self;
        let shown = ring.show(|frame, is_checked| {
            take(link, frame, if is_checked { Checksum::Trusted } else { Checksum::Verify });
        });
        shown.is_some()
    }

    /// Sends what has waited. False: there is still no room.
    pub(super) fn flush(&mut self) -> bool {
        if self.waiting > 0 {
            let sent = self.ring.send_parts(&self.offload, [&self.out[..self.waiting], &[], &[]]);
            if !self.is_full(sent) {
                self.waiting = 0;
            }
        }
        self.waiting == 0
    }

    /// What came of sending. What a broken interface does not send is lost, as on any path; so is the first frame that
    /// the kernel refuses to cut, and no other is offered for cutting.
    fn is_full(&mut self, sent: io::Result<bool>) -> bool {
        match sent {
            Ok(has_left) => !has_left,
            Err(error) => {
                let is_ours = error.kind() == io::ErrorKind::InvalidInput;
                self.offloads &= !is_ours;
                self.is_doubted |= !is_ours;
                false
            }
        }
    }

    /// Sends a frame that `emit` writes. To be called when [`Wire::flush`] has said so. What has no room waits.
    pub(super) fn send(&mut self, emit: impl FnOnce(&EthernetLink, &mut [u8]) -> Result<usize, LinkError>) {
        if let Ok(length) = emit(&self.link, &mut self.out) {
            (self.waiting, self.offload) = (length, Offload::default());
            self.flush();
        }
    }

    /// How many segments a frame may have.
    pub(super) const fn train_limits(&self) -> TrainLimits {
        if self.offloads { self.train_limits } else { TrainLimits::NONE }
    }

    /// Sends segments of a stream, from the place of their payload. To be called when [`Wire::flush`] has said so. What
    /// has no room waits.
    pub(super) fn send_train(&mut self, connection: &Connection, train: &Train) {
        let flow = connection.flow();
        if !self.offloads && train.cut().is_none() {
            return self.send(|link, out| {
                let fill = |to: &mut [u8]| connection.copy_payload(&train.payload, to);
                link.emit_with(flow, &train.segment, train.length(), out, fill)
            });
        }
        let mut head = [0; FRAME_OVERHEAD + MAX_HEADER];
        let Ok(written) = self.link.emit_head(flow, &train.segment, train.length(), &mut head) else { return };
        let offload = Offload {
            transport_at: written.transport_at as u16,
            headers: written.length as u16,
            cut: train.cut().unwrap_or(0),
            is_ipv6: flow.remote.is_ipv6(),
        };
        let [first, second] = connection.payload(&train.payload);
        let parts = [&head[..written.length], first, second];
        let sent = self.ring.send_parts(&offload, parts);
        if self.is_full(sent) {
            (self.waiting, self.offload) = (0, offload);
            for part in parts {
                self.out[self.waiting..self.waiting + part.len()].copy_from_slice(part);
                self.waiting += part.len();
            }
        }
    }

    /// Sends a frame that is lost when there is no room.
    pub(super) fn send_or_lose(&self, frame: &[u8]) {
        let _ = self.ring.send(frame);
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Wire {
        fn has_trains(&self) -> bool {
            self.train_limits() != TrainLimits::NONE
        }
    }

    /// The kernel itself refuses: the description of this frame is invalid.
    #[test]
    fn a_wire_that_is_refused_a_long_frame_asks_for_none_again() {
        let [.., one, two] = std::process::id().to_be_bytes();
        let settings: LinkSettings = format!("lo=10.{one}.{two}.51/24").parse().unwrap();
        let ring = match open(&settings) {
            Ok((ring, _)) => ring,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) => panic!("{error}"),
        };
        let mut wire = Wire::new(ring, &settings, Time::ZERO);
        assert!(wire.has_trains() && wire.flush());
        let offload = Offload { transport_at: 34, headers: 60_000, cut: 1000, is_ipv6: false };
        let frame = [0; 2000];
        let refused = wire.ring.send_parts(&offload, [&frame, &[], &[]]);
        assert_eq!(refused.as_ref().map_err(io::Error::kind), Err(io::ErrorKind::InvalidInput));
        assert!(!wire.is_full(refused), "the frame is lost: TCP sends its bytes again");
        assert!(!wire.has_trains(), "from now on each segment leaves by itself, with its checksum");
        // One that waits for room when that is found out is lost as well, and nothing behind it waits.
        (wire.waiting, wire.offload) = (frame.len(), offload);
        assert!(wire.flush() && wire.waiting == 0);
        assert!(!wire.is_full(Err(io::ErrorKind::NetworkDown.into())));
        let mut other = Wire { offloads: true, ..wire };
        assert!(
            !other.is_full(Err(io::ErrorKind::NetworkDown.into())) && other.has_trains(),
            "that says nothing of long frames"
        );
    }
}
