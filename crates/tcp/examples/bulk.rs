//! A stream of a given number of megabytes through two connections of this process, frame by frame, as over an
//! Ethernet: for counting instructions, where times vary.
//! `valgrind --tool=callgrind target/release/examples/bulk 100 1500` (megabytes, MTU); frames are summed up when
//! `verify` follows. It prints how many frames that were.

use std::env;
use std::net::Ipv4Addr;

use weft_base::{StreamPosition, Time};
use weft_tcp::{
    Answer, Arrived, Checksum, Connection, EthernetLink, FRAME_OVERHEAD, Flow, InitialNumbers, Listener, MAX_HEADER,
    ReceivePolicy, Settings,
};

const CALLER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CALLEE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MEGABYTE: u64 = 1 << 20;

/// One end.
struct Side {
    link: EthernetLink,
    connection: Option<Box<Connection>>,
    listener: Option<Listener>,
    place: Vec<u8>,
    frames: u64,
}

impl Side {
    /// Everything that leaves now, to the other side.
    fn transmit(&mut self, other: &mut Self, frame: &mut [u8], checksum: Checksum, now: Time) -> bool {
        let mut any = false;
        while let Some(connection) = self.connection.as_mut()
            && let Some(outgoing) = connection.poll_transmit(now)
        {
            let connection = &*connection;
            let length =
                self.link.emit_with(connection.flow(), &outgoing.segment, outgoing.payload_length(), frame, |to| {
                    connection.copy_payload(&outgoing.payload, to)
                });
            let length = length.expect("the neighbour is known");
            self.frames += 1;
            other.arrive(self, &mut frame[..length], checksum, now);
            any = true;
        }
        any
    }

    fn arrive(&mut self, other: &mut Self, frame: &mut [u8], checksum: Checksum, now: Time) {
        let Arrived::Segment(flow, segment, payload) = self.link.parse(frame, checksum) else { return };
        if let Some(listener) = self.listener.as_mut().filter(|_| self.connection.is_none()) {
            match listener.handle(&flow, &segment, payload.len(), now) {
                Answer::Reply(reply) => {
                    let mut answer = [0; FRAME_OVERHEAD + MAX_HEADER];
                    let length = self.link.emit(&flow, &reply, &[], &mut answer).expect("the neighbour is known");
                    return other.arrive(self, &mut answer[..length], checksum, now);
                }
                Answer::Accepted(connection) => self.connection = Some(connection),
                Answer::Nothing => return,
            }
        }
        let place = &mut self.place;
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            let at = position.0 as usize % (place.len() - bytes.len());
            place[at..at + bytes.len()].copy_from_slice(bytes);
            true
        };
        if let Some(connection) = &mut self.connection {
            connection.handle(&segment, &frame[payload], &mut sink, now);
        }
    }
}

fn main() {
    let mut words = env::args().skip(1);
    let mut number = |usual: u64| words.next().map_or(usual, |word| word.parse().expect("a number"));
    let (total, mtu) = (number(100) * MEGABYTE, number(1500));
    let checksum = if words.next().is_some() { Checksum::Verify } else { Checksum::Trusted };
    let settings = Settings { policy: ReceivePolicy::Place, mss: (mtu - 40) as u16, ..Settings::default() };
    let mut now = Time::from_nanos(1_000_000_000);
    let flow = Flow { local: (CALLER, 1000).into(), remote: (CALLEE, 2000).into() };
    let [mut caller, mut callee] = [(1, CALLER), (2, CALLEE)].map(|(hardware, address)| Side {
        link: EthernetLink::new([2, 0, 0, 0, 0, hardware], address, 4),
        connection: None,
        listener: None,
        place: vec![0; 4 << 20],
        frames: 0,
    });
    caller.link.parse(&callee.link.question(CALLER), checksum);
    callee.link.parse(&caller.link.question(CALLEE), checksum);
    let connection = Connection::connect(flow, settings, 7, now).expect("the settings are good");
    caller.connection = Some(Box::new(connection));
    callee.listener = Some(Listener::new(settings, InitialNumbers::new(&[3; 32]), 4).expect("the settings are good"));
    let (bytes, mut frame) = (vec![7; 1 << 16], vec![0; mtu as usize + 100]);
    let mut written = 0;
    while callee.connection.as_ref().is_none_or(|connection| connection.received().0 < total) {
        now = now + core::time::Duration::from_micros(10);
        if let Some(connection) = caller.connection.as_mut().filter(|connection| connection.state().is_synchronised()) {
            let wanted = (total - written).min(bytes.len() as u64) as usize;
            written += connection.write(&bytes[..wanted]) as u64;
        }
        let forth = caller.transmit(&mut callee, &mut frame, checksum, now);
        let back = callee.transmit(&mut caller, &mut frame, checksum, now);
        if !forth && !back {
            for side in [&mut caller, &mut callee] {
                side.connection.iter_mut().for_each(|connection| connection.handle_timeout(now));
            }
        }
    }
    println!("{} frames forth, {} back", caller.frames, callee.frames);
}
