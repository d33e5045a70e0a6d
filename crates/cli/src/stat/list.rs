//! A line for each NIC.

use super::sample::{Change, Changes};
use weft_command::amount::Unit;
use weft_command::table::{Align, Table};

/// The counters of a line: messages and bytes, out and in.
const SHOWN: [(&str, &str, &str); 4] = [
    ("sent_messages", "requests out", "out/s"),
    ("sent_wire_bytes", "bytes out", "bytes out/s"),
    ("received_messages", "messages in", "in/s"),
    ("received_wire_bytes", "bytes in", "bytes in/s"),
];

const NOBODY: &str = "No process of this user has a NIC that shows its counters.\n";

/// The columns that say which NIC it is.
const KEYS: usize = 3;

pub(super) fn page(changes: &Changes<'_>, width: Option<usize>) -> String {
    let complaints = changes.complaints();
    if changes.nics().next().is_none() {
        return format!("{NOBODY}{complaints}");
    }
    let titled = changes.nics().any(|change| !change.nic.title.is_empty());
    let rated = changes.time().is_some();
    let mut columns = vec![("process", Align::Left), ("pid", Align::Right), ("NIC", Align::Right)];
    // What changes comes first: where the terminal is narrow, the rest follows below.
    columns.extend(SHOWN.iter().filter(|_| rated).map(|(.., heading)| (*heading, Align::Right)));
    columns.push(("connections", Align::Right));
    columns.extend(SHOWN.map(|(_, heading, _)| (heading, Align::Right)));
    columns.extend(titled.then_some(("for", Align::Left)));
    let mut table = Table::new(&columns);
    changes.nics().for_each(|change| table.row(cells(change, titled, rated)));
    format!("{}{complaints}", table.folded(KEYS, width))
}

fn cells(change: Change<'_>, titled: bool, rated: bool) -> Vec<String> {
    let nic = change.nic;
    let total = |name| nic.total(name).map(|count| Unit::of(name).amount(count as f64));
    let rate = |name| change.per_second(name).map(|rate| Unit::of(name).rate(rate));
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    let mut cells = vec![nic.process.clone(), nic.pid.to_string(), nic.nic.to_string()];
    cells.extend(SHOWN.iter().filter(|_| rated).map(|(name, ..)| or_dash(rate(name))));
    cells.push(or_dash(total("connections")));
    cells.extend(SHOWN.map(|(name, ..)| or_dash(total(name))));
    cells.extend(titled.then(|| nic.title.clone()));
    cells
}
