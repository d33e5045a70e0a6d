//! One side of the stream, in one host of the lab: a process of its own. The receiver says on standard output where it
//! listens, then its log of deliveries, then what it has counted; the sender sends until its standard input ends, and
//! says what it has sent.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::log::{Recorder, now_us};
use crate::experiments::cuts::message::{Checker, Counts, Writer};
use crate::experiments::cuts::pipe;
use crate::experiments::cuts::pipe::ends::Operations;
use weft_command::failure::Failure;
use weft_command::output::print_line;

/// Name of the subcommand that one side of a stream runs as.
pub const SIDE_COMMAND: &str = "perf-cuts-side";

/// What the process does.
#[derive(Args, Debug)]
pub struct Side {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    Receive(Ends),
    Send(Ends),
}

#[derive(Args, Debug)]
struct Ends {
    #[arg(value_enum)]
    contestant: Contestant,
    /// Where to listen, or where to connect to: one for each stream
    #[arg(long, value_delimiter = ',')]
    at: Vec<SocketAddr>,
    /// Bytes of a message
    #[arg(long)]
    size: usize,
}

/// What a sender has done in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    /// Of a contestant that has operations.
    pub(crate) operations: Option<Operations>,
}

/// What a receiver has counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) counts: Counts,
    /// The counter to which the operations added, if there are some.
    pub(crate) counter: Option<u64>,
}

/// Runs one side.
pub fn run(side: &Side) -> Result<(), Failure> {
    match &side.role {
        Role::Receive(ends) => receive(ends),
        Role::Send(ends) => send(ends),
    }
}

fn receive(ends: &Ends) -> Result<(), Failure> {
    let announce = |ports: &[u16]| {
        let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
        print_line(ports.join(","))
    };
    let mut pipe = pipe::receiver(ends.contestant, &ends.at, ends.size, announce)?;
    let (mut checker, recorder) = (Checker::new(ends.size), Recorder::start(io::stdout()));
    let (mut taken, mut told, credit_each) = (0_u64, 0, pipe::ends::window(ends.size) / 8);
    let mut goes_on = true;
    while goes_on {
        goes_on = pipe.receive(&mut |message| {
            taken += 1;
            if checker.take(message) {
                recorder.note(now_us());
            }
        })?;
        if goes_on && taken - told >= credit_each {
            pipe.credit(taken)?;
            told = taken;
        }
    }
    let counter = pipe.close()?;
    recorder.finish().map_err(Failure::while_doing("cannot write the log"))?;
    say(&Received { counts: checker.counts(), counter })
}

fn send(ends: &Ends) -> Result<(), Failure> {
    let (mut pipe, mut writer) = (pipe::sender(ends.contestant, &ends.at, ends.size)?, Writer::new(ends.size));
    let (is_over, window) = (end_of_input(), pipe::ends::window(ends.size));
    let (mut sent, mut taken) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        while sent < taken + window && pipe.try_send(sent, writer.message(sent))? {
            sent += 1;
        }
        taken = pipe.wait()?;
    }
    let operations = pipe.close()?;
    say(&Sent { messages: sent, operations })
}

fn say(what: &impl Serialize) -> Result<(), Failure> {
    print_line(serde_json::to_string(what).expect("plain values become JSON"))
}

/// Becomes true when standard input ends, by the process that measures or with it.
fn end_of_input() -> Arc<AtomicBool> {
    let has_ended = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&has_ended);
    thread::spawn(move || {
        let mut rest = [0; 64];
        while matches!(io::stdin().read(&mut rest), Ok(1..)) {}
        flag.store(true, Ordering::Relaxed);
    });
    has_ended
}
