//! What controllers get out of links, in virtual time: a golden table, and what is asked of the default.

use core::fmt::Write as _;
use core::time::Duration;

use weft_congestion::Algorithm;

use crate::link::{Link, PACKET, run, run_coupled, run_unlike};

mod link;

const MS: Duration = Duration::from_millis(1);
/// 100 Mb/s.
const RATE: u64 = 12_500_000;

fn link(round_trip: Duration) -> Link {
    let link = Link { bytes_per_s: RATE, round_trip, queue_bytes: 0, lost_per_mille: 0, late_per_mille: 0 };
    Link { queue_bytes: link.product().max(24_000), ..link }
}

/// Per mille of the link's rate, of one flow in two seconds, the first ones.
fn share(algorithm: Algorithm, link: Link) -> u64 {
    run(link, &[algorithm], Duration::ZERO, 2000 * MS, 7)[0] * 1000 / RATE
}

fn table(algorithm: Algorithm) -> String {
    let mut text = format!("{algorithm:?}, per mille of the link\n   rtt  reordered  loss 0 %  0.1 %    1 %    2 %\n");
    for rtt_ms in [1, 10, 50] {
        for late_per_mille in [0, 50] {
            let _ = write!(text, "{rtt_ms:3} ms  {:7} %  ", late_per_mille / 10);
            for lost_per_mille in [0, 1, 10, 20] {
                let share = share(algorithm, Link { lost_per_mille, late_per_mille, ..link(rtt_ms * MS) });
                let _ = write!(text, "{share:7}");
            }
            text.push('\n');
        }
    }
    text
}

/// The same numbers on every machine. After a change that is meant: put in what the test has printed.
fn check(name: &str, golden: &str, algorithm: Algorithm) {
    let table = table(algorithm);
    assert!(table == golden, "tests/{name} has changed; it is now:\n{table}");
}

#[test]
fn cubic_gets_what_it_got() {
    check("cubic.txt", include_str!("cubic.txt"), Algorithm::Cubic);
}

#[test]
fn delay_gated_gets_what_it_got() {
    check("delay_gated.txt", include_str!("delay_gated.txt"), Algorithm::DelayGatedCubic);
}

/// One packet in 100 is lost at 4 ms: at least 0.95 of all that the link can carry then.
#[test]
fn the_default_does_not_mind_one_lost_packet_in_a_hundred() {
    let lossy = Link { lost_per_mille: 10, ..link(4 * MS) };
    let (delay_gated, cubic) = (share(Algorithm::default(), lossy), share(Algorithm::Cubic, lossy));
    println!("1 % lost, 4 ms: {delay_gated} per mille of the link; CUBIC {cubic}");
    assert!(delay_gated >= 950 * 990 / 1000, "{delay_gated}");
    assert!(delay_gated > cubic, "{delay_gated}, CUBIC {cubic}");
}

#[test]
fn the_default_does_not_mind_disorder() {
    let ordered = share(Algorithm::default(), link(4 * MS));
    let disordered = share(Algorithm::default(), Link { late_per_mille: 50, ..link(4 * MS) });
    println!("4 ms: {ordered} in order, {disordered} with 5 % late");
    assert!(disordered * 100 >= ordered * 95, "{disordered} of {ordered}");
}

