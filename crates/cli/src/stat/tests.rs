use weft::verbs::RailReport;
use weft_driver::board::{Snapshot, Table};

use super::*;

fn nic(pid: u32, counters: &[(&str, &[u64])]) -> Snapshot {
    let engines = counters[0].1.len();
    Snapshot {
        pid,
        start: 1,
        nic: 0,
        process: "ring".into(),
        title: String::new(),
        names: counters.iter().map(|(name, _)| (*name).to_owned()).collect(),
        engines: (0..engines).map(|engine| counters.iter().map(|(_, counts)| counts[engine]).collect()).collect(),
        table: Table::default(),
    }
}

/// Two readings, two seconds apart.
fn samples(before: Vec<Snapshot>, now: Vec<Snapshot>) -> (Sample, Sample) {
    let at = Instant::now();
    (Sample::made_up(at, before), Sample::made_up(at + Duration::from_secs(2), now))
}

#[test]
fn the_list_has_totals_and_rates() {
    let counters = |sent| nic(7, &[("connections", &[3]), ("sent_messages", &[10]), ("sent_wire_bytes", &[sent])]);
    let (before, now) = samples(vec![counters(1000)], vec![counters(1000 + 8192), nic(9, &[("unheard", &[1])])]);
    assert_eq!(
        list::page(&Changes::of_one(&before), None),
        "  process  pid  NIC  connections  requests out  bytes out  messages in  bytes in\n\
         \x20 ring       7    0            3            10     1000 B            -         -\n"
    );
    let page = list::page(&Changes::between(&before, &now), None);
    let words = |line: usize| page.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(1), "ring 7 0 0/s 4.0 KiB/s - - 3 10 9.0 KiB - -");
    // It was not there before, and counts nothing that is shown.
    assert_eq!(words(2), "ring 9 0 - - - - - - - - -");
}

#[test]
fn a_process_id_that_came_back_has_no_rates() {
    let (old, mut new) = (nic(7, &[("sends", &[5])]), nic(7, &[("sends", &[9])]));
    new.start += 1;
    let (before, now) = samples(vec![old], vec![new]);
    assert_eq!(Changes::between(&before, &now).nics().next().unwrap().per_second("sends"), None);
}

#[test]
fn a_nic_that_began_anew_has_not_run_backwards() {
    let (before, now) = samples(vec![nic(7, &[("sends", &[5])])], vec![nic(7, &[("sends", &[1])])]);
    assert_eq!(Changes::between(&before, &now).nics().next().unwrap().per_second("sends"), Some(0.0));
}

#[test]
fn details_are_grouped_and_nothing_is_left_out() {
    let counters: &[(&str, &[u64])] = &[
        ("placed_copied_bytes", &[1024, 0]),
        ("placed_direct_bytes", &[1024, 2048]),
        ("thread_ns", &[0, 3_000_000]),
        ("dreams", &[1, 2]),
    ];
    let (_, now) = samples(vec![], vec![nic(7, counters)]);
    let expected = "\
ring, process 7, NIC 0, 2 engines
                                   all  engine 0  engine 1
  placement
    payload copied             1.0 KiB   1.0 KiB       0 B
    payload direct             3.0 KiB   1.0 KiB   2.0 KiB
    direct, of both             75.0 %
  who ran the engine
    time of the NIC's threads   3.0 ms      0 ns    3.0 ms
  more
    dreams                           3         1         2
";
    assert_eq!(detail::page(&Changes::of_one(&now), None), expected);
}

#[test]
fn a_list_of_nothing_is_words() {
    let (_, now) = samples(vec![], vec![]);
    assert!(list::page(&Changes::of_one(&now), None).starts_with("No process"));
}

#[test]
fn a_process_without_a_nic_gets_a_list_of_those_with_one() {
    let message = |pids: &[u32]| {
        let nics = pids.iter().map(|pid| nic(*pid, &[("sends", &[1])])).collect();
        samples(vec![], nics).1.require(5).map_err(|failure| failure.to_string())
    };
    assert_eq!(message(&[5]), Ok(()));
    assert!(message(&[7, 9]).unwrap_err().ends_with("those that have one: 7, 9"));
    assert!(message(&[]).unwrap_err().contains("no other process"));
}

#[test]
fn intervals() {
    for (text, milliseconds) in [("0.1", 100), ("1", 1000), ("3600", 3_600_000)] {
        assert_eq!(interval(text), Ok(Duration::from_millis(milliseconds)));
    }
    for text in ["0", "0.01", "3601", "-1", "NaN", "inf", "soon"] {
        assert!(interval(text).is_err(), "{text}");
    }
}

