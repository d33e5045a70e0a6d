//! `weft-tcp`: any bytes as a segment, and any segments and calls at a connection.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use weft_base::{StreamPosition, Time};
use weft_tcp::{
    Answer, Checksum, Connection, Flags, Flow, InitialNumbers, KeepAlive, Listener, MAX_HEADER, Options, ReceivePolicy,
    Segment, Settings, State, Timestamps,
};

/// What is read is written as it was, but for what this TCP has no use for.
pub fn tcp_segment(data: &[u8]) {
    let (local, remote) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
    let Ok((segment, range)) = Segment::parse(data, remote, local, Checksum::Trusted) else { return };
    assert!(range.end == data.len() && range.start >= 20);
    let payload = &data[range];
    let _ = segment.refusal(payload.len()).map(|refusal| assert!(refusal.flags.rst));
    let flow =
        Flow { local: SocketAddr::new(remote, segment.source), remote: SocketAddr::new(local, segment.destination) };
    let mut out = vec![0; MAX_HEADER + payload.len()];
    let Ok(length) = segment.emit(&flow, payload, &mut out) else { return };
    let (again, range) = Segment::parse(&out[..length], remote, local, Checksum::Verify).expect("what was written");
    // Options can be there that don't go together; blocks are what is left out.
    let expected =
        Segment { options: Options { sack: again.options.sack.clone(), ..segment.options.clone() }, ..segment };
    assert_eq!((again, &out[range]), (expected, payload));
}

/// Segments that could be, to begin with.
pub(crate) fn segments() -> Vec<Vec<u8>> {
    let flow = Flow { local: ([10, 0, 0, 1], 7).into(), remote: ([10, 0, 0, 2], 9).into() };
    let stamps = Some(Timestamps { value: 7, echo: 9 });
    let syn = Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..Options::default() };
    let blocks = [(5, 9), (20, 30), (50, 60)].into_iter().collect();
    let seed = |flags, options: Options, payload: &[u8]| {
        let segment =
            Segment { source: 7, destination: 9, sequence: 5, flags, window: 9, options, ..Segment::default() };
        let mut out = vec![0; MAX_HEADER + payload.len()];
        let length = segment.emit(&flow, payload, &mut out).expect("it fits");
        out.truncate(length);
        out
    };
    vec![
        seed(Flags { syn: true, ..Flags::default() }, Options { timestamps: stamps, ..syn }, &[]),
        seed(
            Flags { ack: true, ..Flags::default() },
            Options { timestamps: stamps, sack: blocks, ..Options::default() },
            b"x",
        ),
        seed(Flags { ack: true, fin: true, ..Flags::default() }, Options::default(), b"the end"),
    ]
}

/// The first bytes choose settings and how the connection begins, the rest what happens to it.
pub fn tcp_connection(data: &[u8]) {
    let mut bytes = Bytes(data);
    let Some(mut run) = Run::begin(&mut bytes) else { return };
    for _ in 0..200 {
        if bytes.0.is_empty() {
            break;
        }
        run.step(&mut bytes);
        run.check();
    }
    // Whatever happened, an abort ends it.
    run.connection.abort();
    run.check();
    assert_eq!((run.connection.state(), run.connection.next_timeout()), (State::Closed, None));
}

