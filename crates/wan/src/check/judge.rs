//! Compares the results with the scenario.

use super::case::{Judge, Markov, Shape, TcpJudge};
use super::chance::{correlation, distance, quantile, runs};
use super::outcome::Row;
use super::plan::CHECK_PACKETS_PER_S;
use super::samples::{Flow, Stream};
use crate::report::DirectionReport;

/// By how much half of the delays may be off, and by how much 99 of 100, in nanoseconds.
const P50_NS: f64 = 50_000.0;
const P99_NS: f64 = 200_000.0;
/// By how much rates may be off.
const RATE: f64 = 0.01;
/// By how much a stream of TCP may be off that its window limits: its round trip is the links', and what hosts take.
const WINDOW: f64 = 0.05;
/// And one that losses limit: how many there are in seconds, and when, is chance.
const MATHIS: f64 = 0.25;
/// The constant of Mathis and others (1997), for losses that are apart alike and a receiver each of whose
/// acknowledgements counts all bytes (RFC 3465).
const MATHIS_CONSTANT: f64 = 1.224_744_871_391_589;
/// By how much a correlation may be off beside chance, for what hosts add to delays.
const CORRELATION: f64 = 0.02;
/// Of a flow the part of its time in which TCP learns how fast it may be.
const BEGINNING: f64 = 0.2;
const MS: f64 = 1e6;
const PERCENT: f64 = 100.0;

/// What a paced stream says.
pub(crate) fn paced(judge: &Judge, stream: &Stream, by: f64) -> Vec<Row> {
    let missed =
        (stream.missed > 0).then(|| format!("this machine lost {} packets by itself: it is busy", stream.missed));
    let rows = match judge {
        Judge::Delay { ns } => delay(*ns, stream, by),
        Judge::Rate { bits_per_s } => vec![rate(*bits_per_s, stream, by)],
        Judge::Loss { share, model } => vec![loss("lost", *share, *model, stream, by)],
        // The kernel counts what a checksum finds among what a socket has dropped.
        Judge::Damage { share } => {
            let whole = Stream { missed: 0, ..stream.clone() };
            return vec![loss("dropped by checksums", *share, Markov::single(*share), &whole, by)];
        }
        Judge::Bursts { length } => vec![bursts(*length, stream, by)],
        Judge::Reordering { share, by_ns } => vec![reordering(*share, *by_ns, stream, by)],
        Judge::Copies { share } => vec![copies(*share, stream, by)],
        Judge::Spread { delay_ns, shape } => vec![spread(*delay_ns, *shape, stream, by)],
        Judge::Correlation { share } => vec![correlated(*share, stream, by)],
        Judge::Gap { ns } => vec![gap(*ns, stream, by)],
    };
    rows.into_iter().map(|row| row.note(missed.clone())).collect()
}

fn delay(ns: f64, stream: &Stream, by: f64) -> Vec<Row> {
    let delays = stream.delays();
    let row =
        |what, share, tolerance| Row::judged(what, "ms", [ns / MS, quantile(&delays, share) / MS], tolerance / MS, by);
    vec![row("delay, p50", 0.5, P50_NS), row("delay, p99", 0.99, P99_NS)]
}

fn rate(bits_per_s: f64, stream: &Stream, by: f64) -> Row {
    let (asked, count) = (bits_per_s / 1e6, stream.came_ns.len() as f64);
    let ends = stream.came_ns.iter().min().zip(stream.came_ns.iter().max());
    let lasted = ends.map_or(0, |(first, last)| last - first) as f64;
    // Of the first packet only its end counts.
    let bits = stream.bytes as f64 / count * (count - 1.0) * 8.0;
    Row::judged("rate", "Mb/s", [asked, bits * 1e3 / lasted], asked * RATE, by)
}

fn loss(what: &str, share: f64, model: Markov, stream: &Stream, by: f64) -> Row {
    let lost = stream.copies().iter().filter(|copies| **copies == 0).count() as f64 - stream.missed as f64;
    let sent = stream.sent as f64;
    let got = lost.max(0.0) / sent;
    Row::by_chance(what, "%", [share, got].map(|share| share * PERCENT), model.deviation(sent) * PERCENT, by)
}

