//! The passive side: does what the client asks for.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use weft::verbs::{Access, IncomingConnection, MemoryRegion, WorkRequest};

use super::arguments::Arguments;
use super::ping::{Advert, SIZES};
use weft_command::connection::{Endpoint, Link, LinkError, announce, failed};
use weft_command::failure::Failure;
use weft_command::output::complain;

/// The largest ping that is served, in bytes, whatever `-S` says.
const MOST: u32 = 65536;

/// Where the buffer begins for the client's read responses.
const SINK_BASE: u64 = 0x7fab_cde0_0000;

/// Serves one client, or many.
pub(super) fn run(arguments: &Arguments, address: SocketAddr, endpoint: &Endpoint) -> Result<(), Failure> {
    let listener = endpoint.listen(address)?;
    announce(&listener);
    if !arguments.persistent {
        let request = endpoint.next_request(&listener)?;
        return serve(arguments, &welcome(arguments, endpoint, request)?);
    }
    let tell = |client, failure| complain(format_args!("weft: client {client}: {failure}"));
    let mut silent: VecDeque<Silent> = VecDeque::new();
    thread::scope(|scope| {
        loop {
            // While some have yet to speak it is looked after them all the time; none of them has a thread for that.
            let interval = if silent.is_empty() { None } else { Some(CHECK_INTERVAL) };
            match endpoint.next_request_within(&listener, interval) {
                Ok(Some(request)) => {
                    let client = request.info().remote;
                    match welcome(arguments, endpoint, request) {
                        Ok(link) => silent.push_back(Silent { client, link, since: Instant::now() }),
                        Err(failure) => tell(client, failure),
                    }
                }
                Ok(None) => {}
                Err(Failure::Interrupted) => return Ok(()),
                Err(failure) => return Err(failure),
            }
            for _ in 0..silent.len() {
                let Some(Silent { client, link, since }) = silent.pop_front() else { break };
                if !link.has_come() {
                    if since.elapsed() < link.patience() {
                        silent.push_back(Silent { client, link, since });
                    } else {
                        tell(client, LinkError::TimedOut(link.patience()).during("ping 0"));
                    }
                    continue;
                }
                // It has spoken or gone, which this finds out.
                scope.spawn(move || {
                    if let Err(failure) = serve(arguments, &link) {
                        tell(client, failure);
                    }
                });
            }
        }
    })
}

/// How often it checks whether clients have sent something.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A client that has connected, and has not spoken yet.
struct Silent {
    client: SocketAddr,
    link: Link,
    since: Instant,
}

/// What came of waiting for the next ping.
enum Next {
    Ping(Advert),
    Disconnected,
}

fn welcome(arguments: &Arguments, endpoint: &Endpoint, request: IncomingConnection) -> Result<Link, Failure> {
    arguments.trace(format_args!("request: {:?}", request.info()));
    let link = endpoint.accept(request)?;
    arguments.trace(format_args!("accepted: {:?}", link.queue_pair.info()));
    Ok(link)
}

fn serve(arguments: &Arguments, link: &Link) -> Result<(), Failure> {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let sink = link
        .domain
        .register_at(vec![0; MOST as usize], access, SINK_BASE)
        .map_err(failed("cannot register a buffer"))?;
    let mut number = 0;
    loop {
        let during = |error: LinkError| error.during(format_args!("ping {number}"));
        match next(arguments, link).map_err(during)? {
            Next::Ping(source) => pong(arguments, link, &sink, source, number)?,
            Next::Disconnected => break,
        }
        number += 1;
        if number == arguments.count {
            link.await_close().map_err(|error| error.during(format_args!("after {number} pings")))?;
            break;
        }
    }
    if number < arguments.count {
        let early = format!("the client disconnected after {number} of {} pings", arguments.count);
        return Err(Failure::Runtime(early));
    }
    link.close().map_err(|error| error.during("cannot disconnect"))
}

/// A client may disconnect between two pings.
fn next(arguments: &Arguments, link: &Link) -> Result<Next, LinkError> {
    match advert(arguments, link) {
        Ok(source) => Ok(Next::Ping(source)),
        Err(LinkError::Closed) => Ok(Next::Disconnected),
        Err(error) => Err(error),
    }
}

fn advert(arguments: &Arguments, link: &Link) -> Result<Advert, LinkError> {
    let mut bytes = [0; Advert::LENGTH];
    let length = link.receive(&mut bytes)?;
    if length != Advert::LENGTH {
        return Err(LinkError::Broken(format!(
            "the client sent a message of {length} bytes, rping's have {}: is it an rping?",
            Advert::LENGTH
        )));
    }
    let advert = Advert::parse(&bytes);
    arguments.trace(format_args!("received {advert:?}"));
    if advert.size > MOST {
        return Err(LinkError::Broken(format!(
            "the client wants {} bytes to be pinged; at most {MOST} are (rping itself: {})",
            advert.size,
            SIZES.end()
        )));
    }
    Ok(advert)
}

/// Reads the client's data, and writes it where the client then says.
fn pong(arguments: &Arguments, link: &Link, sink: &MemoryRegion, source: Advert, number: u32) -> Result<(), Failure> {
    let during = |what: &'static str| move |error: LinkError| error.during(format_args!("ping {number}: {what}"));
    let unexpected = |error| LinkError::Broken(format!("{error}"));
    let read = || {
        let place = sink.slice(..u64::from(source.size)).map_err(unexpected)?;
        link.post(WorkRequest::read(place, source.memory))?;
        link.finish()?;
        Ok(place)
    };
    let place = read().map_err(during("RDMA read from the client"))?;
    let mut data = vec![0; source.size as usize];
    sink.read(0, &mut data).map_err(|error| Failure::Runtime(error.to_string()))?;
    arguments.show("server ping data: ", &data)?;
    let write = || {
        link.send(&[0; Advert::LENGTH])?;
        let target = advert(arguments, link)?;
        let part = sink.slice(..u64::from(target.size.min(source.size))).map_err(unexpected)?;
        debug_assert!(part.length <= place.length);
        link.post(WorkRequest::write(part, target.memory))?;
        link.finish()?;
        link.send(&[0; Advert::LENGTH])
    };
    write().map_err(during("RDMA write to the client"))
}
