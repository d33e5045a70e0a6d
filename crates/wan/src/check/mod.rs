//! The emulator against itself: paced streams go through each carrier, and what they got is judged by what was set.

mod case;
mod chance;
mod judge;
mod outcome;
mod plan;
mod probe;
mod prober;
mod samples;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use weft_lab::Carrier as Kind;

use crate::error::WanError;
use crate::process::CarrierProgram;
use crate::wan::{Plan, Wan};
use case::{Case, Traffic};
use outcome::Row;
use prober::{Prober, Stop};
use samples::{Flow, Stream};

pub use outcome::{CheckedCase, Checks, Row as CheckRow, SCHEMA as CHECK_SCHEMA, Verdict};
pub use plan::{CHECK_PACKETS, CHECK_PACKETS_PER_S, CheckPlan, CheckProgress};
pub use probe::serve_probe;

/// Programs that a check starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckPrograms {
    /// Calls [`serve`](crate::serve()).
    pub carrier: CarrierProgram,
    /// Calls [`serve_probe`].
    pub probe: CarrierProgram,
}

/// Makes a lab for each case, sends its stream through it, and judges what came of it. Calls `tell` for each step, and
/// `is_wanted` says whether to continue: if not, what is done by then is returned, and [`Checks::is_whole`] is false.
/// Nothing is left behind in any case.
///
/// # Errors
/// A name is no case's; no lab can be made; a process that carries or sends packets has failed.
pub fn check(
    plan: &CheckPlan,
    programs: &CheckPrograms,
    is_wanted: &dyn Fn() -> bool,
    mut tell: impl FnMut(&CheckProgress),
) -> Result<Checks, WanError> {
    let cases = plan.cases()?;
    let mut checks = Checks::new(plan);
    let all: Duration = cases.iter().map(|(_, case)| plan.takes(case)).sum();
    let (begun, mut planned) = (Instant::now(), Duration::ZERO);
    for (done, (kind, case)) in cases.iter().enumerate() {
        // What it has taken until now says how well the plan is kept.
        let slower = if done == 0 { 1.0 } else { begun.elapsed().as_secs_f64() / planned.as_secs_f64() };
        let left = (all - planned).mul_f64(slower);
        tell(&CheckProgress { done, of: cases.len(), now: format!("{kind}, {}", case.name), left });
        match one(plan, *kind, case, programs, is_wanted) {
            Ok(checked) => checks.cases.push(checked),
            Err(Stop::Interrupted) => return Ok(checks),
            Err(Stop::Wan(error)) => return Err(error),
        }
        planned += plan.takes(case);
    }
    Ok(checks.whole())
}

/// One case by one carrier.
fn one(
    plan: &CheckPlan,
    kind: Kind,
    case: &Case,
    programs: &CheckPrograms,
    is_wanted: &dyn Fn() -> bool,
) -> Result<CheckedCase, Stop> {
    let scenario = format!("seed = {}\n{}", plan.seed, case.scenario);
    let of_lab = Plan { kind, scenario, folder: PathBuf::new(), mtu: 1500 };
    let mut wan = Wan::up(&of_lab, &programs.carrier)?;
    let bench = Bench { wan: &mut wan, programs, is_wanted, plan };
    let rows = bench.measure(case);
    let report = wan.report();
    wan.down()?;
    let (rows, report) = (rows?, report?);
    Ok(CheckedCase::new(kind, case.name, case.scenario, rows, report))
}

/// A lab, and what sends and receives in it.
struct Bench<'a> {
    wan: &'a mut Wan,
    programs: &'a CheckPrograms,
    is_wanted: &'a dyn Fn() -> bool,
    plan: &'a CheckPlan,
}

