//! `weft perf fence --simulate`: fences of more ranks than a machine has cores, in virtual time.

use std::time::Duration;

use weft::window::{Fence, Shape};
use weft_simulate::{FENCE_EPOCHS, FenceScenario, LogGp, simulate_fences};

use crate::experiments::fence::figure::{Case, Figure};
use crate::experiments::fence::load::{Load, Test};
use crate::experiments::fence::options::{Costs, Fences, Scale, Which};
use weft_command::failure::Failure;

impl Fences {
    /// The costs that are simulated.
    fn costs(&self) -> LogGp {
        self.loggp.map_or(LogGp::LOOPBACK, |Costs(cost)| cost)
    }

    /// The text above the table.
    pub(crate) fn explain_simulation(&self) -> String {
        let LogGp { latency, overhead, per_kib } = self.costs();
        format!(
            "puts of 8 bytes to the next ranks, then a fence, in virtual time: until the last rank has left it; each \
             rank has a processor, which takes {overhead:?} to send or take something and {per_kib:?} for 1024 bytes, \
             and the way takes {latency:?}; neighbours are those that are put to, and at least the next rank, and \
             those that put here"
        )
    }
}

/// All numbers of ranks, all kinds.
pub(crate) fn measure(arguments: &Fences, scale: &Scale<'_>) -> Result<Vec<Case>, Failure> {
    if scale.test != Test::Fence {
        return Err(Failure::Usage("only `weft perf fence` is simulated".into()));
    }
    let mut cases = Vec::new();
    for &ranks in &arguments.simulate {
        let mut figures = Vec::new();
        for (which, shape, who) in arguments.candidates_to_simulate() {
            for &puts in &arguments.puts {
                let time = one((which, shape), ranks.into(), puts.into(), arguments.costs()).map_err(Failure::Usage)?;
                let value = time.as_secs_f64() * 1e6;
                let who = if arguments.auto_table { who.clone() } else { format!("simulated {}", which.name()) };
                figures.push(Figure {
                    who,
                    load: Load::Puts(puts).to_string(),
                    value,
                    fences: FENCE_EPOCHS.into(),
                    cpu: None,
                });
            }
        }
        cases.push(Case { ranks: ranks.into(), figures });
    }
    Ok(cases)
}

impl Fences {
    fn candidates_to_simulate(&self) -> Vec<(Which, Shape, String)> {
        match self.fence[..] {
            [Which::Auto] if !self.auto_table => Self { fence: vec![Which::All], ..self.clone() }.candidates(),
            _ => self.candidates(),
        }
    }
}

fn one((which, shape): (Which, Shape), ranks: usize, puts: usize, cost: LogGp) -> Result<Duration, String> {
    let fan_out = if which.fence() == Fence::Auto { 2 * puts.max(1) } else { 0 };
    let fence = which.fence();
    let scenario = FenceScenario { ranks, fence, shape, puts, fan_out, is_alternating: false, cost };
    simulate_fences(&scenario).map(|report| report.time).map_err(|error| error.to_string())
}
