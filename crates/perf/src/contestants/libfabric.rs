//! Any provider of libfabric: tagged messages on a reliable-datagram endpoint, manual progress by polling the
//! completion queue.
//!
//! Latency: a ping-pong, with the next receive always posted ahead. Bandwidth and rate: as many sends in flight as the
//! window (and the caches) allow, the receiver with as many receives posted; it says when it has all. Each message is
//! sent with a completion (`fi_tsend`, `fi_cq_read`), as libraries above libfabric do to keep a window; the variant
//! `PROVIDER:inject` injects those that are small enough, which has no completion. It is the same code for all
//! providers.

use weft_command::provider::Provider;
use weft_libfabric::{Endpoint, Fabric, Library, Local, Operation, PeerAddress, Posted, Slots};

use crate::contestants::logp::{self, Exchange};
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Role};
use crate::model::measure::{Measured, Parts, RoundTrips, Watch};

/// The provider that is meant when none is named.
const DEFAULT_PROVIDER: &str = "tcp";

/// Tag of the payload.
const DATA: u64 = 1;
/// Tag of "I have it all".
const DONE: u64 = 2;

pub(crate) struct Libfabric;

impl Contestant for Libfabric {
    fn name(&self) -> &'static str {
        "libfabric"
    }

    fn describe(&self) -> &'static str {
        "tagged messages, FI_EP_RDM, manual progress, FI_THREAD_DOMAIN; sent with completions, or injected when small enough; the variant is the provider, then :inject"
    }

    fn available(&self, variant: Option<&str>) -> Result<(), String> {
        let provider = Variant::parse(variant)?.provider;
        let library = Library::load().map_err(|error| error.to_string())?;
        if Provider::is_meant(provider) {
            // It is found only by processes that are started so.
            return Provider::available();
        }
        let providers = library.providers().map_err(|error| error.to_string())?;
        if providers.iter().any(|found| found.name == provider || found.name.split(';').any(|part| part == provider)) {
            return Ok(());
        }
        let names: Vec<_> = providers.into_iter().map(|found| found.name).collect();
        Err(format!("libfabric has no provider {provider:?}; it has {}", names.join(", ")))
    }

    fn version(&self, _: &Job) -> Option<String> {
        let (major, minor) = Library::load().ok()?.version();
        Some(format!("{major}.{minor}"))
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        Variant::parse(job.variant.as_deref())?;
        match job.kind {
            Kind::Latency | Kind::Bandwidth | Kind::Rate | Kind::PingPing | Kind::LogP => Ok(()),
            _ => {
                Err("tagged messages in one direction, and exchanges of them, are all that is measured of libfabric"
                    .into())
            }
        }
    }

    fn provider(&self, variant: Option<&str>) -> Result<Option<Provider>, String> {
        Provider::is_meant(Variant::parse(variant)?.provider).then(Provider::open).transpose()
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let Variant { provider, inject } = Variant::parse(job.variant.as_deref())?;
        let local = job.local.as_deref().map_or(Local::Toward(&job.host), Local::At);
        let open = || {
            // One more than the window: for the receiver's last message.
            let endpoint = Fabric::open(provider, local)?.endpoint(Slots::new(job.buffers() + 2, job.size))?;
            let address = endpoint.address()?;
            Ok::<_, weft_libfabric::Error>(LibfabricSide { endpoint, address, inject })
        };
        open().map(|side| Box::new(side) as Box<dyn Side>).map_err(|error| format!("provider {provider}: {error}"))
    }
}

/// Its variant on the command line: the provider, and how messages are sent.
#[derive(Debug, PartialEq)]
struct Variant<'a> {
    provider: &'a str,
    inject: bool,
}

impl<'a> Variant<'a> {
    fn parse(text: Option<&'a str>) -> Result<Self, String> {
        let text = text.unwrap_or(DEFAULT_PROVIDER);
        match text.split_once(':') {
            None => Ok(Self { provider: text, inject: false }),
            Some((provider, "inject")) => Ok(Self { provider, inject: true }),
            Some((provider, other)) => {
                Err(format!("{other:?} is no way to send; write {provider} or {provider}:inject"))
            }
        }
    }
}

struct LibfabricSide {
    endpoint: Endpoint,
    address: Vec<u8>,
    inject: bool,
}

impl Side for LibfabricSide {
    fn address(&self) -> String {
        self.address.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let peer = bytes_of_hex(other(job, addresses)).ok_or("the peer's address is damaged")?;
        let mut run = || {
            let peer = self.endpoint.insert(&peer)?;
            let mut link = Link::new(&mut self.endpoint, peer, job, self.inject);
            match (job.kind, job.role()) {
                (Kind::Latency, Role::Active) => link.ping(job),
                (Kind::Latency, Role::Passive) => link.pong(job),
                // Both send first, and then wait.
                (Kind::PingPing, _) => link.ping(job),
                (Kind::LogP, _) => link.exchange(job),
                (_, Role::Active) => link.pour(job),
                (_, Role::Passive) => link.drain(job),
            }
        };
        run().map_err(|error| error.to_string())
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

type Outcome<T> = Result<T, weft_libfabric::Error>;

/// An endpoint, its peer, and the slots that are idle.
struct Link<'a> {
    endpoint: &'a mut Endpoint,
    peer: PeerAddress,
    size: usize,
    inject: bool,
    /// What is sent when messages are injected.
    message: Vec<u8>,
    idle: Vec<usize>,
    /// Received messages not yet taken.
    received: u64,
    /// Slots that a message was received into, to be posted again.
    filled: Vec<usize>,
}

impl<'a> Link<'a> {
    fn new(endpoint: &'a mut Endpoint, peer: PeerAddress, job: &Job, inject: bool) -> Self {
        let count = endpoint.slots().count();
        let inject = inject && job.size <= endpoint.fabric().inject_limit();
        let message = vec![0x5a; if inject { job.size } else { 0 }];
        let (idle, filled) = ((0..count).collect(), Vec::with_capacity(count));
        Self { endpoint, peer, size: job.size, inject, message, idle, received: 0, filled }
    }

