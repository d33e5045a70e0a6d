//! Computation beside transfers, of any transport: what is repeated, and what is computed from the times.

use std::time::{Duration, Instant};

use crate::host::work::Work;
use crate::model::job::{Job, Wait};
use crate::model::measure::{Figure, Measured, Watch, median};

/// How rarely a target that computes calls in, in microseconds.
pub(crate) const CALLS_IN_EVERY_US: f64 = 1000.0;

/// Computation between post and wait, in shares of the transfer alone. The first is none.
const SHARES: [f64; 11] = [0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1];
/// The one that is as long as the transfer alone.
const AS_LONG: usize = 9;
/// What a computation that fits may lengthen the total by.
const TOLERANCE: f64 = 1.05;
/// How long one search takes, and how long one stream.
const BUDGET: Duration = Duration::from_millis(600);
/// The fewest transfers of a ratio, however long they take.
const FEWEST: usize = 5;
/// Transfers whose processor time is taken at the end of a search.
const CPU_TRANSFERS: u64 = 20;
/// Bytes that go before each transfer that is timed. A shaped link saves up while nothing leaves it, and lets that much
/// go as fast as the processor can: the transfer must not be what uses it up. A lab's link of 1 Gb/s saves up 125 kB.
const PRIMER_BYTES: usize = 256 << 10;
/// The most transfers of one run.
pub(crate) const MOST_TRANSFERS: u64 = 16_000;

/// Transfers that can be begun, and seen to their end later.
pub(crate) trait Transfer {
    type Error;

    /// Begins one.
    fn post(&mut self) -> Result<(), Self::Error>;

    /// Calls in once.
    fn poll(&mut self) -> Result<(), Self::Error>;

    /// How many are begun and not over.
    fn under_way(&self) -> u64;

    /// Waits until no more than `most` are in flight.
    fn finish(&mut self, most: u64) -> Result<(), Self::Error>;

    /// Whether waits sleep from now on.
    fn wait_blocking(&mut self, block: bool);

    /// Whether the library calls for this thread, which then has to call in.
    fn is_summoned(&self) -> bool {
        false
    }

    /// Calls in because the library has called.
    fn answer_summons(&mut self) -> Result<(), Self::Error> {
        self.poll()
    }

    /// Tells the target that this was all.
    fn end(&mut self) -> Result<(), Self::Error>;
}

/// Computes; calls in between two quanta when the library asks for it.
fn compute<T: Transfer>(work: &Work, microseconds: f64, transfer: &mut T) -> Result<(), T::Error> {
    let mut outcome = Ok(());
    work.compute(microseconds, || {
        if outcome.is_ok() && transfer.is_summoned() {
            outcome = transfer.answer_summons();
        }
    });
    outcome
}

/// Looks for the longest computation that fits between post and wait.
pub(crate) struct Search {
    warmup: u64,
    /// Transfers before each that is timed.
    primers: u64,
    /// How often at most each share is tried.
    rounds: u64,
    block: bool,
    size: usize,
}

impl Search {
    pub(crate) fn new(job: &Job) -> Self {
        let warmup = job.warmup.clamp(3, 20);
        let primers = (PRIMER_BYTES / job.size).clamp(1, job.buffers()) as u64;
        let most = MOST_TRANSFERS - (warmup + CPU_TRANSFERS) * (1 + primers);
        let rounds = job.iterations.min(most / (SHARES.len() as u64 * (1 + primers)));
        Self { warmup, primers, rounds, block: job.wait == Wait::Block, size: job.size }
    }

