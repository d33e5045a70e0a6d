//! Datagrams in frames of the link, without IP: what Edge goes by there.

use core::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use weft_base::{
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint,
    LocalAddress, NoDigest, Piece, PortAddress, PortError, ReceivedDatagrams, Token,
};
use weft_driver::{FRAME_PIECES, FRAMES, FramePort, FrameTest, UdpPort};
use weft_memory::Registry;
use weft_wire::raw::{
    DESTINATION_AT, DESTINATION_AT_IPV6, DESTINATION_PORT_AT, ETHER_TYPE, HEADER_LENGTH, HEADER_LENGTH_IPV6, Header,
    VERSION, VERSION_IPV6, header_length,
};

use crate::settings::{LinkAddress, LinkSettings, is_in_scope, with_scope, without_scope};
use crate::stack::{Neighbour, Shared};

#[cfg(test)]
mod tests;

/// Bytes of Ethernet's header.
const ETHERNET: usize = 14;
/// Bytes before a datagram, with addresses of IPv4 and of IPv6.
const HEAD: usize = ETHERNET + HEADER_LENGTH;
const HEAD_IPV6: usize = ETHERNET + HEADER_LENGTH_IPV6;
/// Neighbours whose hardware addresses a port has at hand.
const AT_HAND: usize = 16;

/// A datagram port.
#[derive(Debug)]
pub enum LinkDatagram {
    /// The kernel's UDP.
    Host(UdpPort),
    /// Frames of the link.
    Raw(RawPort),
}

/// Datagrams in frames of the link. Peers are found by their IP addresses, as by the kernel, but no packet of IP is
/// sent: each frame has a header of Weft's own (`weft_wire::raw`). It has no marks of congestion.
pub struct RawPort {
    frames: FramePort,
    stack: Shared,
    registry: Registry,
    /// The address, and its network on the link.
    own: LinkAddress,
    /// As it is in frames.
    local: SocketAddr,
    /// The name of the interface, and its number, which is the scope of link-local addresses.
    name: String,
    interface: u32,
    limits: DatagramLimits,
    malformed: u64,
    /// What was looked up of the link's neighbours, and when these had changed last.
    at_hand: Vec<(IpAddr, [u8; 6])>,
    changes: u64,
    waiting_lost: u64,
}

impl RawPort {
    /// The port number is this port's until it is dropped.
    pub(crate) fn open(
        stack: Shared,
        registry: Registry,
        settings: &LinkSettings,
        local: SocketAddr,
        options: &DatagramOptions,
    ) -> Result<Self, PortError> {
        let own = settings.addresses.iter().find(|own| own.ip == local.ip()).ok_or(PortError::AddressNotLocal)?;
        let (port, interface) = {
            let mut stack = stack.lock();
            (stack.take_raw_port(local.port())?, stack.interface())
        };
        let local = SocketAddr::new(own.ip, port);
        let opened = FramePort::open(&settings.interface, ETHER_TYPE, &tests(local), options.buffer_bytes);
        let frames = match opened {
            Ok(frames) => frames,
            Err(error) => {
                stack.lock().release_raw_port(port);
                return Err(port_error(&error));
            }
        };
        let limits = limits(&frames, own.ip);
        let at_hand = Vec::with_capacity(AT_HAND);
        let changes = 0;
        Ok(Self {
            frames,
            stack,
            registry,
            own: *own,
            local,
            name: settings.interface.clone(),
            interface,
            limits,
            malformed: 0,
            at_hand,
            changes,
            waiting_lost: 0,
        })
    }

