//! `weft perf links`: what several links carry together, and what becomes of a stream when one of them is cut. Each
//! case has a lab of its own.

pub(crate) mod account;
pub(crate) mod contestant;
pub(crate) mod network;
pub(crate) mod picture;
pub(crate) mod run;
pub(crate) mod side;

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::{self, complain};
use weft_command::shape::{Time, shape_of_word};
use weft_command::table::{Align, Table};
use weft_lab::{BitsPerSecond, Shape, Way};

use crate::experiments::links::account::{Span, Summary};
use crate::experiments::links::contestant::{Begins, Contestant, Other};
use crate::experiments::links::network::{Network, Number};
use crate::experiments::links::run::{Case, Cut};
use crate::experiments::links::side::{Carrier, LARGEST, Pattern, Receive, Wake};
use crate::model::bound;
use crate::model::size::{Size, Sizes};
use crate::report::describe;
use crate::result::{self, Better, Comparison, Document, Launch, Missing, Series, Verdict};
use crate::runner::measurement::Measurement;
use crate::runner::outputs::Outputs;
use crate::statistics::median;

/// What it asks.
const QUESTION: &str = "What do several links carry together, and what becomes of a stream when one of them is cut?";

/// How long a stream runs, without and with a cut.
const SECONDS: f64 = 3.0;
const SECONDS_WITH_CUT: f64 = 6.0;
/// What the throughput leaves out at the beginning where the command line does not say it.
const OMITTED: f64 = 0.5;

/// What is varied.
#[derive(Args, Debug)]
pub(crate) struct Links {
    /// How many links join the two hosts, each number a case of its own; with a rate of their own in place of that of
    /// --rate: 1,2,4,1x10G
    #[arg(long, value_name = "N[xRATE],...", value_delimiter = ',', default_value = "1,2,4")]
    links: Vec<Number>,
    /// What each link carries in each direction; with commas, what each of them does
    #[arg(long, value_name = "RATE[,...]", value_delimiter = ',', default_value = "1G")]
    rate: Vec<BitsPerSecond>,
    /// Cut the last link in mid-transfer, in this way, and mend it again
    #[arg(long, value_name = "WAY", value_enum, num_args = 0..=1, default_missing_value = "silent")]
    cut_link: Option<CutWay>,
    /// Which way messages go, each a case of its own
    #[arg(long, value_name = "PATTERN,...", value_enum, value_delimiter = ',', default_value = "one-way")]
    pattern: Vec<Pattern>,
    /// Edge's flows over each link, each with UDP ports of its own; 16 over all links at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    flows: u8,
    /// How Edge's and iWARP's sides wait [default: as the library does: a short poll, then asleep]
    #[arg(long, value_name = "HOW", value_enum)]
    wake: Option<Wake>,
    /// What Edge's receiving side does with what comes out of order, each a case of its own
    #[arg(long, value_name = "HOW,...", value_enum, value_delimiter = ',', default_value = "place")]
    receive: Vec<Receive>,
    /// What a switch in user space does to the frames of each link, in each direction, such as
    /// delay=2ms,loss=1,reorder=5: as the options of `weft lab shape`; each a case of its own, and the first what the
    /// others are compared with
    #[arg(long, value_name = "SHAPE", value_parser = shape_of_word)]
    emulate: Vec<Shape>,
    /// A stream of this one goes over the same links at the same time (tcp:cubic, edge; same: a second one of each
    /// contestant), each of several in cases of its own; shown is what each has of both in the last two thirds of the
    /// time
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "cut_link")]
    beside: Vec<Other>,
    /// The stream beside begins at a third host, and its frames take this long in each direction instead of the delay
    /// of --emulate; both go through the same queue, whose rate is that of a link
    #[arg(long, value_name = "TIME", requires_all = ["beside", "emulate"])]
    beside_delay: Option<Time>,
    /// Which of both streams begins, each a case of its own; the other one follows after a sixth of the time
    #[arg(long, value_name = "WHICH,...", value_enum, value_delimiter = ',', default_value = "together")]
    #[arg(requires = "beside")]
    begins: Vec<Begins>,
    /// Seconds at the beginning that the throughput leaves out [default: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = omitted)]
    omit: Option<f64>,
    /// Show on standard error what each link carries while it does
    #[arg(long)]
    watch: bool,
}

