//! Every counter of a process's NICs.

use super::groups::{GROUPS, Group, Share};
use super::rails;
use super::sample::{Change, Changes};
use weft_command::amount::{Unit, share};
use weft_command::table::{Align, Table};

/// Engines that get a column of their own.
const COLUMNS: usize = 8;

pub(super) fn page(changes: &Changes<'_>, width: Option<usize>) -> String {
    let pages: Vec<_> = changes.nics().map(|change| nic(change, changes.time().is_some(), width)).collect();
    format!("{}{}", pages.join("\n"), changes.complaints())
}

fn nic(change: Change<'_>, rated: bool, width: Option<usize>) -> String {
    let nic = change.nic;
    let mut heading = format!("{}, process {}, NIC {}", nic.process, nic.pid, nic.nic);
    match nic.engines.len() {
        1 => heading.push_str(", 1 engine"),
        engines => heading.push_str(&format!(", {engines} engines")),
    }
    if !nic.title.is_empty() {
        heading.push_str(&format!(": {}", nic.title));
    }
    let engines: Vec<_> = (0..engine_columns(change)).map(|engine| format!("engine {engine}")).collect();
    let mut columns = vec![("", Align::Left), ("all", Align::Right)];
    columns.extend(rated.then_some(("per second", Align::Right)));
    columns.extend(engines.iter().map(|engine| (engine.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    GROUPS.iter().for_each(|group| add_group(&mut table, group, change, rated));
    add_unknown(&mut table, change, rated);
    // The first column names the counter.
    let table = table.folded(1, width);
    match rails::page(change, width) {
        // They change most, and a terminal may have no room for all.
        Some(rails) => format!("{heading}\n{rails}\n{table}"),
        None => format!("{heading}\n{table}"),
    }
}

/// One engine is all there is, so it needs no column.
fn engine_columns(change: Change<'_>) -> usize {
    match change.nic.engines.len() {
        1 => 0,
        engines => engines.min(COLUMNS),
    }
}

fn add_group(table: &mut Table, group: &Group, change: Change<'_>, rated: bool) {
    let known: Vec<_> = group.counters.iter().filter(|(name, _)| change.nic.total(name).is_some()).collect();
    if known.is_empty() {
        return;
    }
    table.row([group.heading.to_owned()]);
    known.iter().for_each(|(name, words)| table.row(cells(name, words, change, rated)));
    if let Some(cells) = group.share.as_ref().and_then(|share| share_cells(share, change)) {
        table.row(cells);
    }
}

/// What a newer NIC counts besides.
fn add_unknown(table: &mut Table, change: Change<'_>, rated: bool) {
    let known = |name: &str| GROUPS.iter().any(|group| group.counters.iter().any(|(known, _)| *known == name));
    let unknown: Vec<_> = change.nic.names.iter().filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        table.row(["more".to_owned()]);
        unknown.iter().for_each(|name| table.row(cells(name, name, change, rated)));
    }
}

fn cells(name: &str, words: &str, change: Change<'_>, rated: bool) -> Vec<String> {
    let unit = Unit::of(name);
    let amount = |count: u64| unit.amount(count as f64);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    let mut cells = vec![format!("  {words}"), or_dash(change.nic.total(name).map(amount))];
    if rated {
        cells.push(or_dash(change.per_second(name).map(|rate| unit.rate(rate))));
    }
    let at = change.nic.names.iter().position(|known| known == name);
    let engines = change.nic.engines.iter().take(engine_columns(change));
    cells.extend(engines.map(|counts| or_dash(at.map(|at| amount(counts[at])))));
    cells
}

/// Nothing where nothing was counted.
fn share_cells(which: &Share, change: Change<'_>) -> Option<[String; 2]> {
    let (part, rest) = (change.nic.total(which.part)?, change.nic.total(which.rest)?);
    let all = part as f64 + rest as f64;
    (all > 0.0).then(|| [format!("  {}, of both", which.words), share(part as f64 / all)])
}
