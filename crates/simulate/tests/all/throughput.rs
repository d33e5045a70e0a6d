//! What the whole of Edge gets out of links, in virtual time: a golden table over loss, delay, disorder and rails.
//! Queue pairs, segments, packets, acknowledgements and controllers are the real ones. The numbers follow from the
//! seed, and are the same on every machine.

use core::fmt::Write as _;
use core::time::Duration;

use weft_simulate::EdgeScenario;

const MS: Duration = Duration::from_millis(1);
/// Bits per second of each rail.
const RATE: u64 = 25_000_000;

fn table() -> String {
    let mut text =
        "Edge, payload in place, per mille of what the rails carry: 25 Mb/s each, 2 s, packets of 1500 bytes\n\
                    rails    rtt  reordered  loss 0 %  0.1 %    1 %    2 %\n"
            .to_owned();
    for rails in [1, 2, 4] {
        for round_trip in [MS, 10 * MS, 50 * MS] {
            for late in [0, 50_000] {
                let _ = write!(text, "{rails:5} {:3} ms  {:7} %  ", round_trip.as_millis(), late / 10_000);
                for lost in [0, 1000, 10_000, 20_000] {
                    let (rate, late_by, span) = (RATE, round_trip / 2, 2000 * MS);
                    let scenario = EdgeScenario { seed: 7, rails, rate, round_trip, late, late_by, lost, span };
                    let report = scenario.run().unwrap();
                    let _ = write!(text, "{:7}", report.per_mille(rails, rate));
                }
                text.push('\n');
            }
        }
    }
    text
}

/// After a change that is meant: put in what the test has printed.
#[test]
fn edge_gets_what_it_got() {
    let table = table();
    assert!(table == include_str!("throughput.txt"), "tests/all/throughput.txt has changed; it is now:\n{table}");
}
