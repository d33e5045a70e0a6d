//! The table of what is claimed.

use super::super::claim::Claim;
use super::super::markup::{Head, cell, element, escape, head, number, table, tag};

/// The table of all claims, those first that do not hold; nothing where nothing is claimed.
pub(super) fn section(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut claims: Vec<&Claim> = claims.iter().collect();
    claims.sort_by_key(|claim| claim.holds());
    let rows: Vec<Vec<String>> = claims.iter().map(|claim| row(claim)).collect();
    let [claim, stated, figure, expected, verdict, command] =
        ["claim", "stated in", "figure", "expected", "verdict", "command"].map(Head::words);
    let [measured, minutes] = ["measured here", "minutes"].map(Head::number);
    let heads = [claim, stated, figure, expected, measured, verdict, command, minutes];
    let hold = claims.iter().filter(|claim| claim.holds()).count();
    let words = format!("{hold} of {} claims hold in these measurements.", claims.len());
    [element("h2", "id=\"claims\"", "What is claimed"), tag("p", &words), table("Claims", &heads, &rows)].join("\n")
}

fn row(claim: &Claim) -> Vec<String> {
    let class = if claim.holds() { "class=\"ahead\"" } else { "class=\"behind\"" };
    vec![
        head(&claim.text),
        cell(&claim.stated_in),
        cell(&claim.figure),
        cell(&claim.expectation()),
        number(&claim.measurement()),
        element("td", class, claim.verdict()),
        tag("td", &tag("code", &escape(&claim.command))),
        number(&format!("{:.1}", claim.minutes)),
    ]
}
