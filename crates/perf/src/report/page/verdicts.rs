//! Where Weft loses, and where it wins: all comparisons of its contestants with peers, those of a kind in one line.

use serde_json::Value;

use super::super::case::{axis, describe, main_metrics, rows_of};
use super::super::contestant::{is_bound, is_weft};
use super::super::markup::{Head, cell, details, element, escape, head, link, number, table, tag};
use super::super::quantity::{chance, number as digits, of_case, words};
use crate::result::{Better, Case, Comparison, Document, Row, Verdict};

/// What one contestant of Weft's is beside one peer, in cases that differ in the axis alone.
struct Group<'a> {
    document: &'a Document,
    id: &'a str,
    verdict: Verdict,
    better: Better,
    axis: Option<&'a str>,
    /// The rest of the case.
    facet: Case,
    comparisons: Vec<Comparison>,
    /// The values of the axis in order, whatever their verdicts.
    family: Vec<&'a Value>,
}

/// The first part of the page.
pub(super) fn section(documents: &[Document], ids: &[String]) -> String {
    let groups: Vec<Group> = documents.iter().zip(ids).flat_map(|(document, id)| groups(document, id)).collect();
    let of = |verdict: Verdict| {
        let mut some: Vec<&Group> = groups.iter().filter(|group| group.verdict == verdict).collect();
        some.sort_by(|one, other| other.distance().total_cmp(&one.distance()));
        some
    };
    let (losses, wins, equal) = (of(Verdict::Behind), of(Verdict::Ahead), of(Verdict::Equal));
    let note = "Each line is one of Weft's contestants beside one peer, the farthest apart first. \
                Factors are ratios of medians, the worse over the better.";
    let undecided = format!("Where launches do not tell them apart ({} cases)", cases(&equal));
    let parts = [
        element("h2", "id=\"verdicts\"", "Where Weft loses, and where it wins"),
        tag("p", &escape(&counted(&losses, &wins, &equal))),
        tag("p", note),
        lines("Weft is behind", "by a factor of", &losses, "Nowhere: no comparison found Weft behind a peer."),
        details(
            true,
            &format!("Where it is ahead ({} cases)", cases(&wins)),
            &lines("Weft is ahead", "by a factor of", &wins, "Nowhere: no comparison found Weft ahead of a peer."),
        ),
        if equal.is_empty() {
            String::new()
        } else {
            details(false, &undecided, &lines("Not told apart", "ratio", &equal, ""))
        },
    ];
    parts.join("\n")
}

/// What was found in a document, in one sentence.
pub(super) fn sentence(document: &Document) -> String {
    let main = main_metrics(document);
    let mut groups = groups(document, "");
    groups.retain(|group| main.contains(&group.comparisons[0].metric.as_str()));
    let of = |verdict: Verdict| groups.iter().filter(|group| group.verdict == verdict).collect::<Vec<_>>();
    let (losses, wins, equal) = (of(Verdict::Behind), of(Verdict::Ahead), of(Verdict::Equal));
    if groups.is_empty() {
        return "Nothing of Weft's was compared with a peer here.".to_owned();
    }
    let far = |groups: &[&Group], word: &str| {
        let farthest = groups.iter().max_by(|one, other| one.distance().total_cmp(&other.distance()));
        farthest.map_or_else(String::new, |group| format!("; {word} is {}", group.farthest()))
    };
    let text = counted(&losses, &wins, &equal);
    format!("{}{}{}.", text.trim_end_matches('.'), far(&losses, "its greatest loss"), far(&wins, "its greatest win"))
}

/// How many comparisons ended how.
fn counted(losses: &[&Group], wins: &[&Group], equal: &[&Group]) -> String {
    let [losses, wins, equal] = [losses, wins, equal].map(cases);
    format!(
        "Of {} comparisons with peers Weft is behind in {losses}, ahead in {wins}, and not told apart in {equal}.",
        losses + wins + equal
    )
}