    /// The descriptor that is readable when something has come, for the thread that waits for it by this token.
    pub(crate) fn descriptor(&mut self, token: Token) -> BorrowedFd<'_> {
        let interface = self.stack.lock().arm_raw(self.local.port(), token);
        self.follow(interface);
        // What has happened to the interface is over, or the next frame tells; unread, it would keep the descriptor
        // readable.
        let _ = self.frames.take_error();
        self.frames.as_fd()
    }

    /// The interface of the link has this number now: it may have been made anew. The longest datagram stays what it
    /// was; a sender finds out by itself what passes.
    fn follow(&mut self, interface: u32) {
        if interface != self.interface && self.frames.rebind(&self.name).is_ok() {
            self.interface = interface;
        }
    }

    /// The longest datagram.
    fn longest(&self) -> usize {
        self.limits.receive_bytes as usize
    }

    /// The peer of a batch, if frames of this port reach it.
    fn peer(&self, batch: &DatagramBatch) -> Result<SocketAddr, PortError> {
        if batch.from.is_some_and(|from| from.ip != self.local.ip()) {
            return Err(PortError::AddressNotLocal);
        }
        let to = batch.to.ip().filter(|to| self.own.reaches(to.ip()) && is_in_scope(*to, self.interface));
        to.map(without_scope).ok_or(PortError::Unreachable)
    }

    fn at_hand(&mut self, address: IpAddr) -> Option<[u8; 6]> {
        let changes = self.stack.neighbour_changes();
        if changes != self.changes {
            self.changes = changes;
            self.at_hand.clear();
            let interface = self.stack.lock().interface();
            self.follow(interface);
        }
        self.at_hand.iter().find(|(known, _)| *known == address).map(|(_, hardware)| *hardware)
    }

    /// Asks for the hardware address of a neighbour, to which the first datagram of the batch is sent when it answers.
    fn ask(
        &mut self,
        to: SocketAddr,
        batch: &DatagramBatch,
        pieces: &[Piece<'_>],
    ) -> Result<Result<[u8; 6], DatagramSent>, PortError> {
        let datagram = first_datagram(&self.registry, pieces, batch.segment_size as usize)?;
        let mut head = [0; HEAD_IPV6];
        let length = self.header_to(to).emit(&mut head, [0; 6], datagram.len());
        let frame = [&head[..length], &datagram].concat();
        match self.stack.lock().raw_neighbour(to.ip(), frame) {
            Neighbour::Known(hardware) => {
                if self.at_hand.len() == AT_HAND {
                    self.at_hand.clear();
                }
                self.at_hand.push((to.ip(), hardware));
                Ok(Ok(hardware))
            }
            Neighbour::Asked => Ok(Err(DatagramSent::Taken(1))),
            Neighbour::Full => {
                self.waiting_lost += 1;
                Ok(Err(DatagramSent::Taken(1)))
            }
            Neighbour::Absent => Err(PortError::Unreachable),
        }
    }

    fn header_to(&self, to: SocketAddr) -> HeadOf {
        HeadOf { source: self.local, destination: to, from: self.frames.hardware() }
    }

    fn send_to<const LENGTH: usize>(
        &mut self,
        hardware: [u8; 6],
        to: SocketAddr,
        pieces: &[Piece<'_>],
        segment: usize,
    ) -> Result<DatagramSent, PortError> {
        let header = self.header_to(to);
        self.frames.send(&self.registry, pieces, segment, |length| {
            let mut head = [0; LENGTH];
            header.emit(&mut head, hardware, length);
            head
        })
    }

    /// The next datagram, in `place`: its sender and its length. `Err`: a frame without one.
    fn receive_one(&mut self, place: &mut [u8]) -> Option<Result<(SocketAddr, usize), ()>> {
        let Self { frames, own, local, .. } = self;
        frames.receive(|frame| {
            let (header, datagram) = Header::parse(frame.get(ETHERNET..).unwrap_or_default()).map_err(|_| ())?;
            let is_neighbour = own.reaches(header.source.ip()) && header.destination.ip() == local.ip();
            let place = place.get_mut(..datagram.len()).filter(|_| is_neighbour).ok_or(())?;
            place.copy_from_slice(datagram);
            Ok((header.source, datagram.len()))
        })
    }
}

/// The headers before the datagrams to a peer.
struct HeadOf {
    source: SocketAddr,
    destination: SocketAddr,
    from: [u8; 6],
}

impl HeadOf {
    /// Writes it at the start of `out`, for a hardware address and a datagram of this length; how many bytes it has.
    fn emit(&self, out: &mut [u8], hardware: [u8; 6], length: usize) -> usize {
        let (ethernet, header) = out.split_at_mut(ETHERNET);
        ethernet[..6].copy_from_slice(&hardware);
        ethernet[6..12].copy_from_slice(&self.from);
        ethernet[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        let Self { source, destination, .. } = *self;
        ETHERNET + Header { source, destination, length: length as u16 }.emit(header)
    }
}

/// Frames for an address and a port of this interface.
fn tests(local: SocketAddr) -> Vec<FrameTest> {
    let at = |at: usize| (ETHERNET + at) as u32;
    let (version, address, octets) = match local.ip() {
        IpAddr::V4(ip) => (VERSION, DESTINATION_AT, ip.octets().to_vec()),
        IpAddr::V6(ip) => (VERSION_IPV6, DESTINATION_AT_IPV6, ip.octets().to_vec()),
    };
    let (words, _) = octets.as_chunks::<4>();
    let words = words.iter().enumerate();
    let is_ours = words.map(|(index, word)| FrameTest::Word(at(address + 4 * index), u32::from_be_bytes(*word)));
    [
        FrameTest::ToThisHost,
        FrameTest::Untagged,
        FrameTest::Half(at(0), version),
        FrameTest::Half(at(DESTINATION_PORT_AT), local.port()),
    ]
    .into_iter()
    .chain(is_ours)
    .collect()
}

fn limits(frames: &FramePort, own: IpAddr) -> DatagramLimits {
    let longest = frames.mtu().saturating_sub(header_length(own)).clamp(1, usize::from(u16::MAX)) as u32;
    let (receive, send) = frames.buffers();
    DatagramLimits {
        batch_datagrams: FRAMES as u32,
        batch_bytes: longest * FRAMES as u32,
        batch_pieces: FRAME_PIECES as u32,
        receive_bytes: longest,
        received: FRAMES as u32,
        send_buffer_bytes: send,
        receive_buffer_bytes: receive,
    }
}

fn port_error(error: &io::Error) -> PortError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => PortError::NotPermitted,
        io::ErrorKind::OutOfMemory => PortError::Exhausted,
        _ => error.raw_os_error().map_or(PortError::Unreachable, PortError::System),
    }
}