#[test]
fn data_has_sums_engines_and_rates() {
    let counters = |sends: [u64; 2]| nic(7, &[("sends", &sends)]);
    let (before, now) = samples(vec![counters([1, 1])], vec![counters([2, 4])]);
    let page = data::page(&Changes::between(&before, &now), true);
    assert_eq!(page.lines().count(), 1);
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let expected = serde_json::json!({
        "seconds": 2.0,
        "nics": [{
            "process": "ring", "pid": 7, "nic": 0, "title": "",
            "counters": { "sends": 6 },
            "per_second": { "sends": 2.0 },
            "engines": [{ "sends": 2 }, { "sends": 4 }], "rails": [],
        }],
        "skipped": [],
    });
    assert_eq!(page, expected);
    let first = data::page(&Changes::of_one(&now), false);
    assert!(first.lines().count() > 1 && first.contains("\"per_second\": null"));
}

/// Words of a rail, as boards have them: state 3 is live, 4 is silent.
fn rail(number: u64, state: u64, sent: u64) -> Vec<u64> {
    let mut words = vec![0; RailReport::WORDS];
    let out = if state == 4 { 2 } else { 0 };
    let name = u64::from_be_bytes(*b"rail\0\0\0\0") | (u64::from(b'0') + number) << 24;
    (words[0], words[1], words[2]) = (0xabcd_0123 << 32, number | state << 8 | out << 16, name);
    (words[4], words[5], words[6]) = (0, 0xffff_0a00_0001 | number << 8, 7470 | 1 << 16);
    (words[10], words[11], words[12]) = (125_000_000, 150_001, if state == 4 { 1_500_000_001 } else { 0 });
    (words[15], words[16], words[17]) = (1000, sent, 5);
    words
}

fn nic_with_rails(rows: Vec<Vec<u64>>) -> Snapshot {
    let table = Table { format: RailReport::FORMAT, engines: vec![rows] };
    Snapshot { table, ..nic(7, &[("sends", &[5])]) }
}

#[test]
fn rails_line_up_above_the_counters() {
    let before = vec![rail(0, 3, 0), rail(1, 3, 0)];
    let now = vec![rail(1, 4, 1 << 20), rail(0, 3, 3 << 20), vec![1, 2, 3]];
    let (before, now) = samples(vec![nic_with_rails(before)], vec![nic_with_rails(now)]);
    let page = detail::page(&Changes::of_one(&now), None);
    let expected = "\
ring, process 7, NIC 0, 1 engine
  connection  rail  interface  state               can do  round trip   lost      out   share   in  share  from           to
  abcd0123       0  rail0      live              1.0 Gb/s      150 us  0.5 %  3.0 MiB  75.0 %  0 B      -  10.0.0.1:7470  -
  abcd0123       1  rail1      silent for 1.5 s         -      150 us  0.5 %  1.0 MiB  25.0 %  0 B      -  10.0.1.1:7470  -

";
    assert!(page.starts_with(expected), "{page}");
    let page = detail::page(&Changes::between(&before, &now), None);
    assert!(page.contains(" 12.6 Mb/s ") && page.contains(" 4.2 Mb/s "), "{page}");
    // On a narrow terminal the addresses are there as well.
    let narrow = detail::page(&Changes::between(&before, &now), Some(100));
    assert!(narrow.lines().all(|line| line.chars().count() <= 100), "{narrow}");
    let addresses = narrow.lines().filter(|line| line.starts_with("  abcd0123") && line.contains("10.0.")).count();
    assert!(addresses == 2 && narrow.contains("from") && narrow.contains("12.6 Mb/s"), "{narrow}");
}

#[test]
fn rails_are_data_too() {
    let (_, now) = samples(vec![], vec![nic_with_rails(vec![rail(1, 4, 1000)])]);
    let page: serde_json::Value = serde_json::from_str(&data::page(&Changes::of_one(&now), true)).unwrap();
    let rail = &page["nics"][0]["rails"][0];
    assert_eq!(rail["connection"], "abcd012300000000");
    assert_eq!((&rail["state"], &rail["out"]), (&"silent".into(), &"silent".into()));
    assert_eq!((&rail["silent_seconds"], &rail["sent_share"]), (&1.5.into(), &1.0.into()));
    assert_eq!(rail["sent_bytes_per_second"], serde_json::Value::Null);
}

#[test]
fn rails_of_another_version_are_not_guessed_at() {
    let mut nic = nic_with_rails(vec![rail(0, 3, 1)]);
    nic.table.format += 1;
    let (_, now) = samples(vec![], vec![nic]);
    assert!(!detail::page(&Changes::of_one(&now), None).contains("rail"));
}
