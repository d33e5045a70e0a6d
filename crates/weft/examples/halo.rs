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
use weft::window::{Asserts, Fence, Team, Window, WindowOptions};

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

/// What is computed, and by whom.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Ranks, if nobody else has started them.
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

/// The plate at the beginning: cold, with two hot spots and one that is colder.
fn heat_at(row: usize, column: usize, size: usize) -> f64 {
    let near = |y: f64, x: f64, radius: f64| {
        let (dy, dx) = (row as f64 / size as f64 - y, column as f64 / size as f64 - x);
        dy * dy + dx * dx < radius * radius
    };
    if near(0.3, 0.35, 0.15) {
        1.0
    } else if near(0.7, 0.6, 0.2) {
        0.7
    } else if near(0.3, 0.75, 0.12) {
        -0.6
    } else {
        0.0
    }
}

/// A rank's part of the plate, with a border of one cell, which belongs to its neighbours or is the cold rim.
struct Part {
    /// Its first row and column in the plate, and how many it has.
    top: usize,
    left: usize,
    rows: usize,
    columns: usize,
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Part {
    fn new(size: usize, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Self {
        let cut = |at: usize, parts: usize| at * size / parts;
        let (top, left) = (cut(row, rows), cut(column, columns));
        let (rows, columns) = (cut(row + 1, rows) - top, cut(column + 1, columns) - left);
        let mut now = vec![0.0; (rows + 2) * (columns + 2)];
        for y in 0..rows {
            for x in 0..columns {
                now[(y + 1) * (columns + 2) + x + 1] = heat_at(top + y, left + x, size);
            }
        }
        Self { top, left, rows, columns, next: now.clone(), now }
    }

    fn at(&self, row: usize, column: usize) -> usize {
        row * (self.columns + 2) + column
    }

    /// The cells along one side: those of this part, or the border outside of them.
    fn side(&self, side: Side, outside: bool) -> impl Iterator<Item = usize> + use<> {
        let (rows, columns, width) = (self.rows, self.columns, self.columns + 2);
        let out = usize::from(outside);
        let (start, step, count) = match side {
            Side::Up => ((1 - out) * width + 1, 1, columns),
            Side::Down => ((rows + out) * width + 1, 1, columns),
            Side::Left => (width + 1 - out, width, rows),
            Side::Right => (width + columns + out, width, rows),
        };
        (0..count).map(move |cell| start + cell * step)
    }

    /// One step of time for these cells: what they have less of than their neighbours flows in. The order of the sum is
    /// the same everywhere, so the bits are.
    fn step(&mut self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) {
        let width = self.columns + 2;
        for row in rows {
            for column in columns.clone() {
                let cell = row * width + column;
                let around = self.now[cell - width] + self.now[cell + width] + self.now[cell - 1] + self.now[cell + 1];
                self.next[cell] = self.now[cell] + 0.2 * (around - 4.0 * self.now[cell]);
            }
        }
    }

    fn step_inside(&mut self) {
        let (rows, columns) = (self.rows, self.columns);
        self.step(2..rows, 2..columns);
    }

    fn step_rim(&mut self) {
        let (rows, columns) = (self.rows, self.columns);
        self.step(1..2, 1..columns + 1);
        if rows > 1 {
            self.step(rows..rows + 1, 1..columns + 1);
        }
        self.step(2..rows, 1..2);
        if columns > 1 {
            self.step(2..rows, columns..columns + 1);
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }
}

/// A side of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Up,
    Down,
    Left,
    Right,
}

const SIDES: [Side; 4] = [Side::Up, Side::Down, Side::Left, Side::Right];

impl Side {
    fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// As many rows and columns of parts as there are ranks, as square as it goes.
fn shape(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks).filter(|rows| ranks.is_multiple_of(*rows) && rows * rows <= ranks).max().unwrap_or(1);
    (rows, ranks / rows)
}

/// Who is beyond each side.
fn neighbours(rank: usize, (rows, columns): (usize, usize)) -> Vec<(Side, usize)> {
    let (row, column) = (rank / columns, rank % columns);
    let beyond = |side| match side {
        Side::Up => row.checked_sub(1).map(|row| row * columns + column),
        Side::Down => (row + 1 < rows).then(|| (row + 1) * columns + column),
        Side::Left => column.checked_sub(1).map(|column| row * columns + column),
        Side::Right => (column + 1 < columns).then(|| row * columns + column + 1),
    };
    SIDES.into_iter().filter_map(|side| Some((side, beyond(side)?))).collect()
}

/// Where the border at a side lies in the window: there are two of each, for a neighbour may be one step ahead.
fn place(step: usize, side: Side, size: usize) -> u64 {
    (((step % 2) * SIDES.len() + side as usize) * size * 8) as u64
}

fn bytes_of(cells: impl Iterator<Item = f64>, bytes: &mut Vec<u8>) {
    bytes.clear();
    cells.for_each(|cell| bytes.extend_from_slice(&cell.to_ne_bytes()));
}

/// One step: the edges go to the neighbours while the inside is computed; the rim needs theirs.
fn step(part: &mut Part, window: &mut Window, step: usize, size: usize, near: &[(Side, usize)]) -> Outcome<()> {
    let mut bytes = Vec::with_capacity(size * 8);
    for (side, rank) in near {
        bytes_of(part.side(*side, false).map(|cell| part.now[cell]), &mut bytes);
        window.put(*rank, place(step, side.opposite(), size), &bytes)?;
    }
    part.step_inside();
    window.fence(Asserts::default())?;
    for (side, _) in near {
        let cells = part.side(*side, true);
        bytes.resize(cells.size_hint().0 * 8, 0);
        window.memory().read(place(step, *side, size), &mut bytes)?;
        for (cell, bytes) in cells.zip(bytes.as_chunks::<8>().0) {
            part.now[cell] = f64::from_ne_bytes(*bytes);
        }
    }
    part.step_rim();
    Ok(())
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
        let start = part.at(row + 1, 1);
        bytes_of(part.now[start..start + part.columns].iter().copied(), &mut row_bytes);
        window.put(0, (((part.top + row) * size + part.left) * 8) as u64, &row_bytes)?;
    }
    window.fence(Asserts { no_succeed: true, ..Asserts::default() })?;
    let bytes = window.free()?;
    let cells = bytes[..size * size * 8 * usize::from(team.rank() == 0)].as_chunks::<8>().0.iter();
    Ok((team.rank() == 0).then(|| cells.map(|bytes| f64::from_ne_bytes(*bytes)).collect()))
}

/// What one rank alone computes.
pub(crate) fn alone(settings: &Settings) -> Vec<f64> {
    let mut part = Part::new(settings.size, (0, 1), (0, 1));
    for _ in 0..settings.steps {
        part.step_inside();
        part.step_rim();
    }
    let row = |row: usize| part.at(row + 1, 1)..part.at(row + 1, 1) + settings.size;
    (0..settings.size).flat_map(|number| part.now[row(number)].to_vec()).collect()
}

/// FNV-1a of the plate's bytes: the same for the same bits. `tests/mpi/programs/heat.c` prints it too.
pub(crate) fn checksum(plate: &[f64]) -> u64 {
    let add = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    plate.iter().flat_map(|heat| heat.to_ne_bytes()).fold(0xcbf2_9ce4_8422_2325, add)
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
        let expected = expected.get_or_insert_with(|| alone(settings));
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
