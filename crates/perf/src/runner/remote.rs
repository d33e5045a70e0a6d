//! Two machines: one listens and plays the passive side of whatever the other asks for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use weft::verbs::LinkSettings;

use crate::model::job::Job;
use crate::model::target::Target;
use crate::runner::process::Process;
use crate::runner::protocol::{LINE_LIMIT, Said};
use crate::runner::registry::entry_of;
use weft_command::failure::Failure;
use weft_command::output::complain;

/// How long a peer that connects may take to say what it wants.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

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

/// Plays the passive side for the peer at the other end.
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
    let provider = match entry_of(&job).and_then(|entry| entry.contestant.provider(entry.variant.as_deref())) {
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
    use super::*;
    use crate::model::job::tests::job;

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