impl Bench<'_> {
    fn measure(mut self, case: &Case) -> Result<Vec<Row>, Stop> {
        let by = self.plan.tolerance;
        match &case.traffic {
            Traffic::Paced { bytes, settles, judges } => {
                let stream = self.paced(*bytes, *settles)?;
                Ok(judges.iter().flat_map(|judge| judge::paced(judge, &stream, by)).collect())
            }
            Traffic::Tcp { control, window, judge } => {
                let flow = self.tcp(*control, *window)?;
                let report = self.wan.report()?;
                Ok(judge::tcp(judge, &flow, &report.forward, by))
            }
            Traffic::Full { is_datagrams: true } => self.full(Self::flood),
            Traffic::Full { .. } => self.full(|bench| bench.tcp(None, None)),
        }
    }

    fn paced(&mut self, bytes: usize, settles: Duration) -> Result<Stream, Stop> {
        let target = self.target();
        let mut receiver = self.prober(1, &probe::Order::Receive { local: target })?;
        receiver.is_ready(self.is_wanted)?;
        let gap_ns = 1_000_000_000 / u64::from(CHECK_PACKETS_PER_S);
        let order = probe::Order::Pace { remote: target, packets: self.plan.packets, gap_ns, bytes };
        let sender = self.prober(0, &order)?;
        let sent: u64 = sender.says(self.is_wanted)?;
        self.wait(settles)?;
        receiver.stop();
        let mut stream: Stream = receiver.says(self.is_wanted)?;
        stream.sent = sent;
        let report = self.wan.report()?;
        stream.missed += report.refused + report.overruns;
        Ok(stream)
    }

    fn tcp(&mut self, control: Option<&str>, window: Option<u32>) -> Result<Flow, Stop> {
        let target = self.target();
        if let Some(segments) = window {
            self.wan.limit_window(segments)?;
        }
        let is_second = window.is_some();
        let mut receiver = self.prober(1, &probe::Order::Drain { local: target, is_second })?;
        receiver.is_ready(self.is_wanted)?;
        let (control, lasts) = (control.map(str::to_owned), self.plan.lasts);
        let order = probe::Order::Fill { remote: target, control, lasts, is_second };
        let sender = self.prober(0, &order)?;
        let filled: probe::Filled = sender.says(self.is_wanted)?;
        receiver.stop();
        let mut flow: Flow = receiver.says(self.is_wanted)?;
        (flow.segment_bytes, flow.lacks_control) = (filled.segment_bytes, filled.lacks_control);
        Ok(flow)
    }

    fn flood(&mut self) -> Result<Flow, Stop> {
        let target = self.target();
        let mut receiver = self.prober(1, &probe::Order::Count { local: target })?;
        receiver.is_ready(self.is_wanted)?;
        let sender = self.prober(0, &probe::Order::Flood { remote: target, lasts: self.plan.lasts })?;
        let _: u64 = sender.says(self.is_wanted)?;
        receiver.stop();
        receiver.says(self.is_wanted)
    }

    /// As fast as it goes, with what the carrier took of a processor.
    fn full(mut self, stream: impl FnOnce(&mut Self) -> Result<Flow, Stop>) -> Result<Vec<Row>, Stop> {
        let before = (self.wan.report()?.forward.delivered_bytes, prober::processor_time(self.wan.carrier()));
        let flow = stream(&mut self)?;
        let report = self.wan.report()?;
        let used = prober::processor_time(self.wan.carrier()).zip(before.1).map(|(after, before)| after - before);
        Ok(judge::full(&flow, report.forward.delivered_bytes - before.0, used, &report.forward))
    }

    fn target(&self) -> SocketAddr {
        SocketAddr::new(self.wan.address(1), 7000)
    }

    fn prober(&self, host: usize, order: &probe::Order) -> Result<Prober, Stop> {
        let program = &self.programs.probe;
        Ok(Prober::start(self.wan.host(host).command(&program.program), program, order)?)
    }

    fn wait(&self, time: Duration) -> Result<(), Stop> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if !(self.is_wanted)() {
                return Err(Stop::Interrupted);
            }
            thread::sleep(left.min(prober::CHECK_INTERVAL));
        }
        Ok(())
    }
}
