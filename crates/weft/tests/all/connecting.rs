//! How connections come about, and how they don't.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Kind, PATIENCE, Pair, each_kind};
use weft::verbs::{
    ConnectOptions, ConnectionError, Context, Error, ListenOptions, PortError, Progress, QueuePair, QueuePairOptions,
    ReadyKinds, Settings, StartError, StartReason, State, Transport, WorkRequest,
};

fn queue_pair(context: &Context) -> QueuePair {
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap()
}

#[test]
fn private_data_reaches_both_applications() {
    each_kind(|kind| {
        let context = kind.context();
        let (active, passive) = (queue_pair(&context), queue_pair(&context));
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        assert_eq!(active.state(), State::Idle);
        let mut options = ConnectOptions { private_data: b"may I?".to_vec(), ..ConnectOptions::default() };
        (options.offer.ird, options.offer.ord) = (3, 4);
        active.start_connect(listener.local_address(), &options).unwrap();
        assert_eq!(active.state(), State::Connecting);
        let incoming = listener.accept(PATIENCE).unwrap();
        assert_eq!(incoming.info().private_data, b"may I?");
        assert_eq!((incoming.info().peer_ird, incoming.info().peer_ord), (3, 4));
        assert_eq!(incoming.info().local, listener.local_address());
        assert_eq!(incoming.info().remote.ip(), kind.address);
        incoming.accept_with_depths(&passive, b"you may", 2, 1).unwrap();
        let info = active.wait_connected(PATIENCE).unwrap();
        assert_eq!((info.private_data.as_slice(), info.peer_ird, info.peer_ord), (&b"you may"[..], 2, 1));
        assert!(info.ord == 2 && info.mpa().unwrap().crc && info.atomics_and_immediates, "{info:?}");
        assert_eq!(info.remote, listener.local_address());
        assert_eq!((active.state(), passive.state()), (State::Ready, State::Ready));
        // Each can be connected once.
        let again = active.start_connect(listener.local_address(), &options);
        assert!(matches!(again, Err(Error::State { state: State::Ready, .. })), "{again:?}");
    });
}

const TRANSPORTS: [Transport; 5] =
    [Transport::Iwarp, Transport::Edge, Transport::SharedMemory, Transport::SharedMemoryOrIwarp, Transport::Auto];

/// The unspecified address is this host, as connect(2) has it.
#[test]
fn who_is_called_without_an_address_is_this_host() {
    for transport in TRANSPORTS {
        let context = Kind::plain(Progress::Hybrid).context();
        let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
        (connect.offer.transport, listen.offer.transport) = (transport, transport);
        let (active, passive) = (queue_pair(&context), queue_pair(&context));
        let listener = context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
        let any = SocketAddr::new("0.0.0.0".parse().unwrap(), listener.local_address().port());
        active.start_connect(any, &connect).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
        let info = active.wait_connected(PATIENCE).unwrap();
        assert_eq!(info.remote, listener.local_address(), "{transport:?}");
    }
}

#[test]
fn who_calls_port_0_is_told_so_at_once() {
    for transport in TRANSPORTS {
        let context = Kind::plain(Progress::Hybrid).context();
        let mut connect = ConnectOptions::default();
        connect.offer.transport = transport;
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let error = queue_pair(&context).start_connect(address.parse().unwrap(), &connect).unwrap_err();
            let words = format!("port 0 has no listener: name the port that the peer listens at: {address}");
            assert_eq!(error.to_string(), words, "{transport:?}");
        }
    }
}

