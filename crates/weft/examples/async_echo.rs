//! An echo server in one thread of tokio, for as many clients as come, and what waiting costs.
//! ```text
//! cargo run --release --features tokio --example async_echo -- serve 127.0.0.1:7471
//! cargo run --release --features tokio --example async_echo -- call 127.0.0.1:7471 1000
//! cargo run --release --features tokio --example async_echo -- measure 20000
//! ```
//! `measure` sends this many messages of 64 bytes there and back between two NICs of this program: first with ends that
//! poll, then with ends that wait for a descriptor in tokio.

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use weft::tokio::{Completions, Connection, Listener, Reactor};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, IncomingConnection, ListenOptions, MemoryRegion,
    ProtectionDomain, QueuePair, QueuePairOptions, Status, WorkCompletion, WorkRequest,
};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Bytes of a message.
const MESSAGE: usize = 64;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address] => runtime()?.block_on(serve_all(address.parse()?)),
        ["call", address, clients] => {
            let context = Context::open()?;
            let messages = runtime()?.block_on(call_all(&context, address.parse()?, clients.parse()?, 10))?;
            println!("{messages} messages came back");
            Ok(())
        }
        ["measure", messages] => measure(messages.parse()?),
        _ => Err("usage: async_echo serve ADDRESS:PORT | call ADDRESS:PORT CLIENTS | measure MESSAGES".into()),
    }
}

/// A runtime of one thread, which waits for descriptors.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_io().build()?)
}

async fn serve_all(address: SocketAddr) -> Result<(), Failure> {
    let reactor = Reactor::new(&Context::open()?)?;
    let listener = reactor.listen(address, &ListenOptions::default())?;
    println!("echo at {}", listener.local_address());
    let domain = reactor.context().allocate_protection_domain()?;
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            incoming = listener.accept() => {
                served.spawn(echo(reactor.clone(), domain.clone(), incoming?));
            }
            Some(done) = served.join_next() => match done? {
                Ok(messages) => println!("a client has gone after {messages} messages"),
                Err(error) => println!("a client: {error}"),
            }
        }
    }
}

/// Serves this many clients, and returns how many messages they sent.
pub(crate) async fn serve(reactor: &Reactor, listener: &Listener, clients: usize) -> Result<u64, Failure> {
    let domain = reactor.context().allocate_protection_domain()?;
    let mut served = JoinSet::new();
    for _ in 0..clients {
        served.spawn(echo(reactor.clone(), domain.clone(), listener.accept().await?));
    }
    let mut messages = 0;
    while let Some(done) = served.join_next().await {
        messages += done??;
    }
    Ok(messages)
}

/// An end of a connection: its memory, and where its receives complete.
struct End {
    connection: Connection,
    completions: Completions,
    buffer: MemoryRegion,
}

impl End {
    fn new(reactor: &Reactor, domain: &ProtectionDomain) -> Result<Self, Failure> {
        let completions = reactor.create_completion_queue(16)?;
        let (queue_pair, buffer) = make(domain, completions.queue())?;
        Ok(Self { connection: reactor.attach(queue_pair)?, completions, buffer })
    }
}

/// A queue pair with a receive for the first message.
fn make(domain: &ProtectionDomain, completions: &CompletionQueue) -> Result<(QueuePair, MemoryRegion), Failure> {
    let options = QueuePairOptions { send_depth: 8, receive_depth: 1 };
    let queue_pair = domain.create_queue_pair(completions, &options)?;
    let buffer = domain.allocate(MESSAGE, Access::LOCAL_WRITE)?;
    queue_pair.post_receive(0, &[buffer.slice(..)?])?;
    Ok((queue_pair, buffer))
}

/// Takes a message out of the buffer, posts the next receive, and then sends: the peer's next message finds it.
fn answer(queue_pair: &QueuePair, buffer: &MemoryRegion, received: &WorkCompletion) -> Result<[u8; MESSAGE], Failure> {
    let mut bytes = [0; MESSAGE];
    buffer.read(0, &mut bytes[..received.length as usize])?;
    queue_pair.post_receive(0, &[buffer.slice(..)?])?;
    queue_pair.post(WorkRequest::send_inline(&bytes[..received.length as usize])?.unsignaled())?;
    Ok(bytes)
}

/// Serves a client until it closes the connection.
async fn echo(reactor: Reactor, domain: ProtectionDomain, incoming: IncomingConnection) -> Result<u64, Failure> {
    let mut end = End::new(&reactor, &domain)?;
    end.connection.accept(incoming, &[]).await?;
    let mut messages = 0;
    loop {
        let received = end.completions.next().await;
        match received.status {
            Status::Success => _ = answer(&end.connection, &end.buffer, &received)?,
            // The receive that was posted last has no message.
            _ => break,
        }
        messages += 1;
    }
    match end.connection.ended().await {
        None => Ok(messages),
        Some(error) => Err(error.into()),
    }
}