/// Two flows on one bottleneck: each gets 30 % of what both get. Where the queue is so short that it does not show in
/// round trips, a delay-gated flow takes more from CUBIC; still it leaves a fifth.
#[test]
fn the_default_shares_with_cubic_and_with_itself() {
    let mut failed = String::new();
    for other in Algorithm::ALL {
        for (eighths, rtt_ms) in [(1, 20), (4, 4), (8, 4), (16, 4), (8, 20)] {
            let link = link(rtt_ms * MS);
            let link = Link { queue_bytes: link.product() * eighths / 8, ..link };
            let got = run(link, &[Algorithm::default(), other], 500 * MS, 6000 * MS, 7);
            let (first, sum) = (got[0] * 100 / (got[0] + got[1]), got[0] + got[1]);
            println!("{rtt_ms} ms, queue of {eighths}/8: {first} % beside {other:?}, {} together", sum * 1000 / RATE);
            let least = if eighths == 1 { 20 } else { 30 };
            if !(least..=100 - least).contains(&first) {
                let _ = writeln!(failed, "{first} % beside {other:?} with a queue of {eighths}/8 at {rtt_ms} ms");
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Queues of a quarter, all, and four times what the link holds, and either flow first by ten seconds: of the last 40
/// of 60 seconds each gets 30 %, or 15 % where the queue is short or long.
#[test]
fn whichever_begins_leaves_the_other_its_share() {
    let (second, mut failed) = (1000 * MS, String::new());
    for other in Algorithm::ALL {
        for (rtt_ms, quarters) in [(4, 1), (4, 4), (4, 16), (50, 1), (50, 4), (50, 16)] {
            let link = link(rtt_ms * MS);
            let link = Link { queue_bytes: (link.product() * quarters / 4).max(4 * PACKET), ..link };
            for [own, its] in [[Duration::ZERO, 10 * second], [10 * second, Duration::ZERO]] {
                let flows = [(Algorithm::default(), own, Duration::ZERO), (other, its, Duration::ZERO)];
                let got = run_unlike(link, &flows, 20 * second, 40 * second);
                let (first, sum) = (got[0] * 100 / (got[0] + got[1]), got[0] + got[1]);
                let text = format!(
                    "{rtt_ms} ms, queue of {quarters}/4, from {} s: {first} % beside {other:?} from {} s, {} together",
                    own.as_secs(),
                    its.as_secs(),
                    sum * 1000 / RATE
                );
                println!("{text}");
                let least = if quarters == 4 { 30 } else { 15 };
                if !(least..=100 - least).contains(&first) {
                    let _ = writeln!(failed, "{text}");
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Two flows of 10 and 50 ms over one bottleneck: the far one gets what it gets among two of CUBIC, which is a quarter
/// where the queue holds several round trips, and less where losses are frequent and both grow as Reno does.
#[test]
fn a_far_flow_gets_its_share_beside_a_near_one() {
    let second = 1000 * MS;
    for quarters in [1, 4, 16] {
        let link = link(10 * MS);
        let link = Link { queue_bytes: link.product() * quarters / 4, ..link };
        let far = |algorithm| {
            let flow = |farther| (algorithm, Duration::ZERO, farther);
            let got = run_unlike(link, &[flow(Duration::ZERO), flow(40 * MS)], 20 * second, 40 * second);
            got[1] * 100 / (got[0] + got[1])
        };
        let (own, cubic) = (far(Algorithm::default()), far(Algorithm::Cubic));
        println!("queue of {quarters}/4 of the near one: {own} % for the far one, CUBIC {cubic}");
        assert!(own + 5 >= cubic && (quarters < 16 || own >= 25), "{quarters}/4: {own} %, CUBIC {cubic}");
    }
}

/// Four flows of one connection beside one CUBIC flow of somebody else: coupled they take about what one takes, and
/// leave nothing unused. On their own they take far more. What they took too much of at the start they give back
/// slowly.
#[test]
fn four_coupled_flows_share_with_cubic_as_one_does() {
    let mut failed = String::new();
    for rtt_ms in [4, 10, 20] {
        for algorithm in Algorithm::ALL {
            let flows = [algorithm, algorithm, algorithm, algorithm, Algorithm::Cubic];
            let share = |coupled: usize, warm_up: Duration| {
                let got = run_coupled(link(rtt_ms * MS), &flows, coupled, warm_up, 10_000 * MS, 7);
                let sum: u64 = got.iter().sum();
                ((sum - got[4]) * 100 / sum, sum * 1000 / RATE)
            };
            let ((alone, _), (together, used)) = (share(0, 2000 * MS), share(4, 60_000 * MS));
            let text =
                format!("{rtt_ms} ms, {algorithm:?}: {together} % coupled, {alone} % alone; {used} per mille used");
            println!("{text}");
            if !(25..=65).contains(&together) || together + 10 > alone || used < 950 {
                let _ = writeln!(failed, "{text}");
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
