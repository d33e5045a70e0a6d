//! One run: starts both sides, tells each where the other is, and collects what they saw.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use weft_command::provider::Provider;

use crate::host::distance::{a_pair, between};
use crate::model::job::Job;
use crate::model::run::Run;
use crate::runner::counting::Counting;
use crate::runner::place::Place;
use crate::runner::process::Process;
use crate::runner::protocol::{LINE_LIMIT, Said};

/// Does one run of a job, whose rank does not matter; gives up after `limit`. With `provider`, libfabric finds it; with
/// `counting`, each side's misses are counted.
pub(crate) fn run(
    job: &Job,
    place: &Place,
    cores: Option<[usize; 2]>,
    limit: Duration,
    provider: Option<&Provider>,
    counting: Option<&Counting>,
) -> Result<Run, String> {
    // Of another machine nothing is known.
    let pair = if place.machine(0).is_none() { cores.or_else(a_pair) } else { None };
    let before = pair.and_then(between);
    // What the link did between two runs is of neither.
    let _ = place.take_lateness();
    let deadline = Instant::now() + limit;
    let (sender, heard) = channel();
    let start = |rank| {
        let words = counting.map_or_else(Vec::new, |counting| counting.words(rank));
        Conversation::start(rank, place, &words, provider, sender.clone())
    };
    let mut sides = (0..job.ranks).map(start).collect::<Result<Vec<_>, _>>()?;
    drop(sender);
    for side in &mut sides {
        let core = cores.map(|cores| cores[side.rank % cores.len()]);
        let (local, link) = (place.local(side.rank), place.link(side.rank));
        let job = Job { rank: side.rank, core, local, link, host: place.host(), ..job.clone() };
        side.tell(&serde_json::to_string(&job).expect("plain values become JSON"))?;
    }
    let addresses = all(job.ranks, &heard, deadline, |said| match said {
        Said::Address(address) => Some(address),
        _ => None,
    })?;
    let addresses = serde_json::to_string(&addresses).expect("plain values become JSON");
    sides.iter_mut().try_for_each(|side| side.tell(&addresses))?;
    let measured = all(job.ranks, &heard, deadline, |said| match said {
        Said::Measured(measured) => Some(measured),
        _ => None,
    })?;
    let lateness = place.take_lateness();
    // All at once, so that no side keeps another one waiting.
    sides.iter_mut().for_each(Conversation::dismiss);
    sides.into_iter().for_each(Conversation::end);
    let cores_apart_ns = before.into_iter().chain(pair.and_then(between)).reduce(f64::max);
    Ok(Run { sides: measured, cores_apart_ns, lateness })
}

/// What one of `ranks` processes is called.
fn name(rank: usize, ranks: usize) -> String {
    match (rank, ranks) {
        (0, 2) => "passive side".into(),
        (1, 2) => "active side".into(),
        _ => format!("process {rank}"),
    }
}

/// A line of a process, or the end of its output.
type Heard = (usize, Result<String, String>);

/// Waits for one thing from each process. The first failure of any ends the wait.
fn all<T>(
    ranks: usize,
    heard: &Receiver<Heard>,
    deadline: Instant,
    wanted: impl Fn(Said) -> Option<T>,
) -> Result<Vec<T>, String> {
    let mut values: Vec<Option<T>> = (0..ranks).map(|_| None).collect();
    while values.iter().any(Option::is_none) {
        let (rank, line) = match heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => return Err("it took too long, see --timeout".into()),
            Err(RecvTimeoutError::Disconnected) => return Err("all processes ended".into()),
        };
        let name = || name(rank, ranks);
        let line = line.map_err(|reason| format!("{}: {reason}", name()))?;
        let said = serde_json::from_str(&line).map_err(|error| format!("{} said {line:?}: {error}", name()))?;
        if let Said::Failed(reason) = said {
            return Err(format!("{}: {reason}", name()));
        }
        let value = wanted(said).ok_or_else(|| format!("{} said {line:?} out of turn", name()))?;
        values[rank] = Some(value);
    }
    Ok(values.into_iter().flatten().collect())
}

/// A side that was started, here or on the other machine.
struct Conversation {
    rank: usize,
    end: End,
}

enum End {
    Process(Process),
    Machine(TcpStream),
}

impl Conversation {
    fn start(
        rank: usize,
        place: &Place,
        words: &[OsString],
        provider: Option<&Provider>,
        sender: Sender<Heard>,
    ) -> Result<Self, String> {
        let (end, from): (End, Box<dyn Read + Send>) = match place.machine(rank) {
            Some(target) => {
                let stream = target.connect()?;
                let reader = stream.try_clone().map_err(|error| error.to_string())?;
                (End::Machine(stream), Box::new(reader))
            }
            None => {
                let (process, stdout) = place
                    .command(rank, words)
                    .and_then(|command| Process::start(command, provider))
                    .map_err(|error| format!("cannot start a process: {error}"))?;
                (End::Process(process), Box::new(stdout))
            }
        };
        thread::spawn(move || listen(rank, from, &sender));
        Ok(Self { rank, end })
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        match &mut self.end {
            End::Process(process) => process.tell(line.as_bytes()),
            End::Machine(stream) => stream.write_all(line.as_bytes()),
        }
        .map_err(|error| format!("process {} is gone: {error}", self.rank))
    }

    /// All are done: lets the process go in peace.
    fn dismiss(&mut self) {
        match &mut self.end {
            End::Process(process) => drop(process.take_stdin()),
            End::Machine(stream) => drop(stream.shutdown(Shutdown::Write)),
        }
    }

    /// Sees it off.
    fn end(self) {
        if let End::Process(process) = self.end {
            process.end();
        }
    }
}

/// Passes on what a side says, until it says no more.
fn listen(rank: usize, from: impl Read, sender: &Sender<Heard>) {
    let mut reader = BufReader::new(from);
    loop {
        let mut line = String::new();
        let heard = match reader.by_ref().take(LINE_LIMIT).read_line(&mut line) {
            Ok(0) => Err("it ended without a result".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let over = heard.is_err();
        if sender.send((rank, heard)).is_err() || over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: Vec<Heard>) -> Result<Vec<String>, String> {
        let (sender, receiver) = channel();
        lines.into_iter().for_each(|line| sender.send(line).unwrap());
        drop(sender);
        all(2, &receiver, Instant::now() + Duration::from_secs(60), |said| match said {
            Said::Address(address) => Some(address),
            _ => None,
        })
    }

    #[test]
    fn both_sides_are_heard_in_any_order() {
        let passive = (0, Ok(r#"{"address":"p"}"#.into()));
        let active = (1, Ok(r#"{"address":"a"}"#.into()));
        let both = vec!["p".into(), "a".into()];
        assert_eq!(heard(vec![active.clone(), passive.clone()]), Ok(both.clone()));
        assert_eq!(heard(vec![passive.clone(), active.clone()]), Ok(both));
        let failed = (1, Ok(r#"{"failed":"no luck"}"#.into()));
        assert_eq!(heard(vec![failed]), Err("active side: no luck".into()), "nobody waits for the other");
        assert!(heard(vec![passive.clone(), (1, Err("gone".into()))]).unwrap_err().contains("gone"));
        assert!(heard(vec![(1, Ok("garbage".into()))]).unwrap_err().contains("garbage"));
        assert!(heard(vec![passive]).is_err(), "the other never spoke");
    }
}
