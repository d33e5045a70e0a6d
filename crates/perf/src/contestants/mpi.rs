//! MPI programs, over Weft's provider of libfabric and over what else carries their messages.
//!
//! The active side has the library's own starter run the two ranks, the first on its own host, the second on that of
//! the passive side, which does nothing but be there. The program is `mpi/measure.c`: a ping-pong of blocking sends and
//! receives; a stream with a window (non-blocking, the oldest is waited for); a message, or one each way, beside
//! computation; an allreduce of many ranks; and an all-to-all of many, for which the starter itself is timed, from its
//! start to its end. With ranks in two clusters it is `mpi/across.c`: a ring, an all-to-all, a halo and a bucket sort.

use std::fs;
use std::process::Output;
use std::time::Instant;

use crate::model::contestant::NOTHING_SHARED;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::installation::Installation;
use crate::model::job::{Job, Kind, Member, Role};
use crate::model::measure::{Figure, Measured};
use crate::mpi::launch::{Carrier, Ways, command};
use crate::mpi::nas::Printed;
use crate::mpi::program::Program;
use weft_command::provider::Provider;
use weft_command::transport::Transport;

pub(crate) struct Mpi;

impl Mpi {
    pub(crate) const NAME: &str = "mpi";
}

/// Lines of what a library complains about that are passed on.
const COMPLAINT_LINES: usize = 12;

impl Contestant for Mpi {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "a C program on the MPI library: blocking ping-pong, non-blocking streams; the variant is what carries its messages"
    }

    fn available(&self, variant: Option<&str>) -> Result<(), String> {
        Program::can_be_made()?;
        if Carrier::parse(variant)?.is_weft() { Provider::available() } else { Ok(()) }
    }

    fn version(&self, job: &Job) -> Option<String> {
        job.mpi.as_ref()?.version()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let carrier = Carrier::parse(job.variant.as_deref())?;
        match (&job.mpi, job.kind) {
            (
                Some(installation),
                Kind::Latency
                | Kind::Bandwidth
                | Kind::Rate
                | Kind::Hiding
                | Kind::Collective
                | Kind::Start
                | Kind::Patterns
                | Kind::Nas,
            ) => carrier.fits(installation),
            _ => Err("MPI is measured by: weft perf mpi".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let installation = job.mpi.clone().ok_or("no MPI library is named")?;
        let carrier = Carrier::parse(job.variant.as_deref())?;
        if job.role() == Role::Passive {
            return Ok(Box::new(Host));
        }
        let provider = carrier.is_weft().then(Provider::open).transpose()?;
        let program = match (&job.nas, job.kind) {
            (Some(nas), _) => Program::built(&nas.executable),
            (None, Kind::Patterns) => Program::make_across(&installation),
            (None, _) => Program::make(&installation),
        }?;
        Ok(Box::new(Starter { installation, carrier, provider, program }))
    }
}

/// The side that is only there, so that its host can be entered.
struct Host;

impl Side for Host {
    fn address(&self) -> String {
        std::process::id().to_string()
    }

    fn run(&mut self, _: &Job, _: &[String]) -> Result<Measured, String> {
        Ok(Measured::default())
    }
}

/// The side that starts both ranks.
struct Starter {
    installation: Installation,
    carrier: Carrier,
    provider: Option<Provider>,
    program: Program,
}

impl Side for Starter {
    fn address(&self) -> String {
        std::process::id().to_string()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let ways = ways(job, other(job, addresses))?;
        if matches!(self.carrier, Carrier::SharedMemory | Carrier::Weft(Some(Transport::Shm))) && ways.hosts() > 1 {
            return Err(NOTHING_SHARED.into());
        }
        let mut command = command(&self.installation, &self.carrier, self.provider.as_ref(), &ways, &self.program, job);
        let began = Instant::now();
        let output = command.output().map_err(|error| format!("{}: {error}", self.installation.mpiexec.display()))?;
        let took = began.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("{} ended with {}: {}", self.installation.library, output.status, complaint(&output)));
        }
        if job.kind == Kind::Nas {
            let printed = Printed::read(&text).map_err(|why| format!("{}: {why}", self.installation.library))?;
            return Ok(Measured {
                value: Some(printed.mop_per_s),
                figures: [(Figure::Seconds, printed.seconds)].into(),
                ..Measured::default()
            });
        }
        let silent = || format!("{} told no figures: {}", self.installation.library, complaint(&output));
        let figures = Figures::read(&text).ok_or_else(silent)?;
        if figures.get("hosts") != Some(ways.hosts() as f64) {
            // The measurement is not of what was requested.
            return Err(format!("{} started its ranks on the wrong hosts", self.installation.library));
        }
        if job.kind == Kind::Start {
            let is_whole = figures.get("ranks") == Some(job.mpi_ranks as f64);
            return is_whole
                .then(|| Measured { value: Some(took.as_secs_f64()), ..Measured::default() })
                .ok_or_else(silent);
        }
        if job.kind == Kind::Patterns {
            return patterns(&figures, &text).ok_or_else(silent);
        }
        figures.measured(job).ok_or_else(silent)
    }
}

