//! One connection and its stream, and what is measured over it.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime, TransportConfig, VarInt};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::contestants::quinn::keys;
use crate::contestants::sockets::exchange::READ_BYTES;
use crate::contestants::sockets::variant::Variant;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Kind, Role, Wait};
use crate::model::measure::{Measured, Parts, RoundTrips, Watch};

/// Bytes that may be in flight, in each direction: what the kernel's TCP may have by default.
const WINDOW: u32 = 6 << 20;
/// Bytes of a UDP socket's buffers, as far as the kernel allows them.
const SOCKET_BUFFER: usize = 4 << 20;
/// Bytes that are written before quinn gets its turn: without one it would send only when no more can be written.
const TURN: usize = 64 << 10;
/// How long the end may take: the peer's last acknowledgement, or that it has closed.
const LAST: Duration = Duration::from_secs(2);
/// What a client calls the server; only its key counts.
const SERVER: &str = "weft-perf";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the other side must know.
#[derive(Default, Serialize, Deserialize)]
struct Address {
    port: u16,
    /// The server's public key.
    key: Vec<u8>,
}

/// One side. Only the passive one has an endpoint before it runs.
pub(crate) struct QuinnSide {
    runtime: Runtime,
    endpoint: Option<Endpoint>,
    address: Address,
    link: Option<Link>,
}

impl QuinnSide {
    pub(crate) fn open(job: &Job) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (mut endpoint, mut address) = (None, Address::default());
        if job.role() == Role::Passive {
            let (mut config, key) = keys::server()?;
            config.transport_config(transport());
            let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
            let guard = runtime.enter();
            let opened = bind(local, Some(config))?;
            drop(guard);
            address = Address { port: opened.local_addr()?.port(), key };
            endpoint = Some(opened);
        }
        Ok(Self { runtime, endpoint, address, link: None })
    }
}

impl Side for QuinnSide {
    fn address(&self) -> String {
        serde_json::to_string(&self.address).expect("plain values become JSON")
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let variant = Variant::of(job)?;
        let peer: Address =
            serde_json::from_str(other(job, addresses)).map_err(|error| format!("the peer's address: {error}"))?;
        if job.wait == Wait::Spin {
            // With a task that is always ready, the thread never sleeps.
            self.runtime.spawn(async {
                loop {
                    yield_now().await;
                }
            });
        }
        let endpoint = self.endpoint.take();
        let link = self.runtime.block_on(async {
            match endpoint {
                Some(endpoint) => Link::accept(endpoint).await,
                None => Link::connect(job, peer).await,
            }
        });
        let link = self.link.insert(link.map_err(|error| format!("cannot connect: {error}"))?);
        self.runtime.block_on(link.run(job, &variant)).map_err(|error| format!("the connection failed: {error}"))
    }
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("the host {host} has no address"));
    (host, port).to_socket_addrs()?.next().ok_or_else(none)
}

fn bind(local: SocketAddr, server: Option<quinn::ServerConfig>) -> Outcome<Endpoint> {
    let socket = UdpSocket::bind(local)?;
    let options = SockRef::from(&socket);
    options.set_recv_buffer_size(SOCKET_BUFFER)?;
    options.set_send_buffer_size(SOCKET_BUFFER)?;
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(WINDOW.into());
    Arc::new(transport)
}

/// A connection with its stream.
struct Link {
    endpoint: Endpoint,
    connection: Connection,
    sender: SendStream,
    receiver: RecvStream,
}

impl Link {
    async fn accept(endpoint: Endpoint) -> Outcome<Self> {
        let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
        let (sender, mut receiver) = connection.accept_bi().await?;
        receiver.read_exact(&mut [0]).await?;
        Ok(Self { endpoint, connection, sender, receiver })
    }

    async fn connect(job: &Job, peer: Address) -> Outcome<Self> {
        let remote = resolve(&job.host, peer.port)?;
        let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = job.local.as_deref().map_or(Ok(SocketAddr::new(any, 0)), |local| resolve(local, 0))?;
        let mut config = keys::client(peer.key)?;
        config.transport_config(transport());
        let endpoint = bind(local, None)?;
        let connection = endpoint.connect_with(config, remote, SERVER)?.await?;
        let (mut sender, receiver) = connection.open_bi().await?;
        // The peer sees a stream only when something comes over it.
        sender.write_all(&[0]).await?;
        Ok(Self { endpoint, connection, sender, receiver })
    }