fn cases(groups: &[&Group]) -> usize {
    groups.iter().map(|group| group.comparisons.len()).sum()
}

fn lines(caption: &str, factor: &str, groups: &[&Group], nothing: &str) -> String {
    if groups.is_empty() {
        return if nothing.is_empty() { String::new() } else { tag("h3", caption) + &tag("p", nothing) };
    }
    let words = ["figure", "Weft's contestant", "peer", "cases"].map(Head::words);
    let numbers = [factor, "p"].map(Head::number);
    let rows: Vec<Vec<String>> = groups.iter().map(|group| group.cells()).collect();
    table(caption, &[&words[..], &numbers].concat(), &rows)
}

/// The comparisons of a document, those of a kind together.
fn groups<'a>(document: &'a Document, id: &'a str) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for comparison in document.comparisons.iter().filter_map(of_weft) {
        let rows = rows_of(document, &comparison.metric);
        let Some(better) = better(&rows) else { continue };
        let axis = axis(&rows);
        let mut facet = comparison.case.clone();
        facet.retain(|key, _| Some(key.as_str()) != axis);
        let is_kind = |group: &&mut Group| {
            let first = &group.comparisons[0];
            (&first.metric, &first.contestant, &first.peer)
                == (&comparison.metric, &comparison.contestant, &comparison.peer)
                && (group.verdict, &group.facet) == (comparison.verdict, &facet)
        };
        match groups.iter_mut().find(is_kind) {
            Some(group) => group.comparisons.push(comparison),
            None => {
                let (verdict, comparisons) = (comparison.verdict, vec![comparison]);
                groups.push(Group { document, id, verdict, better, axis, facet, comparisons, family: Vec::new() });
            }
        }
    }
    let families: Vec<Vec<&Value>> = groups.iter().map(|group| family(document, group)).collect();
    groups.iter_mut().zip(families).for_each(|(group, family)| group.family = family);
    groups
}

/// All values of the axis at which the two of a group were compared.
fn family<'a>(document: &'a Document, group: &Group<'a>) -> Vec<&'a Value> {
    let Some(key) = group.axis else { return Vec::new() };
    let first = &group.comparisons[0];
    let pair = [&first.contestant, &first.peer];
    let is_it = |one: &&Comparison| {
        let is_pair = pair.contains(&&one.contestant) && pair.contains(&&one.peer);
        is_pair && one.metric == first.metric && group.facet.iter().all(|(key, value)| one.case.get(key) == Some(value))
    };
    let mut values: Vec<&Value> =
        document.comparisons.iter().filter(is_it).filter_map(|one| one.case.get(key)).collect();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    values.sort_by(|one, other| number(one).total_cmp(&number(other)));
    values.dedup();
    values
}

/// A comparison of Weft with a peer, Weft first; `None` for any other.
fn of_weft(comparison: &Comparison) -> Option<Comparison> {
    if [&comparison.contestant, &comparison.peer].iter().any(|name| is_bound(name)) {
        return None;
    }
    match (is_weft(&comparison.contestant), is_weft(&comparison.peer)) {
        (true, false) => Some(comparison.clone()),
        (false, true) => Some(Comparison {
            contestant: comparison.peer.clone(),
            peer: comparison.contestant.clone(),
            ratio: comparison.ratio.map(f64::recip).filter(|ratio| ratio.is_finite()),
            verdict: match comparison.verdict {
                Verdict::Ahead => Verdict::Behind,
                Verdict::Behind => Verdict::Ahead,
                Verdict::Equal => Verdict::Equal,
            },
            ..comparison.clone()
        }),
        _ => None,
    }
}

/// The good direction of a metric; `None` where there is none, so that no verdict is possible.
fn better(rows: &[&Row]) -> Option<Better> {
    rows.first().map(|row| row.better).filter(|better| *better != Better::Neither)
}

