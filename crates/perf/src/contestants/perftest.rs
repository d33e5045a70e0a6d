//! Programs of Debian's package perftest over Weft's `libibverbs.so.1`: `ib_send_lat` and its like for latency,
//! `ib_write_bw` and its like for bandwidth and rate.
//!
//! The variant is what carries connections (`WEFT_VERBS_CARRIER`). The figures are those that the programs print:
//! median and 99th percentile, or the average of the whole run; they have no warm-up.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use weft::verbs::Transport;
use weft_command::verbs;

use crate::contestants::outside::{Server, ask, on_loopback};
use crate::host::environments::in_path;
use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Operation, Role};
use crate::model::measure::{Measured, childrens_cpu, per_gb};

/// What carries connections by default, as of the library.
const USUAL: &str = "edge";

pub(crate) struct Perftest;

impl Perftest {
    pub(crate) const NAME: &'static str = "perftest";
}

impl Contestant for Perftest {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "Debian's perftest over Weft's libibverbs.so.1: ib_send_lat, ib_write_bw, ib_read_bw, ib_atomic_bw; the \
         variant is the carrier: edge, iwarp, shm, shm+iwarp, shm+edge, auto"
    }

    fn available(&self, variant: Option<&str>) -> Result<(), String> {
        carrier(variant)?;
        verbs::folder()?;
        let missing = "perftest is not installed; on Debian: apt install perftest";
        in_path("ib_send_lat").map(drop).ok_or_else(|| missing.to_owned())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        if carrier(job.variant.as_deref())? == Transport::SharedMemory && !on_loopback(job) {
            return Err("shared memory is measured on one host: without --lab and without --connect".into());
        }
        match (job.kind, operation(job)) {
            (_, Operation::Notify) => Err("perftest has no notified put".into()),
            (Kind::Rate, Operation::Atomic) if job.size == 8 => Ok(()),
            (_, Operation::Atomic) => Err("atomics have 8 bytes, and are measured in rate".into()),
            (Kind::Latency | Kind::Bandwidth | Kind::Rate, _) => Ok(()),
            _ => Err("perftest has no such test".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let environment = verbs::variables(&verbs::folder()?);
        let server = match job.role() {
            Role::Passive => Some(Server::start(program(job), |port| command(&environment, job, port))?),
            Role::Active => None,
        };
        Ok(Box::new(PerftestSide { environment, server }))
    }
}

/// The transport of a variant.
fn carrier(variant: Option<&str>) -> Result<Transport, String> {
    let name = variant.unwrap_or(USUAL);
    Transport::of_name(name).ok_or_else(|| {
        let names = Transport::ALL.map(Transport::name).join(", ");
        format!("{name:?} is no variant of {}; there are {names}", Perftest::NAME)
    })
}

/// As Weft's own client has it by default.
fn operation(job: &Job) -> Operation {
    job.operation.unwrap_or(if job.kind == Kind::Bandwidth { Operation::Write } else { Operation::Send })
}

fn program(job: &Job) -> &'static str {
    match (operation(job), job.kind) {
        (Operation::Send, Kind::Latency) => "ib_send_lat",
        (Operation::Write | Operation::Notify, Kind::Latency) => "ib_write_lat",
        (Operation::Read, Kind::Latency) => "ib_read_lat",
        (Operation::Atomic, Kind::Latency) => "ib_atomic_lat",
        (Operation::Send, _) => "ib_send_bw",
        (Operation::Write | Operation::Notify, _) => "ib_write_bw",
        (Operation::Read, _) => "ib_read_bw",
        (Operation::Atomic, _) => "ib_atomic_bw",
    }
}

