//! The options of a test, as typed, and then as needed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weft::verbs::LinkSettings;
use weft_command::shape::{Percent, Time};
use weft_lab::{BitsPerSecond, Carrier, MTU, Shape};

use crate::command::catalogue::design;
use crate::command::condition::{Condition, LATE_BY};
use crate::command::tests::What;
use crate::experiments::design::Basis;
use crate::experiments::design::Choices;
use crate::experiments::disorder::Disorder;
use crate::experiments::fence::load::Test as WindowTest;
use crate::experiments::fence::options::{Fences, Scale};
use crate::experiments::links::{Links, Wishes};
use crate::experiments::nas::RANKS;
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::contestant::NOTHING_SHARED;
use crate::model::installation::{Installation, Library};
use crate::model::job::{
    Cache, Job, Kind, LARGEST_CROWD, LARGEST_WINDOW, LONGEST_COMPUTATION, MOST_CONNECTIONS, MOST_MESSAGES, MOST_RANKS,
    MOST_STREAMS, Operation, Target, Volume, Wait,
};
use crate::model::nas::{Benchmark, Class};
use crate::model::size::Sizes;
use crate::model::stack::Stack;
use crate::model::target::Target as Machine;
use crate::model::test::{Part, Test};
use crate::mpi::nas::{Suite, Wish};
use crate::runner::outputs::Files;
use crate::runner::place::{LabWish, Place};
use crate::runner::plan::Plan;
use weft_command::environment;
use weft_command::failure::Failure;
use weft_command::switch::Switch;
use weft_command::transport::Transport;

/// The rate of a link whose packets are late and lost one by one: what the switch in user space keeps up with.
const REORDERING_RATE: BitsPerSecond = BitsPerSecond(200_000_000);

/// How often processes start anew by default: the fewest of which least and most cover the median with 95 %.
const LAUNCHES: u32 = 6;

/// The variant of Weft, and the contestants, that send frames of their own.
const RAW: &str = "raw=on";
const SENDS_FRAMES: [&str; 2] = ["own-tcp", "smoltcp"];

/// The engines of a NIC where the command line does not name a number.
fn usual_engines() -> usize {
    environment::parameters().nic.engines
}

