//! The heat equation in two dimensions: a plate whose ranks exchange the edges of their parts by one-sided puts, and a
//! fence for each step. Every fence gives the same temperatures, bit for bit, as one rank alone.
//!
//! ```text
//! cargo run --release -p weft --example halo                      4 ranks, threads of one process
//! cargo run --release -p weft --example halo -- --processes --ranks 8 --fence counted,two-sided
//! mpiexec -n 8 target/release/examples/halo                       the ranks of Hydra or Slurm
//! ```
//! At its end there is a picture, `heat.ppm`.

use std::env;
use std::error::Error;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use weft::endpoint::EndpointAttributes;
use weft::group::{Group, Launch};
use weft::verbs::{Context, Transport};
use weft::window::{Asserts, Fence, Team, WindowOptions};

#[path = "halo/plate.rs"]
pub(crate) mod plate;

use plate::{Part, Side, alone, bytes_of, checksum, neighbours, place, shape, step};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const HELP: &str = "halo [--ranks N] [--processes] [--size CELLS] [--steps N] [--fence all|NAME,...]
     [--transport iwarp|edge|shm|auto] [--picture FILE]";

const FENCES: [(&str, Fence); 8] = [
    ("auto", Fence::Auto),
    ("two-sided", Fence::TwoSided),
    ("one-sided", Fence::OneSided),
    ("one-sided-barrier", Fence::OneSidedBarrier),
    ("remote-immediate", Fence::RemoteImmediate),
    ("counted", Fence::Counted),
    ("neighbour", Fence::Neighbour),
    ("tagged", Fence::Tagged),
];

/// What is computed, and by how many ranks.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Ranks, if no launcher has started them.
    pub(crate) ranks: usize,
    /// They are processes, not threads.
    pub(crate) processes: bool,
    /// Cells along each side of the plate.
    pub(crate) size: usize,
    /// Steps of time.
    pub(crate) steps: usize,
    /// The fences to compare.
    pub(crate) fences: Vec<(&'static str, Fence)>,
    /// What carries the connections.
    pub(crate) transport: Transport,
    /// Where the picture goes.
    pub(crate) picture: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let (fences, picture) = (FENCES.to_vec(), Some("heat.ppm".to_owned()));
        Self { ranks: 4, processes: false, size: 256, steps: 400, fences, transport: Transport::Iwarp, picture }
    }
}

impl Settings {
    fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut settings = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n{HELP}"));
            match word.as_str() {
                "--ranks" => settings.ranks = value()?.parse()?,
                "--size" => settings.size = value()?.parse()?,
                "--steps" => settings.steps = value()?.parse()?,
                "--processes" => settings.processes = true,
                "--picture" => settings.picture = Some(value()?),
                "--transport" => settings.transport = transport(&value()?)?,
                "--fence" => settings.fences = fences(&value()?)?,
                _ => return Err(format!("{word}?\n{HELP}").into()),
            }
        }
        Ok(settings)
    }
}

fn transport(name: &str) -> Outcome<Transport> {
    match name {
        "iwarp" => Ok(Transport::Iwarp),
        "edge" => Ok(Transport::Edge),
        "shm" => Ok(Transport::SharedMemory),
        "shm+edge" => Ok(Transport::SharedMemoryOrEdge),
        "auto" => Ok(Transport::Auto),
        _ => Err(format!("there is no transport {name}\n{HELP}").into()),
    }
}

fn fences(names: &str) -> Outcome<Vec<(&'static str, Fence)>> {
    if names == "all" {
        return Ok(FENCES.to_vec());
    }
    let find = |name| FENCES.into_iter().find(|(known, _)| *known == name);
    names.split(',').map(|name| find(name).ok_or(format!("there is no fence {name}\n{HELP}").into())).collect()
}

/// Computes with one fence. Rank 0 gets the whole plate, and how long the steps took.
fn compute(team: &Team, settings: &Settings, fence: Fence) -> Outcome<Option<(Vec<f64>, Duration)>> {
    let (rank, size) = (team.rank(), settings.size);
    let (rows, columns) = shape(team.size());
    let near = neighbours(rank, (rows, columns));
    let of_fence = |fence| match fence {
        Fence::Neighbour => near.iter().map(|(_, rank)| *rank).collect(),
        _ => Vec::new(),
    };
    let options = WindowOptions { neighbours: of_fence(fence), ..WindowOptions::fence(fence) };
    let mut part = Part::new(size, (rank / columns, rows), (rank % columns, columns));
    let mut window = team.allocate(place(1, Side::Right, size) as usize + size * 8, &options)?;
    window.fence(Asserts::default())?;
    let start = Instant::now();
    (0..settings.steps).try_for_each(|number| step(&mut part, &mut window, number, size, &near))?;
    let taken = start.elapsed();
    window.free()?;
    Ok(gather(team, &part, size)?.map(|plate| (plate, taken)))
}