/// Runs have lengths of a geometric distribution.
fn bursts(length: f64, stream: &Stream, by: f64) -> Row {
    let runs = runs(&stream.copies());
    let count = runs.len() as f64;
    let mean = runs.iter().sum::<u32>() as f64 / count;
    let deviation = (length * (length - 1.0) / count).sqrt();
    Row::by_chance("lost in a row", "packets", [length, mean], deviation, by)
}

/// One that is held back by less than the distance of packets is overtaken by none.
fn reordering(share: f64, by_ns: f64, stream: &Stream, by: f64) -> Row {
    let sent = stream.sent as f64;
    let gap_ns = 1e9 / f64::from(CHECK_PACKETS_PER_S);
    // Of those behind it one that is held back itself does not overtake it.
    let share = share * (1.0 - gap_ns / by_ns / (1.0 - share));
    let got = stream.reordered() as f64 / sent;
    let deviation = (share * (1.0 - share) / sent).sqrt();
    Row::by_chance("overtaken", "%", [share, got].map(|share| share * PERCENT), deviation * PERCENT, by)
}

fn copies(share: f64, stream: &Stream, by: f64) -> Row {
    let sent = stream.sent as f64;
    let got = stream.copies().iter().filter(|copies| **copies > 1).count() as f64 / sent;
    let deviation = (share * (1.0 - share) / sent).sqrt();
    Row::by_chance("came twice", "%", [share, got].map(|share| share * PERCENT), deviation * PERCENT, by)
}

fn spread(delay_ns: f64, shape: Shape, stream: &Stream, by: f64) -> Row {
    let longer: Vec<f64> = stream.delays().iter().map(|delay| delay - delay_ns).collect();
    let (distance, most) = distance(&longer, shape, P50_NS);
    Row::judged("Kolmogorov-Smirnov distance", "", [0.0, distance], most, by)
}

fn correlated(share: f64, stream: &Stream, by: f64) -> Row {
    let delays = stream.delays_as_sent();
    let next = |pair: &[(u64, f64)]| (pair[1].0 == pair[0].0 + 1).then_some((pair[0].1, pair[1].1));
    let pairs: Vec<_> = delays.windows(2).filter_map(next).collect();
    let tolerance = 5.0 * ((1.0 - share * share) / pairs.len() as f64).sqrt() + CORRELATION;
    Row::judged("correlation", "", [share, correlation(&pairs)], tolerance, by)
}

/// The longest time between two packets is what is not passed and the distance that they have.
fn gap(ns: f64, stream: &Stream, by: f64) -> Row {
    let mut came = stream.came_ns.clone();
    came.sort_unstable();
    let longest = came.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default() as f64;
    Row::judged("longest pause", "ms", [ns / MS, longest / MS], ns / MS * RATE, by)
}

/// What a stream of TCP says.
pub(crate) fn tcp(judge: &TcpJudge, flow: &Flow, forward: &DirectionReport, by: f64) -> Vec<Row> {
    let got = flow.bits_per_s(BEGINNING).map(|bits| bits / 1e6);
    if flow.lacks_control {
        let note = "this kernel lacks the congestion control reno; as root: modprobe tcp_reno".to_owned();
        return vec![Row::reported("rate", "Mb/s", got).note(Some(note))];
    }
    let bits = f64::from(flow.segment_bytes) * 8.0;
    let (asked, tolerance, note) = match *judge {
        TcpJudge::Window { segments, round_trip_s } => (segments * bits / round_trip_s, WINDOW, None),
        TcpJudge::Mathis { round_trip_s } => {
            let share = forward.lost as f64 / forward.packets.max(1) as f64;
            let note = format!("{:.3} % were lost, {} packets", share * PERCENT, forward.lost);
            (bits / round_trip_s * MATHIS_CONSTANT / share.sqrt(), MATHIS, Some(note))
        }
    };
    let asked = asked / 1e6;
    vec![Row::judged("rate", "Mb/s", [asked, got.unwrap_or(f64::NAN)], asked * tolerance, by).note(note)]
}

