//! The process that carries packets, driven through standard input and output: one line of JSON says what to carry; it
//! answers with a line, and then answers each line with what it has done. It ends when its standard input does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_driver::{MonotonicClock, WaitSet};
use weft_lab::{Punctual, QueueError};
use weft_scenario::Scenario;

use crate::carrier::Carrier;
use crate::engine::Engine;
use crate::error::WanError;
use crate::files;
use crate::queue::QueueCarrier;
use crate::report::Report;
use crate::rings::RingCarrier;

/// What its answers begin with, so that whatever else the program writes is not taken for one.
pub(crate) const ANSWER: &str = "weft-wan: ";
/// The longest line that is understood, in bytes.
const LINE: usize = 4 << 20;
/// The key of the standard input among what is waited for.
const ORDERS: u64 = u64::MAX;

/// By what packets come and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Means {
    /// The kernel's queues of these numbers, forward and reverse.
    Queues([u16; 2]),
    /// Rings at these interfaces; forward is what comes at the first.
    Rings([String; 2]),
}

/// What is to be carried, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) means: Means,
    /// The text of a scenario.
    pub(crate) scenario: String,
    /// Where the files are that it names.
    pub(crate) folder: PathBuf,
}

/// What it answers.
pub(crate) type Answer = Result<(), Refusal>;

/// Why it does not carry anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) words: String,
    /// Whether another number of a queue may do.
    pub(crate) is_taken: bool,
    /// Whether a right is missing.
    pub(crate) is_right: bool,
}

/// Carries packets until standard input ends. The program of a [`Wan`](crate::Wan) calls this.
///
/// # Errors
/// The operating system refused what it needs, standard input says what is not understood, or an interface has gone.
pub fn serve() -> Result<(), WanError> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(WanError::while_doing("stdin"))?);
    let line = read_line(&mut input).map_err(WanError::while_doing("standard input"))?;
    let order: Order = serde_json::from_str(&line)
        .map_err(|error| WanError::Impossible(format!("this is nothing to carry: {error}")))?;
    let scenario = parse(&order.scenario, &order.folder)?;
    match &order.means {
        Means::Queues(queues) => match QueueCarrier::open(*queues, &scenario) {
            Ok(carrier) => carry("queue", carrier, &scenario, &mut input),
            Err(error) => refuse(&refused_queue(error)),
        },
        Means::Rings(names) => match RingCarrier::open(names.clone()) {
            Ok(carrier) => carry("rings", carrier, &scenario, &mut input),
            Err(error) => {
                let is_right = error.kind() == io::ErrorKind::PermissionDenied;
                refuse(&Refusal { words: error.to_string(), is_taken: false, is_right })
            }
        },
    }
}

/// Reads a scenario whose files are in this folder.
pub(crate) fn parse(text: &str, folder: &Path) -> Result<Scenario, WanError> {
    Ok(Scenario::parse(text, |name| files::read(&folder.join(name)))?)
}

fn refused_queue(error: QueueError) -> Refusal {
    let words = match &error {
        QueueError::Right => "reading a packet queue needs the capability CAP_NET_ADMIN over the network: be root, or \
                             use weft wan run, which has a network of its own"
            .to_owned(),
        QueueError::Taken(queue) => format!("another program reads packet queue {queue}"),
        QueueError::Lacking => "this kernel has no packet queues (CONFIG_NETFILTER_NETLINK_QUEUE); as root: \
                               modprobe nfnetlink_queue, or use --carrier rings"
            .to_owned(),
        QueueError::Io(error) => format!("a packet queue can't be read: {error}"),
    };
    let (is_taken, is_right) = (matches!(error, QueueError::Taken(_)), matches!(error, QueueError::Right));
    Refusal { words, is_taken, is_right }
}

fn refuse(refusal: &Refusal) -> Result<(), WanError> {
    say(&Answer::Err(refusal.clone())).map_err(WanError::while_doing("standard output"))?;
    Err(WanError::Carrier(refusal.words.clone()))
}

fn carry<C: Carrier>(name: &'static str, carrier: C, scenario: &Scenario, input: &mut File) -> Result<(), WanError> {
    let mut punctual = Punctual::new(MonotonicClock::new());
    let cannot = |error: io::Error| WanError::Carrier(error.to_string());
    let mut engine = Engine::new(name, carrier, MonotonicClock::new(), scenario);
    let waits = WaitSet::new().map_err(|error| cannot(io::Error::other(error)))?;
    waits.add(input, ORDERS).map_err(|error| cannot(io::Error::other(error)))?;
    engine.wait_in(&waits).map_err(cannot)?;
    say(&Answer::Ok(())).map_err(cannot)?;
    let mut keys: Vec<u64> = Vec::new();
    loop {
        let is_told = keys.iter().any(|key| *key != ORDERS);
        let timeout = engine.work(is_told).map_err(cannot)?;
        keys.clear();
        punctual.wait(&waits, Some(timeout), &mut keys).map_err(cannot)?;
        if keys.contains(&ORDERS) {
            let mut orders = [0; 64];
            match input.read(&mut orders).map_err(cannot)? {
                0 => return Ok(()),
                length => {
                    for _ in orders[..length].iter().filter(|byte| **byte == b'\n') {
                        say::<Report>(&engine.report()).map_err(cannot)?;
                    }
                }
            }
        }
    }
}

/// A line. Nothing follows it before it is answered.
fn read_line(input: &mut File) -> io::Result<String> {
    let (mut line, mut buffer) = (Vec::new(), [0; 1 << 12]);
    while line.last() != Some(&b'\n') && line.len() < LINE {
        match input.read(&mut buffer)? {
            0 => break,
            length => line.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8(line).map_err(io::Error::other)
}

fn say<T: Serialize>(what: &T) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{ANSWER}{}", serde_json::to_string(what)?)?;
    out.flush()
}
