//! `MPI_Win_fence` of the MPI libraries that are there.

use std::process::Command;

use crate::experiments::fence::figure::{Figure, say};
use crate::experiments::fence::heat::{alone, checksum};
use crate::experiments::fence::limit;
use crate::experiments::fence::load::{Load, Test};
use crate::experiments::fence::options::Scale;
use crate::model::contestant::NOTHING_SHARED;
use crate::model::installation::Installation;
use crate::mpi::launch::{Carrier, Ways};
use crate::mpi::program::Program;
use crate::runner::place::{Place, member};
use weft_command::failure::Failure;
use weft_command::provider::Provider;

/// Below the library unless others are named: `shm` is its own shared memory.
const CARRIERS: [&str; 3] = ["libfabric-tcp", "weft", SHARED_MEMORY];
const SHARED_MEMORY: &str = "shm";

/// A library over something.
struct Peer {
    name: String,
    installation: Installation,
    carrier: Option<Carrier>,
    provider: Option<Provider>,
    program: Program,
}

/// Those to measure beside Weft, and why others are not.
pub(crate) struct Peers {
    peers: Vec<Peer>,
    ways: Ways,
    pub(crate) notes: Vec<String>,
}

impl Peers {
    /// Those that were named, or all that can be measured.
    pub(crate) fn find(scale: &Scale<'_>, place: &Place) -> Result<Self, Failure> {
        let named = scale.peers.is_some();
        let ways = ways(place);
        let shares_memory = ways.hosts() == 1;
        let carriers: Vec<&str> = match scale.peers {
            None => CARRIERS.into_iter().filter(|carrier| *carrier != SHARED_MEMORY || shares_memory).collect(),
            Some([none]) if none == "none" => return Ok(Self { peers: Vec::new(), ways, notes: Vec::new() }),
            Some(names) => names.iter().map(String::as_str).collect(),
        };
        if carriers.contains(&SHARED_MEMORY) && !shares_memory {
            return Err(Failure::Usage(format!("--vs {SHARED_MEMORY}: {NOTHING_SHARED}")));
        }
        for name in &carriers {
            Carrier::parse(Some(name)).map_err(Failure::Usage)?;
        }
        let mut this = Self { peers: Vec::new(), ways, notes: Vec::new() };
        let libraries = match crate::model::installation::find(scale.libraries, scale.folders) {
            Ok(libraries) => libraries,
            Err(reason) if named || !scale.libraries.is_empty() => return Err(Failure::Runtime(reason)),
            Err(reason) => {
                this.notes.push(reason);
                return Ok(this);
            }
        };
        for installation in libraries {
            for carrier in &carriers {
                match Peer::make(scale.test, &installation, carrier) {
                    Ok(peer) => this.peers.push(peer),
                    Err(reason) => this.notes.push(format!("{}:{carrier}: {reason}", installation.library)),
                }
            }
        }
        Ok(this)
    }

    /// One run of each. A contestant that fails is not run again.
    pub(crate) fn measure(&mut self, loads: &[Load], scale: &Scale<'_>, ranks: usize) -> Vec<Figure> {
        let mut figures = Vec::new();
        let Self { notes, ways, peers } = self;
        peers.retain(|peer| {
            say(format_args!("  {}", peer.name));
            let outcome = peer.run(loads, scale, ways, ranks);
            let failed = |reason: &String| notes.push(format!("{} with {ranks} ranks: {reason}", peer.name));
            let outcome = outcome.inspect_err(failed);
            outcome.map(|more| figures.extend(more)).is_ok()
        });
        figures
    }
}

/// How ranks reach each other there.
fn ways(place: &Place) -> Ways {
    let Place::Lab(lab, _) = place else { return Ways::Here };
    let near = lab.host(0).address(0).to_string();
    Ways::Lab { near, far: vec![member(lab.host(1))], entry: Some(lab.host(0).clone()) }
}