impl Links {
    /// How many links join the two hosts, in each case.
    pub(crate) fn links(&self) -> &[Number] {
        &self.links
    }

    /// The time of a stream.
    fn span(&self, seconds: Option<f64>) -> Result<Span, Failure> {
        let usual = if self.cut_link.is_some() { SECONDS_WITH_CUT } else { SECONDS };
        Span::new(seconds.unwrap_or(usual), self.omit.unwrap_or(OMITTED)).map_err(Failure::Usage)
    }
}

fn omitted(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0 to 600".into())
}

/// How a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CutWay {
    /// Both hosts see that there is no carrier
    Carrier,
    /// Nothing passes, and the link stays up
    Silent,
    /// What the sender sends is lost
    Send,
    /// What is sent to the sender is lost
    Receive,
}

impl CutWay {
    const fn way(self) -> Way {
        match self {
            Self::Carrier => Way::Carrier,
            Self::Silent => Way::Silent,
            Self::Send => Way::Send,
            Self::Receive => Way::Receive,
        }
    }
}

/// The other options of the command line.
pub(crate) struct Wishes<'a> {
    pub(crate) transport: Option<&'a str>,
    pub(crate) vs: Option<&'a [String]>,
    /// How often processes start anew in each case.
    pub(crate) launches: u32,
    pub(crate) seconds: Option<f64>,
    pub(crate) engines: &'a [usize],
    /// Of messages, each a case of its own; `None`: as each carrier usually has them.
    pub(crate) sizes: Option<&'a Sizes>,
}

fn contestants(wishes: &Wishes<'_>) -> Result<Vec<Contestant>, Failure> {
    let contestant = |name: &str| name.parse::<Contestant>().map_err(Failure::Usage);
    let mut all = vec![contestant(wishes.transport.unwrap_or("edge"))?];
    match wishes.vs {
        None => all.extend([Carrier::Tcp, Carrier::Mptcp].map(Contestant::of)),
        Some(names) => {
            for name in names.iter().filter(|name| *name != "none") {
                all.push(contestant(name)?);
            }
        }
    }
    all.dedup();
    Ok(all)
}

/// Which way messages go: a stream beside goes one way.
fn patterns(arguments: &Links) -> Result<&[Pattern], Failure> {
    match arguments.pattern.iter().find(|pattern| **pattern != Pattern::OneWay) {
        Some(other) if !arguments.beside.is_empty() => {
            let words =
                format!("--beside: the other stream goes one way, so --pattern {other} is not measured with it");
            Err(Failure::Usage(words))
        }
        _ => Ok(&arguments.pattern),
    }
}

/// Bytes of messages.
fn sizes(wishes: &Wishes<'_>) -> Result<Vec<Option<usize>>, Failure> {
    let Some(Sizes(sizes)) = wishes.sizes else { return Ok(vec![None]) };
    match sizes.iter().find(|size| size.0 > LARGEST) {
        Some(size) => Err(Failure::Usage(format!("--size {size}: messages of links have at most {}", Size(LARGEST)))),
        None => Ok(sizes.iter().map(|size| Some(size.0)).collect()),
    }
}

/// What tells cases from each other.
#[derive(Clone, Copy, Debug)]
struct Keys {
    /// The pattern: there is more than what is usual.
    pattern: bool,
    /// The rate of each link: there are several.
    rate: bool,
    /// Delay and loss, which are all that is done to frames: axes of charts. Otherwise the shape in words.
    delay_and_loss: bool,
}

impl Keys {
    fn of(arguments: &Links) -> Self {
        let is_plain = |shape: &Shape| {
            let rest = Shape { delay: Duration::ZERO, loss_millionths: 0, rate: None, ..shape.clone() };
            rest == Shape::default()
        };
        Self {
            pattern: arguments.pattern != [Pattern::OneWay],
            rate: arguments.links.iter().any(|number| number.rate.is_some()),
            delay_and_loss: arguments.emulate.iter().all(is_plain),
        }
    }

