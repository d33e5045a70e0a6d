//! `weft perf links`: what several links carry together, and what becomes of a stream when one of them is cut. Each
//! case has a lab of its own.

pub(crate) mod account;
pub(crate) mod contestant;
pub(crate) mod picture;
pub(crate) mod run;
pub(crate) mod side;

use clap::{Args, ValueEnum};
use serde_json::json;
use weft_lab::{BitsPerSecond, Plan, Shape, Way};

use crate::experiments::links::account::Summary;
use crate::experiments::links::contestant::Contestant;
use crate::experiments::links::run::{Case, Cut};
use crate::experiments::links::side::{Carrier, Receive, Wake};
use crate::host::watch::Watch;
use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::{complain, print};
use weft_command::shape::shape_of_word;
use weft_command::table::{Align, Table};

/// How long a stream runs, without and with a cut.
const SECONDS: f64 = 3.0;
const SECONDS_WITH_CUT: f64 = 6.0;

/// What is varied.
#[derive(Args, Debug)]
pub(crate) struct Links {
    /// links: how many links join the two hosts, each number a case of its own
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    links: Vec<u8>,
    /// links: what each link carries in each direction; with commas, what each of them does
    #[arg(long, value_name = "RATE[,...]", value_delimiter = ',', default_value = "1G")]
    rate: Vec<BitsPerSecond>,
    /// links: cut the last link in mid-transfer, in this way, and mend it again
    #[arg(long, value_name = "WAY", value_enum, num_args = 0..=1, default_missing_value = "silent")]
    cut_link: Option<CutWay>,
    /// links: a second stream goes the other way at the same time; what is shown is both together
    #[arg(long)]
    two_way: bool,
    /// links: Edge's flows over each link, each with UDP ports of its own; 16 over all links at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    flows: u8,
    /// links: how Edge's and iWARP's sides wait [default: as the library does: a short look, then asleep]
    #[arg(long, value_name = "HOW", value_enum)]
    wake: Option<Wake>,
    /// links: what Edge's receiving side does with what comes out of order, each a case of its own
    #[arg(long, value_name = "HOW,...", value_enum, value_delimiter = ',', default_value = "place")]
    receive: Vec<Receive>,
    /// links: what a switch in user space does to the frames of each link, in each direction, such as
    /// delay=2ms,loss=1,reorder=5: as the options of `weft lab shape`; each a case of its own, and the first what the
    /// others are compared with
    #[arg(long, value_name = "SHAPE", value_parser = shape_of_word)]
    emulate: Vec<Shape>,
    /// links: a stream of this one goes over the same links at the same time (tcp:cubic, edge), and what each has of
    /// both is shown
    #[arg(long, value_name = "NAME", conflicts_with_all = ["two_way", "cut_link"])]
    beside: Option<Contestant>,
    /// links: show on standard error what each link carries while it does
    #[arg(long)]
    watch: bool,
}

impl Links {
    /// How many links join the two hosts, in each case.
    pub(crate) fn links(&self) -> &[u8] {
        &self.links
    }
}

/// How a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CutWay {
    /// Both hosts see that there is no carrier
    Carrier,
    /// Nothing passes, and nobody is told
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

/// What else was said on the command line.
pub(crate) struct Wishes<'a> {
    pub(crate) transport: Option<&'a str>,
    pub(crate) vs: Option<&'a [String]>,
    pub(crate) runs: u32,
    pub(crate) seconds: Option<f64>,
    pub(crate) engines: &'a [usize],
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

fn plan(arguments: &Links, links: usize) -> Result<Plan, Failure> {
    let plan = match arguments.rate[..] {
        [one] => Plan { links, rate: Some(one), ..Plan::default() },
        _ if arguments.rate.len() == links => Plan { links, rates: arguments.rate.clone(), ..Plan::default() },
        _ => {
            let words = format!("--rate names {} rates, for {links} links", arguments.rate.len());
            return Err(Failure::Usage(words));
        }
    };
    plan.check().map(|()| plan).map_err(|error| Failure::Usage(error.to_string()))
}

