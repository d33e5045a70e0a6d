//! A whole application: heat on a plate, whose ranks put the edges of their parts to their neighbours in each step, and
//! fence. What comes out is compared with what one rank alone computes, bit for bit.

use std::time::Instant;

use weft::group::Group;
use weft::window::{Asserts, Error, Fence, Shape, Team, WindowOptions};

use crate::experiments::fence::options::{Scale, Which};
use crate::experiments::fence::series::Series;

/// The computation is that of the example `halo` of `weft`.
#[path = "../../../../weft/examples/halo/plate.rs"]
mod plate;

use plate::{Part, Side, neighbours, place, shape, step};
pub(crate) use plate::{alone, checksum};

/// Bytes of a cell.
const CELL: usize = 8;
/// Solutions of each launch: one takes as long as many fences.
const SOLUTIONS: u64 = 3;

/// What it takes from the first step to the end of the last at this rank.
pub(crate) fn measure(
    team: &Team,
    group: &mut Group,
    (which, fan): (Which, Shape),
    (cells, steps): (u32, u32),
    scale: &Scale<'_>,
) -> Result<Series, String> {
    let (rank, size, steps) = (team.rank(), cells as usize, steps as usize);
    let (rows, columns) = shape(team.size());
    if size < 2 * rows.max(columns) {
        return Err(format!("a plate of {size} cells is too small for {rows} by {columns} ranks: see --plate"));
    }
    let near = neighbours(rank, (rows, columns));
    let mut options = WindowOptions { shape: fan, ..WindowOptions::fence(which.fence()) };
    if which.fence() == Fence::Neighbour {
        options.neighbours = near.iter().map(|(_, rank)| *rank).collect();
    }
    let said = |error: Error| error.to_string();
    let mut window = team.allocate(place(1, Side::Right, size) as usize + size * CELL, &options).map_err(said)?;
    let expected = alone(size, steps);
    let few = Scale { iterations: scale.iterations.min(SOLUTIONS), budget: None, warmup: Some(1), ..*scale };
    let series = Series::measure(&few, group, |_| {
        let mut part = Part::new(size, (rank / columns, rows), (rank % columns, columns));
        // No edge of this solution comes before those of the last one were read.
        window.fence(Asserts::default()).map_err(said)?;
        let start = Instant::now();
        for number in 0..steps {
            step(&mut part, &mut window, number, size, &near).map_err(|error| error.to_string())?;
        }
        let took = start.elapsed();
        check(&part, &expected, size)?;
        Ok::<f64, String>(took.as_secs_f64() * 1e6)
    })?;
    window.free().map_err(said)?;
    Ok(series)
}

/// Whether a part has the bits of the whole plate.
fn check(part: &Part, expected: &[f64], size: usize) -> Result<(), String> {
    for row in 0..part.rows {
        let there = &expected[(part.top + row) * size + part.left..][..part.columns];
        if part.row(row).iter().zip(there).any(|(own, other)| own.to_bits() != other.to_bits()) {
            return Err(format!("row {} of the plate is not what one rank alone computes", part.top + row));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_cell_is_seen() {
        let plate = alone(16, 5);
        let mut part = Part::new(16, (0, 1), (0, 1));
        assert!(check(&part, &plate, 16).unwrap_err().contains("row"), "it has not begun");
        for _ in 0..5 {
            part.step_inside();
            part.step_rim();
        }
        assert_eq!(check(&part, &plate, 16), Ok(()));
        let mut wrong = plate;
        wrong[16 * 7 + 3] += 1e-12;
        assert!(check(&part, &wrong, 16).unwrap_err().contains("row 7"));
    }
}