/// How the passive side's host is reached: its process is there.
fn ways(job: &Job, process: &str) -> Result<Ways, String> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let here = network("self").map_err(|error| format!("/proc/self/ns/net: {error}"))?;
    // A process in the user namespace of a test network may not inspect processes outside of it.
    if network(process).is_ok_and(|there| there == here) {
        return Ok(Ways::Here);
    }
    let near = job.local.clone().ok_or("this host has no address")?;
    if !job.members.is_empty() {
        let far = job.members.iter().filter(|member| member.address != near).cloned().collect();
        return Ok(Ways::Lab { near, far, entry: None });
    }
    let process = process.parse().map_err(|_| "no process from the other side")?;
    Ok(Ways::Lab { near, far: vec![Member { address: job.host.clone(), process }], entry: None })
}

/// The times of a round of each pattern. The bucket sort tells its own behind those of the others; all keys must be in
/// order.
fn patterns(figures: &Figures<'_>, text: &str) -> Option<Measured> {
    let sorted = text.lines().any(|line| line.starts_with("sorted "));
    let words: Vec<_> = text.lines().find(|line| line.ends_with(" ms a round"))?.split(' ').collect();
    let [.., ms, _, _, _] = words[..] else { return None };
    let own = [
        (Figure::RingUs, figures.get("ring_us")?),
        (Figure::AllToAllUs, figures.get("all_to_all_us")?),
        (Figure::HaloUs, figures.get("halo_us")?),
        (Figure::SortUs, ms.parse::<f64>().ok()? * 1e3),
    ];
    sorted.then(|| Measured { figures: own.into(), ..Measured::default() })
}

/// What a library said when it failed, in short: the last lines that are no frames.
fn complaint(output: &Output) -> String {
    let text = [&output.stderr[..], &output.stdout[..]].map(String::from_utf8_lossy).join("\n");
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric)).collect();
    lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n")
}

/// What the first rank printed: `weft-mpi NAME=VALUE ...`.
struct Figures<'a>(Vec<(&'a str, f64)>);

