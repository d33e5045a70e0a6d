//! Computation beside a put: how much of it the transfer hides.

use std::time::Instant;

use weft::group::Group;
use weft::window::{Asserts, Error, Team, Window, WindowOptions};

use crate::experiments::fence::options::{Scale, Which};
use crate::experiments::fence::series::{Series, slowest};
use crate::host::work::Work;

/// The part of the computation that was hidden at this rank, in percent, in place of a time: all ranks compute for as
/// long as put and fence take at the slowest.
pub(crate) fn measure(
    team: &Team,
    group: &mut Group,
    which: Which,
    bytes: u32,
    scale: &Scale<'_>,
) -> Result<Series, String> {
    let (rank, ranks) = (team.rank(), team.size());
    let mut options = WindowOptions::fence(which.fence());
    if which == Which::Neighbour {
        options.neighbours = vec![(rank + 1) % ranks, (rank + ranks - 1) % ranks];
        options.neighbours.sort_unstable();
        options.neighbours.dedup();
        options.neighbours.retain(|other| *other != rank);
    }
    let work = Work::calibrate();
    let said = |error: Error| error.to_string();
    let mut window = team.allocate(bytes as usize, &options).map_err(said)?;
    window.fence(Asserts::default()).map_err(said)?;
    let alone = times(&mut window, (team, group), bytes, 0.0, &work, scale)?;
    let alone = slowest(group, alone.median_us.max(0.001))?;
    let beside = times(&mut window, (team, group), bytes, alone, &work, scale)?;
    window.free().map_err(said)?;
    let hidden = (2.0 * alone - beside.median_us) / alone * 100.0;
    Ok(Series { median_us: hidden.clamp(0.0, 100.0), ..beside })
}

/// The times of a put, computation for this long, and a fence.
fn times(
    window: &mut Window,
    (team, group): (&Team, &mut Group),
    bytes: u32,
    compute_us: f64,
    work: &Work,
    scale: &Scale<'_>,
) -> Result<Series, String> {
    let to = (team.rank() + 1) % team.size();
    let mut source = vec![0; bytes as usize];
    Series::measure(scale, group, |at| {
        source[0] = at as u8;
        let start = Instant::now();
        if team.size() > 1 {
            window.put(to, 0, &source)?;
        }
        work.compute(compute_us, || ());
        window.fence(Asserts::default())?;
        Ok::<f64, Error>(start.elapsed().as_secs_f64() * 1e6)
    })
}