/// Puts all parts into a window of rank 0.
fn gather(team: &Team, part: &Part, size: usize) -> Outcome<Option<Vec<f64>>> {
    let bytes = if team.rank() == 0 { size * size * 8 } else { 0 };
    let mut window = team.allocate(bytes, &WindowOptions::fence(Fence::Counted))?;
    window.fence(Asserts::default())?;
    let mut row_bytes = Vec::new();
    for row in 0..part.rows {
        bytes_of(part.row(row).iter().copied(), &mut row_bytes);
        window.put(0, (((part.top + row) * size + part.left) * 8) as u64, &row_bytes)?;
    }
    window.fence(Asserts { no_succeed: true, ..Asserts::default() })?;
    let bytes = window.free()?;
    let cells = bytes[..size * size * 8 * usize::from(team.rank() == 0)].as_chunks::<8>().0.iter();
    Ok((team.rank() == 0).then(|| cells.map(|bytes| f64::from_ne_bytes(*bytes)).collect()))
}

/// From blue over black to red and yellow.
fn colour(heat: f64) -> [u8; 3] {
    let part = |heat: f64| (heat.clamp(0.0, 1.0) * 255.0) as u8;
    [part(heat * 2.5), part(heat * 2.5 - 1.0), part((heat - 0.8) * 5.0).max(part(-heat * 2.5))]
}

fn picture(plate: &[f64], size: usize) -> Vec<u8> {
    let mut bytes = format!("P6\n{size} {size}\n255\n").into_bytes();
    plate.iter().for_each(|heat| bytes.extend_from_slice(&colour(*heat)));
    bytes
}

/// One rank: all fences, one after the other. Whether all gave what one rank alone computes.
fn rank(mut group: Group, settings: &Settings) -> Outcome<bool> {
    let mut attributes = EndpointAttributes::at("127.0.0.1:0".parse()?);
    attributes.settings.transport = settings.transport;
    let team = Team::new(&Context::open()?, &mut group, &attributes)?;
    let mut expected: Option<Vec<f64>> = None;
    let mut all_same = true;
    for (name, fence) in &settings.fences {
        let Some((plate, taken)) = compute(&team, settings, *fence)? else { continue };
        let expected = expected.get_or_insert_with(|| alone(settings.size, settings.steps));
        let same = plate.iter().zip(expected.iter()).all(|(a, b)| a.to_bits() == b.to_bits());
        let verdict = if same { "the same as by one rank" } else { "WRONG" };
        println!("{name:18} {:8.1} us a step, {verdict}", taken.as_secs_f64() * 1e6 / settings.steps.max(1) as f64);
        all_same &= same;
    }
    if let Some(plate) = &expected {
        println!("plate {:x}", checksum(plate));
    }
    if let (Some(path), Some(plate)) = (&settings.picture, &expected) {
        std::fs::write(path, picture(plate, settings.size)).map_err(|error| format!("{path}: {error}"))?;
        println!("the plate after {} steps: {path}", settings.steps);
    }
    Ok(all_same)
}

/// Runs all ranks. Whether all fences gave what one rank alone computes.
pub(crate) fn run(settings: &Settings) -> Outcome<bool> {
    let (rows, columns) = shape(settings.ranks);
    if settings.size < 2 * rows.max(columns) {
        return Err(format!("{} cells are too few for {rows} by {columns} ranks", settings.size).into());
    }
    let groups = Group::threads(settings.ranks)?;
    let start = |group| {
        let settings = settings.clone();
        thread::spawn(move || rank(group, &settings))
    };
    let threads: Vec<_> = groups.into_iter().map(start).collect();
    let outcomes = threads.into_iter().map(|thread| thread.join().map_err(|_| "a rank has panicked".to_owned())?);
    outcomes.collect::<Vec<_>>().into_iter().try_fold(true, |all, one: Outcome<bool>| Ok(all & one?))
}

/// Starts the ranks as processes of this program.
fn start(settings: &Settings) -> Outcome<bool> {
    let launch = Launch::new(settings.ranks)?;
    let mut children = Vec::new();
    for rank in 0..settings.ranks {
        let mut command = Command::new(env::current_exe()?);
        command.args(env::args().skip(1));
        children.push(launch.command(rank, &mut command).spawn()?);
    }
    let mut good = true;
    for mut child in children {
        good &= child.wait()?.success();
    }
    Ok(good)
}

fn main() -> Outcome<()> {
    let settings = Settings::parse(env::args().skip(1))?;
    let good = match Group::from_environment()? {
        Some(group) => rank(group, &settings)?,
        None if settings.processes => start(&settings)?,
        None => run(&settings)?,
    };
    if good { Ok(()) } else { Err("not all fences give the same".into()) }
}
