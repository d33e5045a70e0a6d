//! Halos: each rank has a block of cells in a periodic grid, and puts its faces into the ghost cells of its neighbours.

use std::time::Instant;

use weft::group::Group;
use weft::window::{Asserts, Error, Layout, Shape, Team, Window, WindowOptions};

use crate::experiments::fence::options::{Scale, Which};
use crate::experiments::fence::series::Series;

/// Bytes of a cell.
const CELL: u64 = 8;

/// A rank's block.
struct Block {
    dimensions: usize,
    cells: u64,
    grid: [usize; 3],
    rank: usize,
}

/// One face of it.
struct Face {
    neighbour: usize,
    layout: Layout,
    /// Where it begins here, and its ghost at the neighbour, and the one that the neighbour at the other side puts
    /// here.
    from: u64,
    to: u64,
    ghost: u64,
    /// Whose ghost that is.
    origin: usize,
}

impl Block {
    fn new(dimensions: usize, cells: u32, rank: usize, ranks: usize) -> Self {
        Self { dimensions, cells: cells.into(), grid: grid(ranks, dimensions), rank }
    }

    /// Cells in a row, with ghosts.
    fn row(&self) -> u64 {
        self.cells + 2
    }

    fn bytes(&self) -> usize {
        (CELL * self.row().pow(self.dimensions as u32)) as usize
    }

    /// Bytes from a cell to the next one along an axis. The last axis lies in a row.
    fn step(&self, axis: usize) -> u64 {
        CELL * self.row().pow((self.dimensions - 1 - axis) as u32)
    }

    fn at(&self, axis: usize, by: usize) -> usize {
        let stride: usize = self.grid[axis + 1..].iter().product();
        let (size, here) = (self.grid[axis], self.rank / stride % self.grid[axis]);
        self.rank - here * stride + (here + by) % size * stride
    }

    /// The faces, in the order in which neighbours count them; those whose neighbour is this rank are left out.
    fn faces(&self) -> Result<Vec<Face>, Error> {
        let mut faces = Vec::new();
        for axis in 0..self.dimensions {
            let mut layout = Layout::contiguous(CELL as u32);
            let mut base = 0;
            for other in (0..self.dimensions).rev().filter(|other| *other != axis) {
                layout = layout.repeated(self.cells as u32, self.step(other))?;
                base += self.step(other);
            }
            let (step, size) = (self.step(axis), self.grid[axis]);
            let along = |cell: u64| base + cell * step;
            let (down, up) = (self.at(axis, size - 1), self.at(axis, 1));
            let (first, last, end) = (along(1), along(self.cells), along(self.cells + 1));
            let face =
                |neighbour, origin, from, to| Face { neighbour, layout: layout.clone(), from, to, ghost: to, origin };
            faces.push(face(down, up, first, end));
            faces.push(face(up, down, last, along(0)));
        }
        faces.retain(|face| face.neighbour != self.rank);
        Ok(faces)
    }
}

/// A grid of this many ranks, as even as it can be: its largest prime factors first, each to the smallest dimension.
fn grid(ranks: usize, dimensions: usize) -> [usize; 3] {
    let (mut left, mut factors) = (ranks, Vec::new());
    for factor in 2..=ranks {
        while left % factor == 0 {
            factors.push(factor);
            left /= factor;
        }
    }
    let mut grid = [1; 3];
    for factor in factors.into_iter().rev() {
        let smallest = (0..dimensions).min_by_key(|axis| grid[*axis]).unwrap_or(0);
        grid[smallest] *= factor;
    }
    grid
}

/// What puts and fence take at this rank.
pub(crate) fn measure(
    team: &Team,
    group: &mut Group,
    (which, shape): (Which, Shape),
    (dimensions, cells, is_strided): (u32, u32, bool),
    pack_below: Option<u32>,
    scale: &Scale<'_>,
) -> Result<Series, String> {
    let said = |error: Error| error.to_string();
    let block = Block::new(dimensions as usize, cells, team.rank(), team.size());
    let mut faces = block.faces().map_err(said)?;
    if !is_strided {
        pack(&mut faces);
    }
    let mut neighbours: Vec<usize> = faces.iter().map(|face| face.neighbour).collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    let mut options = WindowOptions { shape, ..WindowOptions::fence(which.fence()) };
    options.pack_below = pack_below.unwrap_or(options.pack_below);
    if which == Which::Neighbour {
        options.neighbours = neighbours;
    }
    let mut memory = vec![0; block.bytes()];
    let mut window = team.allocate(block.bytes(), &options).map_err(said)?;
    window.fence(Asserts::default()).map_err(said)?;
    let series = Series::measure(scale, group, |at| {
        for face in &faces {
            face.ends(face.from).into_iter().for_each(|place| {
                memory[place as usize..][..CELL as usize].copy_from_slice(&at.to_ne_bytes());
            });
        }
        let start = Instant::now();
        for face in &faces {
            window.put_layout(face.neighbour, face.to, &face.layout, &memory[face.from as usize..], &face.layout)?;
        }
        window.fence(Asserts::default())?;
        let took = start.elapsed();
        faces.iter().for_each(|face| face.check(&window, at));
        Ok::<f64, Error>(took.as_secs_f64() * 1e6)
    })?;
    window.free().map_err(said)?;
    Ok(series)
}

/// Faces in one piece each, one behind the other.
fn pack(faces: &mut [Face]) {
    let mut start = 0;
    let starts: Vec<u64> = faces
        .iter()
        .map(|face| {
            start += u64::from(face.layout.length());
            start - u64::from(face.layout.length())
        })
        .collect();
    for (at, face) in faces.iter_mut().enumerate() {
        face.layout = Layout::contiguous(face.layout.length());
        (face.from, face.to, face.ghost) = (starts[at], starts[at], starts[at]);
    }
}

impl Face {
    /// Its first and last cell, from there on.
    fn ends(&self, base: u64) -> [u64; 2] {
        [base, base + u64::from(self.layout.extent()) - CELL]
    }

    /// What has not come with its fence would make the figure worthless. A faster rank may have put the next one.
    fn check(&self, window: &Window, at: u64) {
        for place in self.ends(self.ghost) {
            let mut bytes = [0; CELL as usize];
            window.memory().read(place, &mut bytes).expect("it is inside of the window");
            let found = u64::from_ne_bytes(bytes);
            assert!(found == at || found == at + 1, "after fence {at} rank {} has put {found}", self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_even_as_they_can_be() {
        assert_eq!([grid(1, 3), grid(7, 2), grid(12, 1)], [[1, 1, 1], [7, 1, 1], [12, 1, 1]]);
        assert_eq!([grid(64, 2), grid(64, 3), grid(12, 2)], [[8, 8, 1], [4, 4, 4], [3, 4, 1]]);
    }

    #[test]
    fn what_a_rank_puts_is_what_its_neighbour_expects() {
        for (ranks, dimensions) in [(2, 1), (3, 1), (4, 2), (12, 2), (8, 3), (27, 3), (6, 3)] {
            let blocks: Vec<Block> = (0..ranks).map(|rank| Block::new(dimensions, 5, rank, ranks)).collect();
            for block in &blocks {
                for face in block.faces().unwrap() {
                    let there = blocks[face.neighbour].faces().unwrap();
                    assert!(there.iter().any(|other| other.ghost == face.to && other.origin == block.rank));
                    assert!(face.to + u64::from(face.layout.extent()) <= block.bytes() as u64);
                    assert_eq!(u64::from(face.layout.length()), CELL * 5u64.pow(dimensions as u32 - 1));
                }
            }
        }
    }
}