/// Has this many clients send this many messages each, all at once. Returns how many came back.
pub(crate) async fn call_all(
    context: &Context,
    address: SocketAddr,
    clients: usize,
    messages: u64,
) -> Result<u64, Failure> {
    let reactor = Reactor::new(context)?;
    let domain = context.allocate_protection_domain()?;
    let mut calls = JoinSet::new();
    for client in 0..clients {
        let (reactor, domain) = (reactor.clone(), domain.clone());
        calls.spawn(async move { call(&reactor, &domain, address, client, messages).await });
    }
    let mut back = 0;
    while let Some(done) = calls.join_next().await {
        back += done??;
    }
    Ok(back)
}

async fn call(
    reactor: &Reactor,
    domain: &ProtectionDomain,
    address: SocketAddr,
    client: usize,
    messages: u64,
) -> Result<u64, Failure> {
    let mut end = End::new(reactor, domain)?;
    end.connection.connect(address, &ConnectOptions::default()).await?;
    for number in 0..messages {
        let text = format!("message {number} of client {client}");
        end.connection.post(WorkRequest::send_inline(text.as_bytes())?.unsignaled())?;
        let received = end.completions.next().await;
        let mut bytes = vec![0; received.length as usize];
        end.buffer.read(0, &mut bytes)?;
        if received.status != Status::Success || bytes != text.as_bytes() {
            return Err(format!("{text}: {}, {}", received.status, String::from_utf8_lossy(&bytes)).into());
        }
        end.connection.post_receive(0, &[end.buffer.slice(..)?])?;
    }
    end.connection.disconnect().await?;
    Ok(messages)
}

/// Round trips of an echo: by polling, and by a descriptor in tokio.
pub(crate) fn measure(messages: usize) -> Result<(), Failure> {
    let polled = report("polling", polled(messages)?);
    let awaited = report("tokio", awaited(messages)?);
    println!("p99 by descriptor: {:.2} times that of polling", awaited.as_secs_f64() / polled.as_secs_f64());
    Ok(())
}

/// Prints the median and the 99th percentile, and returns the latter.
fn report(name: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{name:8} {:>8} messages, p50 {:?}, p99 {:?}", times.len(), at(50), at(99));
    at(99)
}

/// Messages before the measured ones.
const WARM_UP: usize = 1000;

fn polled(messages: usize) -> Result<Vec<Duration>, Failure> {
    let (server, client) = (Context::open()?, Context::open()?);
    let listener = server.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
    let address = listener.local_address();
    let serves = thread::spawn(move || -> Result<(), Failure> {
        let completions = server.create_completion_queue(16)?;
        let (queue_pair, buffer) = make(&server.allocate_protection_domain()?, &completions)?;
        listener.accept(None)?.accept(&queue_pair, &[])?;
        loop {
            let Some(received) = completions.poll() else { continue };
            if received.status != Status::Success {
                return Ok(());
            }
            answer(&queue_pair, &buffer, &received)?;
        }
    });
    let completions = client.create_completion_queue(16)?;
    let (queue_pair, buffer) = make(&client.allocate_protection_domain()?, &completions)?;
    queue_pair.connect(address, &ConnectOptions::default())?;
    queue_pair.post(WorkRequest::send_inline(&[7; MESSAGE])?.unsignaled())?;
    let mut times = Vec::with_capacity(messages);
    let mut sent = Instant::now();
    for number in 0..WARM_UP + messages {
        let received = loop {
            if let Some(received) = completions.poll() {
                break received;
            }
        };
        if number >= WARM_UP {
            times.push(sent.elapsed());
        }
        sent = Instant::now();
        answer(&queue_pair, &buffer, &received)?;
    }
    while completions.poll().is_none() {}
    queue_pair.disconnect(None)?;
    serves.join().map_err(|_| "the server panicked")??;
    Ok(times)
}

fn awaited(messages: usize) -> Result<Vec<Duration>, Failure> {
    let (server, client) = (Context::open()?, Context::open()?);
    let (sender, receiver) = std::sync::mpsc::channel();
    let serves = thread::spawn(move || -> Result<u64, Failure> {
        runtime()?.block_on(async {
            let reactor = Reactor::new(&server)?;
            let listener = reactor.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
            sender.send(listener.local_address())?;
            serve(&reactor, &listener, 1).await
        })
    });
    let address = receiver.recv()?;
    let times = runtime()?.block_on(async {
        let reactor = Reactor::new(&client)?;
        let mut end = End::new(&reactor, &client.allocate_protection_domain()?)?;
        end.connection.connect(address, &ConnectOptions::default()).await?;
        end.connection.post(WorkRequest::send_inline(&[7; MESSAGE])?.unsignaled())?;
        let mut times = Vec::with_capacity(messages);
        let mut sent = Instant::now();
        for number in 0..WARM_UP + messages {
            let received = end.completions.next().await;
            if number >= WARM_UP {
                times.push(sent.elapsed());
            }
            sent = Instant::now();
            answer(&end.connection, &end.buffer, &received)?;
        }
        end.completions.next().await;
        end.connection.disconnect().await?;
        Ok::<_, Failure>(times)
    })?;
    serves.join().map_err(|_| "the server panicked")??;
    Ok(times)
}
