//! The parameters of LogP for messages of one size: how long each end's processor is engaged, how soon one message may
//! follow another, and what the path takes besides.
//!
//! After Kielmann, Bal and Verstoep, "Fast Measurement of LogP Parameters for Message Passing Platforms" (IPDPS 2000
//! workshops): overheads are times of calls when nothing is to be waited for, because each call comes two round trips
//! after the message before; the latency is what a round trip of short messages leaves beyond their gap. The gap is
//! measured at each size by a burst, as they do it for the shortest alone. They double the burst until the gap is
//! steady, which both sides would have to agree on: here a burst is one window, and the round trip of its answer is
//! taken off. The gap per byte is that of Alexandrov et al., "LogGP" (SPAA 1995).

use std::time::{Duration, Instant};

use crate::model::job::{Job, Role};
use crate::model::measure::{Figure, Measured, median};

/// Bytes of the shortest message: answers, and what latency is measured with. No contestant sends fewer.
pub(crate) const SHORT: usize = 1;

/// The shortest message from whose gap that of each byte follows: divided by fewer bytes it is mostly noise.
const LEAST_FOR_BYTES: usize = 512;
/// Rounds for each burst.
const ROUNDS_OF_A_BURST: u64 = 10;
/// The fewest bursts.
const FEWEST_BURSTS: u64 = 3;
/// The shortest pause in which a message is certainly in flight.
const LEAST_PAUSE: Duration = Duration::from_micros(20);
/// How often the clock is read to know what that takes.
const READINGS: usize = 1000;

/// Messages both ways between two sides, in order.
pub(crate) trait Exchange {
    type Error;

    /// Sends a message of this many bytes: [`SHORT`], or those of the job.
    fn send(&mut self, bytes: usize) -> Result<(), Self::Error>;

    /// Waits for a message of this many bytes.
    fn receive(&mut self, bytes: usize) -> Result<(), Self::Error>;

    /// Waits until nothing that was sent needs this side any more.
    fn settle(&mut self) -> Result<(), Self::Error>;
}

/// What both sides do, in the order in which they do it.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    size: usize,
    warmup: u64,
    rounds: u64,
    bursts: u64,
    /// Messages of a burst: the mirror has a receive for each of them.
    burst: u64,
}

impl Schedule {
    fn of(job: &Job) -> Self {
        let bursts = (job.iterations / ROUNDS_OF_A_BURST).max(FEWEST_BURSTS);
        Self {
            size: job.size,
            warmup: job.warmup,
            rounds: job.iterations,
            bursts,
            burst: (job.buffers() as u64).max(2),
        }
    }

    /// Round trips: how many, and how many bytes there and back.
    fn round_trips(&self) -> [(u64, usize, usize); 4] {
        [
            (self.warmup, self.size, self.size),
            (self.rounds, SHORT, SHORT),
            (self.rounds, self.size, SHORT),
            (self.rounds, SHORT, self.size),
        ]
    }
}

/// Messages that one side must have receives for at a time.
pub(crate) fn receives(job: &Job) -> usize {
    match job.role() {
        Role::Passive => Schedule::of(job).burst as usize,
        Role::Active => 2,
    }
}

/// Does the part of this side.
///
/// # Errors
///
/// What the exchange fails with.
pub(crate) fn run<E: Exchange>(job: &Job, exchange: &mut E) -> Result<Measured, E::Error> {
    let schedule = Schedule::of(job);
    match job.role() {
        Role::Active => measure(&schedule, exchange),
        Role::Passive => mirror(&schedule, exchange).map(|()| Measured::default()),
    }
}