impl Group<'_> {
    /// How far the two are apart in the case where that is most.
    fn distance(&self) -> f64 {
        self.factors().map(|factor| factor.ln().abs()).fold(0.0, f64::max)
    }

    /// What the one that is behind is worse by, above 1; where the two are not distinguished, the ratio of their
    /// medians.
    fn factors(&self) -> impl Iterator<Item = f64> {
        self.comparisons.iter().filter_map(|comparison| self.factor(comparison))
    }

    fn factor(&self, comparison: &Comparison) -> Option<f64> {
        let ratio = comparison.ratio.filter(|ratio| *ratio > 0.0)?;
        let is_turned = match self.verdict {
            Verdict::Behind => self.better == Better::More,
            Verdict::Ahead => self.better == Better::Less,
            Verdict::Equal => false,
        };
        Some(if is_turned { ratio.recip() } else { ratio })
    }

    fn cells(&self) -> Vec<String> {
        let first = &self.comparisons[0];
        let class = match self.verdict {
            Verdict::Behind => "class=\"number behind\"",
            Verdict::Ahead => "class=\"number ahead\"",
            Verdict::Equal => "class=\"number equal\"",
        };
        let most = self.comparisons.iter().map(|comparison| comparison.p).fold(0.0, f64::max);
        vec![
            tag(
                "td",
                &format!(
                    "{}: {}",
                    link(&format!("#{}", self.id), &words(&self.document.test)),
                    escape(&words(&first.metric))
                ),
            ),
            head(&first.contestant),
            cell(&first.peer),
            element("td", "class=\"cases\"", &escape(&self.cases())),
            element("td", class, &escape(&self.range())),
            number(&if self.comparisons.len() > 1 { format!("\u{2264} {}", chance(most)) } else { chance(most) }),
        ]
    }

    /// In words: `size 4 B to 64 B, 1 KiB (4 of 10)`.
    fn cases(&self) -> String {
        // Cases of another kind may have no value there.
        let runs = self.axis.map(|key| (key, self.runs(key))).filter(|(_, runs)| !runs.is_empty());
        let along = runs.map(|(key, runs)| format!("{} {}", words(key), runs.join(", ")));
        let parts: Vec<String> =
            along.into_iter().chain([describe(&self.facet)]).filter(|part| !part.is_empty()).collect();
        if self.family.len() < 2 {
            return parts.join("; ");
        }
        format!("{} ({} of {})", parts.join("; "), self.comparisons.len(), self.family.len())
    }

    /// The values of the axis; those that follow each other as one range.
    fn runs(&self, key: &str) -> Vec<String> {
        let is_here = |value: &Value| self.comparisons.iter().any(|one| one.case.get(key) == Some(value));
        let parts = self.family.split(|value| !is_here(value)).filter(|part| !part.is_empty());
        let told = |value: &Value| of_case(key, value);
        parts
            .map(|part| match part {
                [one] => told(one),
                [first, .., last] => format!("{} to {}", told(first), told(last)),
                [] => String::new(),
            })
            .collect()
    }

    fn range(&self) -> String {
        let low = self.factors().fold(f64::INFINITY, f64::min);
        let high = self.factors().fold(0.0, f64::max);
        if low > high {
            return "-".to_owned();
        }
        let [low, high] = [low, high].map(digits);
        if low == high { low } else { format!("{low} to {high}") }
    }

    /// The case in which both are farthest apart, in words.
    fn farthest(&self) -> String {
        let apart = |one: &Comparison| self.factor(one).map_or(0.0, |factor| factor.ln().abs());
        let most = self.comparisons.iter().max_by(|one, other| apart(one).total_cmp(&apart(other)));
        most.map_or_else(String::new, |one| {
            let place = describe(&one.case);
            format!(
                "{} beside {}{}, by a factor of {} in {} (p {})",
                one.contestant,
                one.peer,
                if place.is_empty() { String::new() } else { format!(" at {place}") },
                self.factor(one).map_or_else(|| "?".to_owned(), digits),
                words(&one.metric),
                chance(one.p)
            )
        })
    }
}