    async fn run(&mut self, job: &Job, variant: &Variant) -> Outcome<Measured> {
        let measured = match (job.kind, job.role()) {
            // Of both that send first, each reads then.
            (Kind::Latency, Role::Active) | (Kind::PingPing, _) => self.ping(job, variant).await,
            (Kind::Latency, Role::Passive) => self.pong(job, variant).await,
            (Kind::Duplex, _) => self.exchange(job).await,
            (_, Role::Active) => self.pour(job, variant).await,
            (_, Role::Passive) => self.drain(job, variant).await,
        }?;
        self.finish(job.role()).await;
        Ok(measured)
    }

    async fn ping(&mut self, job: &Job, variant: &Variant) -> Outcome<Measured> {
        let mut message = vec![0x5a; job.size];
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        for _ in 0..job.warmup + job.iterations {
            variant.check(&message);
            self.sender.write_all(&message).await?;
            self.receiver.read_exact(&mut message).await?;
            variant.check(&message);
            trips.lap();
        }
        Ok(trips.finish(job.share_of_round_trip()))
    }

    async fn pong(&mut self, job: &Job, variant: &Variant) -> Outcome<Measured> {
        let mut message = vec![0; job.size];
        for _ in 0..job.warmup + job.iterations {
            self.receiver.read_exact(&mut message).await?;
            variant.check(&message);
            variant.check(&message);
            self.sender.write_all(&message).await?;
        }
        Ok(Measured::default())
    }

    async fn pour(&mut self, job: &Job, variant: &Variant) -> Outcome<Measured> {
        let message = vec![0x5a; variant.write_bytes()];
        write(&mut self.sender, &message, job.warmup * job.size as u64, variant).await?;
        self.await_word().await?;
        let watch = Watch::start();
        write(&mut self.sender, &message, job.bytes(), variant).await?;
        self.await_word().await?;
        let seconds = watch.seconds();
        let value = match job.kind {
            Kind::Rate => job.iterations as f64 / seconds,
            _ => job.bytes() as f64 / 1e9 / seconds,
        };
        Ok(Measured { value: Some(value), cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())), ..Measured::default() })
    }

    async fn drain(&mut self, job: &Job, variant: &Variant) -> Outcome<Measured> {
        let mut buffer = vec![0; READ_BYTES];
        let warmup = job.warmup * job.size as u64;
        read(&mut self.receiver, &mut buffer, warmup, variant, &mut Parts::start(warmup)).await?;
        self.sender.write_all(&[0]).await?;
        let watch = Watch::start();
        let mut parts = Parts::start(job.bytes());
        read(&mut self.receiver, &mut buffer, job.bytes(), variant, &mut parts).await?;
        let cpu_s_per_gb = Some(watch.cpu_s_per_gb(job.bytes()));
        self.sender.write_all(&[0]).await?;
        let unit = if job.kind == Kind::Rate { job.size as f64 } else { 1e9 };
        let p99 = parts.slow().map(|bytes_per_second| bytes_per_second / unit);
        Ok(Measured { p99, cpu_s_per_gb, ..Measured::default() })
    }

    /// Sends as many messages as it receives.
    async fn exchange(&mut self, job: &Job) -> Outcome<Measured> {
        self.both_ways(job, job.warmup).await?;
        let watch = Watch::start();
        self.both_ways(job, job.iterations).await?;
        let (bytes, seconds) = (2 * job.bytes(), watch.seconds());
        let value = Some(bytes as f64 / 1e9 / seconds);
        Ok(Measured { value, cpu_s_per_gb: Some(watch.cpu_s_per_gb(bytes)), ..Measured::default() })
    }

    async fn both_ways(&mut self, job: &Job, count: u64) -> Outcome<()> {
        let (variant, bytes) = (Variant::of(job)?, count * job.size as u64);
        let (message, mut buffer) = (vec![0x5a; job.size], vec![0; READ_BYTES]);
        let mut parts = Parts::start(bytes);
        let Self { sender, receiver, .. } = self;
        let sending = write(sender, &message, bytes, &variant);
        let receiving = read(receiver, &mut buffer, bytes, &variant, &mut parts);
        tokio::try_join!(sending, receiving)?;
        // Neither begins to measure before the other one has it all.
        self.sender.write_all(&[0]).await?;
        self.await_word().await
    }

    /// The peer says that it has all.
    async fn await_word(&mut self) -> Outcome<()> {
        Ok(self.receiver.read_exact(&mut [0]).await?)
    }

    /// Goes on until the peer has all. The active side closes; what fails then is no failure of the measurement.
    async fn finish(&mut self, role: Role) {
        let last = async {
            if self.sender.finish().is_ok() {
                let _ = self.sender.stopped().await;
            }
            match role {
                Role::Active => {
                    let _ = self.receiver.read(&mut [0]).await;
                    self.connection.close(VarInt::from_u32(0), b"done");
                    self.endpoint.wait_idle().await;
                }
                Role::Passive => drop(self.connection.closed().await),
            }
        };
        let _ = timeout(LAST, last).await;
    }
}