/// The command that both sides run; the active one adds where the server is.
fn command(environment: &[(&'static str, OsString)], job: &Job, port: u16) -> Command {
    let mut command = Command::new(program(job));
    command
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env("WEFT_VERBS_CARRIER", job.variant.as_deref().unwrap_or(USUAL))
        .args(["-F", "-x", "0"])
        .args(["-p", &port.to_string()])
        // At least 5 are wanted.
        .args(["-n", &job.iterations.max(5).to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if operation(job) != Operation::Atomic {
        command.args(["-s", &job.size.to_string()]);
    }
    if job.kind != Kind::Latency {
        // A completion for each quarter of the window. By default there is one for all of it, so that it is empty
        // before it is filled again.
        let signaled = (job.window / 4).max(1);
        command.args(["--report_gbits", "-N", "-t", &job.window.to_string(), "-Q", &signaled.to_string()]);
    }
    if on_loopback(job) {
        command.env("WEFT_VERBS_DEVICES", "lo:weft0");
    }
    command
}

struct PerftestSide {
    environment: [(&'static str, OsString); 2],
    server: Option<Server>,
}

impl Side for PerftestSide {
    fn address(&self) -> String {
        self.server.as_ref().map(|server| server.port.to_string()).unwrap_or_default()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let cpu = childrens_cpu();
        let mut measured = match &mut self.server {
            Some(server) => server.finish().map(|()| Measured::default()),
            None => {
                let port = other(job, addresses).parse().map_err(|_| "no port from the peer")?;
                let text = ask(program(job), command(&self.environment, job, port).arg(&job.host))?;
                read(&text, job).ok_or_else(|| format!("{} printed no figures: {text:?}", program(job)))
            }
        }?;
        if job.kind != Kind::Latency {
            measured.cpu_s_per_gb = Some(per_gb(childrens_cpu().saturating_sub(cpu), job.bytes()));
        }
        Ok(measured)
    }
}

/// The figures of a table that perftest prints: a line of headings that begins with `#bytes`, and one of numbers.
fn read(text: &str, job: &Job) -> Option<Measured> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
    let headings = lines.next()?;
    let numbers: Vec<f64> = lines.next()?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let of_latency = headings.contains("t_typical[usec]") && headings.contains("99% percentile");
    let of_bandwidth = headings.contains("BW average[Gb/sec]") && headings.contains("MsgRate[Mpps]");
    let (value, p99) = match job.kind {
        // bytes, iterations, least, most, typical, average, deviation, 99 %
        Kind::Latency if of_latency => (*numbers.get(4)?, Some(*numbers.get(7)?)),
        // bytes, iterations, peak, average, rate
        Kind::Bandwidth if of_bandwidth => (numbers.get(3)? / 8.0, None),
        Kind::Rate if of_bandwidth => (numbers.get(4)? * 1e6, None),
        _ => return None,
    };
    Some(Measured { value: Some(value), p99, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    const LATENCY: &str = "-------------------------------------------\n \
        #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
        99% percentile[usec]   99.9% percentile[usec] \n \
        8       1000          4.10           35.02        4.80     \t       4.95        \t1.02   \t\t7.11    \t\t35.02  \n";

    const BANDWIDTH: &str = "\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             0.00               24.00  		     0.045776
";

    #[test]
    fn tables_are_read() {
        let of = |text, kind| read(text, &Job { kind, ..job() });
        let latency = of(LATENCY, Kind::Latency).unwrap();
        assert_eq!((latency.value, latency.p99), (Some(4.80), Some(7.11)));
        assert_eq!(of(BANDWIDTH, Kind::Bandwidth).unwrap().value, Some(3.0));
        assert_eq!(of(BANDWIDTH, Kind::Rate).unwrap().value, Some(45_776.0));
        assert!(of(BANDWIDTH, Kind::Latency).is_none() && of(LATENCY, Kind::Rate).is_none());
        assert!(of("Couldn't connect", Kind::Latency).is_none());
    }

    #[test]
    fn each_operation_has_its_program() {
        let name = |operation, kind| program(&Job { operation, kind, ..job() });
        assert_eq!(name(None, Kind::Latency), "ib_send_lat");
        assert_eq!(name(None, Kind::Bandwidth), "ib_write_bw");
        assert_eq!(name(Some(Operation::Read), Kind::Bandwidth), "ib_read_bw");
        assert_eq!(name(Some(Operation::Atomic), Kind::Rate), "ib_atomic_bw");
    }

    #[test]
    fn what_there_is_not_is_refused_in_words() {
        let of = |operation, kind, size| Perftest.supports(&Job { operation: Some(operation), kind, size, ..job() });
        assert_eq!(of(Operation::Atomic, Kind::Rate, 8), Ok(()));
        assert!(of(Operation::Atomic, Kind::Rate, 64).unwrap_err().contains("8 bytes"));
        assert!(of(Operation::Notify, Kind::Latency, 8).unwrap_err().contains("notified"));
        assert!(of(Operation::Send, Kind::Idle, 8).is_err());
        assert!(carrier(Some("tcp")).unwrap_err().contains("edge"));
        let far = Job { variant: Some("shm".into()), host: "10.0.0.2".into(), ..job() };
        assert!(Perftest.supports(&far).unwrap_err().contains("one host"));
    }
}
