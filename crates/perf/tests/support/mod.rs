//! Documents with invented figures: what the page and its charts are tried with.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_perf::result::{Better, Case, Comparison, Document, Histogram, Launch, Machine, Missing, Row, Series};

/// How often each contestant was launched.
const LAUNCHES: u32 = 6;

/// Numbers between 0 and 1 that look random and are always the same.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Around a value, with a spread of this share of it.
    pub(crate) fn around(&mut self, value: f64, share: f64) -> f64 {
        value * (1.0 + share * (2.0 * self.next() - 1.0))
    }
}

/// A document that grows row by row.
pub(crate) struct Builder {
    document: Document,
    noise: Noise,
}

impl Builder {
    pub(crate) fn new(test: &str, question: &str) -> Self {
        let (schema, schema_version) = Document::schema();
        let document = Document {
            schema,
            schema_version,
            test: test.into(),
            question: question.into(),
            place: "loopback".into(),
            machine: Machine {
                host: "invented".into(),
                kernel: "6.12.0".into(),
                cores: 2,
                cpu: Some("Invented Processor 2.0 GHz".into()),
                governor: Some("performance".into()),
                congestion_control: "cubic".into(),
                load_before: Some([0.31, 0.4, 0.5]),
                load_after: Some([1.9, 1.0, 0.7]),
                others_share: Some(0.012),
                steal_share: Some(0.003),
                cores_apart_ns: Some([52.0, 61.0, 75.0]),
            },
            version: "0.1.0".into(),
            commit: "c0ffee1".into(),
            peers: BTreeMap::from([("libfabric:tcp".to_owned(), "1.17.0".to_owned())]),
            command: vec!["weft".into(), "perf".into(), test.into(), "--vs".into(), "sockets,libfabric:tcp".into()],
            settings: json!({"launches": LAUNCHES, "window": 64}),
            began_unix_s: 1_790_000_000,
            seconds: 93.0,
            notes: vec!["Invented figures: they were never measured.".into()],
            is_cut_short: false,
            rows: Vec::new(),
            comparisons: Vec::new(),
            not_measured: Vec::new(),
        };
        Self { document, noise: Noise::new(test.len() as u64 + 7) }
    }

    /// A row whose launches lie around a value.
    pub(crate) fn row(
        &mut self,
        contestant: &str,
        case: &[(&str, Value)],
        figure: (&str, &str, Better),
        value: f64,
    ) -> &mut Row {
        let launches = (0..LAUNCHES).map(|launch| plain(launch, self.noise.around(value, 0.06))).collect();
        self.push(Row::new(contestant, of(case), figure, launches))
    }

    /// The same with all that was seen in each launch.
    pub(crate) fn seen(
        &mut self,
        contestant: &str,
        case: &[(&str, Value)],
        figure: (&str, &str, Better),
        value: f64,
    ) -> &mut Row {
        let launches = (0..LAUNCHES).map(|launch| {
            let middle = self.noise.around(value, 0.05);
            let seen: Vec<f64> =
                (0..2000).map(|_| middle * (0.92 + 0.03 / (1.0005 - self.noise.next()).powf(0.62))).collect();
            let histogram = Histogram::of(&seen);
            let quantile = |share| histogram.quantile(share);
            let (value, p99, worst) = (quantile(0.5).unwrap(), quantile(0.99), quantile(1.0));
            Launch { p99, worst, histogram: Some(histogram), ..plain(launch, value) }
        });
        let launches = launches.collect();
        self.push(Row::new(contestant, of(case), figure, launches))
    }

    /// A row with what became of it over the time of each launch.
    pub(crate) fn over_time(
        &mut self,
        contestant: &str,
        figure: (&str, &str, Better),
        pause_ms: f64,
        series: &Series,
    ) -> &mut Row {
        let launches = (0..LAUNCHES)
            .map(|launch| Launch { series: Some(series.clone()), ..plain(launch, self.noise.around(pause_ms, 0.2)) })
            .collect();
        self.push(Row::new(contestant, of(&[]), figure, launches))
    }

    fn push(&mut self, row: Row) -> &mut Row {
        self.document.rows.push(row);
        self.document.rows.last_mut().unwrap()
    }