/// Answers each round trip and each burst.
fn mirror<E: Exchange>(schedule: &Schedule, exchange: &mut E) -> Result<(), E::Error> {
    let [warmup, short, there, back] = schedule.round_trips();
    // A pause follows the messages that the overhead of sending is measured with: nothing that the mirror can see.
    for (rounds, bytes, answer) in [warmup, short, there, there, back] {
        for _ in 0..rounds {
            exchange.receive(bytes)?;
            exchange.send(answer)?;
        }
    }
    for bytes in [SHORT, schedule.size] {
        for _ in 0..schedule.bursts {
            for _ in 0..schedule.burst {
                exchange.receive(bytes)?;
            }
            exchange.send(SHORT)?;
        }
    }
    exchange.settle()
}

fn measure<E: Exchange>(schedule: &Schedule, exchange: &mut E) -> Result<Measured, E::Error> {
    let [warmup, short, there, back] = schedule.round_trips();
    round_trips(exchange, warmup)?;
    let short_us = round_trips(exchange, short)?;
    let whole_us = round_trips(exchange, there)?;
    let pause = Duration::from_secs_f64(2e-6 * whole_us.max(short_us)).max(LEAST_PAUSE);
    let clock_us = clock_us();
    let send_us = calls::<E::Error>(there.0, || {
        let began = Instant::now();
        exchange.send(there.1)?;
        let took = began.elapsed();
        wait(pause);
        exchange.receive(there.2)?;
        Ok(took)
    })?;
    let receive_us = calls::<E::Error>(back.0, || {
        exchange.send(back.1)?;
        wait(pause);
        let began = Instant::now();
        exchange.receive(back.2)?;
        Ok(began.elapsed())
    })?;
    let short_gap_us = gap(exchange, schedule, SHORT, short_us)?;
    let gap_us = gap(exchange, schedule, schedule.size, whole_us)?;
    exchange.settle()?;
    let readings = Readings {
        size: schedule.size,
        short_us,
        whole_us,
        send_us: send_us - clock_us,
        receive_us: receive_us - clock_us,
        short_gap_us,
        gap_us,
    };
    Ok(readings.parameters())
}

/// What was read off, each a median, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Readings {
    size: usize,
    /// A round trip of short messages.
    short_us: f64,
    /// One of a message and a short answer.
    whole_us: f64,
    send_us: f64,
    receive_us: f64,
    short_gap_us: f64,
    gap_us: f64,
}

impl Readings {
    /// RTT(0) = 2 (L + g(0)); G = (g(m) - g(0)) / m.
    fn parameters(&self) -> Measured {
        let mut figures = vec![
            (Figure::SendOverheadUs, self.send_us.max(0.0)),
            (Figure::ReceiveOverheadUs, self.receive_us.max(0.0)),
            (Figure::GapUs, self.gap_us),
            (Figure::LatencyUs, self.short_us / 2.0 - self.short_gap_us),
            (Figure::RoundTripUs, self.whole_us),
        ];
        if self.size >= LEAST_FOR_BYTES {
            let more = (self.size - SHORT) as f64;
            figures.push((Figure::GapPerByteNs, 1e3 * (self.gap_us - self.short_gap_us) / more));
        }
        Measured { value: Some(self.gap_us), figures: figures.into_iter().collect(), ..Measured::default() }
    }
}

/// The median of round trips, in microseconds.
fn round_trips<E: Exchange>(exchange: &mut E, (rounds, bytes, answer): (u64, usize, usize)) -> Result<f64, E::Error> {
    calls(rounds, || {
        let began = Instant::now();
        exchange.send(bytes)?;
        exchange.receive(answer)?;
        Ok(began.elapsed())
    })
}

/// The time from one message of a burst to the next, in microseconds.
fn gap<E: Exchange>(exchange: &mut E, schedule: &Schedule, bytes: usize, round_trip_us: f64) -> Result<f64, E::Error> {
    let burst_us = calls::<E::Error>(schedule.bursts, || {
        exchange.settle()?;
        let began = Instant::now();
        for _ in 0..schedule.burst {
            exchange.send(bytes)?;
        }
        exchange.receive(SHORT)?;
        Ok(began.elapsed())
    })?;
    Ok(gap_of(burst_us, round_trip_us, schedule.burst))
}

