//! `weft perf cuts`: what the failure of a link costs a stream over several, as a distribution. `docs/cuts.md`
//! describes the benchmark.

mod analysis;
mod contestant;
mod document;
mod launch;
mod log;
mod message;
mod pipe;
mod sample;
mod schedule;
pub(crate) mod side;

use std::time::Duration;

use crate::result::Missing;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weft_lab::{BitsPerSecond, LINKS, Lab, Plan, Way};

use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::document::Results;
use crate::experiments::cuts::launch::{CUT, Launch, Outcome};
use crate::experiments::cuts::message::HEAD;
use crate::experiments::cuts::sample::{Faults, Sample};
use crate::experiments::cuts::schedule::Pair;
use crate::model::size::Size;
use crate::runner::measurement::Measurement;
use crate::runner::outputs::{Files, Outputs};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::complain;

/// Cuts of one launch at most: then the processes start anew.
const CUTS_IN_LAUNCH: usize = 20;
const CUTS: usize = 100;
const QUICK_CUTS: usize = 10;
/// What a launch takes besides its cuts, and a cut besides what is drawn: for the plan that is announced beforehand.
const LAUNCH_LENGTH: Duration = Duration::from_millis(2500);
const RECOVERY_LENGTH: Duration = Duration::from_millis(400);
/// The longest message, in bytes.
const LONGEST: usize = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  weft perf cuts                                 100 cuts of Edge, and as many of multipath TCP and of TCP
  weft perf cuts --cuts 1000 --peer-cuts 100     what happens once in a hundred cuts
  weft perf cuts --ways silent --vs none --quick
  weft perf cuts --links 2 --rate 200M --json cuts.json

docs/cuts.md describes the benchmark, and how to measure another transport by it.
Exit codes: 0 measured, 1 a contestant failed, lost or doubled something, 2 the command line is wrong, 130 interrupted:
what was measured until then is kept.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cuts {
    /// Cuts of the measured transport, and instants without a cut [default: 100; with --quick 10]
    #[arg(long, value_name = "N", value_parser = number_of_cuts())]
    cuts: Option<usize>,
    /// Cuts of each peer [default: as many]
    #[arg(long, value_name = "N", value_parser = number_of_cuts())]
    peer_cuts: Option<usize>,
    /// Only 10 cuts
    #[arg(long)]
    quick: bool,
    /// Links between the two hosts
    #[arg(long, value_name = "N", default_value_t = 4)]
    links: usize,
    /// How links are cut, each way as often, in random order: carrier (both hosts see it), silent (nothing passes),
    /// send (what the sender sends is lost), receive (what is sent to the sender is lost)
    #[arg(long, value_name = "WAY,...", value_delimiter = ',', default_value = "carrier,silent,send,receive")]
    ways: Vec<Way>,
    /// What each link carries in each direction
    #[arg(long, value_name = "RATE", default_value = "1G")]
    rate: BitsPerSecond,
    /// Bytes of a message, from 64 to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    size: Size,
    /// What the instants, the links and the ways are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What is measured
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Contestant::Edge)]
    transport: Contestant,
    /// The peers to measure beside it (edge, iwarp, mptcp, tcp), or `none`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "mptcp,tcp")]
    vs: Vec<String>,
    #[command(flatten)]
    files: Files,
}

fn number_of_cuts() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=100_000)
}

impl Cuts {
    fn contestants(&self) -> Result<Vec<Contestant>, Failure> {
        let mut all = vec![self.transport];
        for name in self.vs.iter().filter(|name| *name != "none") {
            let peer = <Contestant as clap::ValueEnum>::from_str(name, true).map_err(|_| {
                Failure::Usage(format!("--vs {name:?}: cuts measures edge, iwarp, mptcp and tcp, or none beside"))
            })?;
            if !all.contains(&peer) {
                all.push(peer);
            }
        }
        Ok(all)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let Size(size) = self.size;
        if !(HEAD..=LONGEST).contains(&size) || size < 64 {
            return Err(Failure::Usage(format!("--size {size}: a message has from 64 bytes to 64K")));
        }
        if !LINKS.contains(&self.links) {
            let (least, most) = LINKS.into_inner();
            return Err(Failure::Usage(format!("--links {}: a lab has from {least} to {most}", self.links)));
        }
        let plan = Plan { links: self.links, rate: Some(self.rate), ..Plan::default() };
        plan.check().map(|()| plan).map_err(|error| Failure::Usage(error.to_string()))
    }

    fn cuts(&self, contestant: Contestant) -> usize {
        let own = self.cuts.unwrap_or(if self.quick { QUICK_CUTS } else { CUTS });
        if contestant == self.transport { own } else { self.peer_cuts.unwrap_or(own) }
    }

    fn ways(&self) -> Vec<Way> {
        let mut ways = self.ways.clone();
        ways.sort();
        ways.dedup();
        ways
    }
}