    /// Does it, and ends the transfers.
    pub(crate) fn run<T: Transfer>(&self, transfer: &mut T) -> Result<Measured, T::Error> {
        transfer.wait_blocking(self.block);
        let mut alone = Vec::new();
        for _ in 0..self.warmup {
            alone.push(once(transfer, self.primers, None)?.total);
        }
        // Not before: until now the target was starting. Where the two cores are two threads of one, what it does
        // counts.
        let work = Work::calibrate();
        // The first ones are slower, and count least.
        let alone = median(alone.split_off(alone.len() / 2)).unwrap_or(1.0);
        let start = Instant::now();
        let mut totals: [Vec<f64>; SHARES.len()] = Default::default();
        let mut stretches = Vec::new();
        // Round by round, so that what disturbs the machine for a while disturbs all shares.
        for round in 0..self.rounds {
            for (at, totals) in totals.iter_mut().enumerate() {
                let length = SHARES[at] * alone;
                let once = once(transfer, self.primers, Some((&work, length)))?;
                totals.push(once.total);
                if at == AS_LONG {
                    stretches.push(once.computation / length);
                }
            }
            if start.elapsed() > BUDGET && round >= 2 {
                break;
            }
        }
        let cpu = self.cpu(transfer)?;
        transfer.end()?;
        let totals = totals.map(|totals| median(totals).unwrap_or(f64::INFINITY));
        let mut measured = Measured { cpu_s_per_gb: Some(cpu), ..judge(alone, &totals) };
        measured.figures.extend(median(stretches).map(|stretch| (Figure::Stretch, stretch)));
        Ok(measured)
    }

    /// Processor seconds per GB of transfers that are waited for asleep.
    fn cpu<T: Transfer>(&self, transfer: &mut T) -> Result<f64, T::Error> {
        transfer.wait_blocking(true);
        let watch = Watch::start();
        for _ in 0..CPU_TRANSFERS {
            once(transfer, self.primers, None)?;
        }
        Ok(watch.cpu_s_per_gb(CPU_TRANSFERS * (1 + self.primers) * self.size as u64))
    }
}

/// Transfers one by one, each with a computation of fixed length between post and wait.
pub(crate) struct Ratio {
    warmup: u64,
    rounds: u64,
    computation_us: f64,
    block: bool,
}

impl Ratio {
    pub(crate) fn new(job: &Job) -> Self {
        let warmup = job.warmup.min(10);
        Self {
            warmup,
            rounds: job.iterations.min(MOST_TRANSFERS - warmup),
            computation_us: job.computation_us.into(),
            block: job.wait == Wait::Block,
        }
    }

    /// Does them, and ends the transfers. The value is t1 / t2: the computation over all of its transfer.
    pub(crate) fn run<T: Transfer>(&self, transfer: &mut T) -> Result<Measured, T::Error> {
        transfer.wait_blocking(self.block);
        for _ in 0..self.warmup {
            once(transfer, 0, None)?;
        }
        let work = Work::calibrate();
        let (start, mut totals) = (Instant::now(), Vec::new());
        while (totals.len() as u64) < self.rounds && (totals.len() < FEWEST || start.elapsed() < BUDGET) {
            totals.push(once(transfer, 0, Some((&work, self.computation_us)))?.total);
        }
        transfer.end()?;
        let Some(total) = median(totals) else { return Ok(Measured::default()) };
        Ok(Measured {
            value: Some(self.computation_us / total.max(self.computation_us)),
            figures: [(Figure::TotalUs, total)].into(),
            ..Measured::default()
        })
    }
}

/// How long one transfer with computation took, in microseconds: all of it, and the computation.
struct Once {
    total: f64,
    computation: f64,
}

