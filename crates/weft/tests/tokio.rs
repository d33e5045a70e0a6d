//! Connections and completions as futures. A program of its own: it opens many descriptors.

#[path = "common/mod.rs"]
mod common;
#[path = "../examples/async_echo.rs"]
#[allow(dead_code, reason = "the example's own command line")]
mod example;

use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use std::sync::mpsc;
use std::thread;

use self::common::{Kind, refusing};
use self::example::{call_all, measure, runtime, serve};
use futures_core::Stream;
use weft::tokio::{Connection, Listener, Reactor};
use weft::verbs::{
    ConnectOptions, ConnectionError, Context, Error, ListenOptions, PortError, Progress, QueuePairOptions, State,
    Transport, WorkRequest,
};

fn block_on<R>(test: impl Future<Output = R>) -> R {
    runtime().unwrap().block_on(test)
}

/// Polls a future once, which must not be ready, and drops it.
async fn begin_and_drop(future: impl Future) {
    let mut future = pin!(future);
    core::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

struct Host {
    reactor: Reactor,
    listener: Listener,
    transport: Transport,
}

impl Host {
    fn new(transport: Transport) -> Self {
        let reactor = Reactor::new(&Context::open().unwrap()).unwrap();
        let mut options = ListenOptions::default();
        options.offer.transport = transport;
        let listener = reactor.listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        Self { reactor, listener, transport }
    }

    fn connection(&self) -> Connection {
        let context = self.reactor.context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(16).unwrap();
        self.reactor.attach(domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap()).unwrap()
    }

    fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::default();
        options.offer.transport = self.transport;
        options
    }
}

const TRANSPORTS: [Transport; 3] = [Transport::Iwarp, Transport::Edge, Transport::SharedMemory];

/// Counts, and no times: a thousand clients come, in groups, send ten messages each and leave.
#[test]
fn the_example_serves_a_thousand_clients_in_one_thread() {
    const GROUPS: usize = 4;
    const CLIENTS: usize = 250;
    const MESSAGES: u64 = 10;
    let (sender, receiver) = mpsc::channel();
    let server = thread::spawn(move || {
        block_on(async {
            let reactor = Reactor::new(&Context::open().unwrap()).unwrap();
            let listener = reactor.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
            sender.send(listener.local_address()).unwrap();
            serve(&reactor, &listener, GROUPS * CLIENTS).await.unwrap()
        })
    });
    let address = receiver.recv().unwrap();
    let context = Context::open().unwrap();
    for _ in 0..GROUPS {
        assert_eq!(block_on(call_all(&context, address, CLIENTS, MESSAGES)).unwrap(), CLIENTS as u64 * MESSAGES);
    }
    assert_eq!(server.join().unwrap(), (GROUPS * CLIENTS) as u64 * MESSAGES);
}

#[test]
fn what_is_measured_runs() {
    measure(100).unwrap();
}

#[test]
fn connect_and_accept_are_awaited_together_and_both_ends_learn_of_the_end() {
    for transport in TRANSPORTS {
        println!("{transport:?}");
        block_on(async {
            let host = Host::new(transport);
            let (active, passive) = (host.connection(), host.connection());
            let options = host.options();
            let accepts = async { passive.accept(host.listener.accept().await.unwrap(), b"welcome").await };
            let (connected, accepted) = tokio::join!(active.connect(host.listener.local_address(), &options), accepts);
            assert_eq!(connected.unwrap().private_data, b"welcome");
            accepted.unwrap();
            let (closed, ended) = tokio::join!(active.disconnect(), passive.ended());
            assert_eq!((closed, ended), (Ok(()), None));
            assert_eq!((active.state(), passive.state()), (State::Closed, State::Closed));
        });
    }
}