    fn ping(&mut self, job: &Job) -> Outcome<Measured> {
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        self.post_receive(DATA)?;
        self.post_receive(DATA)?;
        for _ in 0..job.warmup + job.iterations {
            self.send()?;
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
            self.send()?;
            self.repost(DATA)?;
        }
        self.await_idle(2)?;
        Ok(Measured::default())
    }

    /// With a receive for each message that may come before the next is awaited.
    fn exchange(&mut self, job: &Job) -> Outcome<Measured> {
        for _ in 0..logp::receives(job) {
            self.post_receive(DATA)?;
        }
        logp::run(job, &mut Exchanged { link: self, receives: logp::receives(job) })
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
            self.send()?;
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
        let busy = self.endpoint.slots().count() - self.idle.len();
        let slot = self.idle_slot()?;
        while self.endpoint.send(self.peer, slot, 1, DONE)? == Posted::TryAgain {
            self.poll()?;
        }
        self.await_idle(busy)
    }

    /// Sends a message, waiting for a slot or for the provider when they are all busy.
    fn send(&mut self) -> Outcome<()> {
        self.send_bytes(self.size)
    }

    /// The same of the first bytes of one.
    fn send_bytes(&mut self, bytes: usize) -> Outcome<()> {
        if self.inject {
            while self.endpoint.inject(self.peer, &self.message[..bytes], DATA)? == Posted::TryAgain {
                self.poll()?;
            }
            return Ok(());
        }
        let slot = self.idle_slot()?;
        while self.endpoint.send(self.peer, slot, bytes, DATA)? == Posted::TryAgain {
            self.poll()?;
        }
        Ok(())
    }

    fn idle_slot(&mut self) -> Outcome<usize> {
        loop {
            if let Some(slot) = self.idle.pop() {
                return Ok(slot);
            }
            self.poll()?;
        }
    }

    fn post_receive(&mut self, tag: u64) -> Outcome<()> {
        let slot = self.idle_slot()?;
        self.receive_into(slot, tag)
    }

    fn receive_into(&mut self, slot: usize, tag: u64) -> Outcome<()> {
        while self.endpoint.receive(self.peer, slot, self.size, tag)? == Posted::TryAgain {
            self.poll()?;
        }
        Ok(())
    }

    /// Waits for a message, and posts its slot again.
    fn await_message(&mut self, tag: u64) -> Outcome<()> {
        while self.received == 0 {
            self.poll()?;
        }
        self.received -= 1;
        self.repost(tag)
    }

    /// Posts again what was received into.
    fn repost(&mut self, tag: u64) -> Outcome<()> {
        while let Some(slot) = self.filled.pop() {
            self.receive_into(slot, tag)?;
        }
        Ok(())
    }

    /// Waits until no more than `busy` slots have an operation pending.
    fn await_idle(&mut self, busy: usize) -> Outcome<()> {
        while self.endpoint.slots().count() - self.idle.len() > busy {
            self.poll()?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Outcome<()> {
        let (idle, received, filled) = (&mut self.idle, &mut self.received, &mut self.filled);
        self.endpoint.poll(|completion| match completion.operation {
            Operation::Send => idle.push(completion.slot),
            Operation::Receive => {
                *received += 1;
                filled.push(completion.slot);
            }
        })?;
        Ok(())
    }
}

/// Messages both ways.
struct Exchanged<'l, 'e> {
    link: &'l mut Link<'e>,
    /// Receives that are always posted.
    receives: usize,
}

impl Exchange for Exchanged<'_, '_> {
    type Error = weft_libfabric::Error;

    fn send(&mut self, bytes: usize) -> Outcome<()> {
        self.link.send_bytes(bytes)
    }

    fn receive(&mut self, _: usize) -> Outcome<()> {
        self.link.await_message(DATA)
    }

    fn settle(&mut self) -> Outcome<()> {
        self.link.await_idle(self.receives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_a_provider_and_a_way_to_send() {
        assert_eq!(Variant::parse(None), Ok(Variant { provider: "tcp", inject: false }));
        assert_eq!(Variant::parse(Some("tcp;ofi_rxm:inject")), Ok(Variant { provider: "tcp;ofi_rxm", inject: true }));
        assert!(Variant::parse(Some("weft:fast")).unwrap_err().contains("weft:inject"));
    }

    #[test]
    fn addresses_survive_the_way() {
        assert_eq!(bytes_of_hex("0002ff"), Some(vec![0, 2, 255]));
        assert_eq!(bytes_of_hex("0g"), None);
        assert_eq!(bytes_of_hex("é"), None);
        assert_eq!(bytes_of_hex(""), Some(vec![]));
    }
}