#[test]
fn a_rejection_comes_with_private_data() {
    each_kind(|kind| {
        let context = kind.context();
        let active = queue_pair(&context);
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        listener.accept(PATIENCE).unwrap().reject(b"not today").unwrap();
        match active.wait_connected(PATIENCE) {
            Err(Error::Connection(ConnectionError::Start(StartError {
                reason: StartReason::Rejected { private_data },
                ..
            }))) => {
                assert_eq!(*private_data, *b"not today");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(active.state(), State::Failed);
    });
}

#[test]
fn an_incoming_connection_that_is_dropped_is_rejected() {
    each_kind(|kind| {
        let context = kind.context();
        let active = queue_pair(&context);
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        drop(listener.accept(PATIENCE).unwrap());
        let failed = active.wait_connected(PATIENCE);
        assert!(
            matches!(&failed, Err(Error::Connection(ConnectionError::Start(error))) if rejects(error)),
            "{failed:?}"
        );
    });
}

#[test]
fn nobody_listens() {
    each_kind(|kind| {
        // A port that was just free.
        let address = TcpListener::bind(kind.any()).unwrap().local_addr().unwrap();
        let context = kind.context();
        let failed = queue_pair(&context).connect(address, &patient());
        let failed = failed.unwrap_err();
        assert!(failed.to_string().contains("refused: no listener at "), "{failed}");
        let Error::Connection(ConnectionError::Connect { remote, error: PortError::Refused }) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(remote.ip(), kind.address);
    });
}

/// Whether the peer does not want the connection.
fn rejects(error: &StartError) -> bool {
    matches!(error.reason, StartReason::Rejected { .. })
}

fn patient() -> ConnectOptions {
    ConnectOptions { timeout: PATIENCE, ..ConnectOptions::default() }
}

/// Connects to a plain TCP server, which does this with the connection; says what came of it.
fn connect_to(kind: Kind, settings: Settings, serve: impl FnOnce(TcpStream) + Send + 'static) -> Error {
    let server = TcpListener::bind(kind.any()).unwrap();
    let address = server.local_addr().unwrap();
    let server = thread::spawn(move || serve(server.accept().unwrap().0));
    let context = Context::with_settings(settings).unwrap();
    let queue_pair = queue_pair(&context);
    let failed = queue_pair.connect(address, &patient()).unwrap_err();
    assert_eq!(queue_pair.state(), State::Failed);
    drop(queue_pair);
    drop(context);
    server.join().unwrap();
    failed
}

/// Reads until the other side has closed.
fn read_out(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}

#[test]
fn a_server_that_speaks_something_else() {
    each_kind(|kind| {
        let failed = connect_to(kind, kind.settings(), |mut stream| {
            let _ = stream.write_all(b"SSH-2.0-SomethingElse_1.0\r\n and more, and more, and more\r\n");
            read_out(&mut stream);
        });
        assert!(
            matches!(
                &failed,
                Error::Connection(ConnectionError::Start(error)) if error.reason == StartReason::Malformed
            ),
            "{failed:?}"
        );
    });
}

#[test]
fn a_server_that_says_nothing() {
    each_kind(|kind| {
        let settings = Settings { start_timeout: Duration::from_millis(50), ..kind.settings() };
        let failed = connect_to(kind, settings, |mut stream| read_out(&mut stream));
        let text = failed.to_string();
        assert!(text.ends_with("did not come within 50ms: does it speak MPA?"), "{text}");
        let Error::Connection(ConnectionError::NoAnswer { remote, is_connected: true, .. }) = failed else {
            panic!("{failed:?}");
        };
        assert!(text.contains(&remote.to_string()), "{text}");
    });
}

#[test]
fn a_server_that_closes_at_once() {
    each_kind(|kind| {
        let failed = connect_to(kind, kind.settings(), |mut stream| {
            let _ = stream.read(&mut [0; 20]);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            read_out(&mut stream);
        });
        let early = |error: &StartError| error.reason == StartReason::ClosedEarly;
        assert!(matches!(&failed, Error::Connection(ConnectionError::Start(error)) if early(error)), "{failed:?}");
    });
}

/// A peer whose reply cannot be accepted gets the reason, from an application that is gone at once.
#[test]
fn what_is_said_last_arrives_when_nobody_stays() {
    // More reads in flight than there is room for; and a peer-to-peer model that was not requested.
    for (depths, code) in [([0, 4, 0, 200], 6), ([0xc0, 1, 0, 1], 7)] {
        each_kind(|kind| {
            let (tell, told) = mpsc::channel();
            connect_to(kind, kind.settings(), move |mut stream| {
                stream.read_exact(&mut [0; 20]).unwrap();
                stream.write_all(&[b"MPA ID Rep Frame\x50\x02\x00\x04".as_slice(), &depths].concat()).unwrap();
                stream.set_read_timeout(PATIENCE).unwrap();
                let mut said = Vec::new();
                // The rest of the request comes first.
                stream.read_to_end(&mut said).unwrap();
                tell.send(said).unwrap();
            });
            let said = told.recv().unwrap();
            // Layer and type, and the code, follow the frame's length and the segment's header (RFC 5040 section 4.8).
            let terminate = &said[said.len() - 28..];
            assert_eq!(terminate[20..22], [0x20, code], "{said:02x?}");
        });
    }
}

#[test]
fn who_waits_too_long_for_a_decision_is_told() {
    each_kind(|kind| {
        let settings = Settings { decision_timeout: Duration::from_millis(20), ..kind.settings() };
        let context = Context::with_settings(settings).unwrap();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let mut stream = TcpStream::connect(listener.local_address()).unwrap();
        stream.write_all(b"MPA ID Req Frame\x40\x01\x00\x00").unwrap();
        let incoming = listener.accept(PATIENCE).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (mut said, start) = (Vec::<u8>::new(), Instant::now());
        loop {
            assert!(Some(start.elapsed()) < PATIENCE, "only {said:?}");
            context.progress();
            let mut bytes = [0; 64];
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => said.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => thread::yield_now(),
                Err(error) => panic!("{error} after {said:?}"),
            }
        }
        assert_eq!(said, b"MPA ID Rep Frame\x60\x01\x00\x00");
        assert_eq!(incoming.accept(&queue_pair(&context), &[]), Err(Error::RequestGone));
    });
}

/// However the stream is cut, and whether the NIC has looked or not.
#[test]
fn bytes_behind_a_request_are_refused_even_when_nobody_has_looked() {
    let kind = Kind::plain(Progress::Caller);
    let context = kind.context();
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let mut stream = TcpStream::connect(listener.local_address()).unwrap();
    stream.write_all(b"MPA ID Req Frame\x40\x01\x00\x00").unwrap();
    let incoming = listener.accept(PATIENCE).unwrap();
    stream.write_all(b"too early").unwrap();
    assert_eq!(incoming.accept(&queue_pair(&context), &[]), Err(Error::RequestGone));
}

#[test]
fn a_client_that_is_none() {
    each_kind(|kind| {
        let context = kind.context();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let mut strange = TcpStream::connect(listener.local_address()).unwrap();
        strange.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        is_shown_the_door(&context, strange);
        // And a peer that speaks the protocol still gets in.
        let (active, passive) = (queue_pair(&context), queue_pair(&context));
        active.start_connect(listener.local_address(), &patient()).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
        active.wait_connected(PATIENCE).unwrap();
    });
}

#[test]
fn a_client_that_says_nothing() {
    each_kind(|kind| {
        // On a busy machine a start-up takes its time, also that of a peer that speaks.
        let mut start_timeout = Duration::from_millis(50);
        while let Err(refused) = only_who_speaks_gets_in(kind, start_timeout) {
            assert!(Some(start_timeout) < PATIENCE, "{refused}, within {start_timeout:?}");
            start_timeout *= 4;
        }
    });
}

/// A silent client is shown the door; whether one that speaks got in behind it, so soon.
fn only_who_speaks_gets_in(kind: Kind, start_timeout: Duration) -> Result<(), Error> {
    let context = Context::with_settings(Settings { start_timeout, ..kind.settings() }).unwrap();
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    is_shown_the_door(&context, TcpStream::connect(listener.local_address()).unwrap());
    let (active, passive) = (queue_pair(&context), queue_pair(&context));
    active.start_connect(listener.local_address(), &patient())?;
    listener.accept(Some(2 * start_timeout))?.accept(&passive, &[])?;
    active.wait_connected(PATIENCE).map(drop)
}

/// Runs the NIC until it has closed this stream, on which it says nothing.
fn is_shown_the_door(context: &Context, mut stream: TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let start = Instant::now();
    loop {
        match stream.read(&mut [0; 64]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(Some(start.elapsed()) < PATIENCE, "it is still open");
                context.progress();
                thread::yield_now();
            }
            Ok(1..) => panic!("it was answered"),
            Ok(0) | Err(_) => break,
        }
    }
}

