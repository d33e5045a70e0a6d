//! A server whose application computes beside the streams that its host carries, whatever carries them: the client
//! offers all streams together a load that is paced, the same to each contestant, and the server times its computation
//! with the streams and without them, round by round.
//!
//! The server says when the streams are to flow, by a number: odd ones begin a phase, even ones end it. The client
//! fills each message with the number that it received last, so that the server sees a phase begin and end.

use std::thread;
use std::time::{Duration, Instant};

use crate::host::distance::{a_pair, stay_on};
use crate::host::work::Work;
use crate::model::job::{Job, Role};
use crate::model::measure::{Figure, Measured, Watch, median};

/// The last phase: nothing follows.
pub(crate) const END: u8 = u8::MAX;
/// Before the first phase.
pub(crate) const NONE: u8 = 0;
/// The most rounds: each has two phases, and a phase is a byte.
const MOST_ROUNDS: u64 = 100;
/// How often the client sends what is due, and the server asks for the phase.
const TICK: Duration = Duration::from_millis(1);
/// How long streams flow, or are quiet, before a computation begins.
const SETTLE: Duration = Duration::from_millis(10);

/// Keeps this process on a core: each side on one, so that streams and computation of the server share it. Where it was
/// pinned to one it is there already.
///
/// # Errors
///
/// The system refuses that.
pub(crate) fn take_core(job: &Job) -> Result<(), String> {
    match a_pair().filter(|_| job.core.is_none()) {
        Some([passive, active]) => stay_on(if job.role() == Role::Passive { passive } else { active }),
        None => Ok(()),
    }
}

/// What a server has of its streams.
pub(crate) trait Carried {
    type Error;

    /// Tells the client that a phase begins.
    fn tell(&mut self, phase: u8) -> Result<(), Self::Error>;

    /// The phase of the message received last.
    fn phase(&mut self) -> Result<u8, Self::Error>;
}

/// The server: computes alone and beside the streams, by turns.
///
/// # Errors
///
/// Those of the streams.
pub(crate) fn serve<C: Carried>(job: &Job, carried: &mut C) -> Result<Measured, C::Error> {
    let work = Work::calibrate();
    let mut rounds = Vec::new();
    for round in 0..(job.warmup + job.iterations).min(MOST_ROUNDS) {
        let alone = Once::of(&work, job);
        let phase = (2 * round + 1) as u8;
        begin(carried, phase)?;
        let beside = Once::of(&work, job);
        begin(carried, phase + 1)?;
        if round >= job.warmup.min(MOST_ROUNDS - 1) {
            rounds.push((alone, beside));
        }
    }
    carried.tell(END)?;
    Ok(judge(&rounds))
}

/// Begins a phase, and waits until it is here.
fn begin<C: Carried>(carried: &mut C, phase: u8) -> Result<(), C::Error> {
    carried.tell(phase)?;
    while carried.phase()? != phase {
        thread::sleep(TICK);
    }
    thread::sleep(SETTLE);
    Ok(())
}

/// A computation: how long it took, and how much processor time this process used meanwhile, in seconds.
struct Once {
    seconds: f64,
    cpu: f64,
}

impl Once {
    fn of(work: &Work, job: &Job) -> Self {
        let watch = Watch::start();
        work.compute(job.computation_us.into(), || {});
        Self { seconds: watch.seconds(), cpu: watch.cpu().as_secs_f64() }
    }
}

/// By how much the streams slow the computation down, as a share of what it takes alone, and what they cost: the
/// medians of rounds of a computation alone and one beside them.
fn judge(rounds: &[(Once, Once)]) -> Measured {
    let slowdown = rounds.iter().map(|(alone, beside)| beside.seconds / alone.seconds - 1.0);
    let cpu = rounds.iter().map(|(alone, beside)| (beside.cpu - alone.cpu).max(0.0) / beside.seconds);
    let figures = median(cpu).map(|cpu| (Figure::StreamsCpu, cpu));
    Measured {
        value: median(slowdown).map(|share| share.max(0.0)),
        figures: figures.into_iter().collect(),
        ..Measured::default()
    }
}

/// What a client has of its streams.
pub(crate) trait Offered {
    type Error;

    /// The phase that the server announced last.
    fn told(&mut self) -> Result<u8, Self::Error>;

    /// Sends a message on a stream, unless the stream has no room for it. Returns whether it did.
    fn send(&mut self, stream: usize, phase: u8) -> Result<bool, Self::Error>;

    /// Waits until all that was sent has left, or is at the server.
    fn drain(&mut self) -> Result<(), Self::Error>;
}