/// What can be said of a test. Each test has all of it, hides what it does not use, and refuses it ([`uses`]).
///
/// [`uses`]: crate::command::tests::What::uses
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What is measured.
    #[arg(skip)]
    pub(crate) test: What,
    /// What is measured, and is above the line in every ratio [default: iwarp, or the test's first variant of it]
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
    /// The peers to measure beside it, or `none` [default: the test's; those that are not installed are named]
    #[arg(long, value_name = "NAME[:VARIANT],...", value_delimiter = ',')]
    vs: Option<Vec<String>>,
    /// Message sizes: 8, 64K, a range in powers of two (8..4K), a list with commas [default: the test's]
    #[arg(long, value_name = "SIZES")]
    pub(crate) size: Option<Sizes>,
    /// How often the processes of each contestant start anew in each case, in turns [default: 6, whose least and most
    /// hold the median in 96.9 % of cases]
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    launches: Option<u32>,
    /// Less of everything: one launch, a tenth of the messages, fewer sizes
    #[arg(long)]
    pub(crate) quick: bool,
    /// A quarter of the messages in each run
    #[arg(long, conflicts_with_all = ["quick", "iterations"])]
    pub(crate) brief: bool,
    /// Messages in each run [default: about a second of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_MESSAGES))]
    pub(crate) iterations: Option<u64>,
    /// Messages before those that count [default: a tenth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_MESSAGES))]
    pub(crate) warmup: Option<u64>,
    /// Messages in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=LARGEST_WINDOW as i64))]
    window: u16,
    /// The operation that carries the data, where a contestant has several [default: send; iwarp writes in bandwidth,
    /// all in overlap]
    #[arg(long, value_enum)]
    operation: Option<Operation>,
    #[command(flatten)]
    stack: Stack,
    /// Engines that share Weft's connections, and the rails of each that goes over Edge; of links each number is
    /// a case of its own. The default is that of FI_WEFT_ENGINES
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [usual_engines()])]
    engines: Vec<usize>,
    /// What the passive side does meanwhile [default: each; overlap-ratio: polling]
    #[arg(long, value_enum, value_name = "TARGET,...", value_delimiter = ',')]
    pub(crate) target: Vec<Target>,
    /// Computation after each message, in microseconds [default: 1,10,100,300,1000,2000; overlap-ratio:
    /// 62,122,242,422]
    #[arg(long, value_name = "US,...", value_delimiter = ',')]
    pub(crate) computation: Vec<u32>,
    /// How long the server's application computes before it answers, at most 1s; each time is a case of its own
    /// [default: 0ms,1ms,4ms,16ms,64ms]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = lateness)]
    pub(crate) lateness: Vec<Time>,
    /// Connections that are kept quiet
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MOST_CONNECTIONS as u64))]
    pub(crate) connections: usize,
    /// Streams that the server carries beside its computation
    #[arg(long, value_name = "N", default_value_t = 40)]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MOST_STREAMS as u64))]
    pub(crate) streams: usize,
    /// What all of these carry together, paced by the client
    #[arg(long, value_name = "RATE", default_value = "200M")]
    pub(crate) load: BitsPerSecond,
    /// For how long nothing happens [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// How many processes, each number a case of its own [default: 8,64;
    /// allreduce: 16; start: 64; nas: 2,4,8]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=MOST_RANKS as u64))]
    pub(crate) processes: Vec<usize>,
    /// How many receives are posted, or messages unexpected, beside the one that is looked for
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,100000", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_CROWD)))]
    pub(crate) others: Vec<u32>,
    /// Points on a side of each of the 8 slices of the field, each number a case of its own [default: 256,512,1024]
    #[arg(long = "side", value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(sides()))]
    pub(crate) sides: Vec<usize>,
    /// Write the rendered picture to this file (PNG), of the first field
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// The libraries, each a case of its own [default: all that are there]
    #[arg(long, value_enum, value_name = "LIBRARY,...", value_delimiter = ',')]
    library: Vec<Library>,
    /// What is measured of each [default: all of it]
    #[arg(long = "test", value_enum, value_name = "TEST,...", value_delimiter = ',')]
    pub(crate) part: Vec<Part>,
    /// The folder of the NAS parallel benchmarks, which are not part of Weft: NPB 3.4 or 3.3, as unpacked [default:
    /// $WEFT_NPB, or .cache/npb here or above]
    #[arg(long, value_name = "FOLDER")]
    npb: Option<PathBuf>,
    /// Which of them [default: is, with Debian's Open MPI and gfortran also the others]
    #[arg(long = "benchmark", value_enum, value_name = "NAME,...", value_delimiter = ',')]
    benchmarks: Vec<Benchmark>,
    /// How large their problems are
    #[arg(long, value_enum, default_value = "S")]
    class: Class,
    /// Python environments with MPI libraries, or folders of such [default: $WEFT_MPI, or .cache/mpi here or above]
    #[arg(long, value_name = "FOLDER,...", value_delimiter = ',')]
    mpi: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) disorder: Disorder,
    #[command(flatten)]
    pub(crate) fence: Fences,
    #[command(flatten)]
    pub(crate) links: Links,
    /// Show also how often each side copied each byte of the payload, where a contestant tells
    #[arg(long)]
    pub(crate) copies: bool,
    /// How sockets and iwarp wait
    #[arg(long, value_enum, default_value_t = Wait::Spin)]
    wait: Wait,
    /// Keep the two sides on a core each (the passive side on the first, the active one on the second)
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pin: Switch,
    /// Give up on a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Run the two sides on two hosts of a fresh test network, with a link of this rate (`none`: without a limit);
    /// `off`: on loopback [default: off; overlap, overlap-ratio, window-overlap, connect, tests of clusters: 1G; mpi:
    /// none, but 1G for overlap]
    #[arg(long, value_name = "RATE", num_args = 0..=1, default_missing_value = "usual", conflicts_with = "connect")]
    lab: Option<LabWish>,
    /// TCP's congestion control in the hosts of the test network [default: cubic, or reno where the kernel does not
    /// have that]
    #[arg(long, value_name = "NAME", conflicts_with = "connect")]
    congestion: Option<String>,
    /// The largest packet of the test network's link, in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(i64::from(*MTU.start())..=i64::from(*MTU.end())))]
    mtu: Option<u32>,
    /// How long each frame takes over the test network's link, in each direction: 500us, 10ms; of clusters, over the
    /// link between them. Each of several times is a case of its own
    #[arg(long, value_name = "TIME,...", value_delimiter = ',')]
    delay: Vec<Time>,
    /// Up to how much longer, by chance; frames stay in order
    #[arg(long, value_name = "TIME")]
    jitter: Option<Time>,
    /// Frames that the link loses, in percent
    #[arg(long, value_name = "PERCENT")]
    loss: Option<Percent>,
    /// By what packets are carried through a test network that does something to them: queue, the kernel's packet
    /// queues, for IP alone; rings, every frame, one by one [default: queue where that can be, but rings for raw=on,
    /// own-tcp and smoltcp]
    #[arg(long, value_name = "KIND", conflicts_with = "connect")]
    carrier: Option<Carrier>,
    /// Have the kernel cut what it sends into packets of the MTU before the test network's link
    #[arg(long)]
    no_offload: bool,
    /// Measure to the machine that listens there, instead of on this one alone
    #[arg(long, value_name = "HOST[:PORT]")]
    connect: Option<String>,
    /// Between two machines: an interface of this one, and free addresses there, for contestants with raw=on (needs
    /// CAP_NET_RAW); the first is used
    #[arg(long, value_name = "INTERFACE=ADDRESS/BITS,..[@/HELPER]")]
    pub(crate) link: Option<LinkSettings>,
}

