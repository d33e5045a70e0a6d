//! What is checked: scenarios, what is sent through them, and what is required of it.

use std::time::Duration;

use weft_lab::Carrier as Kind;

/// One scenario, what is sent through it, and how it is judged.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What it is about, for people.
    pub(crate) what: &'static str,
    /// The scenario without its seed. All is sent forward.
    pub(crate) scenario: &'static str,
    pub(crate) traffic: Traffic,
    /// The only carrier that can do it.
    by: Option<Kind>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Traffic {
    /// Numbered datagrams with this many bytes of IP, and how long the last of them may take.
    Paced { bytes: usize, settles: Duration, judges: Vec<Judge> },
    /// A stream of TCP with this congestion control, and with at most this many segments in flight.
    Tcp { control: Option<&'static str>, window: Option<u32>, judge: TcpJudge },
    /// As fast as it goes: TCP, or datagrams, where losses would make TCP slow.
    Full { is_datagrams: bool },
}

/// What is required of a paced stream. Times are in nanoseconds, shares are parts of 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judge {
    /// Each packet takes this long.
    Delay { ns: f64 },
    /// This many bits pass in a second.
    Rate { bits_per_s: f64 },
    /// This share is lost, by this model.
    Loss { share: f64, model: Markov },
    /// This share is damaged, and dropped where a checksum finds it.
    Damage { share: f64 },
    /// What is lost comes in runs of this many on average.
    Bursts { length: f64 },
    /// This share is overtaken; held back by at most `by_ns`.
    Reordering { share: f64, by_ns: f64 },
    /// This share comes twice.
    Copies { share: f64 },
    /// Delays are spread like this.
    Spread { delay_ns: f64, shape: Shape },
    /// How much of a delay the next one has.
    Correlation { share: f64 },
    /// Nothing passes for this long.
    Gap { ns: f64 },
}

/// A way that is good or bad, and loses in each (Gilbert 1960, Elliott 1963); as parts of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Markov {
    pub(crate) worsens: f64,
    pub(crate) mends: f64,
    pub(crate) in_good: f64,
    pub(crate) in_bad: f64,
}

/// How delays are spread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Even { up_to: f64 },
    Normal { deviation: f64 },
    Pareto { scale: f64, shape: f64 },
}

/// What is required of a stream of TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TcpJudge {
    /// A window of this many segments in each round trip.
    Window { segments: f64, round_trip_s: f64 },
    /// What Mathis and others say (1997): `MSS / RTT * C / sqrt(p)`.
    Mathis { round_trip_s: f64 },
}

/// Bytes of IP of a small packet, and of one that fills a link.
const SMALL: usize = 200;
const LARGE: usize = 1500;
const MS: f64 = 1e6;
/// Segments in flight at most, where a window is what limits TCP.
const WINDOW: u32 = 44;

impl Case {
    pub(crate) fn goes_by(&self, kind: Kind) -> bool {
        self.by.is_none_or(|by| by == kind)
    }

    fn new(name: &'static str, what: &'static str, scenario: &'static str, traffic: Traffic) -> Self {
        Self { name, what, scenario, traffic, by: None }
    }

    fn only_by(self, kind: Kind) -> Self {
        Self { by: Some(kind), ..self }
    }
}

fn paced(judges: Vec<Judge>) -> Traffic {
    Traffic::Paced { bytes: SMALL, settles: Duration::from_millis(300), judges }
}

