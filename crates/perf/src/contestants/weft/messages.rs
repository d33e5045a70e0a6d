//! Weft's messages, over its endpoints: tagged, matched by the NIC.
//!
//! Latency: a ping-pong, with the next receive always posted ahead. Bandwidth and rate: as many sends in flight as the
//! window (and the caches) allow, the receiver with as many receives posted; it says when it has all. The same pattern
//! as the client of libfabric has.

use std::sync::Arc;

use weft::endpoint::{
    Address, Buffer, Completed, Endpoint, EndpointError, EndpointFailure, EventQueue, Match, PeerId, ReceivePost,
    SendPost,
};
use weft::verbs::Context;

use crate::contestants::weft::endpoints::{DATA, Outcome, attributes, read_address, write_address};
use crate::contestants::weft::first_message;
use crate::contestants::weft::settings::Settings;
use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Role};
use crate::model::measure::{Measured, Parts, RoundTrips, Watch};

/// Tag of "I have it all".
const DONE: u64 = 2;

/// Settings that a variant can't have.
const OF_CONNECTIONS: [&str; 5] = ["crc", "markers", "fpdu", "short", "order"];

pub(crate) struct Messages;

impl Messages {
    pub(crate) const NAME: &str = "messages";
}

impl Contestant for Messages {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "Weft's endpoints: tagged messages with completions, read by polling; the variant is settings"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        if Settings::of(job)?.is_raw() {
            return Err("endpoints are not measured over a raw link".into());
        }
        let named = job.variant.iter().flat_map(|variant| variant.split(':')).filter_map(|part| part.split_once('='));
        if let Some((name, _)) = named.into_iter().find(|(name, _)| OF_CONNECTIONS.contains(name)) {
            return Err(format!("{name} is set for connections, which endpoints open themselves"));
        }
        match job.kind {
            Kind::Latency | Kind::Bandwidth | Kind::Rate | Kind::PingPing | Kind::Connect => Ok(()),
            _ => Err("messages in one direction, and exchanges of them, are all that is measured of endpoints".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let open = || -> Outcome<Box<dyn Side>> {
            let settings = Settings::of(job)?;
            if job.kind == Kind::Connect {
                return first_message::open(job, &settings);
            }
            let context = Context::with_settings(settings.of_context())?;
            let domain = context.allocate_protection_domain()?;
            let events = EventQueue::new(&context)?;
            let endpoint = Endpoint::open(&domain, &attributes(job, &settings)?, Arc::new(events.clone()))?;
            Ok(Box::new(Link::new(endpoint, events, job)))
        };
        open().map_err(|error| format!("cannot open: {error}"))
    }
}

/// An endpoint, and the buffers that are idle.
struct Link {
    endpoint: Endpoint,
    events: EventQueue,
    size: usize,
    peer: PeerId,
    idle: Vec<Buffer>,
    /// Buffers in all, idle or lent.
    count: usize,
    /// Messages received and not yet taken.
    received: u64,
    /// Their buffers, to be posted again.
    filled: Vec<Buffer>,
}

impl Side for Link {
    fn address(&self) -> String {
        write_address(&self.endpoint.address())
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let peer = read_address(other(job, addresses)).ok_or("the peer's address is damaged")?;
        self.measure(job, &peer).map_err(|error| error.to_string())
    }
}

impl Link {
    fn new(endpoint: Endpoint, events: EventQueue, job: &Job) -> Self {
        // Two more than the window: for the receiver's last message, and for one that is in flight meanwhile.
        let count = job.buffers() + 2;
        let idle = (0..count).map(|_| Buffer::from(vec![0x5a; job.size])).collect();
        let filled = Vec::with_capacity(count);
        Self { endpoint, events, size: job.size, peer: PeerId(0), idle, count, received: 0, filled }
    }

    fn measure(&mut self, job: &Job, peer: &Address) -> Outcome<Measured> {
        self.peer = self.endpoint.peer(peer)?;
        match (job.kind, job.role()) {
            (Kind::Latency, Role::Active) | (Kind::PingPing, _) => self.ping(job),
            (Kind::Latency, Role::Passive) => self.pong(job),
            (_, Role::Active) => self.pour(job),
            (_, Role::Passive) => self.drain(job),
        }
    }

    fn ping(&mut self, job: &Job) -> Outcome<Measured> {
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        self.post_receive(DATA)?;
        self.post_receive(DATA)?;
        for _ in 0..job.warmup + job.iterations {
            self.send(DATA)?;
            self.await_message(DATA)?;
            trips.lap();
        }
        self.await_idle(2)?;
        Ok(trips.finish(job.share_of_round_trip()))
    }