#[test]
fn a_peer_that_left_before_it_was_accepted() {
    each_kind(|kind| {
        let context = kind.context();
        let (active, passive) = (queue_pair(&context), queue_pair(&context));
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        let incoming = listener.accept(PATIENCE).unwrap();
        drop(active);
        // Whether the news has come already or not, the queue pair fails and nothing hangs.
        match incoming.accept(&passive, &[]) {
            Err(Error::RequestGone) => assert_eq!(passive.state(), State::Idle),
            Ok(()) => {
                let failed = passive.disconnect(PATIENCE);
                assert!(passive.state().has_ended(), "{failed:?}");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_passive_side_may_speak_first_when_that_was_agreed() {
    each_kind(|kind| {
        let mut connect = ConnectOptions::default();
        connect.offer.mpa.ready_to_receive = Some(ReadyKinds::all());
        let pair = Pair::with(kind.context(), kind, &connect, &ListenOptions::default());
        let inbox = pair.empty(5);
        pair.active.queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
        pair.passive.queue_pair.post(WorkRequest::send_inline(b"first").unwrap().id(2)).unwrap();
        pair.active.done(1);
        pair.passive.done(2);
        assert_eq!(inbox.to_vec(), b"first");
    });
}

#[test]
fn disconnecting_sends_what_was_posted_and_ends_both() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (from, to) = (pair.filled(1_000_000), pair.empty(1_000_000));
        pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
        pair.active.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
        pair.active.queue_pair.disconnect(PATIENCE).unwrap();
        pair.active.done(2);
        pair.passive.done(1);
        assert!(to.to_vec() == crate::common::pattern(1_000_000));
        pair.wait_for_end();
        assert_eq!((pair.active.queue_pair.state(), pair.passive.queue_pair.state()), (State::Closed, State::Closed));
        assert_eq!((pair.active.queue_pair.error(), pair.passive.queue_pair.error()), (None, None));
    });
}

#[test]
fn an_address_is_taken_once() {
    each_kind(|kind| {
        let context = kind.context();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let address: SocketAddr = listener.local_address();
        let again = context.listen(address, &ListenOptions::default());
        assert!(matches!(again, Err(Error::Port(PortError::AddressInUse))), "{again:?}");
        drop(listener);
        context.listen(address, &ListenOptions::default()).unwrap();
    });
}

#[test]
fn nobody_comes() {
    each_kind(|kind| {
        let context = kind.context();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let short = Duration::from_millis(10);
        assert_eq!(listener.accept(Some(short)).unwrap_err(), Error::TimedOut(short));
    });
}