/// All cases, in the order in which they are done.
pub(crate) fn all() -> Vec<Case> {
    let uncounted = Markov::single(0.0);
    let gilbert = Markov { worsens: 0.01, mends: 0.2, in_good: 0.005, in_bad: 0.5 };
    let bursts = Markov { worsens: 0.2 * 0.02 / 0.98, mends: 0.2, in_good: 0.0, in_bad: 1.0 };
    let none_lost = Judge::Loss { share: 0.0, model: uncounted };
    let loss = |model: Markov| Judge::Loss { share: model.share(), model };
    let mut cases = vec![
        Case::new(
            "delay",
            "4 ms for each packet",
            "forward.delay = \"4ms\"",
            paced(vec![Judge::Delay { ns: 4.0 * MS }, none_lost.clone()]),
        ),
        Case::new(
            "far",
            "50 ms for each packet",
            "forward.delay = \"50ms\"",
            paced(vec![Judge::Delay { ns: 50.0 * MS }, none_lost]),
        ),
        Case::new(
            "rate",
            "120 Mb/s of packets into 50 Mb/s",
            "forward.rate = \"50M\"",
            Traffic::Paced {
                bytes: LARGE,
                settles: Duration::from_millis(400),
                judges: vec![Judge::Rate { bits_per_s: 50e6 }],
            },
        ),
        Case::new("loss", "2 % lost, each by itself", "forward.loss = 2", paced(vec![loss(Markov::single(0.02))])),
        Case::new(
            "bursts",
            "2 % lost, 5 in a row on average",
            "forward.loss = 2\nforward.burst = 5",
            paced(vec![loss(bursts), Judge::Bursts { length: 5.0 }]),
        ),
        Case::new(
            "gilbert",
            "losses by the model of Gilbert and Elliott",
            "[forward]\ngood-to-bad = 1\nbad-to-good = 20\nloss-in-good = 0.5\nloss-in-bad = 50",
            paced(vec![loss(gilbert)]),
        ),
        Case::new(
            "reordering",
            "5 % held back by up to 40 ms",
            "[forward]\ndelay = \"1ms\"\nreorder = 5\nreorder-by = \"40ms\"",
            paced(vec![Judge::Reordering { share: 0.05, by_ns: 40.0 * MS }]),
        ),
        Case::new("copies", "3 % come twice", "forward.duplicate = 3", paced(vec![Judge::Copies { share: 0.03 }]))
            .only_by(Kind::Rings),
        Case::new(
            "damage",
            "1 % with a bit flipped, which checksums find",
            "[forward]\ncorrupt = 1\ncorrupt-bits = 1",
            paced(vec![Judge::Damage { share: 0.01 }]),
        )
        .only_by(Kind::Queue),
        Case::new(
            "partition",
            "nothing passes for a fifth of a second",
            // Several, so that one is whole whenever the stream begins.
            concat!(
                "[[step]]\nat = \"0.6s\"\nforward.cut = true\n[[step]]\nat = \"0.8s\"\nforward.cut = false\n",
                "[[step]]\nat = \"1.2s\"\nforward.cut = true\n[[step]]\nat = \"1.4s\"\nforward.cut = false\n",
                "[[step]]\nat = \"1.8s\"\nforward.cut = true\n[[step]]\nat = \"2s\"\nforward.cut = false",
            ),
            paced(vec![Judge::Gap { ns: 200.0 * MS }]),
        ),
    ];
    cases.extend(spreads());
    cases.extend(tcp());
    cases
}

fn spreads() -> Vec<Case> {
    let spread = |delay_ns: f64, shape: Shape| Judge::Spread { delay_ns, shape };
    let (even, normal) = (Shape::Even { up_to: 4.0 * MS }, Shape::Normal { deviation: MS });
    let pareto = Shape::Pareto { scale: 4.0 * MS, shape: 3.0 };
    vec![
        Case::new(
            "jitter",
            "2 to 6 ms, each as likely",
            "[forward]\ndelay = \"2ms\"\njitter = \"4ms\"\novertake = true",
            paced(vec![spread(2.0 * MS, even)]),
        ),
        Case::new(
            "normal",
            "10 ms with a deviation of 1 ms",
            "[forward]\ndelay = \"10ms\"\nnormal = \"1ms\"\novertake = true",
            paced(vec![spread(10.0 * MS, normal)]),
        ),
        Case::new(
            "pareto",
            "2 ms and a Pareto distribution on top",
            "[forward]\ndelay = \"2ms\"\npareto = \"4ms\"\npareto-shape = 3\novertake = true",
            paced(vec![spread(2.0 * MS, pareto)]),
        ),
        Case::new(
            "correlation",
            "60 % of a packet's delay in the next one's",
            "[forward]\ndelay = \"10ms\"\nnormal = \"1ms\"\ncorrelation = 60\novertake = true",
            paced(vec![Judge::Correlation { share: 0.6 }]),
        ),
    ]
}

fn tcp() -> Vec<Case> {
    let full = |is_datagrams| Traffic::Full { is_datagrams };
    let tcp = |control, window, judge| Traffic::Tcp { control, window, judge };
    let window = TcpJudge::Window { segments: f64::from(WINDOW), round_trip_s: 0.02 };
    let mathis = TcpJudge::Mathis { round_trip_s: 0.008 };
    vec![
        Case::new(
            "window",
            "TCP (reno) with 44 segments in each 20 ms",
            "both.delay = \"10ms\"",
            tcp(Some("reno"), Some(WINDOW), window),
        ),
        Case::new(
            "mathis",
            "TCP (reno) that loses 0.2 %, 8 ms",
            "both.delay = \"4ms\"\nforward.loss = 0.2",
            tcp(Some("reno"), None, mathis),
        ),
        Case::new("full", "TCP as fast as it goes, 1 ms", "both.delay = \"1ms\"", full(false)),
        Case::new(
            "full-loss",
            "UDP as fast as it goes, 1500 bytes, 0.1 % lost",
            "both.delay = \"1ms\"\nforward.loss = 0.1",
            full(true),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wan::check;

    #[test]
    fn each_case_has_a_scenario_and_a_name_of_its_own() {
        let all = all();
        for case in &all {
            let kind = case.by.unwrap_or(Kind::Queue);
            check(case.scenario, "".as_ref(), kind).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(all.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
        }
    }
}