#[test]
fn errors_have_their_reasons() {
    block_on(async {
        let host = Host::new(Transport::Iwarp);
        let (address, _held) = refusing();
        let refused = host.connection().connect(address, &host.options()).await;
        let wanted = |error: &Error| {
            matches!(error, Error::Connection(ConnectionError::Connect { error: PortError::Refused, .. }))
        };
        assert!(refused.as_ref().is_err_and(wanted), "{refused:?}");

        let (active, passive) = (host.connection(), host.connection());
        let accepts = async { passive.accept(host.listener.accept().await.unwrap(), &[]).await };
        let options = host.options();
        let (connected, accepted) = tokio::join!(active.connect(host.listener.local_address(), &options), accepts);
        assert!(connected.is_ok() && accepted.is_ok());
        let again = active.connect(host.listener.local_address(), &options).await;
        assert!(matches!(again, Err(Error::State { state: State::Ready, .. })), "{again:?}");
        drop(active);
        assert!(matches!(passive.ended().await, Some(ConnectionError::Stream(_))));
    });
}

/// The caller gives up, and the listener continues with the next one.
#[test]
fn a_connect_that_is_dropped_gives_the_connection_up() {
    for transport in TRANSPORTS {
        println!("{transport:?}");
        block_on(async {
            let host = Host::new(transport);
            let (address, options) = (host.listener.local_address(), host.options());
            let given_up = host.connection();
            begin_and_drop(given_up.connect(address, &options)).await;
            assert_eq!(given_up.state(), State::Failed);
            assert_eq!(given_up.error(), Some(ConnectionError::Abandoned));
            assert_eq!(given_up.ended().await, Some(ConnectionError::Abandoned));

            let (active, passive) = (host.connection(), host.connection());
            // The one that has gone may have come before.
            let accepts = async {
                loop {
                    let incoming = host.listener.accept().await.unwrap();
                    if incoming.info().private_data == b"second" {
                        break passive.accept(incoming, &[]).await;
                    }
                }
            };
            let options = ConnectOptions { private_data: b"second".to_vec(), ..options };
            let (connected, accepted) = tokio::join!(active.connect(address, &options), accepts);
            connected.unwrap();
            accepted.unwrap();
        });
    }
}

#[test]
fn an_accept_and_a_next_that_are_dropped_lose_nothing() {
    block_on(async {
        let host = Host::new(Transport::Iwarp);
        let options = host.options();
        let (active, passive) = (host.connection(), host.connection());
        begin_and_drop(host.listener.accept()).await;
        let accepts = async {
            let incoming = host.listener.accept().await.unwrap();
            // What waits for an event that has come is ready at once.
            begin_and_drop(host.listener.accept()).await;
            passive.accept(incoming, &[]).await
        };
        let (connected, accepted) = tokio::join!(active.connect(host.listener.local_address(), &options), accepts);
        assert!(connected.is_ok() && accepted.is_ok());
        begin_and_drop(passive.ended()).await;

        let context = host.reactor.context();
        let mut completions = host.reactor.create_completion_queue(16).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let made = || domain.create_queue_pair(completions.queue(), &QueuePairOptions::default()).unwrap();
        let (one, two) = (host.reactor.attach(made()).unwrap(), host.reactor.attach(made()).unwrap());
        let accepts = async { two.accept(host.listener.accept().await.unwrap(), &[]).await };
        let (connected, accepted) = tokio::join!(one.connect(host.listener.local_address(), &options), accepts);
        assert!(connected.is_ok() && accepted.is_ok());
        for id in 0..100 {
            two.post_receive(id, &[]).unwrap();
            begin_and_drop(completions.next()).await;
            one.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            // As a future, and as a stream.
            let received = if id % 2 == 0 {
                completions.next().await
            } else {
                core::future::poll_fn(|context| pin!(&mut completions).poll_next(context)).await.unwrap()
            };
            assert_eq!(received.id, id);
        }
    });
}

#[test]
fn a_nic_without_a_thread_is_refused() {
    block_on(async {
        for kind in [Kind::plain(Progress::Caller), Kind::summoning()] {
            let words = Reactor::new(&kind.context()).unwrap_err().to_string();
            assert!(words.ends_with("progress is caller"), "{words}");
        }
    });
}

/// The task ends with the reactor, and the runtime with its tasks.
#[test]
fn a_reactor_ends_with_what_was_made_from_it() {
    let runtime = runtime().unwrap();
    runtime.block_on(async {
        let host = Host::new(Transport::Iwarp);
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
        drop(host);
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    });
}
