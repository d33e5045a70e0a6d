//! A stream by smoltcp's TCP, over the packet ring that Weft's own has.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use weft::verbs::LinkSettings;
use weft_driver::{FrameTest, PacketRing, RingFrame};

use crate::contestants::stream::end::StreamEnd;
use crate::model::job::Role;

/// Bytes of a socket's buffers, each: what Weft's own TCP has.
const BUFFER: usize = 1 << 20;
/// Where the passive side listens, and where the other calls from.
const PORT: u16 = 7471;
const FROM: u16 = 50_000;
/// Ethernet's header.
const ETHERNET: usize = 14;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the last acknowledgements may take: one that is delayed takes at most 10 ms.
const LAST: Duration = Duration::from_millis(50);

/// The ring, as smoltcp takes a device.
struct Ring {
    ring: Rc<PacketRing>,
    frame: Vec<u8>,
    out: Rc<RefCell<Vec<u8>>>,
}

/// A frame that has come.
struct Frame<'a>(&'a [u8]);

/// Room for one that leaves.
struct Room {
    ring: Rc<PacketRing>,
    out: Rc<RefCell<Vec<u8>>>,
}

impl RxToken for Frame<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

impl TxToken for Room {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut out = self.out.borrow_mut();
        out.resize(length, 0);
        let result = fill(&mut out);
        // What finds no room is lost, as by a device.
        let _ = self.ring.send(&out);
        result
    }
}

impl Device for Ring {
    type RxToken<'a> = Frame<'a>;
    type TxToken<'a> = Room;

    fn receive(&mut self, _: Instant) -> Option<(Frame<'_>, Room)> {
        let ring = Rc::get_mut(&mut self.ring)?;
        while ring.receive(&mut self.frame)? != RingFrame::Whole {}
        let room = Room { ring: Rc::clone(&self.ring), out: Rc::clone(&self.out) };
        Some((Frame(&self.frame), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room> {
        Some(Room { ring: Rc::clone(&self.ring), out: Rc::clone(&self.out) })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.ring.mtu() + ETHERNET;
        capabilities
    }
}

pub(crate) struct Smol {
    device: Ring,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl Smol {
    pub(crate) fn new(link: &LinkSettings, role: Role) -> io::Result<Self> {
        let own = link.addresses.iter().find_map(|own| match own.ip {
            IpAddr::V4(ip) => Some((ip, own.prefix)),
            IpAddr::V6(_) => None,
        });
        let (address, prefix) = own.ok_or_else(|| io::Error::other("the link has no address of IPv4"))?;
        let arp = [FrameTest::Half(12, 0x0806)];
        let tcp = [FrameTest::Half(12, 0x0800), FrameTest::Word(30, address.to_bits())];
        let ring = PacketRing::open_for(&link.interface, &[&arp, &tcp])?;
        let hardware = HardwareAddress::Ethernet(EthernetAddress(ring.hardware()));
        let mut device = Ring { ring: Rc::new(ring), frame: Vec::new(), out: Rc::default() };
        let mut interface = Interface::new(Config::new(hardware), &mut device, Instant::now());
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix));
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Cubic);
        if role == Role::Passive {
            socket.listen(PORT).map_err(|error| io::Error::other(error.to_string()))?;
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Ok(Self { device, interface, sockets, handle })
    }

    fn poll(&mut self) -> &mut Socket<'static> {
        self.interface.poll(Instant::now(), &mut self.device, &mut self.sockets);
        self.sockets.get_mut(self.handle)
    }

    fn broken() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }
}

impl StreamEnd for Smol {
    fn port(&self) -> u16 {
        PORT
    }

    fn open(&mut self, remote: Option<SocketAddr>) -> io::Result<()> {
        if let Some(remote) = remote {
            let IpAddr::V4(host) = remote.ip() else { return Err(io::ErrorKind::Unsupported.into()) };
            let socket: &mut Socket<'_> = self.sockets.get_mut(self.handle);
            let called = socket.connect(self.interface.context(), (host, remote.port()), FROM);
            called.map_err(|error| io::Error::other(error.to_string()))?;
        }
        let until = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < until {
            match self.poll().state() {
                State::Established => return Ok(()),
                State::Closed => return Err(Self::broken()),
                _ => {}
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn finish(&mut self) {
        let until = std::time::Instant::now() + LAST;
        while std::time::Instant::now() < until {
            self.poll();
        }
    }
}

impl Read for Smol {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let socket = self.poll();
        if !socket.may_recv() {
            return Ok(0);
        }
        match socket.recv_slice(buffer).map_err(|_| Self::broken())? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for Smol {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sockets.get_mut::<Socket<'_>>(self.handle).send_slice(bytes).map_err(|_| Self::broken())?;
        self.poll();
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