/// A few scripts: data in any order, of both sides, with losses and a close.
pub(crate) fn scripts() -> Vec<Vec<u8>> {
    // Acknowledges all, or all but `behind` bytes, and carries `length` times two bytes, `from` bytes from where they
    // are expected.
    let data = |from: u8, length: u8| vec![0, 0x10, from, 0, 0, 0, 60, 2, 0, 0, 0, 0, length];
    let ack = |behind: u8| vec![0, 0x10, 0, 0, behind.wrapping_neg(), 0, 60, 2, 0, 0, 0, 0, 0];
    let sack = |behind: u8, from: u8| {
        let (behind, from) = (behind.wrapping_neg(), from.wrapping_neg());
        vec![0, 0x10, 0, 0, behind, 2, 60, 0x40, 0, 0, 0, 0, from, 2, 1, 2, 0]
    };
    let fin = vec![0, 0x11, 0, 0, 0, 0, 60, 2, 0, 0, 0, 0, 5];
    let (write, read, wait, close) = (vec![3, 250], vec![4, 250], vec![6, 250, 8], vec![5, 0]);
    [0_u8, 1, 2, 0x1c, 0x3c, 0x5d, 0x7d, 0xbc]
        .into_iter()
        .flat_map(|choices| {
            let early =
                [data(60, 50), data(20, 10), data(0, 40), data(10, 100), read.clone(), data(0, 60), fin.clone()];
            let late =
                [&[write.clone(), sack(5, 3), sack(5, 2), wait.clone(), ack(9), close.clone(), ack(0)][..], &early];
            [early.concat(), late.concat().concat()].map(|steps| [&[choices, choices & 8], &steps[..]].concat())
        })
        .collect()
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Small numbers, and now and then large ones, of both signs.
    fn offset(&mut self) -> u32 {
        let value = i32::from(self.next().cast_signed());
        let scale = [1, 1, 100, 10_000, 1 << 24][usize::from(self.next() % 5)];
        (value * scale).cast_unsigned()
    }
}

struct Run {
    connection: Box<Connection>,
    now: Time,
    ours: u32,
    theirs: u32,
    sent: u32,
    shown: BTreeSet<u64>,
    policy: ReceivePolicy,
    payload: Vec<u8>,
}

const INITIAL: u32 = u32::MAX - 500;

fn flow() -> Flow {
    Flow { local: ([10, 0, 0, 1], 1).into(), remote: ([10, 0, 0, 2], 2).into() }
}

fn settings(choices: u8) -> Settings {
    let policies = [ReceivePolicy::Place, ReceivePolicy::Buffer, ReceivePolicy::Drop];
    let interval = Duration::from_secs(1);
    Settings {
        policy: policies[usize::from(choices % 3)],
        mss: if choices & 4 == 0 { 100 } else { 1460 },
        receive_window: if choices & 8 == 0 { 1000 } else { 100_000 },
        send_buffer: 5000,
        ranges: if choices & 16 == 0 { 1 } else { 8 },
        segments: 16,
        sack: choices & 32 == 0,
        timestamps: choices & 64 == 0,
        keep_alive: (choices & 128 != 0).then_some(KeepAlive { idle: interval, interval, probes: 3 }),
        ..Settings::default()
    }
}

fn segment(sequence: u32, acknowledgement: u32, flags: Flags) -> Segment {
    Segment { source: 2, destination: 1, sequence, acknowledgement, flags, window: 60_000, ..Segment::default() }
}

impl Run {
    fn begin(bytes: &mut Bytes<'_>) -> Option<Self> {
        let (settings, how) = (settings(bytes.next()), bytes.next());
        let theirs = 77_u32.wrapping_sub(u32::from(how & 0xf0));
        let now = Time::from_nanos(1_000_000_000);
        let options = Options {
            mss: Some(u16::from(how) * 8),
            sack_permitted: how & 1 == 0,
            window_scale: (how & 2 == 0).then_some(how % 16),
            timestamps: (how & 4 == 0).then_some(Timestamps { value: 5, echo: 0 }),
            ..Options::default()
        };
        let syn = Segment { options, ..segment(theirs, 0, Flags { syn: true, ..Flags::default() }) };
        let (connection, ours) = if how & 8 == 0 {
            (Box::new(Connection::connect(flow(), settings, INITIAL, now).ok()?), INITIAL)
        } else {
            let mut listener = Listener::new(settings, InitialNumbers::new(&[1; 32]), 2).ok()?;
            let Answer::Reply(reply) = listener.handle(&flow(), &syn, 0, now) else { return None };
            let ack = segment(
                theirs.wrapping_add(1),
                reply.sequence.wrapping_add(1),
                Flags { ack: true, ..Flags::default() },
            );
            let Answer::Accepted(connection) = listener.handle(&flow(), &ack, 0, now) else { return None };
            (connection, reply.sequence)
        };
        let policy = settings.policy;
        let mut run = Self {
            connection,
            now,
            ours,
            theirs,
            sent: ours,
            shown: BTreeSet::new(),
            policy,
            payload: vec![0; 70_000],
        };
        run.check();
        if how & 16 == 0 {
            let flags = Flags { syn: true, ack: how & 32 == 0, ..Flags::default() };
            run.bring(&Segment { flags, acknowledgement: ours.wrapping_add(1), ..syn }, 0);
        }
        Some(run)
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() % 8 {
            0..=2 => self.any_segment(bytes),
            3 => drop(self.connection.write(&vec![1; usize::from(bytes.next()) * 10])),
            4 => drop(self.connection.read(&mut vec![0; usize::from(bytes.next()) * 10])),
            5 => match bytes.next() % 5 {
                0 => self.connection.close(),
                1 => self.connection.set_path_mss(u16::from(bytes.next()) * 4),
                2 => self.connection.offer(u32::from(bytes.next()) * 100),
                3 => drop(self.connection.write_unit(&vec![1; usize::from(bytes.next())])),
                _ => self.connection.set_path_mss(0),
            },
            _ => self.wait(Duration::from_millis(u64::from(bytes.next()) * u64::from(bytes.next()))),
        }
    }

