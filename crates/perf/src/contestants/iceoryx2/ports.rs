//! One publisher and one subscriber on each side, and what is measured over them.

use std::error::Error;
use std::hint;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{
    BackpressureStrategy, Config, LogLevel, Node, NodeBuilder, SignalHandlingMode, ipc, set_log_level,
};
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::copies_out;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Kind, Role};
use crate::model::measure::{Measured, Parts, RoundTrips, Watch};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Service = PortFactory<ipc::Service, [u8], ()>;

/// The services of a run: what the active side sends, and what comes back.
const FORTH: &str = "forth";
const BACK: &str = "back";

/// One side. Only the passive one has ports before it runs.
pub(crate) struct PortSide {
    node: Node<ipc::Service>,
    /// What both services of this run have in their names.
    name: String,
    ports: Option<Ports>,
}

impl PortSide {
    pub(crate) fn open(job: &Job) -> Outcome<Self> {
        set_log_level(LogLevel::Fatal);
        // This process is ended by its own rules, which a handler of signals would replace.
        let node = NodeBuilder::new()
            .config(&Config::default())
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()?;
        let mut side = Self { node, name: String::new(), ports: None };
        if job.role() == Role::Passive {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
            side.name = format!("weft-perf/{}-{now}", process::id());
            let [forth, back] = [FORTH, BACK].map(|way| side.create(way, job));
            side.ports = Some(Ports::new(back?, forth?, job)?);
        }
        Ok(side)
    }

    fn create(&self, way: &str, job: &Job) -> Outcome<Service> {
        let builder = self.node.service_builder(&format!("{}/{way}", self.name).as_str().try_into()?);
        // Two nodes: one on each side.
        let builder = builder.publish_subscribe::<[u8]>().max_nodes(2).max_publishers(1).max_subscribers(1);
        let builder = builder.enable_safe_overflow(false).history_size(0);
        Ok(builder.subscriber_max_buffer_size(job.buffers()).subscriber_max_borrowed_samples(1).create()?)
    }

    fn find(&self, name: &str, way: &str) -> Outcome<Service> {
        let builder = self.node.service_builder(&format!("{name}/{way}").as_str().try_into()?);
        Ok(builder.publish_subscribe::<[u8]>().open()?)
    }

    fn measure(&mut self, job: &Job, peer: &str) -> Outcome<Measured> {
        if self.ports.is_none() {
            let [forth, back] = [FORTH, BACK].map(|way| self.find(peer, way));
            self.ports = Some(Ports::new(forth?, back?, job)?);
        }
        let ports = self.ports.as_mut().ok_or("this side has no ports")?;
        match (job.kind, job.role()) {
            (Kind::Latency, Role::Active) => ports.ping(job),
            (Kind::Latency, Role::Passive) => ports.pong(job),
            (_, Role::Active) => ports.pour(job),
            (_, Role::Passive) => ports.drain(job),
        }
    }
}

impl Side for PortSide {
    fn address(&self) -> String {
        self.name.clone()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        self.measure(job, other(job, addresses)).map_err(|error| format!("iceoryx2: {error}"))
    }
}

/// The ends of one side.
struct Ports {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    message: Vec<u8>,
    /// Where messages are copied to, if they are.
    copy: Option<Vec<u8>>,
}

impl Ports {
    fn new(out: Service, into: Service, job: &Job) -> Outcome<Self> {
        let publisher = out
            .publisher_builder()
            .initial_max_slice_len(job.size)
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let subscriber = into.subscriber_builder().create()?;
        let copy = copies_out(job)?.then(|| vec![0; job.size]);
        Ok(Self { publisher, subscriber, message: vec![0x5a; job.size], copy })
    }

    fn send(&self) -> Outcome<()> {
        let sample = self.publisher.loan_slice_uninit(self.message.len())?;
        match sample.write_from_slice(&self.message).send()? {
            0 => Err("the peer has gone".into()),
            _ => Ok(()),
        }
    }

    /// Polls until a message is there.
    fn receive(&mut self) -> Outcome<()> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                match &mut self.copy {
                    Some(copy) => copy.copy_from_slice(sample.payload()),
                    None => drop(hint::black_box(sample.payload().last())),
                }
                return Ok(());
            }
            hint::spin_loop();
        }
    }

    fn ping(&mut self, job: &Job) -> Outcome<Measured> {
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        for _ in 0..job.warmup + job.iterations {
            self.send()?;
            self.receive()?;
            trips.lap();
        }
        Ok(trips.finish(job.share_of_round_trip()))
    }

    fn pong(&mut self, job: &Job) -> Outcome<Measured> {
        for _ in 0..job.warmup + job.iterations {
            self.receive()?;
            self.send()?;
        }
        Ok(Measured::default())
    }

    fn pour(&mut self, job: &Job) -> Outcome<Measured> {
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
        self.receive()
    }

    fn drain(&mut self, job: &Job) -> Outcome<Measured> {
        self.receive_many(job.warmup, &mut Parts::start(job.warmup))?;
        self.send()?;
        let watch = Watch::start();
        let mut parts = Parts::start(job.iterations);
        self.receive_many(job.iterations, &mut parts)?;
        let cpu_s_per_gb = Some(watch.cpu_s_per_gb(job.bytes()));
        self.send()?;
        let unit = if job.kind == Kind::Rate { 1.0 } else { 1e9 / job.size as f64 };
        let p99 = parts.slow().map(|per_second| per_second / unit);
        Ok(Measured { p99, cpu_s_per_gb, ..Measured::default() })
    }

    fn receive_many(&mut self, count: u64, parts: &mut Parts) -> Outcome<()> {
        for done in 1..=count {
            self.receive()?;
            parts.reach(done);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::super::super::job::tests::job;
    use super::*;

    /// What both sides of a job see. Each has a thread of its own: ports stay where they were made.
    fn run(job: &Job) -> [Measured; 2] {
        let (tell, told) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let passive = scope.spawn(move || {
                let job = Job { rank: 0, ..job.clone() };
                let mut side = PortSide::open(&job).unwrap();
                tell.send(side.address()).unwrap();
                (side.run(&job, &[String::new(), String::new()]).unwrap(), side.name)
            });
            let job = Job { rank: 1, ..job.clone() };
            let mut side = PortSide::open(&job).unwrap();
            let active = side.run(&job, &[told.recv().unwrap(), String::new()]).unwrap();
            [passive.join().unwrap().0, active]
        })
    }

    #[test]
    fn each_test_has_its_figures() {
        for variant in [None, Some("copy".to_owned())] {
            let job = Job { contestant: "iceoryx2".into(), variant, size: 1000, iterations: 500, ..job() };
            let [_, active] = run(&job);
            assert!(active.value.unwrap() > 0.0 && active.p99.unwrap() >= active.value.unwrap());
            for kind in [Kind::Bandwidth, Kind::Rate] {
                let [passive, active] = run(&Job { kind, ..job.clone() });
                assert!(active.value.unwrap() > 0.0, "{kind:?}");
                assert!(active.cpu_s_per_gb.is_some() && passive.cpu_s_per_gb.is_some(), "{kind:?}");
            }
        }
    }
}