/// What the switch does to frames, in the cases that were asked for: nothing, if nothing was said.
fn shapes(arguments: &Links) -> Result<Vec<Option<Shape>>, Failure> {
    if arguments.emulate.is_empty() {
        return Ok(vec![None]);
    }
    let [rate] = arguments.rate[..] else {
        return Err(Failure::Usage("--emulate: the links are alike, and --rate names one rate".into()));
    };
    let whole = |shape: &Shape| Shape { rate: Some(rate), ..shape.clone() };
    let shapes: Vec<_> = arguments.emulate.iter().map(whole).collect();
    shapes.iter().try_for_each(Shape::check).map_err(|error| Failure::Usage(format!("--emulate: {error}")))?;
    Ok(shapes.into_iter().map(Some).collect())
}

/// One row of the table.
struct Row {
    links: usize,
    contestant: Contestant,
    shape: Option<Shape>,
    beside: Option<Contestant>,
    engines: usize,
    receive: Receive,
    /// Of each run.
    summaries: Vec<Summary>,
    /// Why there is none.
    missing: Option<String>,
}

/// Runs the test.
pub(crate) fn run(arguments: &Links, wishes: &Wishes<'_>, json: Option<Destination>) -> Result<(), Failure> {
    let (contestants, shapes) = (contestants(wishes)?, shapes(arguments)?);
    let seconds = wishes.seconds.unwrap_or(if arguments.cut_link.is_some() { SECONDS_WITH_CUT } else { SECONDS });
    let plans: Result<Vec<_>, _> = arguments.links.iter().map(|links| plan(arguments, usize::from(*links))).collect();
    let (plans, interrupt, watch) = (plans?, Interrupt::watch()?, Watch::start());
    let mut rows = Vec::new();
    for plan in &plans {
        let of_one = |one| cases(one, wishes.engines, &arguments.receive);
        let all = contestants.iter().flat_map(of_one);
        for ((contestant, engines, receive), shape) in
            all.flat_map(|case| shapes.iter().map(move |shape| (case, shape)))
        {
            let cut =
                arguments.cut_link.filter(|_| plan.links > 1).map(|way| Cut { rail: plan.links - 1, way: way.way() });
            let case = Case {
                plan,
                contestant,
                shape: shape.as_ref(),
                beside: arguments.beside.as_ref(),
                engines,
                wake: arguments.wake,
                receive,
                seconds,
                cut,
                two_way: arguments.two_way,
                flows: arguments.flows,
                watch: arguments.watch,
                interrupt: &interrupt,
            };
            rows.push(measure(&case, wishes.runs)?);
        }
    }
    let machine = watch.stop();
    let text = page(&rows, seconds, arguments);
    let Some(json) = json else { return print(text) };
    let values = json!({
        "test": "links",
        "machine": machine,
        "seconds": seconds,
        "two_way": arguments.two_way,
        "flows": arguments.flows,
        "wake": arguments.wake,
        "rates": arguments.rate.iter().map(|rate| rate.0).collect::<Vec<_>>(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    let lines = serde_json::to_string_pretty(&values).expect("plain values become JSON") + "\n";
    match json {
        Destination::StandardOutput => {
            complain(text.trim_end());
            json.write(&lines)
        }
        Destination::File(_) => json.write(&lines).and(print(text)),
    }
}

/// Somebody with each number of engines and each way to receive, if it has any.
fn cases<'a>(
    contestant: &'a Contestant,
    engines: &'a [usize],
    receive: &'a [Receive],
) -> impl Iterator<Item = (&'a Contestant, usize, Receive)> {
    let numbers = if contestant.carrier.has_engines() { engines } else { &[1] };
    let ways = if contestant.carrier == Carrier::Edge { receive } else { &[Receive::Place] };
    numbers.iter().flat_map(move |number| ways.iter().map(move |way| (contestant, *number, *way)))
}

fn measure(case: &Case<'_>, runs: u32) -> Result<Row, Failure> {
    let Case { plan: Plan { links, .. }, engines, receive, .. } = *case;
    let (contestant, shape, beside) = (case.contestant.clone(), case.shape.cloned(), case.beside.cloned());
    let mut row =
        Row { links: *links, contestant, shape, beside, engines, receive, summaries: Vec::new(), missing: None };
    for run in 1..=runs {
        let shape = row.shape.as_ref().map_or_else(String::new, |shape| format!(" ({shape})"));
        complain(format_args!("{} over {links} links{shape}, run {run} of {runs}", row.name()));
        match case.run() {
            Ok(summary) => row.summaries.push(summary),
            // A kernel may have no multipath TCP, or not this congestion control: the others are measured all the same.
            Err(Failure::Runtime(why)) if case.contestant.may_be_missing() => {
                row.missing = Some(why);
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(row)
}

impl Row {
    fn median(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.summaries.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// Bytes per second, of what the other one carried with the first shape.
    fn of(&self, first: &Self) -> Option<f64> {
        let speed = |row: &Self| row.median(|one| Some(one.bytes_per_s));
        Some(speed(self)? / speed(first)?)
    }

    /// `first`: the same with the first shape, if links are shaped.
    fn cells(&self, with_cut: bool, first: Option<&Self>) -> Vec<String> {
        let text =
            |value: Option<f64>, digits: usize| value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"));
        let of_links = self.median(|one| Some(one.bytes_per_s / one.possible_bytes_per_s * 100.0));
        let mut cells = vec![
            self.links.to_string(),
            self.name(),
            text(self.median(|one| Some(one.bytes_per_s / 1e9)), 3),
            text(of_links, 1),
            text(self.median(|one| Some(one.cpu_s_per_gb)), 2),
        ];
        if let Some(first) = first {
            cells.insert(2, self.shape.as_ref().map_or_else(|| "-".into(), ToString::to_string));
            cells.push(text(self.of(first).map(|share| share * 100.0), 1));
        }
        if self.beside.is_some() {
            cells.push(text(self.median(|one| Some(one.share? * 100.0)), 1));
        }
        if with_cut {
            let cut = |of: fn(&account::CutSummary) -> Option<f64>| self.median(|one| one.cut.as_ref().and_then(of));
            cells.push(text(cut(|cut| Some(cut.pause_ms)), 0));
            cells.push(text(cut(|cut| Some(cut.before / 1e9)), 3));
            cells.push(text(cut(|cut| Some(cut.during / 1e9)), 3));
            cells.push(text(cut(|cut| cut.full_after_ms), 0));
        }
        cells
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "links": self.links,
            "carrier": self.contestant,
            "shape": self.shape,
            "beside": self.beside,
            "engines": self.engines,
            "receive": (self.contestant.carrier == Carrier::Edge).then_some(self.receive),
            "missing": self.missing,
            "runs": self.summaries,
        })
    }

    /// The carrier, its engines if they are several, and how it receives if it does not place.
    fn name(&self) -> String {
        let mut name = self.contestant.to_string();
        if self.engines > 1 {
            name += &format!(", {} engines", self.engines);
        }
        if self.receive == Receive::Copy {
            name += ", copied in order";
        }
        self.beside.iter().for_each(|other| name += &format!(", beside {other}"));
        name
    }
}

fn page(rows: &[Row], seconds: f64, arguments: &Links) -> String {
    let with_cut = arguments.cut_link.is_some();
    let ways = if arguments.two_way { "both directions together" } else { "one direction" };
    let right = Align::Right;
    let mut columns =
        vec![("links", right), ("", Align::Left), ("GB/s", right), ("% of links", right), ("CPU s/GB", right)];
    let is_shaped = !arguments.emulate.is_empty();
    if is_shaped {
        columns.insert(2, ("each link", Align::Left));
        columns.push(("% of the first", right));
    }
    if arguments.beside.is_some() {
        columns.push(("% of both", right));
    }
    if with_cut {
        columns.extend([("pause ms", right), ("before", right), ("while cut", right), ("full after ms", right)]);
    }
    let mut table = Table::new(&columns);
    for row in rows {
        let is_like = |other: &&Row| (other.links, other.name()) == (row.links, row.name());
        table.row(row.cells(with_cut, rows.iter().find(is_like).filter(|_| is_shaped)));
    }
    let mut text = format!(
        "Payload in {ways}, medians of runs of {seconds} s; % of what the carrier's own headers leave of the \
         links\n\n{table}"
    );
    for row in rows {
        if let Some(why) = &row.missing {
            text += &format!("\n{} over {} links was not measured: {why}\n", row.name(), row.links);
        }
        if let Some(picture) = row.summaries.last().filter(|one| one.cut.is_some()).map(picture::draw) {
            text += &format!("\n{} over {} links, the last one cut and mended\n{picture}", row.name(), row.links);
        }
    }
    text
}
