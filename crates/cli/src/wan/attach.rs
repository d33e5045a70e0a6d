//! `weft wan attach`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use weft_wan::Attached;

use super::board;
use super::options::Options;
use super::shared::{failure, finish, program, seconds};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::complain;

/// How often it is checked that packets are carried.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  sudo weft wan attach --interface eth0 --delay 20ms --loss 0.1
  sudo weft wan attach --interface eth1 --interface eth2 --scenario wan.toml

One interface: all that this machine sends and receives by it, packets of IP, by the kernel's packet queues. Two: \
every frame that comes at one leaves by the other, by packet rings; this machine should have no addresses there. \
Until Ctrl-C; nothing is left then, nor after kill -9. It needs root: CAP_NET_ADMIN for one, CAP_NET_RAW for two.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The interface, or both of two
    #[arg(long = "interface", value_name = "NAME", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Write what was carried to standard output as JSON
    #[arg(long)]
    json: bool,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { interfaces, options, seconds, json, report } = arguments;
    if options.is_nothing() {
        let words = "say what lies in front of it, for instance --delay 20ms, or --scenario FILE";
        return Err(Failure::Usage(words.to_owned()));
    }
    let source = options.source()?;
    let program = program()?;
    let interrupt = Interrupt::watch()?;
    let attached = match &interfaces[..] {
        [one] => Attached::to_one(one, &source.text, &source.folder, &program),
        [one, other] => Attached::between([one, other], &source.text, &source.folder, &program),
        all => return Err(Failure::Usage(format!("{} interfaces; name one or two", all.len()))),
    };
    let attached = Arc::new(Mutex::new(Some(attached.map_err(|error| source.failure(error))?)));
    let lock = |attached: &Mutex<Option<Attached>>, act: &mut dyn FnMut(&mut Attached)| {
        attached.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    };
    let shared = Arc::clone(&attached);
    board::serve(move || {
        let mut report = None;
        lock(&shared, &mut |attached| report = attached.report().ok());
        report
    })?;
    complain(format_args!("weft: in front of {}, until Ctrl-C", interfaces.join(" and ")));
    let until = seconds.map(|seconds| Instant::now() + seconds);
    while !interrupt.has_come() && until.is_none_or(|until| Instant::now() < until) {
        let mut failed = None;
        lock(&attached, &mut |attached| failed = (!attached.is_whole()).then(|| attached.failure()));
        if let Some(error) = failed {
            return Err(failure(error));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    let mut last = None;
    lock(&attached, &mut |attached| last = Some(attached.report()));
    let last = last.transpose().map_err(failure)?;
    // What is in front goes before the figures are shown.
    drop(attached.lock().unwrap_or_else(PoisonError::into_inner).take());
    last.map_or(Ok(()), |last| finish(&last, *json, report.as_deref()))
}
