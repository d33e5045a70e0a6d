//! What Weft claims of its figures, each claim with the experiment that shows it, and the documents that state it.

mod claimed;
#[cfg(test)]
mod documents;
mod table;

use crate::figures::catalogue::{ALL, Experiment, Scale};
use crate::figures::claims::claimed::Claimed;
use crate::figures::claims::table::CLAIMS;
use crate::report::Claim;
use crate::result::Document;

/// The experiments that show claims, each once, in the order of the catalogue.
pub(crate) fn experiments() -> Vec<&'static Experiment> {
    ALL.iter().filter(|one| CLAIMS.iter().any(|claim| claim.experiment == one.name)).collect()
}

/// What these documents, each with the name of its experiment, say of the claims about these experiments.
pub(crate) fn judge(experiments: &[&Experiment], scale: Scale, documents: &[(String, Document)]) -> Vec<Claim> {
    let is_wanted = |claim: &&Claimed| experiments.iter().any(|one| one.name == claim.experiment);
    CLAIMS.iter().filter(is_wanted).map(|claim| judge_one(claim, scale, documents)).collect()
}

fn judge_one(claim: &Claimed, scale: Scale, documents: &[(String, Document)]) -> Claim {
    let experiment = ALL.iter().find(|one| one.name == claim.experiment).expect("a test finds each claim's experiment");
    let document = documents.iter().find(|(name, _)| name == claim.experiment);
    Claim {
        text: claim.text.to_owned(),
        figure: claim.experiment.to_owned(),
        command: format!("weft figures {}", claim.experiment),
        minutes: experiment.minutes(scale),
        expected: claim.expected,
        tolerance: claim.tolerance,
        unit: claim.unit.to_owned(),
        better: claim.better,
        stated_in: claim.stated.map_or_else(String::new, |stated| stated.to_string()),
        measured: document.and_then(|(_, document)| claim.measured(document)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::claimed::{Is, claim};
    use super::table::LATE;
    use super::*;
    use crate::result::{Better, Launch, Row};

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
        let claim = claim("").of("latency", "iwarp", Some("sockets"));
        let claim = claim.when("half_round_trip", &[("size_bytes", Is::Number(8.0))]).at_most(1.0, 0.0, "");
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
