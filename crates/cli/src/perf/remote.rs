//! Two machines: one listens and plays the passive side of whatever the other asks for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use weft::verbs::{LinkSettings, ParseAddressError, PeerAddress, Settings};

use super::contestant::Entry;
use super::job::Job;
use super::peer::{LINE_LIMIT, Said};
use super::session::Process;
use super::stack::Transport;
use crate::failure::Failure;
use crate::output::complain;

/// Tells the processes of this machine over which interfaces Edge goes: the other machine has its own.
pub(super) const RAILS_VARIABLE: &str = "WEFT_PERF_RAILS";

/// The port when none is named.
const DEFAULT_PORT: u16 = 7471;

/// How long whoever connects may take to say what it wants.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// A host and a port: `192.0.2.1`, `192.0.2.1:7471`, `[2001:db8::1]:7471`, `2001:db8::1`, a name; or all that a
/// [`PeerAddress`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The raw link of this side.
    pub(crate) link: Option<String>,
    /// The interfaces of Edge's rails at this side.
    pub(super) rails: Option<String>,
    /// What carries the connections, if it says.
    pub(super) transport: Option<Transport>,
}

impl Target {
    pub(super) fn connect(&self) -> Result<TcpStream, String> {
        TcpStream::connect((self.host.as_str(), self.port))
            .map_err(|error| format!("{} port {}: {error}; does weft perf --listen run there?", self.host, self.port))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: ParseAddressError| format!("{text}: {error}");
        let address: PeerAddress = text.parse().map_err(wrong)?;
        address.settings(Settings::default()).map_err(wrong)?;
        let rails = text.split_once("rails=").filter(|_| address.rails.is_some()).map(|(_, rails)| rails.to_owned());
        let transport = address.transport.map(Transport::of);
        Ok(Self { host: address.host, port: address.port.unwrap_or(DEFAULT_PORT), rails, transport, link: None })
    }
}

/// Serves one measurement after the other, for ever.
pub(crate) fn listen(address: &str, link: Option<&LinkSettings>) -> Result<(), Failure> {
    let target: Target = address.parse().map_err(Failure::Usage)?;
    let listener = TcpListener::bind((target.host.as_str(), target.port)).map_err(Failure::while_doing(address))?;
    let local = listener.local_addr().map_err(Failure::while_doing(address))?;
    complain(format_args!("listening at {local}; stop with Ctrl-C"));
    for stream in listener.incoming() {
        let served = stream.and_then(|stream| serve(stream, link));
        if let Err(error) = served {
            complain(format_args!("a measurement failed: {error}"));
        }
    }
    Ok(())
}

/// Plays the passive side for whoever is at the other end.
fn serve(mut stream: TcpStream, link: Option<&LinkSettings>) -> io::Result<()> {
    stream.set_read_timeout(Some(GREETING_LIMIT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.by_ref().take(LINE_LIMIT).read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    let job = match passive_job(&line, &stream.local_addr()?.ip().to_string()) {
        Ok(job) => Job { link: link.map(ToString::to_string), ..job },
        Err(reason) => return refuse(&mut stream, reason),
    };
    let provider = match Entry::of(&job).and_then(|entry| entry.contestant.provider(entry.variant.as_deref())) {
        Ok(provider) => provider,
        Err(reason) => return refuse(&mut stream, reason),
    };
    let (mut process, mut stdout) = Process::start(Process::command()?, provider.as_ref())?;
    process.tell(&line_of(&job))?;
    let Some(mut stdin) = process.take_stdin() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    // When the other machine goes away its end of the stream ends, so does the side's input, and so does the side.
    let inward = thread::spawn(move || relay(&mut reader, &mut stdin));
    relay(&mut stdout, &mut stream)?;
    stream.shutdown(Shutdown::Both)?;
    let _ = inward.join();
    process.end();
    Ok(())
}

/// Passes each line on at once. (`io::copy` would splice, and the kernel may then hold a line back until more comes.)
fn relay(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// The job as the passive side gets it: at the address that the other machine reached.
fn passive_job(line: &str, local: &str) -> Result<Job, String> {
    let job: Job = serde_json::from_str(line).map_err(|error| format!("this is no job: {error}"))?;
    job.check()?;
    if job.mpi.is_some() {
        // It names a program to start.
        return Err("MPI is measured on one machine".into());
    }
    Ok(Job { rank: 0, ranks: 2, local: Some(local.into()), ..job })
}

fn line_of(job: &Job) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(job).expect("plain values become JSON");
    bytes.push(b'\n');
    bytes
}

fn refuse(stream: &mut TcpStream, reason: String) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Said::Failed(reason.clone()))?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Err(io::Error::new(io::ErrorKind::InvalidData, reason))
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::job;
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let target = |text: &str| text.parse::<Target>().map(|target| (target.host, target.port));
        assert_eq!(target("192.0.2.1"), Ok(("192.0.2.1".into(), DEFAULT_PORT)));
        assert_eq!(target("node7:80"), Ok(("node7".into(), 80)));
        assert_eq!(target("2001:db8::1"), Ok(("2001:db8::1".into(), DEFAULT_PORT)));
        assert_eq!(target("[2001:db8::1]:80"), Ok(("2001:db8::1".into(), 80)));
        assert!(target("node7:http").is_err());
        assert!(target(":80").is_err());
    }

    #[test]
    fn a_job_from_afar_is_checked_and_stays_passive() {
        let line = serde_json::to_string(&job()).unwrap();
        let passive = passive_job(&line, "192.0.2.1").unwrap();
        assert_eq!(passive, Job { rank: 0, ranks: 2, local: Some("192.0.2.1".into()), ..job() });
        let huge = serde_json::to_string(&Job { size: usize::MAX, ..job() }).unwrap();
        assert!(passive_job(&huge, "192.0.2.1").unwrap_err().contains("size"));
        assert!(passive_job("{}", "192.0.2.1").is_err());
    }
}
