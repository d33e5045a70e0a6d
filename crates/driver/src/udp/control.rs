//! Control messages (cmsg(3)): metadata of a datagram. Built and parsed as bytes, in the kernel's layout: length with
//! header (a word), level, type, then the data, each message aligned to a word.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_base::{Ecn, LocalAddress};

use super::address::array;

/// Enough for all requested ones, with room for additions of a kernel.
const BYTES: usize = 256;
/// `struct cmsghdr`.
const HEADER: usize = size_of::<libc::cmsghdr>();
const ALIGN: usize = size_of::<usize>();

/// Room for the control messages of one datagram.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; BYTES],
}

impl Control {
    pub(crate) const EMPTY: Self = Self { bytes: [0; BYTES] };

    pub(crate) const fn pointer(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Bytes there are.
    pub(crate) const fn room() -> usize {
        BYTES
    }

    /// Level, type and data of each of the messages, which have `length` bytes together.
    pub(crate) fn messages(&self, length: usize) -> Messages<'_> {
        Messages { rest: &self.bytes[..length.min(BYTES)] }
    }
}

/// Writes control messages.
pub(crate) struct Writer<'a> {
    control: &'a mut Control,
    length: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(control: &'a mut Control) -> Self {
        Self { control, length: 0 }
    }

    /// Continues after `length` bytes of messages.
    pub(crate) const fn after(control: &'a mut Control, length: usize) -> Self {
        Self { control, length }
    }

    /// Bytes so far.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Bytes of each datagram of a large send (udp(7), UDP_SEGMENT).
    pub(crate) fn segment_size(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    /// The traffic class, for an IPv6 or an IPv4 destination.
    pub(crate) fn ecn(&mut self, ecn: Ecn, is_ipv6: bool) {
        let bits = i32::from(ecn.bits()).to_ne_bytes();
        if is_ipv6 {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &bits);
        } else {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, &bits);
        }
    }

    /// The source address (ip(7), IP_PKTINFO; RFC 3542 section 6). An IPv6 socket uses mapped IPv4.
    pub(crate) fn from(&mut self, local: LocalAddress, is_ipv6_socket: bool) {
        match local.ip {
            IpAddr::V4(ip) if !is_ipv6_socket => {
                let mut info = [0; 12];
                info[..4].copy_from_slice(&local.interface.to_ne_bytes());
                info[4..8].copy_from_slice(&ip.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            ip => {
                let ip = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                info[16..].copy_from_slice(&local.interface.to_ne_bytes());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    pub(crate) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let length = HEADER + data.len();
        let next = self.length + length.next_multiple_of(ALIGN);
        let place = &mut self.control.bytes[self.length..next];
        place[..ALIGN].copy_from_slice(&length.to_ne_bytes());
        place[HEADER - 8..HEADER - 4].copy_from_slice(&level.to_ne_bytes());
        place[HEADER - 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER..length].copy_from_slice(data);
        self.length = next;
    }
}

/// Reads control messages.
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        let length = usize::from_ne_bytes(array(rest, 0)?);
        let level = i32::from_ne_bytes(array(rest, HEADER - 8)?);
        let kind = i32::from_ne_bytes(array(rest, HEADER - 4)?);
        let data = rest.get(HEADER..length)?;
        self.rest = rest.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((level, kind, data))
    }
}

/// The control messages of a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) to: Option<LocalAddress>,
    pub(crate) ecn: Ecn,
    /// Several datagrams of this many bytes each were merged into one (udp(7), UDP_GRO).
    pub(crate) segment_size: Option<u32>,
    /// Datagrams dropped because the socket's buffer was full, since the socket was made (socket(7), SO_RXQ_OVFL).
    pub(crate) overflowed: Option<u32>,
}

impl Arrival {
    pub(crate) fn read(messages: Messages<'_>) -> Self {
        let mut arrival = Self::default();
        for (level, kind, data) in messages {
            arrival.note(level, kind, data);
        }
        arrival
    }

    fn note(&mut self, level: i32, kind: i32, data: &[u8]) -> Option<()> {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let ip = Ipv4Addr::from(array::<4>(data, 8)?);
                self.to = Some(LocalAddress { ip: ip.into(), interface: u32::from_ne_bytes(array(data, 0)?) });
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let ip = Ipv6Addr::from(array::<16>(data, 0)?).to_canonical();
                self.to = Some(LocalAddress { ip, interface: u32::from_ne_bytes(array(data, 16)?) });
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => self.ecn = Ecn::from_bits(*data.first()?),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.ecn = Ecn::from_bits(i32::from_ne_bytes(array(data, 0)?) as u8);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment_size = u32::try_from(i32::from_ne_bytes(array(data, 0)?)).ok().filter(|size| *size > 0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.overflowed = Some(u32::from_ne_bytes(array(data, 0)?)),
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut control = Control { bytes: [0xa5; BYTES] };
        let local = LocalAddress { ip: "192.0.2.7".parse().unwrap(), interface: 3 };
        let mut writer = Writer::new(&mut control);
        writer.segment_size(1448);
        writer.ecn(Ecn::Capable0, true);
        writer.from(local, true);
        let length = writer.length();
        let kinds: Vec<_> = control.messages(length).map(|(level, kind, data)| (level, kind, data.len())).collect();
        assert_eq!(
            kinds,
            [
                (libc::SOL_UDP, libc::UDP_SEGMENT, 2),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4),
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
            ]
        );
        let arrival = Arrival::read(control.messages(length));
        assert_eq!((arrival.to, arrival.ecn), (Some(local), Ecn::Capable0), "mapped and back");
    }

    #[test]
    fn the_layout_is_that_of_the_c_library() {
        let mut control = Control::EMPTY;
        let mut writer = Writer::new(&mut control);
        writer.push(1, 2, &[7; 5]);
        writer.push(3, 4, &[8; 20]);
        let length = writer.length();
        // SAFETY: All zero is a valid, empty message header.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_control = control.pointer();
        message.msg_controllen = length as _;
        // SAFETY: The control data exists, has the given length, and is well-formed.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            assert_eq!(((*first).cmsg_level, (*first).cmsg_type), (1, 2));
            assert_eq!(*libc::CMSG_DATA(first).add(4), 7);
            let second = libc::CMSG_NXTHDR(&raw const message, first);
            assert_eq!(((*second).cmsg_level, (*second).cmsg_type), (3, 4));
            assert_eq!((*second).cmsg_len as u32, libc::CMSG_LEN(20));
            assert!(libc::CMSG_NXTHDR(&raw const message, second).is_null());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), BYTES), length in 0..=BYTES) {
            let control = Control { bytes: bytes.try_into().unwrap() };
            let _ = Arrival::read(control.messages(length));
        }
    }
}
