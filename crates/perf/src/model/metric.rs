//! The figures of each kind of run: what they are called, and where they are found.

use crate::model::job::{Job, Kind, Operation};
use crate::model::measure::{Figure, Measured};
use crate::model::run::Run;
use crate::model::test::Test;
use crate::result::Better;

/// A figure that is taken from each run.
pub(crate) struct Metric {
    /// In the JSON.
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) column: Column,
    pub(crate) value: fn(&Run) -> Option<f64>,
    pub(crate) p99: fn(&Run) -> Option<f64>,
}

/// The place of a figure in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// As the median, with its 99th percentile beside it.
    WithP99,
    /// Under this heading.
    Plain(&'static str),
    /// Under this heading, when copies are requested.
    Copies(&'static str),
    /// Under this heading, where the network takes its time.
    Afar(&'static str),
    /// Not at all.
    None,
}

impl Metric {
    const fn new(name: &'static str, unit: &'static str, column: Column, value: fn(&Run) -> Option<f64>) -> Self {
        Self { name, unit, column, value, p99: |_| None }
    }

    /// Which direction is the good one.
    pub(crate) fn better(&self) -> Better {
        match self.name {
            "throughput"
            | "throughput_with_start"
            | "duplex_throughput"
            | "message_rate"
            | "operation_rate"
            | "overlap"
            | "hidden"
            | "computing" => Better::More,
            "communication_time" | "computation_time" | "drawing_time" | "triangles" | "total_time"
            | "match_cpu_alone" | "load" => Better::Neither,
            _ => Better::Less,
        }
    }

    /// What the table multiplies it with.
    pub(crate) fn scale(&self) -> f64 {
        match self.unit {
            "1/s" if self.name == "message_rate" => 1e-6,
            _ => 1.0,
        }
    }
}

/// What a stream carries when its start counts: the messages that are otherwise left out, while TCP finds out what the
/// path carries.
const WITH_START: Metric = Metric::new("throughput_with_start", "GB/s", Column::Afar("with start"), |run| {
    run.active()?.figures.get(&Figure::WithStart).copied()
});
const SENDER_CPU: Metric =
    Metric::new("sender_cpu", "s/GB", Column::Plain("send s/GB"), |run| run.active()?.cpu_s_per_gb);
const RECEIVER_CPU: Metric =
    Metric::new("receiver_cpu", "s/GB", Column::Plain("receive s/GB"), |run| run.passive()?.cpu_s_per_gb);
const SENDER_COPIES: Metric =
    Metric::new("sender_copies", "copies/B", Column::Copies("send copies/B"), |run| run.active()?.copies);
const RECEIVER_COPIES: Metric =
    Metric::new("receiver_copies", "copies/B", Column::Copies("receive copies/B"), |run| run.passive()?.copies);

/// Processor time of each side over the time of the run. Waiting counts as it is done: a thread that spins takes a
/// whole core.
fn shares(column: fn(&'static str) -> Column) -> [Metric; 2] {
    [
        Metric::new("sender_cpu_share", "%", column("send CPU %"), |run| Some(100.0 * run.active()?.cpu_share?)),
        Metric::new("receiver_cpu_share", "%", column("receive CPU %"), |run| Some(100.0 * run.passive()?.cpu_share?)),
    ]
}

/// The figures of a run of a test, the one that it is about first.
pub(crate) fn metrics(test: Test, job: &Job) -> Vec<Metric> {
    let main = |name, unit| Metric { p99: Run::p99, ..Metric::new(name, unit, Column::WithP99, Run::value) };
    let shares = if test == Test::Split { shares(Column::Plain) } else { shares(|_| Column::None) };
    match job.kind {
        Kind::Bandwidth if test == Test::Mpi => [main("throughput", "GB/s")].into_iter().chain(MPI_CPU).collect(),
        Kind::Hiding => hiding(),
        Kind::Matching => matching(),
        Kind::Emulator => emulator(),
        Kind::Latency => {
            let name = if job.operation == Some(Operation::Read) { "round_trip" } else { "half_round_trip" };
            let shares = shares.into_iter().filter(|_| test == Test::Split);
            [main(name, "us")].into_iter().chain(shares).collect()
        }
        Kind::Bandwidth => {
            let all =
                [main("throughput", "GB/s"), WITH_START, SENDER_CPU, RECEIVER_CPU, SENDER_COPIES, RECEIVER_COPIES];
            all.into_iter().chain(shares).collect()
        }
        Kind::Rate => vec![main("message_rate", "1/s")],
        Kind::Collective => vec![main("collective_time", "us")],
        Kind::Start => vec![Metric::new("start_to_end", "s", Column::Plain("s"), Run::value)],
        Kind::Patterns => patterns(),
        Kind::Connect => vec![
            main("first_answer_time", "us"),
            Metric::new("connect_time", "us", Column::Plain("connected us"), |run| {
                run.figures(Figure::ConnectedUs).next()
            }),
            Metric::new("round_trips", "round trips", Column::Plain("round trips"), |run| {
                run.figures(Figure::RoundTrips).next()
            }),
        ],
        Kind::LogP => logp(),
        Kind::Nas => vec![
            Metric::new("operation_rate", "Mop/s", Column::Plain("Mop/s"), Run::value),
            Metric::new("run_time", "s", Column::Plain("s"), |run| run.figures(Figure::Seconds).next()),
        ],
        Kind::Isosurface => isosurface(),
        Kind::CacheTraffic => cache_traffic(),
        Kind::PingPing => vec![main("exchange_time", "us")],
        Kind::Duplex => vec![Metric::new("duplex_throughput", "GB/s", Column::Plain("both ways"), Run::value)],
        Kind::Overlap => overlap(),
        Kind::Ratio => vec![
            Metric::new("computing", "%", Column::Plain("t1/t2 %"), |run| Some(100.0 * run.value()?)),
            Metric::new("total_time", "us", Column::Plain("t2 us"), |run| run.figures(Figure::TotalUs).next()),
        ],
        Kind::Fetch => vec![main("fetch_time", "us")],
        Kind::Carry => vec![
            Metric::new("slowdown", "%", Column::Plain("slower %"), |run| Some(100.0 * run.value()?)),
            Metric::new("streams_cpu", "%", Column::Plain("streams' CPU %"), |run| percent(run, Figure::StreamsCpu)),
            Metric::new("load", "Mb/s", Column::Plain("Mb/s"), |run| run.figures(Figure::Load).next()),
        ],
        Kind::Inserted => vec![
            Metric::new("throughput", "GB/s", Column::Plain("GB/s"), Run::value),
            Metric::new("computing", "%", Column::Plain("t1/t2 %"), |run| percent(run, Figure::Computing)),
        ],
        Kind::Idle => idle(),
        Kind::AllToAll => vec![
            Metric::new("throughput", "MB/s", Column::Plain("MB/s"), all_to_all),
            Metric::new("quiet_cpu", "%", Column::Plain("quiet CPU %"), |run| {
                Some(100.0 * run.figures(Figure::QuietCpu).reduce(|sum, one| sum + one)?)
            }),
        ],
    }
}

fn overlap() -> Vec<Metric> {
    vec![
        Metric::new("overlap", "%", Column::Plain("fits %"), |run| Some(100.0 * run.value()?)),
        Metric::new("hidden", "%", Column::Plain("hidden %"), |run| percent(run, Figure::Hidden)),
        Metric::new("stretch", "%", Column::Plain("stretch %"), |run| percent(run, Figure::Stretch)),
        Metric::new("computing", "%", Column::Plain("t1/t2 %"), |run| percent(run, Figure::Computing)),
        Metric::new("communication_time", "us", Column::Plain("alone us"), |run| {
            run.figures(Figure::CommunicationUs).next()
        }),
        Metric::new("initiator_cpu", "s/GB", Column::Plain("initiator s/GB"), |run| run.active()?.cpu_s_per_gb),
        Metric::new("target_cpu", "s/GB", Column::Plain("target s/GB"), |run| run.passive()?.cpu_s_per_gb),
    ]
}

/// Processor time of the two ranks of an MPI program.
const MPI_CPU: [Metric; 2] = [
    Metric::new("sender_cpu", "s/GB", Column::Plain("send s/GB"), |run| run.figures(Figure::SenderCpu).next()),
    Metric::new("receiver_cpu", "s/GB", Column::Plain("receive s/GB"), |run| run.figures(Figure::ReceiverCpu).next()),
];

fn hiding() -> Vec<Metric> {
    let time = |name, heading, value| Metric::new(name, "us", Column::Plain(heading), value);
    vec![
        Metric::new("hidden", "%", Column::Plain("hidden %"), |run| percent(run, Figure::Hidden)),
        time("communication_time", "transfer us", |run| run.figures(Figure::CommunicationUs).next()),
        time("computation_time", "compute us", |run| run.figures(Figure::ComputationUs).next()),
        time("total_time", "both us", |run| run.figures(Figure::TotalUs).next()),
    ]
}

/// Each is what the run is about.
fn patterns() -> Vec<Metric> {
    let time = |name, heading, value| Metric::new(name, "us", Column::Plain(heading), value);
    vec![
        time("ring_time", "ring us", |run| run.figures(Figure::RingUs).next()),
        time("all_to_all_time", "all-to-all us", |run| run.figures(Figure::AllToAllUs).next()),
        time("halo_time", "halo us", |run| run.figures(Figure::HaloUs).next()),
        time("sort_time", "sort us", |run| run.figures(Figure::SortUs).next()),
    ]
}

fn isosurface() -> Vec<Metric> {
    vec![
        Metric::new("execution_time", "ms", Column::Plain("time ms"), Run::value),
        Metric::new("drawing_time", "ms", Column::Plain("drawing ms"), |run| run.figures(Figure::DrawingMs).next()),
        Metric::new("sender_cpu_share", "%", Column::Plain("send CPU %"), |run| Some(100.0 * run.active()?.cpu_share?)),
        Metric::new("receiver_cpu_share", "%", Column::Plain("draw CPU %"), |run| {
            Some(100.0 * run.passive()?.cpu_share?)
        }),
        Metric::new("triangles", "triangles", Column::None, |run| run.figures(Figure::Triangles).next()),
    ]
}

/// Each is what the run is about: at both sides what was counted, and what follows from the kernel's calls.
fn cache_traffic() -> Vec<Metric> {
    fn of(side: Option<&Measured>, figure: Figure) -> Option<f64> {
        side?.figures.get(&figure).copied()
    }
    let per_byte = |name, heading, value| Metric::new(name, "B/B", Column::Plain(heading), value);
    vec![
        per_byte("sender_cache_traffic", "send cache", |run| of(run.active(), Figure::CacheTraffic)),
        per_byte("sender_kernel_copies", "send kernel", |run| Some(2.0 * of(run.active(), Figure::ThroughKernel)?)),
        per_byte("receiver_cache_traffic", "receive cache", |run| of(run.passive(), Figure::CacheTraffic)),
        per_byte("receiver_kernel_copies", "receive kernel", |run| {
            Some(2.0 * of(run.passive(), Figure::ThroughKernel)?)
        }),
    ]
}

/// Each is what the run is about, but for the round trip.
fn logp() -> Vec<Metric> {
    let time = |name, heading, value| Metric::new(name, "us", Column::Plain(heading), value);
    vec![
        time("send_overhead", "send us", |run| run.figures(Figure::SendOverheadUs).next()),
        time("receive_overhead", "receive us", |run| run.figures(Figure::ReceiveOverheadUs).next()),
        time("gap", "gap us", |run| run.figures(Figure::GapUs).next()),
        time("latency", "latency us", |run| run.figures(Figure::LatencyUs).next()),
        Metric::new("gap_per_byte", "ns", Column::Plain("per byte ns"), |run| run.figures(Figure::GapPerByteNs).next()),
        time("round_trip", "round trip us", |run| run.figures(Figure::RoundTripUs).next()),
    ]
}

/// How many of the first metrics are what a run is about.
pub(crate) fn main_metrics(job: &Job) -> usize {
    match job.kind {
        Kind::Patterns => patterns().len(),
        Kind::LogP => logp().len() - 1,
        Kind::CacheTraffic => cache_traffic().len(),
        _ => 1,
    }
}

fn matching() -> Vec<Metric> {
    vec![
        Metric::new("added_cpu", "ns", Column::Plain("added ns"), Run::value),
        Metric::new("match_cpu", "ns", Column::Plain("ns"), |run| run.figures(Figure::AmongNs).next()),
        Metric::new("match_cpu_alone", "ns", Column::Plain("alone ns"), |run| run.figures(Figure::AloneNs).next()),
    ]
}

fn emulator() -> Vec<Metric> {
    vec![
        Metric::new("miss", "%", Column::Plain("miss %"), Run::value),
        Metric::new("late_p50", "us", Column::Plain("late p50 us"), |run| run.figures(Figure::LateP50Us).next()),
        Metric::new("late_p99", "us", Column::Plain("late p99 us"), |run| run.figures(Figure::LateP99Us).next()),
    ]
}

fn idle() -> Vec<Metric> {
    vec![
        Metric::new("cpu", "%", Column::Plain("CPU %"), |run| {
            Some(100.0 * run.active()?.figures.get(&Figure::QuietCpu)?)
        }),
        Metric::new("passive_cpu", "%", Column::Plain("peer's CPU %"), |run| {
            Some(100.0 * run.passive()?.figures.get(&Figure::QuietCpu)?)
        }),
        Metric::new("wake_ups", "1/s", Column::Plain("wake-ups/s"), |run| {
            run.active()?.figures.get(&Figure::WakeUps).copied()
        }),
        Metric::new("connection_memory", "KiB", Column::Plain("KiB a connection"), |run| {
            Some(run.active()?.figures.get(&Figure::ConnectionBytes)? / 1024.0)
        }),
        Metric::new("passive_connection_memory", "KiB", Column::Plain("peer's KiB"), |run| {
            Some(run.passive()?.figures.get(&Figure::ConnectionBytes)? / 1024.0)
        }),
    ]
}

fn percent(run: &Run, figure: Figure) -> Option<f64> {
    Some(100.0 * run.figures(figure).next()?)
}

/// Megabytes per second of all processes together, from when the first began to when the last had ended. Each reports
/// the megabytes that it has sent as its value.
fn all_to_all(run: &Run) -> Option<f64> {
    let megabytes: f64 = run.sides.iter().filter_map(|side| side.value).sum();
    let began = run.figures(Figure::Began).reduce(f64::min)?;
    let ended = run.figures(Figure::Ended).reduce(f64::max)?;
    Some(megabytes / (ended - began).max(1e-9))
}

/// The title above the table of a kind of run.
pub(crate) fn title(job: &Job) -> &'static str {
    match job.kind {
        Kind::Latency if job.operation == Some(Operation::Read) => "Round trip in us, less is better",
        Kind::Latency => "Half round trip in us, less is better",
        Kind::Bandwidth => "Throughput in GB/s, more is better",
        Kind::Rate => "Messages per second in millions, more is better",
        Kind::PingPing => "Time of an exchange, both sides sending at once, in us, less is better",
        Kind::Duplex => "Throughput of both directions together in GB/s, more is better",
        Kind::Overlap => "Computation beside a transfer: how much of it fits, more is better",
        Kind::Inserted => "Throughput with computation after each message, more is better",
        Kind::Ratio => "Computation between post and wait, over the whole time of a transfer, more is better",
        Kind::Fetch => "Time of a fetch in us, less is better",
        Kind::Carry => "A computation beside streams: by how much it is slower than alone, less is better",
        Kind::Matching => "Processor time of matching one message with its receive, less is better",
        Kind::Emulator => "By how much a stream misses what was set, as a share of what it may, less is better",
        Kind::Hiding => "Messages beside computation: the share of them that is hidden, more is better",
        Kind::Idle => "Quiet connections, less is better",
        Kind::Collective => "Time of a collective operation of all ranks in us, less is better",
        Kind::Start => {
            "From the start of all ranks, through an all-to-all, to the end of the last, in s, less is better"
        }
        Kind::Connect => "From the call that connects to the first answer in us, less is better",
        Kind::Isosurface => "Time to render the surface in a field that is sent in pieces, in ms, less is better",
        Kind::Nas => "Millions of operations in a second, of all ranks together, more is better",
        Kind::LogP => "Parameters of LogP, less is better",
        Kind::CacheTraffic => "Bytes that move for each byte of payload, less is better",
        Kind::Patterns => "Time of a round of all ranks in us, less is better",
        Kind::AllToAll => "Throughput of all processes together in MB/s, more is better",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;
    use crate::model::measure::Measured;

    #[test]
    fn all_processes_count_from_the_first_to_the_last() {
        let side = |value, began, ended| Measured {
            value: Some(value),
            figures: [(Figure::Began, began), (Figure::Ended, ended), (Figure::QuietCpu, 0.01)].into(),
            ..Measured::default()
        };
        let run = Run { sides: vec![side(10.0, 100.0, 104.0), side(20.0, 101.0, 105.0)], ..Run::default() };
        let job = Job { kind: Kind::AllToAll, ..job() };
        let figures: Vec<_> =
            metrics(Test::AllToAll, &job).iter().map(|metric| (metric.value)(&run).unwrap()).collect();
        assert_eq!(figures[0], 6.0);
        assert!((figures[1] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn shares_of_a_core_are_for_who_asks() {
        let count = |test| metrics(test, &job()).len();
        assert_eq!((count(Test::Latency), count(Test::Split)), (1, 3));
    }
}