/// What a test wants of the network by default.
struct Wants {
    /// A test network: on loopback it tells little.
    lab: bool,
    /// One whose packets are no longer than its MTU. Without it the test tells nothing.
    real_packets: bool,
    /// The rate of its links.
    usual_rate: Option<BitsPerSecond>,
    /// One of two clusters with this many hosts each. Without it there is nothing to measure.
    hosts_in_clusters: Option<usize>,
}

impl Wants {
    fn of(test: Test) -> Self {
        let design = design(test);
        let real_packets = design.needs_real_packets();
        let usual_rate = match test {
            Test::Reordering => Some(REORDERING_RATE),
            _ if test == Test::Mpi || real_packets => None,
            _ => usual_rate(),
        };
        let hosts_in_clusters = design.hosts_in_clusters();
        Self { lab: design.wants_lab(), real_packets, usual_rate, hosts_in_clusters }
    }
}

impl Options {
    /// What carries the stream of that test.
    pub(crate) fn transport_of_disorder(&self) -> Result<Transport, Failure> {
        match self.transport.as_deref() {
            None | Some("iwarp") => Ok(Transport::Iwarp),
            Some("edge") => Ok(Transport::Edge),
            Some(other) => Err(Failure::Usage(format!("disorder is measured over iwarp or edge, not over {other}"))),
        }
    }