impl Peer {
    fn make(test: Test, installation: &Installation, carrier: &str) -> Result<Self, String> {
        Program::can_be_made()?;
        let name = format!("{}:{carrier}", installation.library);
        let carrier = if carrier == SHARED_MEMORY { None } else { Some(Carrier::parse(Some(carrier))?) };
        let provider = carrier.as_ref().is_some_and(Carrier::is_weft).then(Provider::open).transpose()?;
        let make = if test == Test::Heat { Program::make_heat } else { Program::make_fence };
        let program = make(installation)?;
        Ok(Self { name, installation: installation.clone(), carrier, provider, program })
    }

    fn run(&self, loads: &[Load], scale: &Scale<'_>, ways: &Ways, ranks: usize) -> Result<Vec<Figure>, String> {
        let (carrier, provider) = (self.carrier.as_ref(), self.provider.as_ref());
        let mut command =
            crate::mpi::launch::command_of_ranks(&self.installation, carrier, provider, ways, &self.program, ranks);
        if let [load @ Load::Heat { cells, steps }] = loads {
            return self.heat(&mut command, *load, (*cells, *steps), scale);
        }
        let budget_us = scale.budget.map_or(0, |budget| budget.as_micros());
        let warmup = scale.warmup.map_or(-1, u64::cast_signed);
        command.args([scale.iterations.to_string(), warmup.to_string(), budget_us.to_string()]);
        command.arg(scale.limit_s.to_string()).args(loads.iter().map(Load::to_string));
        let failed = |error| format!("{}: {error}", self.installation.mpiexec.display());
        let output = limit::output_until(&mut command.spawn().map_err(failed)?, limit::deadline(scale.limit_s))?;
        let text = String::from_utf8_lossy(&output.output);
        let figures: Vec<Figure> = text.lines().filter_map(|line| self.figure(line)).collect();
        if output.status.success() && figures.len() == loads.len() {
            return Ok(figures);
        }
        let complaint = String::from_utf8_lossy(&output.errors).trim().lines().last().unwrap_or("no reason").to_owned();
        Err(format!("ended with {}: {complaint}", output.status))
    }

    /// One solution, whose plate must be what one rank alone computes.
    fn heat(
        &self,
        command: &mut Command,
        load: Load,
        (cells, steps): (u32, u32),
        scale: &Scale<'_>,
    ) -> Result<Vec<Figure>, String> {
        command.args([cells, steps].map(|number| number.to_string()));
        let failed = |error| format!("{}: {error}", self.installation.mpiexec.display());
        let output = limit::output_until(&mut command.spawn().map_err(failed)?, limit::deadline(scale.limit_s))?;
        let text = String::from_utf8_lossy(&output.output);
        let plate = format!("plate {:x}", checksum(&alone(cells as usize, steps as usize)));
        if output.status.success() && !text.lines().any(|line| line == plate) {
            return Err(format!("it did not compute {plate}: {text}"));
        }
        let each = text.lines().find_map(|line| line.strip_suffix(" us a step")?.trim().parse::<f64>().ok());
        match each.filter(|_| output.status.success()) {
            Some(each) => {
                let value = each * f64::from(steps);
                Ok(vec![Figure { who: self.name.clone(), load: load.to_string(), value, fences: 1, cpu: None }])
            }
            None => Err(format!("ended with {}: {text}", output.status)),
        }
    }

    /// A line that the program prints: `weft-mpi load=puts:8 value=12.3 fences=500 cpu=80.1`.
    fn figure(&self, line: &str) -> Option<Figure> {
        let mut words = line.split_once("weft-mpi ")?.1.split_whitespace();
        let load = words.next()?.strip_prefix("load=")?.to_owned();
        let value = words.next()?.strip_prefix("value=")?.parse().ok()?;
        let fences = words.next()?.strip_prefix("fences=")?.parse().ok()?;
        let cpu = words.next().and_then(|word| word.strip_prefix("cpu=")?.parse().ok());
        Some(Figure { who: self.name.clone(), load, value, fences, cpu })
    }
}