    pub(crate) fn missing(mut self, contestant: &str, reason: &str) -> Self {
        let (contestant, reason) = (contestant.to_owned(), reason.to_owned());
        self.document.not_measured.push(Missing { contestant, reason, is_failure: false });
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Document)) -> Self {
        change(&mut self.document);
        self
    }

    /// The document, with each contestant of `ours` compared with each other one.
    pub(crate) fn build(mut self, ours: &[&str]) -> Document {
        let rows = &self.document.rows;
        let own = rows.iter().filter(|row| ours.contains(&row.contestant.as_str()));
        let pairs = own.flat_map(|row| rows.iter().map(move |peer| (row, peer)));
        let pairs = pairs.filter(|(_, peer)| !ours.contains(&peer.contestant.as_str()));
        self.document.comparisons = pairs.filter_map(|(row, peer)| Comparison::of(row, peer)).collect();
        self.document
    }
}

fn plain(launch: u32, value: f64) -> Launch {
    Launch { cores_apart_ns: Some(61.0), ..Launch::of(launch, value) }
}

fn of(case: &[(&str, Value)]) -> Case {
    case.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

const SIZES: [u64; 10] = [4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Latency by size, of four contestants, with all that was seen.
pub(crate) fn latency() -> Document {
    let mut builder = Builder::new("latency", "How long is half a round trip?");
    let contestants = [("iwarp", 3.1, 0.21), ("edge", 5.2, 0.33), ("sockets", 4.0, 0.17), ("libfabric:tcp", 6.1, 0.24)];
    for (name, begin, slope) in contestants {
        for size in SIZES {
            let value = begin + slope * size as f64 / 1024.0;
            let case = [("size_bytes", json!(size))];
            builder.seen(name, &case, ("half_round_trip", "us", Better::Less), value).is_main = true;
        }
    }
    builder.missing("ucx", "not installed: pip install libucx-cu12, then --ucx FOLDER").build(&["iwarp", "edge"])
}

/// Throughput by size with processor time of both sides, bounds, and more contestants than a chart has lines.
pub(crate) fn bandwidth() -> Document {
    let mut builder = Builder::new("bandwidth", "How many bytes a second?");
    let contestants = [
        ("iwarp", 2.9),
        ("iwarp:crc=off", 3.4),
        ("edge", 1.9),
        ("shm", 6.4),
        ("sockets", 3.3),
        ("sockets:batched", 3.8),
        ("libfabric:tcp", 2.2),
        ("ucx", 2.5),
    ];
    for (name, most) in contestants {
        for size in SIZES {
            let part = size as f64 / (size as f64 + 6000.0);
            let case = [("size_bytes", json!(size))];
            builder.row(name, &case, ("throughput", "GB/s", Better::More), most * part).is_main = true;
            builder.row(name, &case, ("sender_cpu", "s/GB", Better::Less), 0.35 / most + 900.0 / size as f64);
            builder.row(name, &case, ("receiver_cpu", "s/GB", Better::Less), 0.45 / most + 1100.0 / size as f64);
        }
    }
    builder.row("bound:memory copy", &[], ("throughput", "GB/s", Better::More), 7.2).is_main = true;
    for size in SIZES {
        let case = [("size_bytes", json!(size))];
        let part = size as f64 / (size as f64 + 300.0);
        builder.row("bound:raw ring", &case, ("throughput", "GB/s", Better::More), 6.9 * part).is_main = true;
    }
    let busy = |document: &mut Document| {
        document.machine.steal_share = Some(0.083);
        document.is_cut_short = true;
    };
    builder.change(busy).build(&["iwarp", "iwarp:crc=off", "edge", "shm"])
}

/// Throughput over one to eight links, in two directions.
pub(crate) fn links() -> Document {
    let mut builder = Builder::new("links", "What do several links carry together?");
    for direction in ["one way", "two way"] {
        for (name, each, most) in [("edge", 0.117, 0.83), ("mptcp", 0.109, 0.6), ("sockets", 0.117, 0.117)] {
            for count in 1..=8_u32 {
                let factor = if direction == "one way" { 1.0 } else { 1.8 };
                let value = (each * f64::from(count)).min(most) * factor;
                let case = [("links", json!(count)), ("direction", json!(direction))];
                builder.row(name, &case, ("throughput", "GB/s", Better::More), value).is_main = true;
            }
        }
    }
    builder.build(&["edge"])
}

/// The longest pause around a cut, and throughput over time.
pub(crate) fn cuts() -> Document {
    let mut builder = Builder::new("cuts", "How long is the longest pause when a link is cut?");
    for (name, rate, pause) in [("edge", 0.23, 12), ("mptcp", 0.21, 230), ("ucx", 0.2, 1400_i32)] {
        let mut noise = Noise::new(pause as u64);
        let values = (0..3000).map(|ms| match ms {
            ms if ms >= 1000 && ms < 1000 + pause => 0.0,
            1000..2000 => noise.around(rate / 2.0, 0.05),
            _ => noise.around(rate, 0.04),
        });
        let marks = [(1000.0, "cut"), (2000.0, "mended"), (2900.0, "cut"), (2915.0, "mended")];
        let marks = marks.map(|(at, word)| (at, word.to_owned())).to_vec();
        let series = Series { step_ms: 1.0, values: values.collect(), marks };
        let figure = ("throughput", "GB/s", Better::More);
        let row = builder.over_time(name, figure, f64::from(pause), &series);
        *row = Row::new(
            name,
            Case::new(),
            figure,
            row.launches.iter().map(|launch| Launch { value: rate, ..launch.clone() }).collect(),
        );
        row.is_main = true;
        builder.seen(name, &[], ("longest_pause", "ms", Better::Less), f64::from(pause)).is_main = true;
    }
    builder.build(&["edge"])
}

/// Fences by ranks, for zero, one and eight puts.
pub(crate) fn fences() -> Document {
    let mut builder = Builder::new("fence", "How long does a fence take?");
    for puts in [0, 1, 8_u32] {
        for (name, each) in [("weft:ri", 21.0), ("weft:2s", 17.0), ("weft:1s", 34.0), ("mpi:mpich:tcp", 28.0)] {
            for ranks in [8, 16, 32, 64_u32] {
                let value = each * f64::from(ranks).log2() * (1.0 + 0.4 * f64::from(puts));
                let case = [("ranks", json!(ranks)), ("puts", json!(puts))];
                builder.row(name, &case, ("fence_time", "us", Better::Less), value).is_main = true;
            }
        }
    }
    builder.build(&["weft:ri", "weft:2s", "weft:1s"])
}

/// Overlap by the kind of target, which is a word.
pub(crate) fn overlap() -> Document {
    let mut builder = Builder::new("overlap", "How much computation does a transfer hide?");
    for (target, hidden) in [
        ("silent", [97.0, 91.0, 3.0, 2.0]),
        ("computing", [96.0, 92.0, 41.0, 30.0]),
        ("polling", [97.0, 95.0, 88.0, 81.0]),
    ] {
        for (name, value) in ["iwarp", "edge", "sockets", "libfabric:tcp"].into_iter().zip(hidden) {
            let case = [("target", json!(target))];
            builder.row(name, &case, ("hidden", "%", Better::More), value).is_main = true;
            builder.row(name, &case, ("communication_time", "us", Better::Neither), 2300.0 + value);
        }
    }
    builder.build(&["iwarp", "edge"])
}

/// Long names, one launch, no peer, and sizes from zero on.
pub(crate) fn splits() -> Document {
    let mut builder = Builder::new("split", "Which work belongs to the NIC?");
    for (name, begin) in
        [("iwarp:split=host-based:markers=on:crc=on", 4.1), ("iwarp:split=host-offloaded:markers=512:crc=off", 5.7)]
    {
        for size in [0, 1, 8, 64, 512, 2048_u64] {
            let case = [("size_bytes", json!(size))];
            let row = builder.row(name, &case, ("half_round_trip", "us", Better::Less), begin + size as f64 / 900.0);
            *row =
                Row::new(name, row.case.clone(), ("half_round_trip", "us", Better::Less), row.launches[..1].to_vec())
                    .as_main();
        }
        builder.row(name, &[], ("idle_wake_ups", "1/s", Better::Less), begin * 1000.0).is_main = true;
    }
    builder.build(&[])
}

/// One of each kind.
pub(crate) fn all() -> Vec<Document> {
    vec![splits(), latency(), bandwidth(), links(), cuts(), fences(), overlap()]
}