/// Runs the experiment.
pub(crate) fn run(arguments: &Cuts) -> Result<(), Failure> {
    let (contestants, plan, ways) = (arguments.contestants()?, arguments.plan()?, arguments.ways());
    let outputs = arguments.files.open()?;
    let schedules: Vec<_> = contestants
        .iter()
        .map(|one| {
            let links = one.links(plan.links);
            schedule::draw(arguments.seed, arguments.cuts(*one), CUTS_IN_LAUNCH, &ways, links)
        })
        .collect();
    // What cannot be had is known before the first minute.
    let congestion_control = Lab::up(&plan)?.congestion_control().to_owned();
    let (interrupt, measurement) = (Interrupt::watch()?, Measurement::begin("cuts", document::QUESTION));
    complain(what_is_planned(&contestants, &schedules));
    let mut results = Results {
        links: plan.links,
        size: arguments.size.0,
        contestants,
        samples: Vec::new(),
        faults: Vec::new(),
        missing: Vec::new(),
        notes: Vec::new(),
        is_cut_short: false,
        place: format!("a lab of two hosts and {} links of {}", plan.links, plan.rates_text()),
        congestion_control,
        settings: json!({
            "links": plan.links,
            "rate_bits_per_s": arguments.rate.0,
            "size_bytes": arguments.size.0,
            "window_messages": pipe::ends::window(arguments.size.0),
            "ways": ways.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "seed": arguments.seed,
            "cut_ms": CUT.as_millis() as u64,
        }),
        ways,
    };
    measure(&plan, &schedules, &interrupt, &mut results)?;
    publish(&results, measurement, outputs)
}

/// How much it is, and how long it takes.
fn what_is_planned(contestants: &[Contestant], schedules: &[Vec<Vec<Pair>>]) -> String {
    let number = |schedule: &Vec<Vec<Pair>>| schedule.iter().map(Vec::len).sum::<usize>();
    let of_each: Vec<_> = contestants
        .iter()
        .zip(schedules)
        .map(|(one, schedule)| {
            let (launches, word) = (schedule.len(), if schedule.len() == 1 { "launch" } else { "launches" });
            format!("{} of {one} in {launches} {word}", number(schedule))
        })
        .collect();
    let cuts: usize = schedules.iter().map(number).sum();
    let launches: usize = schedules.iter().map(Vec::len).sum();
    let one = 2 * CUT + schedule::usual_length() + RECOVERY_LENGTH;
    let seconds = one.as_secs_f64() * cuts as f64 + LAUNCH_LENGTH.as_secs_f64() * launches as f64;
    let minutes = (seconds / 60.0).ceil();
    let word = if minutes > 1.0 { "minutes" } else { "minute" };
    format!("cuts: {}; about {minutes:.0} {word}", of_each.join(", "))
}

/// Launches of all contestants in turns, so that what changes on the machine changes for all.
fn measure(
    plan: &Plan,
    schedules: &[Vec<Vec<Pair>>],
    interrupt: &Interrupt,
    results: &mut Results,
) -> Result<(), Failure> {
    let all: usize = schedules.iter().flatten().map(Vec::len).sum();
    let bar = progress(all);
    let rounds = schedules.iter().map(Vec::len).max().unwrap_or(0);
    let contestants = results.contestants.clone();
    for round in 0..rounds {
        for (contestant, schedule) in contestants.iter().zip(schedules) {
            let Some(pairs) = schedule.get(round) else { continue };
            let is_missing =
                results.missing.iter().any(|one| !one.is_failure && one.contestant == contestant.to_string());
            if is_missing {
                continue;
            }
            bar.set_message(format!("{contestant}, launch {} of {}", round + 1, schedule.len()));
            let launch = Launch { plan, contestant: *contestant, size: results.size, pairs, interrupt };
            let outcome = launch.run(|| bar.inc(1))?;
            keep(*contestant, round as u32, &outcome, results);
            if outcome.was_interrupted {
                results.is_cut_short = true;
                results.notes.push("Interrupted: what was measured until then is shown".into());
                return Ok(());
            }
        }
    }
    Ok(())
}

fn keep(contestant: Contestant, launch: u32, outcome: &Outcome, results: &mut Results) {
    results.samples.extend(Sample::of(contestant, launch, outcome));
    if let Some((sent, received)) = &outcome.totals {
        results.faults.push((contestant, launch, Faults::of(sent, received)));
    }
    if let Some(why) = &outcome.broken {
        // A kernel may have no multipath TCP; what has delivered something is there.
        let is_failure = !contestant.may_be_missing() || !outcome.deliveries.is_empty();
        let cuts = outcome.happenings.iter().filter(|one| one.with_cut).count();
        let reason = format!("launch {} ended after {cuts} cuts: {why}", launch + 1);
        complain(format_args!("{contestant}: {reason}"));
        results.missing.push(Missing { contestant: contestant.to_string(), reason, is_failure });
    }
}

fn progress(cuts: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cuts  {eta} left  {msg}")
        .expect("the template is well formed");
    ProgressBar::new(cuts as u64).with_style(style)
}

fn publish(results: &Results, measurement: Measurement, outputs: Outputs) -> Result<(), Failure> {
    let document = results.document(measurement);
    outputs.publish(&document, &format!("{}\n{}", results.text(), document.machine.describe()))?;
    if results.is_cut_short {
        return Err(Failure::Interrupted);
    }
    let failed = results.missing.iter().find(|missing| missing.is_failure);
    let failed = failed.map(|missing| format!("{} failed: {}", missing.contestant, missing.reason));
    match failed.or_else(|| results.faulty().into_iter().next()) {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_says_how_long_it_takes() {
        let schedule = |cuts| schedule::draw(1, cuts, CUTS_IN_LAUNCH, &[Way::Silent], 4);
        let words = what_is_planned(&[Contestant::Edge, Contestant::Tcp], &[schedule(100), schedule(10)]);
        assert_eq!(words, "cuts: 100 of edge in 5 launches, 10 of tcp in 1 launch; about 7 minutes");
    }
}
