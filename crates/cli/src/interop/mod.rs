//! Hidden: short exchanges that the tests have with other implementations of iWARP.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use weft::verbs::{Access, ConnectionError, RemoteMemory, Stag, StreamError, WorkRequest};

use weft_command::connection::{Depths, Endpoint, LinkError, StreamOptions, announce, failed};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::print_line;

/// Bytes of a message of rdma_client and rdma_server (rdmacm-utils).
const MESSAGE: usize = 16;

/// What those two request, in effect: more than any peer needs.
const DEPTHS: Depths = Depths { ird: 16, ord: 16 };

/// The private data of a rejection.
const REJECTION: &[u8] = b"weft says no";

/// An STag that no side gave out.
const BAD_STAG: Stag = Stag(0xdead_beef);

/// The arguments on the command line.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    exchange: Exchange,
}

#[derive(Subcommand, Debug)]
enum Exchange {
    /// Send a message to rdma_server and take its answer
    RdmaClient(Connect),
    /// Take a message of rdma_client and answer it
    RdmaServer(Listen),
    /// Reject the first request, with private data
    Reject(Listen),
    /// Write to an STag that does not exist, and print the Terminate that comes back
    BadStag(Connect),
}

#[derive(Args, Debug)]
struct Connect {
    /// The peer
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: SocketAddr,
    #[command(flatten)]
    stream: StreamOptions,
}

#[derive(Args, Debug)]
struct Listen {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    stream: StreamOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let open = |stream| Endpoint::open(stream, DEPTHS, &interrupt);
    match &arguments.exchange {
        Exchange::RdmaClient(to) => rdma_client(&open(&to.stream)?, to.connect),
        Exchange::RdmaServer(at) => rdma_server(&open(&at.stream)?, at.listen),
        Exchange::Reject(at) => reject(&open(&at.stream)?, at.listen),
        Exchange::BadStag(to) => bad_stag(&open(&to.stream)?, to.connect),
    }
}

fn rdma_client(endpoint: &Endpoint, remote: SocketAddr) -> Result<(), Failure> {
    let link = endpoint.connect(remote, None)?;
    let exchange = || {
        link.post(WorkRequest::send_inline(&[0; MESSAGE])?)?;
        link.finish()?;
        link.receive(&mut [0; MESSAGE])
    };
    expect_message(exchange().map_err(|error| error.during("message"))?)?;
    link.close().map_err(|error| error.during("cannot disconnect"))
}

fn rdma_server(endpoint: &Endpoint, local: SocketAddr) -> Result<(), Failure> {
    let listener = endpoint.listen(local)?;
    announce(&listener);
    let link = endpoint.accept(endpoint.next_request(&listener)?)?;
    expect_message(link.receive(&mut [0; MESSAGE]).map_err(|error| error.during("message"))?)?;
    let answer = || {
        link.post(WorkRequest::send_inline(&[0; MESSAGE])?)?;
        link.finish()?;
        link.await_close()
    };
    answer().map_err(|error| error.during("answer"))
}

fn expect_message(length: usize) -> Result<(), Failure> {
    if length == MESSAGE {
        return Ok(());
    }
    Err(Failure::Runtime(format!("a message of {length} bytes came, {MESSAGE} are expected")))
}

fn reject(endpoint: &Endpoint, local: SocketAddr) -> Result<(), Failure> {
    let listener = endpoint.listen(local)?;
    announce(&listener);
    endpoint.next_request(&listener)?.reject(REJECTION).map_err(failed("cannot reject"))?;
    endpoint.settle();
    Ok(())
}

fn bad_stag(endpoint: &Endpoint, remote: SocketAddr) -> Result<(), Failure> {
    let link = endpoint.connect(remote, None)?;
    let source = link.domain.register(vec![0x5a; MESSAGE], Access::LOCAL_READ).map_err(failed("cannot register"))?;
    let target = RemoteMemory { stag: BAD_STAG, offset: 0 };
    let provoke = || {
        let payload = source.slice(..).map_err(|error| LinkError::Broken(error.to_string()))?;
        link.post(WorkRequest::write(payload, target))?;
        link.await_close()
    };
    match provoke() {
        Err(LinkError::Ended(ConnectionError::Stream(StreamError::Peer(terminate)))) => {
            let (layer, kind, code) = terminate.code.numbers();
            print_line(format_args!("terminate layer={layer} type={kind} code={code}"))
        }
        Err(error) => Err(error.during("no Terminate")),
        Ok(()) => Err(Failure::Runtime("the peer closed the connection without a Terminate".into())),
    }
}