    fn of_shape(self, shape: &Shape) -> Vec<(String, Value)> {
        if !self.delay_and_loss {
            return vec![("each_link".to_owned(), shape.to_string().into())];
        }
        let round_trip = round_trip_ms(shape.delay);
        let loss = f64::from(shape.loss_millionths) / 1e4;
        vec![("round_trip_ms".to_owned(), round_trip.into()), ("loss_percent".to_owned(), loss.into())]
    }
}

/// Of frames that take this long in each direction.
fn round_trip_ms(delay: Duration) -> f64 {
    2.0 * delay.as_secs_f64() * 1e3
}

/// The launches of a contestant in a case.
struct Cell<'a> {
    case: Case<'a>,
    keys: Keys,
    summaries: Vec<Summary>,
    /// Why there are no more.
    missing: Option<String>,
    /// Whether that is a failure, and not what this system does not have.
    has_failed: bool,
}

/// Runs the test.
pub(crate) fn run(arguments: &Links, wishes: &Wishes<'_>, outputs: Outputs) -> Result<(), Failure> {
    let (contestants, span) = (contestants(wishes)?, arguments.span(wishes.seconds)?);
    let delay_beside = arguments.beside_delay.map(|Time(delay)| delay);
    let network = |number: &Number| Network::new(*number, &arguments.rate, &arguments.emulate, delay_beside);
    let networks = arguments.links.iter().map(network).collect::<Result<Vec<_>, _>>()?;
    let (patterns, sizes) = (patterns(arguments)?, sizes(wishes)?);
    let (interrupt, measurement) = (Interrupt::watch()?, Measurement::begin("links", QUESTION));
    let others = others(arguments);
    let of_pattern = |pattern| sizes.iter().map(move |size| (pattern, *size));
    let of_one = |way| others.iter().map(move |other| (way, *other));
    let ways: Vec<_> = patterns.iter().copied().flat_map(of_pattern).flat_map(of_one).collect();
    let (mut cells, keys) = (Vec::new(), Keys::of(arguments));
    for Network { plan, shapes } in &networks {
        let of_one = |one| cases(one, wishes.engines, &arguments.receive);
        let all = contestants.iter().flat_map(of_one);
        let all = all.flat_map(|case| shapes.iter().map(move |shape| (case, shape)));
        for ((contestant, engines, receive), shape) in all {
            let cut =
                arguments.cut_link.filter(|_| plan.links > 1).map(|way| Cut { rail: plan.links - 1, way: way.way() });
            for ((pattern, size), (other, begins)) in ways.iter().copied() {
                let case = Case {
                    plan,
                    contestant,
                    shape: shape.as_ref(),
                    beside: other.map(|other| other.beside(contestant, delay_beside)),
                    begins,
                    engines,
                    wake: arguments.wake,
                    receive,
                    span,
                    cut,
                    pattern,
                    size,
                    flows: arguments.flows,
                    watch: arguments.watch,
                    interrupt: &interrupt,
                };
                cells.push(Cell { case, keys, summaries: Vec::new(), missing: None, has_failed: false });
            }
        }
    }
    let outcome = measure(&mut cells, wishes.launches);
    let is_cut_short = matches!(outcome, Err(Failure::Interrupted));
    if !is_cut_short {
        outcome?;
    }
    let failure = if is_cut_short { Some(Failure::Interrupted) } else { cells.iter().find_map(Cell::failure) };
    if cells.iter().all(|cell| cell.summaries.is_empty())
        && let Some(failure) = failure
    {
        return Err(failure);
    }
    let settings = json!({
        "seconds": span.seconds, "omitted_s": span.omitted, "patterns": arguments.pattern, "flows": arguments.flows,
        "wake": arguments.wake,
        "rates": arguments.rate.iter().map(|rate| rate.0).collect::<Vec<_>>(), "launches": wishes.launches,
    });
    let first = cells.first().map(Cell::name).unwrap_or_default();
    let rows = cells.iter().flat_map(Cell::rows).collect();
    let mut document = measurement.end("labs: two hosts, with links between them", settings, rows, &first);
    document.rows.extend(bounds(&cells));
    document.is_cut_short = is_cut_short;
    document.not_measured = cells.iter().filter_map(Cell::missing).collect();
    outputs.publish(&document, &page(&cells, span, arguments, &document))?;
    failure.map_or(Ok(()), Err)
}