/// What went through at full rate, in the time and of one core; bytes are those of IP packets, `used` is what the
/// carrier took of a processor, in nanoseconds.
pub(crate) fn full(flow: &Flow, bytes: u64, used: Option<f64>, forward: &DirectionReport) -> Vec<Row> {
    let lateness = forward.lateness;
    let rate = flow.bits_per_s(BEGINNING).map(|bits| bits / 1e9);
    let of_core = used.filter(|used| *used > 0.0).map(|used| bytes as f64 * 8.0 / used);
    vec![
        Row::reported("rate", "Gb/s", rate),
        Row::reported("rate of one core", "Gb/s", of_core),
        Row::reported("lateness, p50", "ms", Some(lateness.p50_ns as f64 / MS)),
        Row::reported("lateness, p99", "ms", Some(lateness.p99_ns as f64 / MS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::outcome::Verdict::{Fail, Pass, Reported};
    use weft_base::Random;

    const SENT: u64 = 10_000;
    const GAP_NS: u64 = 100_000;

    /// A stream in which each packet has this delay, or is lost, in the order in which it comes.
    fn stream(mut delay: impl FnMut(u64) -> Option<u64>) -> Stream {
        let mut came: Vec<_> = (0..SENT)
            .filter_map(|number| {
                let sent = number * GAP_NS;
                Some((sent + delay(number)?, sent, number))
            })
            .collect();
        came.sort_unstable();
        Stream {
            sent: SENT,
            bytes: came.len() as u64 * 1250,
            came_ns: came.iter().map(|(came, ..)| *came).collect(),
            sent_ns: came.iter().map(|(_, sent, _)| *sent).collect(),
            numbers: came.iter().map(|(.., number)| *number).collect(),
            missed: 0,
        }
    }

    fn verdicts(judge: Judge, stream: &Stream) -> Vec<super::super::outcome::Verdict> {
        paced(&judge, stream, 1.0).iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn delays_are_judged_by_half_and_by_99_of_100() {
        let judge = || Judge::Delay { ns: 4e6 };
        assert_eq!(verdicts(judge(), &stream(|_| Some(4_030_000))), [Pass, Pass]);
        assert_eq!(verdicts(judge(), &stream(|number| Some(4_000_000 + number % 10 / 7 * 300_000))), [Pass, Fail]);
        assert_eq!(verdicts(judge(), &stream(|_| Some(4_060_000))), [Fail, Pass]);
        assert_eq!(verdicts(judge(), &stream(|_| Some(3_900_000))), [Fail, Pass]);
        assert_eq!(verdicts(judge(), &stream(|_| None)), [Fail, Fail]);
    }

    #[test]
    fn rates_are_judged_by_what_came_in_the_time() {
        let all = stream(|_| Some(7));
        for (bits_per_s, verdict) in [(100e6, Pass), (100.9e6, Pass), (102e6, Fail), (98e6, Fail)] {
            assert_eq!(verdicts(Judge::Rate { bits_per_s }, &all), [verdict], "{bits_per_s}");
        }
    }

    #[test]
    fn shares_are_judged_by_how_unlikely_they_are() {
        let model = Markov { worsens: 0.0, mends: 1.0, in_good: 0.02, in_bad: 0.02 };
        let judge = || Judge::Loss { share: 0.02, model };
        assert_eq!(verdicts(judge(), &stream(|number| (number % 50 > 0).then_some(0))), [Pass]);
        let twice = stream(|number| (number % 25 > 0).then_some(0));
        assert_eq!(verdicts(judge(), &twice), [Fail]);
        let missed = Stream { missed: SENT / 50, ..twice };
        let row = &paced(&judge(), &missed, 1.0)[0];
        assert!(row.verdict == Pass && row.note.as_ref().is_some_and(|note| note.contains("busy")), "{row:?}");
        let damaged = Stream { missed: SENT / 50, ..stream(|number| (number % 50 > 0).then_some(0)) };
        assert_eq!(verdicts(Judge::Damage { share: 0.02 }, &damaged), [Pass]);
        let none = Judge::Loss { share: 0.0, model: Markov { in_good: 0.0, in_bad: 0.0, ..model } };
        assert_eq!(verdicts(none.clone(), &stream(|_| Some(0))), [Pass]);
        assert_eq!(verdicts(none, &stream(|number| (number > 0).then_some(0))), [Fail]);
    }

    #[test]
    fn runs_reordering_copies_and_pauses_are_judged() {
        let runs_of = |length: u64| stream(move |number| (number % 100 >= length).then_some(0));
        let judge = || Judge::Bursts { length: 5.0 };
        assert_eq!((verdicts(judge(), &runs_of(5)), verdicts(judge(), &runs_of(9))), (vec![Pass], vec![Fail]));
        let mut random = Random::new(9);
        let held = stream(|_| Some(if random.below(20) == 0 { random.below(40_000_000) } else { 0 }));
        for (share, verdict) in [(0.05, Pass), (0.08, Fail)] {
            assert_eq!(verdicts(Judge::Reordering { share, by_ns: 40e6 }, &held), [verdict], "{share}");
        }
        let mut twice = stream(|_| Some(0));
        twice.numbers.extend((0..SENT).step_by(33));
        for (share, verdict) in [(0.03, Pass), (0.05, Fail)] {
            assert_eq!(verdicts(Judge::Copies { share }, &twice), [verdict], "{share}");
        }
        let paused = stream(|number| (!(3000..=5000).contains(&number)).then_some(0));
        for (ns, verdict) in [(200e6, Pass), (190e6, Fail)] {
            assert_eq!(verdicts(Judge::Gap { ns }, &paused), [verdict], "{ns}");
        }
    }

    #[test]
    fn spreads_and_correlations_are_judged() {
        let mut random = Random::new(4);
        let even = stream(|_| Some(2_000_000 + random.below(4_000_000)));
        for (up_to, verdict) in [(4e6, Pass), (5e6, Fail)] {
            let judge = Judge::Spread { delay_ns: 2e6, shape: Shape::Even { up_to } };
            assert_eq!(verdicts(judge, &even), [verdict], "{up_to}");
        }
        assert_eq!(verdicts(Judge::Correlation { share: 0.0 }, &even), [Pass]);
        assert_eq!(verdicts(Judge::Correlation { share: 0.6 }, &even), [Fail]);
    }

    #[test]
    fn tcp_is_judged_by_the_formulas() {
        let rate = |mb: u64| Flow {
            points: (0..=100).map(|point| (point * 10_000_000, point * mb * 1250)).collect(),
            segment_bytes: 1448,
            lacks_control: false,
        };
        let forward = DirectionReport { packets: 10_000, lost: 20, ..DirectionReport::default() };
        let verdict = |judge, flow: &Flow| tcp(&judge, flow, &forward, 1.0)[0].verdict;
        // 44 * 1448 * 8 / 0.02 is 25.5 Mb/s.
        let window = TcpJudge::Window { segments: 44.0, round_trip_s: 0.02 };
        assert_eq!((verdict(window, &rate(25)), verdict(window, &rate(28))), (Pass, Fail));
        // 1448 * 8 / 0.008 * 1.22 / sqrt(0.002) is 39.7 Mb/s.
        let mathis = TcpJudge::Mathis { round_trip_s: 0.008 };
        assert_eq!((verdict(mathis, &rate(40)), verdict(mathis, &rate(20))), (Pass, Fail));
        assert_eq!(verdict(mathis, &Flow { lacks_control: true, ..rate(20) }), Reported);
        assert_eq!(verdict(mathis, &Flow::default()), Fail);
        let rows = full(&rate(40), 1 << 20, Some(8e6), &forward);
        assert!(rows.iter().all(|row| row.verdict == Reported), "{rows:?}");
        assert!((rows[1].got.unwrap() - 1.048_576).abs() < 1e-9, "{rows:?}");
    }
}
