//! Where figures come from: the command, the machine, the settings; and contestants without figures.

use kuva::prelude::DateTimeAxis;

use super::super::markup::{Head, cell, details, element, escape, head, table, tag};
use super::super::quantity::{percent, quantity};
use crate::result::{Document, Machine, Missing};

/// Others that take more than this share of the processors disturb what is measured.
const MUCH: f64 = 0.05;

/// What is to be known before any figure of a document is read.
pub(super) fn warnings(document: &Document) -> String {
    let machine = &document.machine;
    let busy =
        [("other processes used", machine.others_share), ("the host of the virtual machine kept", machine.steal_share)];
    let busy: Vec<String> = busy
        .into_iter()
        .filter_map(|(what, share)| Some(format!("{what} {}", percent(share.filter(|share| *share > MUCH)?))))
        .collect();
    let mut warnings: Vec<String> = Vec::new();
    if !busy.is_empty() {
        let of = busy.join(", ");
        warnings
            .push(format!("The machine was busy: {of} of the processors' time. Figures and ratios may be far off."));
    }
    warnings.extend(document.lateness().map(|words| format!("Marked as late are figures {words}.")));
    if document.is_cut_short {
        warnings.push("The measurement was ended before all launches were made.".to_owned());
    }
    warnings.iter().map(|warning| element("p", "class=\"warn\"", &escape(warning)) + "\n").collect()
}

/// How the figures came about.
pub(super) fn origin(document: &Document) -> String {
    let command = document.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let settings = serde_json::to_string_pretty(&document.settings).unwrap_or_default();
    let parts = [
        tag("h3", "Command"),
        code(&command),
        details(false, "Settings", &code(&settings)),
        details(false, &format!("Machine: {}", in_short(document)), &facts(&of_machine(document))),
        facts_of_peers(document),
    ];
    parts.join("\n")
}

/// The machine in one line.
fn in_short(document: &Document) -> String {
    let machine = &document.machine;
    let share = |what: &str, share: Option<f64>| share.map(|share| format!("{what} {}", percent(share)));
    let parts = [
        machine.cpu.clone(),
        Some(format!("{} cores", machine.cores)),
        machine.governor.as_ref().map(|governor| format!("governor {governor}")),
        machine.load_before.map(|load| format!("load {:.2}", load[0])),
        share("others", machine.others_share),
        share("steal", machine.steal_share),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Contestants without figures.
pub(super) fn missing(document: &Document) -> String {
    if document.not_measured.is_empty() {
        return String::new();
    }
    let line = |missing: &Missing| {
        vec![
            head(&missing.contestant),
            cell(if missing.is_failure { "failed" } else { "not here" }),
            cell(&missing.reason),
        ]
    };
    let rows: Vec<Vec<String>> = document.not_measured.iter().map(line).collect();
    table("Not measured", &["contestant", "state", "reason"].map(Head::words), &rows)
}

/// Text as it was typed.
pub(super) fn code(text: &str) -> String {
    element("pre", "tabindex=\"0\"", &tag("code", &escape(text)))
}

fn of_machine(document: &Document) -> Vec<(&'static str, String)> {
    let machine: &Machine = &document.machine;
    let unknown = || "not known".to_owned();
    let load =
        |load: Option<[f64; 3]>| load.map_or_else(unknown, |load| load.map(|one| format!("{one:.2}")).join(", "));
    let share = |share: Option<f64>| share.map_or_else(unknown, percent);
    let apart = machine
        .cores_apart_ns
        .map_or_else(unknown, |[least, median, most]| format!("{median:.0} ns ({least:.0} to {most:.0})"));
    vec![
        ("place", document.place.clone()),
        ("host", machine.host.clone()),
        ("kernel", machine.kernel.clone()),
        ("cores", machine.cores.to_string()),
        ("CPU", machine.cpu.clone().unwrap_or_else(unknown)),
        ("governor", machine.governor.clone().unwrap_or_else(unknown)),
        ("congestion control", machine.congestion_control.clone()),
        ("load before (1, 5, 15 minutes)", load(machine.load_before)),
        ("load after", load(machine.load_after)),
        ("time of others", share(machine.others_share)),
        ("steal", share(machine.steal_share)),
        ("distance of cores", apart),
        ("began", date(document.began_unix_s)),
        ("took", quantity(document.seconds, "s")),
        ("Weft", format!("{} ({})", document.version, document.commit)),
    ]
}

fn facts_of_peers(document: &Document) -> String {
    let facts: Vec<(&str, String)> =
        document.peers.iter().map(|(name, version)| (name.as_str(), version.clone())).collect();
    if facts.is_empty() { String::new() } else { details(false, "Versions of peers", &self::facts(&facts)) }
}

fn facts(facts: &[(&str, String)]) -> String {
    tag(
        "dl",
        &facts.iter().map(|(name, value)| tag("dt", &escape(name)) + &tag("dd", &escape(value))).collect::<String>(),
    )
}

/// Seconds since 1970 as a date.
fn date(unix_s: u64) -> String {
    DateTimeAxis::days("%Y-%m-%d %H:%M UTC").format_tick(unix_s as f64)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_given_to_a_shell_again() {
        assert_eq!(["--size", "4 B", "it's", ""].map(quoted).join(" "), r"--size '4 B' 'it'\''s' ''");
    }

    #[test]
    fn dates_are_dates() {
        assert_eq!(date(1_000_000_000), "2001-09-09 01:46 UTC");
    }
}