/// What headers leave of the links, in each case.
fn bounds(cells: &[Cell<'_>]) -> Vec<result::Row> {
    let mut rows: Vec<result::Row> = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.summaries.is_empty()) {
        let (case, directions) = (cell.key(), if cell.case.pattern == Pattern::TwoWay { 2.0 } else { 1.0 });
        if rows.iter().all(|row| row.case != case) {
            let value = directions * account::possible(cell.case.plan, Carrier::Tcp) / 1e9;
            rows.push(bound::throughput(result::HEADERS, case, [value]));
        }
    }
    rows
}

/// What goes over the same links, and which of both begins.
fn others(arguments: &Links) -> Vec<(Option<&Other>, Begins)> {
    if arguments.beside.is_empty() {
        return vec![(None, Begins::Together)];
    }
    let of_one = |beside| arguments.begins.iter().map(move |begins| (Some(beside), *begins));
    arguments.beside.iter().flat_map(of_one).collect()
}

/// A contestant with each number of engines and each way to receive, if it has any.
fn cases<'a>(
    contestant: &'a Contestant,
    engines: &'a [usize],
    receive: &'a [Receive],
) -> impl Iterator<Item = (&'a Contestant, usize, Receive)> {
    let numbers = if contestant.carrier.has_engines() { engines } else { &[1] };
    let ways = if contestant.carrier == Carrier::Edge { receive } else { &[Receive::Place] };
    numbers.iter().flat_map(move |number| ways.iter().map(move |way| (contestant, *number, *way)))
}