/// Writes this many bytes.
async fn write(sender: &mut SendStream, message: &[u8], mut bytes: u64, variant: &Variant) -> Outcome<()> {
    let mut turn = 0;
    while bytes > 0 {
        let part = &message[..message.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        variant.check(part);
        sender.write_all(part).await?;
        bytes -= part.len() as u64;
        turn += part.len();
        if turn >= TURN {
            turn = 0;
            yield_now().await;
        }
    }
    Ok(())
}

/// Reads this many bytes.
async fn read(
    receiver: &mut RecvStream,
    buffer: &mut [u8],
    bytes: u64,
    variant: &Variant,
    parts: &mut Parts,
) -> Outcome<()> {
    let mut done = 0;
    while done < bytes {
        // What follows is of the next part of the test.
        let most = buffer.len().min(usize::try_from(bytes - done).unwrap_or(usize::MAX));
        let count = receiver.read(&mut buffer[..most]).await?.ok_or("the stream has ended")?;
        variant.check(&buffer[..count]);
        done += count as u64;
        parts.reach(done);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::super::super::job::tests::job;
    use super::*;

    /// What both sides of a job see.
    fn run(job: &Job) -> [Measured; 2] {
        let mut passive = QuinnSide::open(&Job { rank: 0, ..job.clone() }).unwrap();
        let addresses = [passive.address(), String::new()];
        thread::scope(|scope| {
            let active = scope.spawn(|| {
                let job = Job { rank: 1, ..job.clone() };
                QuinnSide::open(&job).unwrap().run(&job, &addresses).unwrap()
            });
            let passive = passive.run(&Job { rank: 0, ..job.clone() }, &addresses).unwrap();
            [passive, active.join().unwrap()]
        })
    }

    fn job_of(kind: Kind) -> Job {
        Job { contestant: "quinn".into(), kind, size: 1000, iterations: 200, wait: Wait::Block, ..job() }
    }

    #[test]
    fn each_test_has_its_figures() {
        let [_, active] = run(&job_of(Kind::Latency));
        assert!(active.value.unwrap() > 0.0 && active.p99.unwrap() >= active.value.unwrap());
        for kind in [Kind::Bandwidth, Kind::Rate, Kind::Duplex] {
            let [passive, active] = run(&job_of(kind));
            assert!(active.value.unwrap() > 0.0, "{kind:?}");
            assert!(active.cpu_s_per_gb.is_some() && passive.cpu_s_per_gb.is_some(), "{kind:?}");
        }
    }

    #[test]
    fn another_server_is_refused() {
        let job = job_of(Kind::Latency);
        let QuinnSide { runtime, endpoint, address, .. } = QuinnSide::open(&Job { rank: 0, ..job.clone() }).unwrap();
        let (_, key) = keys::server().unwrap();
        let [connected, accepted] = runtime.block_on(async {
            let connecting = Link::connect(&job, Address { key, ..address });
            let (connected, accepted) = tokio::join!(connecting, Link::accept(endpoint.unwrap()));
            [connected, accepted]
        });
        assert!(connected.is_err() && accepted.is_err());
    }
}
