//! What Weft claims of its figures, each claim with the experiment that shows it.

use serde_json::Value;

use crate::figures::catalogue::{ALL, Experiment, Scale};
use crate::report::Claim;
use crate::result::{Better, Document, HEADERS, Row};

/// A claim before anything is measured.
#[derive(Debug)]
struct Claimed {
    text: &'static str,
    /// The experiment of the catalogue that measures it.
    experiment: &'static str,
    /// Whose figure.
    contestant: &'static str,
    /// Beside whose; the value is the ratio of both then.
    peer: Option<&'static str>,
    /// Beside which other value of a key of its case; the value is the ratio of both then.
    base: Option<(&'static str, Is)>,
    metric: &'static str,
    /// What its case has. Of several rows the worst counts.
    case: Case,
    expected: f64,
    tolerance: f64,
    unit: &'static str,
    better: Better,
}

type Case = &'static [(&'static str, Is)];

/// The value of a key.
#[derive(Clone, Copy, Debug)]
enum Is {
    Number(f64),
    Word(&'static str),
    Flag(bool),
}

const EIGHT_BYTES: Case = &[("size_bytes", Is::Number(8.0))];
const LOSS_AT_A_DISTANCE: Case = &[("round_trip_ms", Is::Number(20.0)), ("loss_percent", Is::Number(0.1))];
const LATE: Case = &[("late_ms", Is::Number(64.0))];
const EIGHT_MS_AWAY: Case = &[("size_bytes", Is::Number(16384.0)), ("round_trip_ms", Is::Number(8.0))];
const NEIGHBOURS: Case = &[("ranks", Is::Number(64.0)), ("puts", Is::Number(1.0))];
const POSTED: Case = &[("receive", Is::Word("exact")), ("queue", Is::Word("posted")), ("which", Is::Word("the same"))];

/// All claims. They expect what a quiet virtual machine of two cores measured; the tolerance is room for another one.
const CLAIMS: [Claimed; 22] = [
    claim("8 bytes over iWARP take little longer than through a plain socket")
        .of("latency", "iwarp", Some("sockets"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(1.18, 0.25, ""),
    claim("8 bytes over iWARP take less time than over libfabric's tcp")
        .of("latency", "iwarp", Some("libfabric"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(0.8, 0.25, ""),
    claim("8 bytes over Edge and one link take about as long as through a plain socket")
        .of("latency-edge", "edge", Some("sockets"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(1.05, 0.25, ""),
    claim("8 bytes through shared memory take a tenth of the time that they take through the loopback")
        .of("latency-shm", "shm", Some("iwarp"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(0.1, 0.5, ""),
    claim("Messages of 64 KiB with CRC carry as much as a plain socket")
        .of("bandwidth", "iwarp", Some("sockets"))
        .when("throughput", &[("size_bytes", Is::Number(65536.0))])
        .at_least(1.1, 0.25, ""),
    claim("Several times as many messages of 8 bytes as over libfabric's tcp")
        .of("rate", "iwarp", Some("libfabric"))
        .when("message_rate", EIGHT_BYTES)
        .at_least(7.0, 0.3, ""),
    claim("Four links of 1 Gb/s carry all that four of them can")
        .of("links", "edge", None)
        .when("share_of_links", &[("links", Is::Number(4.0))])
        .at_least(100.0, 0.02, "%"),
    claim("Four unlike links carry all that they can together")
        .of("links-unlike", "edge", None)
        .when("share_of_links", &[])
        .at_least(100.0, 0.05, "%"),
    claim("At a distance and with loss Edge carries more than TCP with cubic")
        .of("distance", "edge", Some("tcp:cubic"))
        .when("throughput", LOSS_AT_A_DISTANCE)
        .at_least(2.0, 0.5, ""),
    claim("A read over iWARP takes no longer from a server that computes, at each distance")
        .of("progress", "iwarp", None)
        .when("fetch_time", LATE)
        .against("late_ms", 0.0)
        .at_most(1.0, 0.1, ""),
    claim("A read over Edge takes no longer from a server that computes, at each distance")
        .of("progress", "edge", None)
        .when("fetch_time", LATE)
        .against("late_ms", 0.0)
        .at_most(1.0, 0.1, ""),
    claim("Forty streams over iWARP slow a server's application at most half as much as on sockets")
        .of("slowdown", "iwarp", Some("sockets"))
        .when("slowdown", &[])
        .at_most(0.5, 0.0, ""),
    claim("Forty streams over Edge slow a server's application at most half as much as on sockets")
        .of("slowdown", "edge", Some("sockets"))
        .when("slowdown", &[])
        .at_most(0.5, 0.0, ""),
    claim("Over a way of 8 ms iWARP carries what headers leave of 1 Gb/s")
        .of("bandwidth-far", "iwarp", Some(HEADERS))
        .when("throughput", EIGHT_MS_AWAY)
        .at_least(1.0, 0.05, ""),
    claim("Over a way of 8 ms iWARP carries as much as a plain socket")
        .of("bandwidth-far", "iwarp", Some("sockets"))
        .when("throughput", EIGHT_MS_AWAY)
        .at_least(1.0, 0.02, ""),
    claim("After a cut, whichever way it is made, half of all pauses are short")
        .of("cuts", "edge", None)
        .when("longest_pause", &[("with_cut", Is::Flag(true))])
        .at_most(30.0, 1.0, "ms"),
    claim("Cuts lose nothing").of("cuts", "edge", None).when("lost_bytes", &[]).at_most(0.0, 0.0, "bytes"),
    claim("Each atomic operation counts once, whatever is cut")
        .of("cuts", "edge", None)
        .when("miscounted_operations", &[])
        .at_most(0.0, 0.0, "operations"),
    claim("Segments that come early are in place, and nothing is buffered")
        .of("disorder", "place", None)
        .when("most_buffered", &[])
        .at_most(0.0, 0.0, "B"),
    claim("The fence between neighbours does not grow with the ranks")
        .of("fences-simulated", "simulated neighbour", Some("simulated one-sided"))
        .when("put_and_fence_time", NEIGHBOURS)
        .at_most(0.08, 0.25, ""),
    claim("A posted receive is found among 100 000 as fast as alone")
        .of("match", "matcher", None)
        .when("added_cpu", POSTED)
        .at_most(50.0, 1.0, "ns"),
    claim("A hundred quiet connections cost next to nothing")
        .of("idle", "iwarp:progress=hybrid", None)
        .when("cpu", &[("quiet", Is::Word("for long"))])
        .at_most(0.05, 1.0, "%"),
];

const fn claim(text: &'static str) -> Claimed {
    Claimed {
        text,
        experiment: "",
        contestant: "",
        peer: None,
        base: None,
        metric: "",
        case: &[],
        expected: 0.0,
        tolerance: 0.0,
        unit: "",
        better: Better::Less,
    }
}

impl Claimed {
    const fn of(self, experiment: &'static str, contestant: &'static str, peer: Option<&'static str>) -> Self {
        Self { experiment, contestant, peer, ..self }
    }

    const fn when(self, metric: &'static str, case: Case) -> Self {
        Self { metric, case, ..self }
    }

    /// Measured against itself where this key has this value.
    const fn against(self, key: &'static str, value: f64) -> Self {
        Self { base: Some((key, Is::Number(value))), ..self }
    }

    const fn at_most(self, expected: f64, tolerance: f64, unit: &'static str) -> Self {
        Self { expected, tolerance, unit, better: Better::Less, ..self }
    }

    const fn at_least(self, expected: f64, tolerance: f64, unit: &'static str) -> Self {
        Self { expected, tolerance, unit, better: Better::More, ..self }
    }

    /// The value that a document has of it.
    fn measured(&self, document: &Document) -> Option<f64> {
        let worst = if self.better == Better::More { f64::min } else { f64::max };
        let rows = document.rows.iter().filter(|row| self.is_of(row));
        rows.filter_map(|row| self.value(document, row)).reduce(worst)
    }

    fn is_of(&self, row: &Row) -> bool {
        let has = |(key, value): &(&str, Is)| row.case.get(*key).is_some_and(|it| value.is(it));
        row.contestant == self.contestant && row.metric == self.metric && self.case.iter().all(has)
    }

    fn value(&self, document: &Document, row: &Row) -> Option<f64> {
        if self.peer.is_none() && self.base.is_none() {
            return row.median;
        }
        let beside = document.rows.iter().find(|other| self.is_beside(row, other))?.median?;
        Some(row.median? / beside).filter(|ratio| ratio.is_finite())
    }

    /// Whether the other row is what this one is measured against.
    fn is_beside(&self, row: &Row, other: &Row) -> bool {
        let contestant = self.peer.unwrap_or(&row.contestant);
        let mut case = other.case.clone();
        if let Some((key, base)) = self.base {
            let own = row.case.get(key).filter(|_| case.get(key).is_some_and(|it| base.is(it)));
            let Some(own) = own else { return false };
            case.insert(key.to_owned(), own.clone());
        }
        (other.contestant.as_str(), &other.metric, &case) == (contestant, &row.metric, &row.case)
    }

    fn experiment(&self) -> &'static Experiment {
        ALL.iter().find(|one| one.name == self.experiment).expect("a test finds each claim's experiment")
    }

    fn judge(&self, scale: Scale, documents: &[(String, Document)]) -> Claim {
        let document = documents.iter().find(|(name, _)| name == self.experiment);
        Claim {
            text: self.text.to_owned(),
            figure: self.experiment.to_owned(),
            command: format!("weft figures {}", self.experiment),
            minutes: self.experiment().minutes(scale),
            expected: self.expected,
            tolerance: self.tolerance,
            unit: self.unit.to_owned(),
            better: self.better,
            measured: document.and_then(|(_, document)| self.measured(document)),
        }
    }
}

impl Is {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Number(number) => value.as_f64() == Some(number),
            Self::Word(word) => value == word,
            Self::Flag(flag) => value == flag,
        }
    }
}

/// The experiments that show claims, each once, in the order of the catalogue.
pub(crate) fn experiments() -> Vec<&'static Experiment> {
    ALL.iter().filter(|one| CLAIMS.iter().any(|claim| claim.experiment == one.name)).collect()
}

/// What these documents, each with the name of its experiment, say of the claims about these experiments.
pub(crate) fn judge(experiments: &[&Experiment], scale: Scale, documents: &[(String, Document)]) -> Vec<Claim> {
    let is_wanted = |claim: &&Claimed| experiments.iter().any(|one| one.name == claim.experiment);
    CLAIMS.iter().filter(is_wanted).map(|claim| claim.judge(scale, documents)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Launch;

    fn row(contestant: &str, case: &[(&str, u32)], metric: &str, value: f64) -> Row {
        let case = case.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        Row::new(contestant, case, (metric, "us", Better::Less), vec![Launch::of(0, value)])
    }

    fn document(rows: Vec<Row>) -> Document {
        let (schema, schema_version) = Document::schema();
        Document {
            schema,
            schema_version,
            test: "latency".into(),
            question: String::new(),
            place: String::new(),
            machine: crate::result::Machine::default(),
            version: String::new(),
            commit: String::new(),
            peers: std::collections::BTreeMap::new(),
            command: Vec::new(),
            settings: Value::Null,
            began_unix_s: 0,
            seconds: 0.0,
            notes: Vec::new(),
            is_cut_short: false,
            rows,
            comparisons: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    #[test]
    fn each_claim_has_an_experiment() {
        for claim in &CLAIMS {
            assert!(ALL.iter().any(|one| one.name == claim.experiment), "{claim:?}");
        }
    }

    #[test]
    fn a_ratio_is_of_the_same_case() {
        let claim = &CLAIMS[0];
        let eight = [("size_bytes", 8)];
        let other = [("size_bytes", 64)];
        let rows = vec![
            row("iwarp", &other, "half_round_trip", 9.0),
            row("iwarp", &eight, "half_round_trip", 4.0),
            row("sockets", &other, "half_round_trip", 1.0),
            row("sockets", &eight, "half_round_trip", 2.0),
        ];
        assert_eq!(claim.measured(&document(rows.clone())), Some(2.0));
        assert_eq!(claim.measured(&document(rows[..3].to_vec())), None, "its peer is missing");
    }

    #[test]
    fn of_several_rows_the_worst_counts() {
        let claim = claim("").of("links", "edge", None).when("share_of_links", &[]).at_least(100.0, 0.0, "%");
        let rows = [100.0, 90.0, 99.0].map(|value| row("edge", &[], "share_of_links", value));
        assert_eq!(claim.measured(&document(rows.to_vec())), Some(90.0));
    }

    #[test]
    fn a_ratio_to_another_case_is_of_the_same_contestant_and_distance() {
        let claim = claim("").of("progress", "edge", None).when("fetch_time", LATE).against("late_ms", 0.0);
        let claim = claim.at_most(1.0, 0.1, "");
        let fetch = |contestant, late, far, time| {
            row(contestant, &[("late_ms", late), ("round_trip_ms", far)], "fetch_time", time)
        };
        let mut rows = vec![
            fetch("edge", 0, 0, 10.0),
            fetch("edge", 0, 8, 100.0),
            fetch("iwarp", 0, 8, 1.0),
            fetch("edge", 16, 8, 1.0),
            fetch("edge", 64, 0, 12.0),
        ];
        assert_eq!(claim.measured(&document(rows.clone())), Some(1.2));
        rows.push(fetch("edge", 64, 8, 150.0));
        assert_eq!(claim.measured(&document(rows.clone())), Some(1.5), "the worst distance counts");
        assert_eq!(claim.measured(&document(rows[4..].to_vec())), None, "it was not measured without lateness");
    }

    #[test]
    fn what_was_not_measured_fails() {
        let judged = judge(&experiments(), Scale::Usual, &[]);
        assert_eq!(judged.len(), CLAIMS.len());
        assert!(judged.iter().all(|claim| !claim.holds() && claim.minutes > 0.0));
    }
}