/// All launches: in each, all cases take turns, and another one begins each time.
fn measure(cells: &mut [Cell<'_>], launches: u32) -> Result<(), Failure> {
    let count = cells.len();
    for launch in 0..launches {
        for turn in 0..count {
            let cell = &mut cells[(launch as usize + turn) % count];
            if cell.missing.is_some() {
                continue;
            }
            let case = describe(&cell.key());
            complain(format_args!("{}, {case}, launch {} of {launches}", cell.name(), launch + 1));
            match cell.case.run() {
                Ok(summary) => cell.summaries.push(summary),
                // The others are measured.
                Err(Failure::Runtime(why)) => cell.end(why),
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(())
}

/// A figure of a launch: its name, unit, good direction, and where it is found.
type Figure = (&'static str, &'static str, Better, fn(&Summary) -> Option<f64>);

const THROUGHPUT: Figure = ("throughput", "GB/s", Better::More, |one| Some(one.bytes_per_s / 1e9));
const SHARE_OF_LINKS: Figure =
    ("share_of_links", "%", Better::More, |one| Some(100.0 * one.bytes_per_s / one.possible_bytes_per_s));
/// Of the ping-pong.
const HALF_ROUND_TRIP: Figure =
    ("half_round_trip", "us", Better::Less, |one| one.half_round_trips.as_ref()?.quantile(0.5));
/// As MultiEdge has it: acknowledgements and repetitions.
const EXTRA_FRAMES: Figure = ("extra_frames", "%", Better::Neither, |one| Some(100.0 * one.extra_frames?));
const OUT_OF_ORDER: Figure = ("out_of_order_share", "%", Better::Neither, |one| Some(100.0 * one.early_share?));
const CPU: Figure = ("cpu", "s/GB", Better::Less, |one| Some(one.cpu_s_per_gb));
const SHARE_OF_BOTH: Figure = ("share_of_both", "%", Better::More, |one| Some(100.0 * one.share?));
const PAUSE: Figure = ("pause", "ms", Better::Less, |one| Some(one.cut.as_ref()?.pause_ms));
const BEFORE: Figure = ("throughput_before", "GB/s", Better::Neither, |one| Some(one.cut.as_ref()?.before / 1e9));
const DURING: Figure = ("throughput_while_cut", "GB/s", Better::More, |one| Some(one.cut.as_ref()?.during / 1e9));
const FULL_AFTER: Figure = ("full_after", "ms", Better::Less, |one| one.cut.as_ref()?.full_after_ms);

/// Of which there are charts.
const MAIN: [&str; 5] = [THROUGHPUT.0, SHARE_OF_BOTH.0, HALF_ROUND_TRIP.0, EXTRA_FRAMES.0, OUT_OF_ORDER.0];

/// All of them, the one that the test is about first.
const FIGURES: [Figure; 16] = [
    THROUGHPUT,
    HALF_ROUND_TRIP,
    EXTRA_FRAMES,
    OUT_OF_ORDER,
    SHARE_OF_LINKS,
    CPU,
    SHARE_OF_BOTH,
    PAUSE,
    BEFORE,
    DURING,
    FULL_AFTER,
    ("sends", "1/GB", Better::Less, |one| Some(one.sends_per_gb)),
    ("receives", "1/GB", Better::Less, |one| Some(one.receives_per_gb)),
    ("wake_ups", "1/GB", Better::Less, |one| Some(one.wake_ups_per_gb)),
    ("cpu_share", "%", Better::Less, |one| Some(100.0 * one.cpu_share)),
    ("kept_share", "%", Better::Less, |one| Some(100.0 * one.kept_share)),
];

impl Cell<'_> {
    /// The contestant with the settings that tell it from others: `edge:engines=2`.
    fn name(&self) -> String {
        let mut name = self.case.contestant.to_string();
        if self.case.engines > 1 {
            name += &format!(":engines={}", self.case.engines);
        }
        if self.case.receive == Receive::Copy {
            name += ":receive=copy";
        }
        name
    }

    /// How many links there are, with their rate where there are several.
    fn links(&self) -> String {
        let plan = self.case.plan;
        if self.keys.rate { format!("{} x {}", plan.links, plan.rates_text()) } else { plan.links.to_string() }
    }

    /// What tells the case from others.
    fn key(&self) -> result::Case {
        let links = ("links".to_owned(), self.case.plan.links.into());
        let shape = self.case.shape.map(|shape| self.keys.of_shape(shape));
        let rate = self.keys.rate.then(|| ("rate".to_owned(), self.case.plan.rates_text().into()));
        let beside = self.case.beside.map(|beside| ("beside".to_owned(), beside.to_string().into()));
        let delay_beside = self.case.beside.and_then(|beside| beside.delay);
        let distance = delay_beside.map(|delay| ("round_trip_beside_ms".to_owned(), round_trip_ms(delay).into()));
        let is_ordered = self.case.begins != Begins::Together;
        let begins = is_ordered.then(|| ("begins".to_owned(), self.case.begins.to_string().into()));
        let pattern = self.keys.pattern.then(|| ("pattern".to_owned(), self.case.pattern.to_string().into()));
        let size = self.case.size.map(|size| ("size_bytes".to_owned(), size.into()));
        let words = [Some(links), rate, beside, distance, begins, pattern, size].into_iter().flatten();
        words.chain(shape.into_iter().flatten()).collect()
    }

    /// What cells have in common that differ in the shape of their links alone.
    fn all_but_shape(&self) -> impl PartialEq {
        let Case { plan, beside, begins, pattern, size, .. } = self.case;
        let beside = beside.map(|beside| beside.to_string());
        (plan.links, plan.rates_text(), self.name(), (beside, begins), pattern, size)
    }

    /// Measures no more of it. A kernel may have no multipath TCP, or not this congestion control; what has run once
    /// is there.
    fn end(&mut self, why: String) {
        self.has_failed = !self.case.contestant.may_be_missing() || !self.summaries.is_empty();
        complain(format_args!("{}: {why}", self.name()));
        self.missing = Some(why);
    }

    fn failure(&self) -> Option<Failure> {
        let why = self.missing.as_ref().filter(|_| self.has_failed)?;
        Some(Failure::Runtime(format!("{} failed: {why}", self.name())))
    }

    fn missing(&self) -> Option<Missing> {
        let reason = format!("{} links: {}", self.links(), self.missing.as_ref()?);
        Some(Missing { contestant: self.name(), reason, is_failure: self.has_failed })
    }

    fn rows(&self) -> Vec<result::Row> {
        let row = |(name, unit, better, value): &Figure| {
            let launch =
                |(one, at): (&Summary, u32)| Some(self.detailed(name, one, Launch::of(at, finite(value(one))?)));
            let launches: Vec<_> = self.summaries.iter().zip(0..).filter_map(launch).collect();
            let row = result::Row::new(self.name(), self.key(), (*name, *unit, *better), launches);
            (!row.launches.is_empty()).then(|| if MAIN.contains(name) { row.as_main() } else { row })
        };
        FIGURES.iter().filter_map(row).collect()
    }

    /// A launch with all that was seen in it.
    fn detailed(&self, metric: &str, summary: &Summary, launch: Launch) -> Launch {
        let launch = Launch { lateness: summary.lateness, ..launch };
        match (metric, &summary.half_round_trips) {
            // Over time where cases are few, or a link is cut: of each size and shape there would be a chart.
            (metric, _) if metric == THROUGHPUT.0 => {
                let is_alone = self.case.size.is_none() && self.case.shape.is_none();
                Launch { series: (is_alone || self.case.cut.is_some()).then(|| series(summary)), ..launch }
            }
            (metric, Some(histogram)) if metric == HALF_ROUND_TRIP.0 => Launch {
                p99: histogram.quantile(0.99),
                worst: histogram.quantile(1.0),
                histogram: Some(histogram.clone()),
                ..launch
            },
            _ => launch,
        }
    }

    fn median(&self, (_, _, _, value): Figure) -> Option<f64> {
        median(&self.summaries.iter().filter_map(value).collect::<Vec<_>>())
    }

    /// `first`: the same with the first shape, if links are shaped.
    fn cells(&self, arguments: &Links, first: Option<&Self>, document: &Document) -> Vec<String> {
        let text =
            |value: Option<f64>, digits: usize| value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"));
        let (name, key) = (self.name(), self.key());
        let is_own = |row: &&result::Row| row.contestant == name && row.case == key && row.metric == THROUGHPUT.0;
        let interval = document.rows.iter().find(is_own).and_then(|row| row.interval);
        let is_of_this = |it: &&Comparison| it.peer == name && it.case == key && it.metric == THROUGHPUT.0;
        let comparison = document.comparisons.iter().find(is_of_this);
        let mark = if comparison.is_some_and(|it| it.verdict == Verdict::Equal) { " ~" } else { "" };
        let mut cells = vec![
            self.links(),
            name.clone(),
            format!("{}{mark}", text(self.median(THROUGHPUT), 3)),
            interval.map_or_else(|| "-".into(), |it| format!("{:.3}..{:.3}", it.low, it.high)),
            text(self.median(SHARE_OF_LINKS), 1),
            text(self.median(CPU), 2),
        ];
        if let Some(first) = first {
            cells.insert(2, self.case.shape.map_or_else(|| "-".into(), ToString::to_string));
            let share = self.median(THROUGHPUT).zip(first.median(THROUGHPUT)).map(|(own, first)| 100.0 * own / first);
            cells.push(text(share, 1));
        }
        if self.keys.pattern || self.case.size.is_some() {
            let size = self.case.size.map_or_else(|| "-".into(), |size| Size(size).to_string());
            cells.splice(2..2, [self.case.pattern.to_string(), size]);
            cells.extend([HALF_ROUND_TRIP, EXTRA_FRAMES, OUT_OF_ORDER].map(|figure| text(self.median(figure), 1)));
        }
        if let Some(beside) = self.case.beside {
            cells.extend([beside.to_string(), self.case.begins.to_string(), text(self.median(SHARE_OF_BOTH), 1)]);
        }
        if arguments.cut_link.is_some() {
            cells.extend([
                text(self.median(PAUSE), 0),
                text(self.median(BEFORE), 3),
                text(self.median(DURING), 3),
                text(self.median(FULL_AFTER), 0),
            ]);
        }
        cells
    }
}

/// Of a stream that brought nothing there is no cost of a byte.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Throughput over time.
fn series(summary: &Summary) -> Series {
    let marks = summary
        .cut
        .as_ref()
        .map(|cut| [(cut.cut_ms as f64, "cut".to_owned()), (cut.mended_ms as f64, "mended".to_owned())].to_vec());
    Series {
        step_ms: account::POINT_MS,
        values: summary.series.iter().map(|bytes_per_s| bytes_per_s / 1e9).collect(),
        marks: marks.unwrap_or_default(),
    }
}

fn page(cells: &[Cell<'_>], Span { seconds, omitted }: Span, arguments: &Links, document: &Document) -> String {
    let ways = match arguments.pattern[..] {
        [Pattern::OneWay] => "one direction",
        [Pattern::TwoWay] => "both directions together",
        _ => "one direction; two-way: both together; ping-pong: each in its turn",
    };
    let right = Align::Right;
    let mut columns = vec![
        ("links", right),
        ("", Align::Left),
        ("GB/s", right),
        ("interval", right),
        ("% of links", right),
        ("CPU s/GB", right),
    ];
    let is_shaped = !arguments.emulate.is_empty();
    if is_shaped {
        columns.insert(2, ("each link", Align::Left));
        columns.push(("% of the first", right));
    }
    if cells.iter().any(|cell| cell.keys.pattern || cell.case.size.is_some()) {
        columns.splice(2..2, [("", Align::Left), ("size", right)]);
        columns.extend([("us", right), ("% extra", right), ("% early", right)]);
    }
    if !arguments.beside.is_empty() {
        columns.extend([("beside", Align::Left), ("begins", Align::Left), ("% of both", right)]);
    }
    if arguments.cut_link.is_some() {
        columns.extend([("pause ms", right), ("before", right), ("while cut", right), ("full after ms", right)]);
    }
    let mut table = Table::new(&columns).fold(if is_shaped { 3 } else { 2 }, output::columns());
    for cell in cells {
        let is_like = |other: &&Cell<'_>| other.all_but_shape() == cell.all_but_shape();
        table.row(cell.cells(arguments, cells.iter().find(is_like).filter(|_| is_shaped), document));
    }
    let beside = if arguments.beside.is_empty() { "" } else { ", beside another stream" };
    let omitted = arguments.omit.map_or_else(String::new, |_| format!(", the first {omitted} s left out"));
    let mut text = format!(
        "Payload in {ways}{beside}, medians of launches of {seconds} s{omitted}; % of what the carrier's own \
         headers leave of the links\n{}\n{table}",
        document.machine.describe()
    );
    if let Some(covered) = document.rows.iter().find_map(|row| row.interval) {
        text += &format!("\nan interval covers the median in {:.1} % of cases; ", 100.0 * covered.coverage);
        text += "~ not told from the first (rank-sum test, p >= 0.01)\n";
    }
    if let Some(words) = document.lateness() {
        text += &format!("\n! {words}\n");
    }
    if document.is_cut_short {
        text += "\nINTERRUPTED: not all launches were made\n";
    }
    for missing in &document.not_measured {
        text += &format!("\nnot measured: {} over {}\n", missing.contestant, missing.reason);
    }
    for cell in cells {
        if let Some(picture) = cell.summaries.last().filter(|one| one.cut.is_some()).map(picture::draw) {
            text += &format!("\n{} over {} links, the last one cut and mended\n{picture}", cell.name(), cell.links());
        }
    }
    text
}