    fn pong(&mut self, job: &Job) -> Outcome<Measured> {
        self.post_receive(DATA)?;
        self.post_receive(DATA)?;
        for _ in 0..job.warmup + job.iterations {
            while self.received == 0 {
                self.poll()?;
            }
            self.received -= 1;
            self.send(DATA)?;
            self.repost(DATA)?;
        }
        self.await_idle(2)?;
        Ok(Measured::default())
    }

    fn pour(&mut self, job: &Job) -> Outcome<Measured> {
        self.post_receive(DONE)?;
        self.send_many(job.warmup)?;
        let watch = Watch::start();
        self.send_many(job.iterations)?;
        let seconds = watch.seconds();
        let value = match job.kind {
            Kind::Rate => job.iterations as f64 / seconds,
            _ => job.bytes() as f64 / 1e9 / seconds,
        };
        Ok(Measured { value: Some(value), cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())), ..Measured::default() })
    }

    /// Sends this many messages, and waits until the peer says that it has them.
    fn send_many(&mut self, count: u64) -> Outcome<()> {
        for _ in 0..count {
            self.send(DATA)?;
        }
        self.await_message(DONE)
    }

    fn drain(&mut self, job: &Job) -> Outcome<Measured> {
        for _ in 0..job.buffers() {
            self.post_receive(DATA)?;
        }
        self.receive_many(job.warmup, &mut Parts::start(job.warmup))?;
        self.say_done()?;
        let watch = Watch::start();
        let mut parts = Parts::start(job.iterations);
        self.receive_many(job.iterations, &mut parts)?;
        let cpu_s_per_gb = Some(watch.cpu_s_per_gb(job.bytes()));
        self.say_done()?;
        let unit = if job.kind == Kind::Rate { 1.0 } else { 1e9 / job.size as f64 };
        let p99 = parts.slow().map(|per_second| per_second / unit);
        Ok(Measured { p99, cpu_s_per_gb, ..Measured::default() })
    }

    fn receive_many(&mut self, count: u64, parts: &mut Parts) -> Outcome<()> {
        let mut done = 0;
        while done < count {
            self.poll()?;
            // Never more than `count`: the peer sends the rest only when it was notified that these are here.
            done += std::mem::take(&mut self.received);
            parts.reach(done);
            self.repost(DATA)?;
        }
        Ok(())
    }

    /// Sends the last message and waits until it has been sent.
    fn say_done(&mut self) -> Outcome<()> {
        let busy = self.count - self.idle.len();
        self.send(DONE)?;
        self.await_idle(busy)
    }

    /// Sends a message, waiting for a buffer when they are all busy.
    fn send(&mut self, tag: u64) -> Outcome<()> {
        let buffer = self.idle_buffer()?;
        Ok(self.endpoint.send(SendPost::new(self.peer, buffer).tag(tag))?)
    }

    fn idle_buffer(&mut self) -> Outcome<Buffer> {
        loop {
            if let Some(buffer) = self.idle.pop() {
                return Ok(buffer);
            }
            self.poll()?;
        }
    }

    fn post_receive(&mut self, tag: u64) -> Outcome<()> {
        let buffer = self.idle_buffer()?;
        Ok(self.receive_into(buffer, tag)?)
    }

    fn receive_into(&self, buffer: Buffer, tag: u64) -> Result<(), EndpointError> {
        let post = ReceivePost::new(buffer).from(self.peer).matching(Match { tag, ignore: 0 });
        self.endpoint.receive(post)
    }

    /// Waits for a message, and posts its buffer again.
    fn await_message(&mut self, tag: u64) -> Outcome<()> {
        while self.received == 0 {
            self.poll()?;
        }
        self.received -= 1;
        self.repost(tag)
    }

    /// Posts again what was received into.
    fn repost(&mut self, tag: u64) -> Outcome<()> {
        while let Some(buffer) = self.filled.pop() {
            self.receive_into(buffer, tag)?;
        }
        Ok(())
    }

    /// Waits until no more than `busy` buffers are lent.
    fn await_idle(&mut self, busy: usize) -> Outcome<()> {
        while self.count - self.idle.len() > busy {
            self.poll()?;
        }
        Ok(())
    }

    /// Takes the completions that are there, and runs the NIC when there are none.
    fn poll(&mut self) -> Outcome<()> {
        let Some(event) = self.events.poll() else { return Ok(()) };
        event.outcome.map_err(|failure: EndpointFailure| failure.to_string())?;
        let buffer = event.buffer.ok_or("a completion without the buffer that was lent")?;
        if event.completed == Completed::Receive {
            if event.length > self.size as u64 {
                return Err(format!("a message of {} bytes", event.length).into());
            }
            self.received += 1;
            self.filled.push(buffer);
        } else {
            self.idle.push(buffer);
        }
        Ok(())
    }
}