impl<'a> Figures<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (_, rest) = text.split_once("weft-mpi ")?;
        let figure = |word: &'a str| {
            let (name, value) = word.split_once('=')?;
            Some((name, value.parse().ok()?))
        };
        rest.lines().next()?.split_ascii_whitespace().map(figure).collect::<Option<Vec<_>>>().map(Self)
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    fn measured(&self, job: &Job) -> Option<Measured> {
        let cpu =
            || Some([(Figure::SenderCpu, self.get("sender_cpu")?), (Figure::ReceiverCpu, self.get("receiver_cpu")?)]);
        let plain = Measured::default();
        Some(match job.kind {
            Kind::Latency => Measured { value: Some(self.get("half_us")?), p99: self.get("half_p99_us"), ..plain },
            Kind::Collective => {
                Measured { value: Some(self.get("collective_us")?), p99: self.get("collective_p99_us"), ..plain }
            }
            Kind::Rate => Measured { value: Some(self.get("messages_per_s")?), figures: cpu()?.into(), ..plain },
            Kind::Bandwidth => {
                let value = self.get("messages_per_s")? * job.size as f64 / 1e9;
                Measured { value: Some(value), figures: cpu()?.into(), ..plain }
            }
            _ => {
                let times = [self.get("communication_us")?, self.get("computation_us")?, self.get("both_us")?];
                let figures = [
                    (Figure::Hidden, hidden(&times)),
                    (Figure::CommunicationUs, times[0]),
                    (Figure::ComputationUs, times[1]),
                    (Figure::TotalUs, times[2]),
                ];
                Measured { figures: figures.into(), ..plain }
            }
        })
    }
}

/// The share of the communication that computation hides: what both together take less than one after the other, of the
/// shorter of the two. From 0 to 1, but for what disturbs the machine.
fn hidden([communication, computation, both]: &[f64; 3]) -> f64 {
    ((communication + computation - both) / communication.min(*computation)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn figures_are_read_from_whatever_is_around_them() {
        let text = "a warning\n[1] weft-mpi half_us=5.5 half_p99_us=9\nmore\n";
        let figures = Figures::read(text).unwrap();
        let measured = figures.measured(&job()).unwrap();
        assert_eq!((measured.value, measured.p99), (Some(5.5), Some(9.0)));
        assert_eq!(figures.measured(&Job { kind: Kind::Rate, ..job() }), None, "these figures are of another test");
        assert!(Figures::read("weft-mpi half_us=\n").is_none());
        assert!(Figures::read("nothing").is_none());
    }

    #[test]
    fn a_job_across_clusters_has_the_times_of_all_patterns() {
        let line = "weft-mpi hosts=8 ring_us=33000.5 all_to_all_us=17000 halo_us=16500\n";
        let sort = "8 ranks, 8192 keys each: 1.91 million keys/s, 34.250 ms a round\n";
        let read = |text: &str| patterns(&Figures::read(text)?, text);
        let all = read(&format!("{line}{sort}sorted 5133b4ca004d550f\n")).unwrap();
        let values: Vec<_> = all.figures.values().copied().collect();
        assert_eq!(values, [33000.5, 17000.0, 16500.0, 34250.0]);
        assert_eq!(read(&format!("{line}{sort}NOT SORTED 5133b4ca004d550f\n")), None);
        assert_eq!(read(&format!("{line}sorted 5133b4ca004d550f\n")), None, "the sort told no time");
        assert_eq!(read(&format!("weft-mpi hosts=8 ring_us=1\n{sort}sorted 1\n")), None);
    }

    #[test]
    fn the_share_that_is_hidden() {
        assert_eq!(hidden(&[100.0, 125.0, 125.0]), 1.0, "all of it");
        assert_eq!(hidden(&[100.0, 125.0, 225.0]), 0.0, "nothing");
        assert_eq!(hidden(&[100.0, 125.0, 175.0]), 0.5);
        assert_eq!(hidden(&[100.0, 125.0, 300.0]), 0.0, "disturbed");
    }

    #[test]
    fn what_is_hidden_is_told_with_the_times_it_comes_from() {
        let text = "weft-mpi communication_us=100 computation_us=125 both_us=175";
        let job = Job { kind: Kind::Hiding, ..job() };
        let measured = Figures::read(text).unwrap().measured(&job).unwrap();
        assert_eq!(measured.figures[&Figure::Hidden], 0.5);
        assert_eq!(measured.figures[&Figure::TotalUs], 175.0);
        assert_eq!(Figures::read("weft-mpi both_us=175").unwrap().measured(&job), None, "the others are missing");
    }
}