    fn any_segment(&mut self, bytes: &mut Bytes<'_>) {
        let flags = bytes.next();
        let flags = Flags {
            fin: flags & 1 != 0,
            syn: flags & 2 != 0 && flags & 32 != 0,
            rst: flags & 4 != 0 && flags & 64 != 0,
            psh: false,
            ack: flags & 16 != 0,
        };
        let expected = self.theirs.wrapping_add(1).wrapping_add(self.connection.received().0 as u32);
        let mut segment = segment(expected.wrapping_add(bytes.offset()), self.sent.wrapping_add(bytes.offset()), flags);
        segment.window = u16::from(bytes.next()) << 8;
        let more = bytes.next();
        if more & 1 == 0 {
            segment.options.timestamps =
                Some(Timestamps { value: bytes.offset().wrapping_add(5), echo: bytes.offset() });
        }
        for _ in 0..more >> 6 {
            let start = self.sent.wrapping_add(bytes.offset());
            segment.options.sack.push((start, start.wrapping_add(bytes.offset())));
        }
        self.bring(&segment, usize::from(bytes.next()) * usize::from(more & 15));
    }

    fn bring(&mut self, segment: &Segment, length: usize) {
        let (shown, policy) = (&mut self.shown, self.policy);
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            assert_eq!(policy, ReceivePolicy::Place);
            let all = position.0..position.0 + bytes.len() as u64;
            all.for_each(|position| assert!(shown.insert(position), "{position} is shown twice"));
            true
        };
        self.connection.handle(segment, &self.payload[..length], &mut sink, self.now);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        // A timer that is due and does nothing would be polled for ever.
        for _ in 0..100_000 {
            let Some(next) = self.connection.next_timeout().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.connection.handle_timeout(self.now);
            self.check();
        }
        panic!("100 000 timers in {time:?}");
    }

    /// Takes what leaves, and checks whether it may.
    fn check(&mut self) {
        for _ in 0..1000 {
            let Some(outgoing) = self.connection.poll_transmit(self.now) else {
                let bound = self.connection.received().0 + self.connection.early_bytes();
                assert!(self.policy != ReceivePolicy::Place || self.shown.len() as u64 == bound);
                return;
            };
            let mut bytes = [0; 2000];
            let length = self.connection.emit(&outgoing, &mut bytes).expect("it fits");
            assert!(length <= 1460 + 60 && outgoing.segment.header_length() <= MAX_HEADER);
            let end = outgoing.segment.sequence.wrapping_add(outgoing.payload_length() as u32);
            if end.wrapping_sub(self.ours) > self.sent.wrapping_sub(self.ours) && !outgoing.segment.flags.rst {
                self.sent = end;
            }
        }
        panic!("it never stops sending");
    }
}