/// The client: offers the load in odd phases, until the last.
///
/// # Errors
///
/// Those of the streams.
pub(crate) fn offer<O: Offered>(job: &Job, offered: &mut O) -> Result<Measured, O::Error> {
    let (mut phase, mut next) = (NONE, 0);
    let (mut bytes, mut seconds) = (0, 0.0);
    // The passive side of a connection may send nothing before the active one has (RFC 5044 section 7.1.2).
    for stream in 0..job.connections {
        while !offered.send(stream, NONE)? {}
    }
    offered.drain()?;
    while phase != END {
        let told = offered.told()?;
        if told == phase {
            thread::sleep(TICK);
        } else if told % 2 == 1 && told != END {
            let (sent, took) = flow(job, offered, told, &mut next)?;
            bytes += sent;
            seconds += took;
        } else if told != END {
            offered.drain()?;
            while !offered.send(0, told)? {}
            offered.drain()?;
        }
        phase = told;
    }
    let megabits = (seconds > 0.0).then(|| (Figure::Load, bytes as f64 * 8e-6 / seconds));
    Ok(Measured { figures: megabits.into_iter().collect(), ..Measured::default() })
}

/// Sends what is due, tick by tick, to one stream after the other, while the phase lasts. Returns the bytes, and how
/// many seconds it lasted.
fn flow<O: Offered>(job: &Job, offered: &mut O, phase: u8, next: &mut usize) -> Result<(u64, f64), O::Error> {
    let start = Instant::now();
    let mut sent = 0;
    loop {
        let seconds = start.elapsed().as_secs_f64();
        if offered.told()? != phase {
            return Ok((sent * job.size as u64, seconds));
        }
        let due = due(job, seconds);
        while sent < due {
            if !offered.send(*next, phase)? {
                break;
            }
            *next = (*next + 1) % job.connections;
            sent += 1;
        }
        thread::sleep(TICK);
    }
}

/// Messages that are to be sent within this time.
fn due(job: &Job, seconds: f64) -> u64 {
    (seconds * job.load_bits_per_s as f64 / (8.0 * job.size as f64)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    /// Streams that lead nowhere: the server's phases are reported in turn, each for some calls.
    struct Script {
        phases: Vec<u8>,
        calls: usize,
        sent: Vec<(usize, u8)>,
    }

    impl Offered for Script {
        type Error = ();

        fn told(&mut self) -> Result<u8, ()> {
            self.calls += 1;
            Ok(self.phases[(self.calls / 4).min(self.phases.len() - 1)])
        }

        fn send(&mut self, stream: usize, phase: u8) -> Result<bool, ()> {
            self.sent.push((stream, phase));
            Ok(true)
        }

        fn drain(&mut self) -> Result<(), ()> {
            Ok(())
        }
    }

    /// A server to which each phase comes as soon as it has announced it.
    #[derive(Default)]
    struct Echo {
        told: Vec<u8>,
    }

    impl Carried for Echo {
        type Error = ();

        fn tell(&mut self, phase: u8) -> Result<(), ()> {
            self.told.push(phase);
            Ok(())
        }

        fn phase(&mut self) -> Result<u8, ()> {
            Ok(*self.told.last().unwrap())
        }
    }

    #[test]
    fn messages_carry_the_phase_and_take_the_streams_in_turn() {
        let job = Job { connections: 3, size: 1000, load_bits_per_s: 80_000_000, ..job() };
        let mut script = Script { phases: vec![NONE, 1, 2, END], calls: 0, sent: Vec::new() };
        let measured = offer(&job, &mut script).unwrap();
        assert!(measured.figures[&Figure::Load] > 0.0);
        let (first, others) = script.sent.split_at(3);
        assert_eq!(first, [(0, NONE), (1, NONE), (2, NONE)], "each stream is opened by the client");
        let (last, flowing) = others.split_last().unwrap();
        assert_eq!(*last, (0, 2), "one message says that the phase is over");
        assert!(flowing.iter().enumerate().all(|(at, sent)| *sent == (at % 3, 1)), "{flowing:?}");
    }

    #[test]
    fn the_load_is_what_is_due() {
        let job = Job { size: 1000, load_bits_per_s: 80_000_000, ..job() };
        assert_eq!([0.0, 0.00025, 0.5, 1.0].map(|seconds| due(&job, seconds)), [0, 3, 5000, 10_000]);
    }

    #[test]
    fn phases_begin_and_end_in_turn_and_then_all_ends() {
        let mut echo = Echo::default();
        let job = Job { warmup: 1, iterations: 2, computation_us: 10, ..job() };
        assert!(serve(&job, &mut echo).unwrap().value.is_some());
        assert_eq!(echo.told, [1, 2, 3, 4, 5, 6, END]);
    }

    #[test]
    fn the_slowdown_is_of_the_same_round() {
        let once = |seconds, cpu| Once { seconds, cpu };
        let rounds = [(0.1, 0.12), (0.2, 0.24), (0.1, 0.5)];
        let rounds = rounds.map(|(alone, beside)| (once(alone, alone), once(beside, beside)));
        let measured = judge(&rounds);
        assert!((measured.value.unwrap() - 0.2).abs() < 1e-9, "{measured:?}");
        assert!((measured.figures[&Figure::StreamsCpu] - 0.02 / 0.12).abs() < 1e-9, "{measured:?}");
        assert_eq!(judge(&[(once(0.2, 0.2), once(0.1, 0.1))]).value, Some(0.0), "nothing is faster beside streams");
        assert_eq!(judge(&[]), Measured::default());
    }
}