/// The first message of a burst and its answer take a round trip, and each other one a gap more.
fn gap_of(burst_us: f64, round_trip_us: f64, burst: u64) -> f64 {
    (burst_us - round_trip_us).max(0.0) / (burst - 1) as f64
}

/// The median of what calls took, in microseconds.
fn calls<E>(count: u64, mut call: impl FnMut() -> Result<Duration, E>) -> Result<f64, E> {
    let times = (0..count).map(|_| Ok(call()?.as_secs_f64() * 1e6)).collect::<Result<Vec<_>, E>>()?;
    Ok(median(times).unwrap_or(0.0))
}

/// Spins: a core that sleeps would have to wake up in the call that is timed.
fn wait(pause: Duration) {
    let began = Instant::now();
    while began.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// What two readings of the clock take themselves, in microseconds.
fn clock_us() -> f64 {
    median((0..READINGS).map(|_| Instant::now().elapsed().as_secs_f64() * 1e6)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn parameters_follow_from_the_readings() {
        let readings = Readings {
            size: 1001,
            short_us: 20.0,
            whole_us: 23.0,
            send_us: 1.5,
            receive_us: -0.01,
            short_gap_us: 2.0,
            gap_us: 4.0,
        };
        let of = |figure| readings.parameters().figures.get(&figure).copied();
        assert_eq!(of(Figure::LatencyUs), Some(8.0));
        assert_eq!(of(Figure::GapUs), Some(4.0));
        assert!((of(Figure::GapPerByteNs).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(of(Figure::SendOverheadUs), Some(1.5));
        assert_eq!(of(Figure::ReceiveOverheadUs), Some(0.0), "less than the clock itself takes");
        let short = Readings { size: LEAST_FOR_BYTES - 1, ..readings };
        assert!(!short.parameters().figures.contains_key(&Figure::GapPerByteNs));
    }

    #[test]
    fn a_burst_is_a_round_trip_and_gaps() {
        assert_eq!(gap_of(20.0 + 63.0 * 0.5, 20.0, 64), 0.5);
        assert_eq!(gap_of(10.0, 20.0, 64), 0.0);
    }

    /// One side of a pair of channels that carry lengths, and refuse what the other side does not expect.
    struct Lengths(Sender<usize>, Receiver<usize>);

    impl Exchange for Lengths {
        type Error = String;

        fn send(&mut self, bytes: usize) -> Result<(), String> {
            self.0.send(bytes).map_err(|error| error.to_string())
        }

        fn receive(&mut self, bytes: usize) -> Result<(), String> {
            match self.1.recv() {
                Ok(length) if length == bytes => Ok(()),
                Ok(length) => Err(format!("{length} bytes, not {bytes}")),
                Err(error) => Err(error.to_string()),
            }
        }

        fn settle(&mut self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn both_sides_keep_to_one_schedule() {
        let ((to_mirror, at_mirror), (to_active, at_active)) = (channel(), channel());
        let of = |rank| Job { rank, size: 1000, iterations: 5, warmup: 2, window: 8, ..job() };
        let other = thread::spawn(move || {
            let mut exchange = Lengths(to_active, at_mirror);
            run(&of(0), &mut exchange).map(|_| exchange.1.try_recv().is_err())
        });
        let mut exchange = Lengths(to_mirror, at_active);
        let measured = run(&of(1), &mut exchange).unwrap();
        assert_eq!(other.join().unwrap(), Ok(true), "nothing was left unread");
        assert!(exchange.1.try_recv().is_err(), "nor here");
        assert_eq!(measured.figures.len(), 6);
        assert!(measured.figures[&Figure::RoundTripUs] > 0.0);
    }

    #[test]
    fn the_mirror_has_a_receive_for_each_message_of_a_burst() {
        let of = |rank, size| receives(&Job { rank, size, ..job() });
        assert_eq!([of(0, 8), of(0, 1 << 20), of(1, 8)], [64, 4, 2]);
    }
}
