//! The ranks of Weft's windows: processes of this command, of which each measures itself.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use weft::endpoint::EndpointAttributes;
use weft::group::{Group, Launch};
use weft::verbs::Context;
use weft::window::{Asserts, Error, Fence, Shape, Team, Window, WindowOptions};
use weft_command::environment;

use crate::experiments::fence::figure::Figure;
use crate::experiments::fence::load::{Load, Test};
use crate::experiments::fence::options::{Fences, Scale, Which};
use crate::experiments::fence::series::Series;
use crate::experiments::fence::{halo, heat, limit, overlap};
use crate::runner::place::Place;

/// Bytes of a put.
pub(crate) const PUT_BYTES: usize = 8;

/// In the environment of a rank whose figures are for the process that has started it.
pub(crate) const RAW: &str = "WEFT_PERF_RAW";

/// The address that ranks listen on, if they are on several hosts.
const INTERFACE: &str = "WEFT_ADDRESS";

/// Where they meet then, at the first host of a network of their own.
const MEETING_PORT: u16 = 7474;

/// Starts this many ranks on this machine, or by turns in the hosts of a network, and returns what the first reports.
pub(crate) fn start(arguments: &Fences, scale: &Scale<'_>, place: &Place, ranks: usize) -> Result<Vec<Figure>, String> {
    let launch = if place.is_lab() { None } else { Some(Launch::new(ranks).map_err(|error| error.to_string())?) };
    let list = |values: Vec<String>| values.join(",");
    let transport = serde_json::to_string(&scale.transport).unwrap_or_default();
    let mut words = vec![("--transport", transport.trim_matches('"').to_owned())];
    match scale.test {
        Test::Fence => words.push(("--puts", list(arguments.puts.iter().map(u16::to_string).collect()))),
        Test::Halo => words.push(("--cells", arguments.cells.to_string())),
        Test::Heat => {
            words.push(("--plate", arguments.plate.to_string()));
            words.push(("--steps", arguments.steps.to_string()));
        }
        Test::WindowOverlap => {}
    }
    words.extend(scale.budget.is_none().then(|| ("--iterations", scale.iterations.to_string())));
    words.extend(scale.warmup.map(|warmup| ("--warmup", warmup.to_string())));
    if !arguments.auto_table {
        words.push(("--fence", list(arguments.kinds().iter().map(|which| which.name()).collect())));
    }
    words.extend(arguments.shape.map(|shape| match shape {
        Shape::Rounds => ("--shape", "rounds".to_owned()),
        Shape::Tree { fan } => ("--shape", format!("tree:{fan}")),
    }));
    words.extend(arguments.pack_below.map(|bytes| ("--pack-below", bytes.to_string())));
    words.extend(scale.sizes.map(|sizes| ("--size", list(sizes.0.iter().map(|size| size.0.to_string()).collect()))));
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = place.command(rank, &[]).map_err(|error| format!("this program: {error}"))?;
        command.args(["perf", scale.test.name()]).env(RAW, "1").stdin(Stdio::null());
        command.args(words.iter().flat_map(|(name, value)| [*name, value]));
        command.args(arguments.auto_table.then_some("--auto-table"));
        command.args(scale.is_quick.then_some("--quick"));
        command.args(scale.is_brief.then_some("--brief"));
        command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::null() });
        match &launch {
            Some(launch) => drop(launch.command(rank, &mut command)),
            None => meet(place, rank, ranks, &mut command),
        }
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                stop(&mut children);
                return Err(format!("cannot start rank {rank}: {error}"));
            }
        }
    }
    let told = collect(&mut children, limit::deadline(scale.limit_s));
    stop(&mut children);
    serde_json::from_slice(&told?).map_err(|error| format!("what rank 0 tells is no figures: {error}"))
}

/// Tells a rank where it is and where all meet.
fn meet(place: &Place, rank: usize, ranks: usize, command: &mut Command) {
    command.env("WEFT_RANK", rank.to_string()).env("WEFT_SIZE", ranks.to_string()).env_remove("WEFT_TOKEN");
    command.env("WEFT_MEETING", format!("{}:{MEETING_PORT}", place.host()));
    command.envs(place.local(rank).map(|address| (INTERFACE, address)));
}

/// What rank 0 says, when all have ended well and in time.
fn collect(children: &mut [Child], deadline: Instant) -> Result<Vec<u8>, String> {
    let mut said = Vec::new();
    for (rank, child) in children.iter_mut().enumerate() {
        let spoken = limit::output_until(child, deadline).map_err(|reason| format!("rank {rank}: {reason}"))?;
        if !spoken.status.success() {
            return Err(format!("rank {rank} has ended with {}", spoken.status));
        }
        if rank == 0 {
            said = spoken.output;
        }
    }
    Ok(said)
}