/// The bytes of a batch's first datagram.
fn first_datagram(registry: &Registry, pieces: &[Piece<'_>], segment: usize) -> Result<Vec<u8>, PortError> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let left = segment - bytes.len();
        match piece {
            Piece::Bytes(piece) => bytes.extend_from_slice(&piece[..piece.len().min(left)]),
            Piece::Memory(slice) => {
                let part = slice.part(0, slice.length.min(left as u32));
                let at = bytes.len();
                bytes.resize(at + part.length as usize, 0);
                let gone = |_| PortError::Memory(slice.region);
                registry.copy_out(&part, &mut bytes[at..], &mut NoDigest).map_err(gone)?;
            }
        }
    }
    Ok(bytes)
}

fn total(pieces: &[Piece<'_>]) -> usize {
    let length = |piece: &Piece<'_>| match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::Memory(slice) => slice.length as usize,
    };
    pieces.iter().map(length).sum()
}

impl DatagramPort for RawPort {
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError> {
        let to = self.peer(batch)?;
        let segment = batch.segment_size.max(1) as usize;
        let longest = self.longest();
        if segment > longest && total(pieces) > longest {
            return Ok(DatagramSent::TooLarge(Some(longest as u32)));
        }
        let hardware = match self.at_hand(to.ip()) {
            Some(hardware) => hardware,
            None => match self.ask(to, batch, pieces)? {
                Ok(hardware) => hardware,
                Err(sent) => return Ok(sent),
            },
        };
        match to {
            SocketAddr::V4(_) => self.send_to::<HEAD>(hardware, to, pieces, segment.min(longest)),
            SocketAddr::V6(_) => self.send_to::<HEAD_IPV6>(hardware, to, pieces, segment.min(longest)),
        }
    }

    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError> {
        let before = received.len();
        let part = self.longest();
        let to = Some(LocalAddress { ip: self.local.ip(), interface: 0 });
        let mut start = 0;
        // As many frames as are requested, those without a datagram included.
        for _ in 0..FRAMES {
            let end = buffer.len().min(start + part);
            if start == end {
                break;
            }
            match self.receive_one(&mut buffer[start..end]) {
                None => break,
                Some(Err(())) => self.malformed += 1,
                Some(Ok((from, length))) => {
                    let (range, segment_size) = (start..start + length, length.max(1) as u32);
                    let from = with_scope(from, self.interface).into();
                    received.push(ReceivedDatagrams { range, segment_size, from, to, ecn: Ecn::NotCapable });
                    start = end;
                }
            }
        }
        Ok(received.len() - before)
    }

    fn poll_hint(&mut self) -> Option<Hint> {
        None
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn counters(&self) -> DatagramCounters {
        let [overflowed, dropped, cut] = self.frames.lost();
        DatagramCounters { overflowed, dropped: dropped + self.waiting_lost, cut, malformed: self.malformed }
    }

    fn local_address(&self) -> PortAddress {
        with_scope(self.local, self.interface).into()
    }
}

impl Drop for RawPort {
    fn drop(&mut self) {
        self.stack.lock().release_raw_port(self.local.port());
    }
}

impl fmt::Debug for RawPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawPort").field("local", &self.local).finish_non_exhaustive()
    }
}

weft_base::either_datagram_port!(LinkDatagram { Host, Raw });