    /// Whether fences are measured, and how much.
    pub(crate) fn scale_of_fences(&self) -> Result<Option<Scale<'_>>, Failure> {
        let What::Windows(test) = self.test else { return Ok(None) };
        let transport = self.transport_of_windows()?;
        let asks_for_lab = !matches!(self.lab, None | Some(LabWish::Off));
        if asks_for_lab && transport == Transport::Shm {
            return Err(Failure::Usage(format!("--lab, --transport shm: {NOTHING_SHARED}")));
        }
        Ok(Some(Scale {
            test,
            sizes: self.size.as_ref(),
            transport,
            asks_for_lab,
            peers: self.vs.as_deref(),
            launches: self.launches.unwrap_or(if self.quick { 1 } else { LAUNCHES }),
            iterations: self.iterations.unwrap_or(if self.quick { 50 } else { 500 }),
            budget: self.iterations.is_none().then_some(Duration::from_millis(match (self.quick, self.brief) {
                (true, _) => 100,
                (_, true) => 250,
                _ => 1000,
            })),
            is_quick: self.quick,
            is_brief: self.brief,
            warmup: self.warmup,
            limit_s: self.timeout,
            libraries: &self.library,
            folders: &self.mpi,
        }))
    }

    /// What carries the windows: not a contestant, as with other tests, but one of the library's own.
    fn transport_of_windows(&self) -> Result<Transport, Failure> {
        let Some(name) = &self.transport else { return Ok(self.stack.transport) };
        Transport::from_str(name, true).map_err(|_| {
            Failure::Usage(format!(
                "--transport {name}: windows are carried by iwarp, edge, shm, shm+iwarp, shm+edge or auto"
            ))
        })
    }

    /// The options of the test of several links, if it is that one.
    pub(crate) fn links_wishes(&self) -> Option<Wishes<'_>> {
        (self.test == What::Links).then(|| Wishes {
            transport: self.transport.as_deref(),
            vs: self.vs.as_deref(),
            launches: self.launches.unwrap_or(if self.quick { 1 } else { LAUNCHES }),
            seconds: self.seconds,
            engines: &self.engines,
            sizes: self.size.as_ref(),
        })
    }

    /// What the link does to frames, each for a plan of its own.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        if self.test == What::Measured(Test::Reordering) {
            let (late, lost) = self.disorder.shares();
            return Condition::of_faults(late, lost);
        }
        Condition::of_delays(self.delays())
    }

    /// How long frames take over the link; none where it is not set.
    pub(crate) fn delays(&self) -> Vec<Duration> {
        self.delay.iter().map(|Time(time)| *time).collect()
    }

    /// What is to be done where the link does this to frames.
    pub(crate) fn plan(&self, condition: &Condition) -> Result<Plan, Failure> {
        let What::Measured(test) = self.test else {
            return Err(Failure::Usage(format!("{} has no contestants of this kind", self.test.name())));
        };
        let libraries = self.libraries(test)?;
        let is_here = !self.part.is_empty() && self.part.iter().all(|part| part.is_of_many());
        let wants = Wants::of(test);
        let (place, note) = self.place(&Wants { lab: wants.lab && !is_here, ..wants }, condition)?;
        let template = self.template(&place)?;
        let suite = self.suite(test, &libraries)?;
        let benchmarks = suite.as_ref().map_or_else(Vec::new, |suite| suite.built.clone());
        let choices = Choices { benchmarks, ..self.choices() };
        let cases =
            design(test).cases(&Basis { template, choices: &choices, libraries, round_trip: 2 * condition.delay });
        let limited = self.limited_place(&place, &cases, condition)?;
        let reaches = place.reaches();
        Ok(Plan {
            test,
            entries: self.entries(test)?,
            peers_are_named: self.vs.is_some(),
            cases,
            launches: self.launches.unwrap_or(if self.quick { 1 } else { LAUNCHES }),
            limit: Duration::from_secs(self.timeout),
            pin: self.pin,
            copies: self.copies,
            place,
            limited,
            reaches,
            note,
            suite,
        })
    }

    /// The options of the cases.
    fn choices(&self) -> Choices {
        Choices {
            size: self.size.clone(),
            processes: self.processes.clone(),
            quick: self.quick,
            brief: self.brief,
            iterations: self.iterations,
            warmup: self.warmup,
            target: self.target.clone(),
            computation: self.computation.clone(),
            lateness: self.lateness.iter().map(|Time(time)| *time).collect(),
            connections: self.connections,
            streams: self.streams,
            load_bits_per_s: self.load.0,
            seconds: self.seconds,
            others: self.others.clone(),
            sides: self.sides.clone(),
            benchmarks: Vec::new(),
            part: self.part.clone(),
        }
    }

    /// The MPI libraries to measure.
    fn libraries(&self, test: Test) -> Result<Vec<Installation>, Failure> {
        if !matches!(test, Test::Mpi | Test::MpiClusters | Test::Nas) {
            return Ok(Vec::new());
        }
        if self.connect.is_some() {
            return Err(Failure::Usage("MPI is measured on one machine".into()));
        }
        crate::model::installation::find(&self.library, &self.mpi).map_err(Failure::Runtime)
    }

    /// The NAS benchmarks, built, in a test of them.
    fn suite(&self, test: Test, libraries: &[Installation]) -> Result<Option<Suite>, Failure> {
        if test != Test::Nas {
            return Ok(None);
        }
        let ranks = if self.processes.is_empty() { &RANKS[..] } else { &self.processes };
        let wish = Wish { folder: self.npb.as_deref(), benchmarks: &self.benchmarks, class: self.class, ranks };
        Suite::build(&wish, libraries).map(Some).map_err(Failure::Runtime)
    }

    /// Where windows are measured, and what is to be known about that.
    pub(crate) fn place_of_windows(&self, scale: &Scale<'_>) -> Result<(Place, Option<String>), Failure> {
        let hides = scale.test == WindowTest::WindowOverlap && scale.transport != Transport::Shm;
        let delay = match self.delays()[..] {
            [] => Duration::ZERO,
            [delay] => delay,
            _ => return Err(Failure::Usage("--delay: windows are measured with one at a time".into())),
        };
        let (hosts_in_clusters, condition) = (None, Condition { delay, faults: None });
        self.place(&Wants { lab: hides, real_packets: false, usual_rate: usual_rate(), hosts_in_clusters }, &condition)
    }

    /// Where it is done, and what is to be known about that.
    fn place(&self, wants: &Wants, condition: &Condition) -> Result<(Place, Option<String>), Failure> {
        let congestion = self.congestion.as_deref();
        let shape = self.shape(condition);
        let lab = |rate| Place::lab(&self.lab_plan(rate, wants.real_packets), shape.as_ref());
        let usual_rate = wants.usual_rate;
        if let Some(hosts) = wants.hosts_in_clusters {
            return Ok((self.clusters(hosts, usual_rate, shape.as_ref())?, None));
        }
        let place = match (&self.connect, self.lab) {
            (Some(host), _) => {
                let machine: Machine = host.parse().map_err(Failure::Usage)?;
                return Ok((
                    Place::There(Machine { link: self.link.as_ref().map(ToString::to_string), ..machine }),
                    None,
                ));
            }
            (None, Some(LabWish::Rate(rate))) => lab(Some(rate)),
            (None, Some(LabWish::Unlimited)) => lab(None),
            (None, Some(LabWish::Usual)) => lab(usual_rate),
            (None, None) if wants.real_packets => lab(usual_rate),
            (None, None) if wants.lab => match lab(usual_rate) {
                Ok(place) => Ok(place),
                Err(error) if congestion.is_some() => Err(error),
                Err(error) => {
                    let note = "on loopback, where the processor is the network and little can hide, because there is no test network";
                    return Ok((Place::Here, Some(format!("{note}: {error}"))));
                }
            },
            (None, _) if congestion.is_some() || self.mtu.is_some() || self.no_offload => {
                let words = "--congestion, --mtu and --no-offload are for a test network, so they need --lab";
                return Err(Failure::Usage(words.into()));
            }
            (None, _) => Ok(Place::Here),
        };
        Ok((place?, None))
    }

    /// Two clusters, with links of the given rate, or else of this one.
    fn clusters(&self, hosts: usize, usual: Option<BitsPerSecond>, shape: Option<&Shape>) -> Result<Place, Failure> {
        let rate = match self.lab {
            None | Some(LabWish::Usual) => usual,
            Some(LabWish::Unlimited) => None,
            Some(LabWish::Rate(rate)) => Some(rate),
            Some(LabWish::Off) => {
                let words = format!("{} needs a network of two clusters: leave out --lab off", self.test.name());
                return Err(Failure::Usage(words));
            }
        };
        Ok(Place::clusters(&self.lab_plan(rate, false), hosts, shape)?)
    }

    /// The test network, with a link of this rate (`None`: without a limit).
    fn lab_plan(&self, rate: Option<BitsPerSecond>, real_packets: bool) -> weft_lab::Plan {
        let usual = weft_lab::Plan::default();
        weft_lab::Plan {
            rate,
            mtu: self.mtu.unwrap_or(usual.mtu),
            offloads: !(self.no_offload || real_packets),
            congestion_control: self.congestion.clone(),
            carrier: self.carrier.or_else(|| self.sends_frames().then_some(Carrier::Rings)),
            ..usual
        }
    }

    /// Whether a contestant sends frames of its own, which no packet queue carries.
    fn sends_frames(&self) -> bool {
        // Their first contestant is one, however it is named.
        if matches!(self.test, What::Measured(Test::Reordering | Test::InOrderTax)) {
            return true;
        }
        let usual = match self.test {
            What::Measured(test) if self.vs.is_none() => design(test).contestants(),
            _ => Vec::new(),
        };
        let mut names = self.transport.iter().chain(self.vs.iter().flatten()).chain(&usual);
        names.any(|name| name.contains(RAW) || SENDS_FRAMES.contains(&name.split(':').next().unwrap_or_default()))
    }

    /// What the link does to frames, if an option says so.
    fn shape(&self, condition: &Condition) -> Option<Shape> {
        let millionths = |percent: f64| (percent * 1e4) as u32;
        let faults = condition.faults;
        let late = faults.map_or(0, |faults| millionths(faults.late_percent));
        let shape = Shape {
            delay: condition.delay,
            jitter: self.jitter.map(|Time(time)| time).unwrap_or_default(),
            loss_millionths: faults
                .map_or_else(|| self.loss.map_or(0, |Percent(share)| share), |faults| millionths(faults.lost_percent)),
            reorder_millionths: late,
            reorder_by: if late > 0 { LATE_BY } else { Duration::ZERO },
            ..Shape::default()
        };
        // What is compared with faults goes through the same switch without them.
        (faults.is_some() || !shape.is_nothing()).then_some(shape)
    }

    /// Where transfers are hidden behind computation, when no network was specified: there the link must be slower than
    /// the processor.
    fn limited_place(&self, place: &Place, cases: &[Case], condition: &Condition) -> Result<Option<Place>, Failure> {
        let is_usual = matches!(self.lab, None | Some(LabWish::Usual));
        let hides = cases.iter().any(|case| case.job.kind == Kind::Hiding);
        if !(is_usual && hides && place.is_lab()) {
            return Ok(None);
        }
        Ok(Some(Place::lab(&self.lab_plan(usual_rate(), false), self.shape(condition).as_ref())?))
    }

    /// The transport, then its peers.
    fn entries(&self, test: Test) -> Result<Vec<Entry>, Failure> {
        let parse = |name: &String| design(test).entry(name).map_err(Failure::Usage);
        let usual = design(test).contestants().iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let there = self.connect.as_deref().map(str::parse::<Machine>).transpose().map_err(Failure::Usage)?;
        let named = there.and_then(|target| target.transport).map(|transport| match transport {
            Transport::Iwarp => "iwarp".to_owned(),
            Transport::Edge => "edge".into(),
            Transport::Shm => "shm".into(),
            Transport::ShmOrIwarp => "iwarp:transport=shm+iwarp".into(),
            Transport::ShmOrEdge => "iwarp:transport=shm+edge".into(),
            Transport::Auto => "iwarp:transport=auto".into(),
        });
        if let (Some(named), Some(transport)) = (&named, &self.transport) {
            return Err(Failure::Usage(format!(
                "--connect says {named}, --transport {transport}: leave one of them out"
            )));
        }
        let transport = self.transport.as_ref().or(named.as_ref()).map(parse).transpose()?;
        let mut entries: Vec<_> = transport.or_else(|| usual.first().cloned()).into_iter().collect();
        match &self.vs {
            None => {
                let others: Vec<_> = usual.into_iter().filter(|other| !entries[0].stands_for(other)).collect();
                entries.extend(others);
            }
            Some(names) if names.iter().any(|name| name == "none") => {}
            Some(names) => {
                for name in names {
                    entries.push(parse(name)?);
                }
            }
        }
        Ok(entries)
    }

    /// The job without what changes from case to case and from run to run.
    fn template(&self, place: &Place) -> Result<Job, Failure> {
        let [engines] = self.engines[..] else {
            return Err(Failure::Usage("--engines: only links measures with several numbers of them".into()));
        };
        Ok(Job {
            version: env!("CARGO_PKG_VERSION").into(),
            contestant: String::new(),
            variant: None,
            rank: 0,
            ranks: 2,
            kind: Kind::Latency,
            operation: self.operation,
            size: 1,
            iterations: 1,
            warmup: 1,
            window: usize::from(self.window),
            wait: self.wait,
            cache: Cache::In,
            target: Target::Polling,
            computation_us: 0,
            both_ways: false,
            mpi_ranks: 2,
            connections: 1,
            load_bits_per_s: 1,
            quiet_ms: 1,
            settle_ms: 0,
            stack: Stack { engines, ..self.stack },
            crowd: None,
            check_case: None,
            volume: None,
            mpi: None,
            nas: None,
            round_trip_us: 0,
            limit_s: self.timeout,
            local: None,
            host: place.host(),
            link: None,
            core: None,
            members: place.members(),
            reach: None,
        })
    }
}

/// Points on a side of a field.
fn sides() -> std::ops::RangeInclusive<u64> {
    let (least, most) = Volume::SIDES.into_inner();
    least as u64..=most as u64
}

/// The rate of a test network's link without an option for it: slower than any processor.
fn usual_rate() -> Option<BitsPerSecond> {
    weft_lab::Plan::default().rate
}

fn lateness(text: &str) -> Result<Time, String> {
    let time: Time = text.parse()?;
    let is_possible = time.0 <= LONGEST_COMPUTATION;
    is_possible.then_some(time).ok_or_else(|| format!("{text} is too late: a server answers after at most 1s"))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 600".into()),
    }
}
