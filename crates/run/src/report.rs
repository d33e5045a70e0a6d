//! What the NICs of a launch have done, for people: which ranks spoke over which transport.

use weft_command::amount::Unit;
use weft_command::table::{Align, Table};
use weft_driver::board::Reported;

/// What carries connections, and how many of them a NIC had: over all, less those of the others.
const TRANSPORTS: [&str; 3] = ["iWARP", "Edge", "shared memory"];

/// Counters of a line behind the connections.
const SHOWN: [(&str, &str); 4] = [
    ("sent_messages", "requests out"),
    ("sent_wire_bytes", "bytes out"),
    ("received_messages", "messages in"),
    ("received_wire_bytes", "bytes in"),
];

/// A table with a line for each NIC, and what follows from it.
pub(crate) fn page(nics: &[Reported]) -> String {
    if nics.is_empty() {
        return "weft: no process of this host has opened a NIC of Weft: `weft doctor PROGRAM` says what is in the \
                way. (Ranks on other hosts are not seen.)\n"
            .into();
    }
    let mut columns = vec![("rank", Align::Right), ("process", Align::Left), ("pid", Align::Right)];
    columns.push(("NIC", Align::Right));
    columns.extend(TRANSPORTS.map(|transport| (transport, Align::Right)));
    columns.extend(SHOWN.map(|(_, heading)| (heading, Align::Right)));
    let mut table = Table::new(&columns);
    nics.iter().for_each(|nic| table.row(cells(nic)));
    format!("weft: connections of each NIC of this launch, and what it moved:\n{table}{}", conclusions(nics))
}

fn cells(reported: &Reported) -> Vec<String> {
    let nic = &reported.nic;
    let rank = reported.rank.map_or("-".to_owned(), |rank| rank.to_string());
    let mut cells = vec![rank, nic.process.clone(), nic.pid.to_string(), nic.nic.to_string()];
    cells.extend(connections(reported).map(|count| count.to_string()));
    let total = |name| nic.total(name).map(|count| Unit::of(name).amount(count as f64));
    cells.extend(SHOWN.iter().map(|(name, _)| total(name).unwrap_or_else(|| "-".into())));
    cells
}

/// Connections over each of [`TRANSPORTS`].
fn connections(reported: &Reported) -> [u64; 3] {
    let total = |name| reported.nic.total(name).unwrap_or_default();
    let (edge, shared) = (total("edge_connections"), total("shared_memory_connections"));
    [total("connections").saturating_sub(edge + shared), edge, shared]
}

/// A line for each transport that was used, and one for processes that connected to none.
fn conclusions(nics: &[Reported]) -> String {
    let mut text = String::new();
    for (at, transport) in TRANSPORTS.iter().enumerate() {
        let names = names(nics.iter().filter(|nic| connections(nic)[at] > 0));
        if !names.is_empty() {
            text.push_str(&format!("over {transport}: {names}\n"));
        }
    }
    // A process is silent if none of its NICs has a connection.
    let is_silent = |nic: &&Reported| {
        let of_process = nics.iter().filter(|other| (other.rank, other.nic.pid) == (nic.rank, nic.nic.pid));
        of_process.into_iter().all(|nic| connections(nic) == [0; 3])
    };
    let silent = names(nics.iter().filter(is_silent));
    if !silent.is_empty() {
        text.push_str(&format!(
            "no connection of Weft: {silent}; they sent nothing, or used something else, such as their MPI library's \
             own shared memory (with `weft run --local` ranks of one host use Weft)\n"
        ));
    }
    text
}

/// `ranks 0 to 3, 7`, and processes without a rank. Empty where there are none.
fn names<'a>(nics: impl Iterator<Item = &'a Reported>) -> String {
    let (mut ranks, mut processes) = (Vec::new(), Vec::new());
    for reported in nics {
        match reported.rank {
            Some(rank) => ranks.push(rank),
            None => processes.push(reported.nic.pid),
        }
    }
    let named = |one: &str, more: &str, numbers: Vec<u32>| match &numbers[..] {
        [] => None,
        [number] => Some(format!("{one} {number}")),
        [first, .., last] if numbers.is_sorted_by(|number, next| number + 1 == *next) => {
            Some(format!("{more} {first} to {last}"))
        }
        _ => Some(format!("{more} {}", numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))),
    };
    let once = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let parts = [named("rank", "ranks", once(ranks)), named("process", "processes", once(processes))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use weft_driver::board::{Snapshot, Table};

    use super::*;

    fn nic(rank: Option<u32>, pid: u32, counts: [u64; 3]) -> Reported {
        let names = ["connections", "edge_connections", "shared_memory_connections"].map(str::to_owned).to_vec();
        let nic = Snapshot {
            pid,
            start: 1,
            nic: 0,
            process: "ring".into(),
            title: "verbs".into(),
            names,
            engines: vec![counts.to_vec()],
            table: Table::default(),
        };
        Reported { rank, nic }
    }

    #[test]
    fn each_transport_has_its_ranks() {
        let nics = [nic(Some(0), 7, [3, 0, 2]), nic(Some(1), 8, [2, 0, 2]), nic(Some(2), 9, [2, 1, 1])];
        let page = page(&nics);
        assert!(page.contains("\nover iWARP: rank 0\nover Edge: rank 2\nover shared memory: ranks 0 to 2\n"), "{page}");
        assert!(!page.contains("no connection"), "{page}");
        let line = page.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(line, ["0", "ring", "7", "0", "1", "0", "2", "-", "-", "-", "-"]);
    }

    #[test]
    fn what_used_something_else_is_named() {
        // The first process has a second NIC, which it used.
        let nics = [nic(None, 7, [0, 0, 0]), nic(None, 7, [1, 0, 0]), nic(None, 9, [0, 0, 0])];
        let text = conclusions(&nics);
        assert!(text.starts_with("over iWARP: process 7\nno connection of Weft: process 9;"), "{text}");
        assert!(page(&[]).contains("weft doctor"));
    }

    #[test]
    fn names_are_short() {
        let of = |ranks: &[u32]| {
            let nics: Vec<_> = ranks.iter().map(|rank| nic(Some(*rank), 1, [0; 3])).collect();
            names(nics.iter())
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[4, 4]), "rank 4");
        assert_eq!(of(&[2, 0, 1]), "ranks 0 to 2");
        assert_eq!(of(&[0, 2, 3]), "ranks 0, 2, 3");
        assert_eq!(names([nic(None, 5, [0; 3]), nic(None, 6, [0; 3])].iter()), "processes 5 to 6");
    }
}
