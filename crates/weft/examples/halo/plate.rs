//! Heat on a plate, cut into a part for each rank: the computation, and one step of it with its neighbours' edges.
//!
//! `weft perf heat` computes with this file too.

use std::error::Error;

use weft::window::{Asserts, Window};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

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
pub(crate) struct Part {
    /// Its first row and column in the plate, and how many it has.
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Part {
    pub(crate) fn new(size: usize, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Self {
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

    /// The cells of one of its rows.
    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.now[(row + 1) * (self.columns + 2) + 1..][..self.columns]
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

    pub(crate) fn step_inside(&mut self) {
        let (rows, columns) = (self.rows, self.columns);
        self.step(2..rows, 2..columns);
    }

    pub(crate) fn step_rim(&mut self) {
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
pub(crate) enum Side {
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
pub(crate) fn shape(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks).filter(|rows| ranks.is_multiple_of(*rows) && rows * rows <= ranks).max().unwrap_or(1);
    (rows, ranks / rows)
}

/// The neighbouring rank at each side.
pub(crate) fn neighbours(rank: usize, (rows, columns): (usize, usize)) -> Vec<(Side, usize)> {
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
pub(crate) fn place(step: usize, side: Side, size: usize) -> u64 {
    (((step % 2) * SIDES.len() + side as usize) * size * 8) as u64
}

pub(crate) fn bytes_of(cells: impl Iterator<Item = f64>, bytes: &mut Vec<u8>) {
    bytes.clear();
    cells.for_each(|cell| bytes.extend_from_slice(&cell.to_ne_bytes()));
}

/// One step: the edges go to the neighbours while the inside is computed; the rim needs theirs.
pub(crate) fn step(
    part: &mut Part,
    window: &mut Window,
    step: usize,
    size: usize,
    near: &[(Side, usize)],
) -> Outcome<()> {
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

/// What one rank alone computes: a plate of this size, after this number of steps.
pub(crate) fn alone(size: usize, steps: usize) -> Vec<f64> {
    let mut part = Part::new(size, (0, 1), (0, 1));
    for _ in 0..steps {
        part.step_inside();
        part.step_rim();
    }
    (0..size).flat_map(|row| part.row(row).to_vec()).collect()
}

/// FNV-1a of the plate's bytes: the same for the same bits. `tests/mpi/programs/heat.c` prints it too.
pub(crate) fn checksum(plate: &[f64]) -> u64 {
    let add = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    plate.iter().flat_map(|heat| heat.to_ne_bytes()).fold(0xcbf2_9ce4_8422_2325, add)
}