/// Some transfers that are not timed; then post, compute for this many microseconds, wait.
fn once<T: Transfer>(transfer: &mut T, primers: u64, computation: Option<(&Work, f64)>) -> Result<Once, T::Error> {
    for _ in 0..primers {
        transfer.post()?;
    }
    transfer.finish(0)?;
    let start = Instant::now();
    transfer.post()?;
    let posted = Instant::now();
    if let Some((work, length)) = computation {
        compute(work, length, transfer)?;
    }
    let computation = microseconds(posted);
    transfer.finish(0)?;
    Ok(Once { total: microseconds(start), computation })
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// What the totals say. `computed` is the time of a share of 1.
fn judge(computed: f64, totals: &[f64; SHARES.len()]) -> Measured {
    let alone = totals[0];
    let lengths = SHARES.map(|share| share * computed);
    let bound = TOLERANCE * alone;
    let mut fits = 0.0;
    for at in 1..SHARES.len() {
        let (before, here) = (totals[at - 1], totals[at]);
        if here > bound {
            // Between the two, the total is taken to grow evenly.
            let part = if here > before { ((bound - before) / (here - before)).clamp(0.0, 1.0) } else { 0.0 };
            fits = lengths[at - 1] + part * (lengths[at] - lengths[at - 1]);
            break;
        }
        fits = lengths[at];
    }
    let (length, total) = (lengths[AS_LONG], totals[AS_LONG]);
    let figures = [
        (Figure::CommunicationUs, alone),
        (Figure::Hidden, (1.0 - (total - alone) / length).clamp(0.0, 1.0)),
        (Figure::Computing, length / total),
    ];
    Measured { value: Some((fits / alone).min(1.0)), figures: figures.into(), ..Measured::default() }
}

/// A stream with computation after each message.
pub(crate) struct Insertion {
    warmup: u64,
    messages: u64,
    window: u64,
    computation_us: f64,
    size: usize,
    block: bool,
}

impl Insertion {
    pub(crate) fn new(job: &Job) -> Self {
        let warmup = job.warmup.min(10);
        Self {
            warmup,
            messages: job.iterations.min(MOST_TRANSFERS - warmup - 1),
            window: job.buffers() as u64,
            computation_us: job.computation_us.into(),
            size: job.size,
            block: job.wait == Wait::Block,
        }
    }

    /// Does it, and ends the transfers.
    pub(crate) fn run<T: Transfer>(&self, transfer: &mut T) -> Result<Measured, T::Error> {
        transfer.wait_blocking(self.block);
        // A first one, so that the target has started.
        transfer.post()?;
        transfer.finish(0)?;
        let work = Work::calibrate();
        for _ in 0..self.warmup {
            self.one(transfer, &work)?;
        }
        transfer.finish(0)?;
        let start = Instant::now();
        let mut done = 0;
        while done < self.messages && (done < 4 || start.elapsed() < BUDGET / 2) {
            self.one(transfer, &work)?;
            done += 1;
        }
        transfer.finish(0)?;
        let seconds = start.elapsed().as_secs_f64().max(1e-9);
        transfer.end()?;
        let computing = done as f64 * self.computation_us * 1e-6 / seconds;
        Ok(Measured {
            value: Some((done * self.size as u64) as f64 / 1e9 / seconds),
            figures: [(Figure::Computing, computing)].into(),
            ..Measured::default()
        })
    }

    fn one<T: Transfer>(&self, transfer: &mut T, work: &Work) -> Result<(), T::Error> {
        transfer.post()?;
        compute(work, self.computation_us, transfer)?;
        transfer.poll()?;
        transfer.finish(self.window - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer of 100 us of which this much cannot be hidden.
    fn judged(unhidden: f64) -> Measured {
        let total = |share: f64| {
            let computation = share * 100.0;
            (unhidden + computation).max(100.0)
        };
        judge(100.0, &SHARES.map(total))
    }

    #[test]
    fn what_is_hidden_is_found() {
        let all = judged(0.0);
        assert_eq!((all.value, all.figures[&Figure::Hidden]), (Some(1.0), 1.0));
        assert_eq!(all.figures[&Figure::Computing], 1.0);
        // No more than the tolerance fits, and nothing is hidden.
        let none = judged(100.0);
        assert!((none.value.unwrap() - 0.05).abs() < 1e-9, "{none:?}");
        assert_eq!(none.figures[&Figure::Hidden], 0.0);
        assert_eq!(none.figures[&Figure::Computing], 0.5);
        let half = judged(50.0);
        assert!((half.value.unwrap() - 0.5).abs() < 1e-9, "{half:?}, evenly between 100 us at 40 and 110 us at 60");
        assert_eq!(half.figures[&Figure::Hidden], 0.5);
    }
}