fn stop(children: &mut [Child]) {
    for child in children {
        // One that has ended already can't be ended again.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Measures, as one rank of a group. All ranks return the figures.
pub(crate) fn measure(arguments: &Fences, scale: &Scale<'_>, group: &mut Group) -> Result<Vec<Figure>, String> {
    let environment = environment::parameters();
    let context = Context::with_settings(environment.nic_settings()).map_err(|error| error.to_string())?;
    let host = env::var(INTERFACE).unwrap_or_else(|_| "127.0.0.1".into());
    let host: std::net::IpAddr = host.parse().map_err(|_| format!("{INTERFACE} is {host:?}: no address"))?;
    let mut attributes = EndpointAttributes::at((host, 0).into());
    (attributes.settings, attributes.key) = (environment.endpoint, environment.key);
    attributes.settings.transport = scale.transport.into();
    let team = Team::new(&context, group, &attributes).map_err(|error| error.to_string())?;
    let mut figures = Vec::new();
    for (which, shape, who) in arguments.candidates() {
        for load in arguments.loads(scale) {
            let measured = match load {
                Load::Puts(puts) => one(&team, group, (which, shape), puts, scale),
                Load::Heat { cells, steps } => heat::measure(&team, group, (which, shape), (cells, steps), scale),
                Load::Halo { dimensions, cells, is_strided } => {
                    let block = (dimensions, cells, is_strided);
                    halo::measure(&team, group, (which, shape), block, arguments.pack_below, scale)
                }
                Load::Overlap(bytes) => overlap::measure(&team, group, which, bytes, scale),
            };
            let series = measured.map_err(|error| format!("{}: {error}", which.name()))?;
            let value = scale.test.worst(of_all(group, series.median_us)?.into_iter());
            let cpu = Some(of_all(group, series.cpu_us)?.into_iter().sum::<f64>()).filter(|_| scale.test.has_cpu());
            figures.push(Figure { who: who.clone(), load: load.to_string(), value, fences: series.fences, cpu });
        }
    }
    Ok(figures)
}

/// A value of each rank.
fn of_all(group: &mut Group, mine: f64) -> Result<Vec<f64>, String> {
    let all = group.all_gather(&mine.to_be_bytes()).map_err(|error| error.to_string())?;
    Ok(all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(f64::from_be_bytes).collect())
}

/// What puts and fence take at this rank.
fn one(
    team: &Team,
    group: &mut Group,
    (which, shape): (Which, Shape),
    puts: u16,
    scale: &Scale<'_>,
) -> Result<Series, String> {
    let (rank, ranks, puts) = (team.rank(), team.size(), usize::from(puts));
    let options = WindowOptions { shape, ..options(which, rank, ranks, puts) };
    let place = |from: usize, put: usize| ((from * (puts + 1) + put) * PUT_BYTES) as u64;
    let said = |error: Error| error.to_string();
    let mut window = team.allocate(ranks * (puts + 1) * PUT_BYTES, &options).map_err(said)?;
    window.fence(Asserts::default()).map_err(said)?;
    let series = Series::measure(scale, group, |at| {
        let start = Instant::now();
        for put in 0..puts {
            let to = (rank + 1 + put) % ranks;
            if to == rank && which == Which::Neighbour {
                continue;
            }
            window.put(to, place(rank, put), &at.to_ne_bytes())?;
        }
        window.fence(Asserts::default())?;
        let took = start.elapsed();
        (0..puts).for_each(|put| check(&window, place((rank + ranks * (put + 1) - 1 - put) % ranks, put), at, which));
        Ok::<f64, Error>(took.as_secs_f64() * 1e6)
    })?;
    window.free().map_err(said)?;
    Ok(series)
}

/// A put that has not come with its fence would make the figure worthless. A faster rank may have put the next one.
fn check(window: &Window, place: u64, at: u64, which: Which) {
    let mut bytes = [0; PUT_BYTES];
    window.memory().read(place, &mut bytes).expect("it is inside of the window");
    let found = u64::from_ne_bytes(bytes);
    let is_own = which == Which::Neighbour && found == 0;
    assert!(found == at || found == at + 1 || is_own, "after fence {at} there is {found}");
}

/// Neighbours are those that this rank puts to, and those that put to it: a ring without puts.
fn options(which: Which, rank: usize, ranks: usize, puts: usize) -> WindowOptions {
    let fence = which.fence();
    let mut neighbours: Vec<usize> =
        (1..=puts.max(1)).flat_map(|step| [(rank + step) % ranks, (rank + ranks * step - step) % ranks]).collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    neighbours.retain(|other| *other != rank);
    let neighbours = if fence == Fence::Neighbour { neighbours } else { Vec::new() };
    WindowOptions { neighbours, ..WindowOptions::fence(fence) }
}
