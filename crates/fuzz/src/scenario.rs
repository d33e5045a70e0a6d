//! Scenarios, traces and tables of delays, and the links that they make.

use std::time::Duration;

use weft_base::{Ecn, Time};
use weft_emulate::{DelayTable, Packet, RateTrace};
use weft_scenario::{Direction, Scenario};

/// Packets that go through what was read.
const PACKETS: u64 = 200;

/// A scenario, whose files are the text itself. What was read can be shown, and its links account for each packet.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let files = |_: &str| Ok("3\n7\n7\n20\n".to_owned());
    let scenario = match Scenario::parse(text, files) {
        Ok(scenario) => scenario,
        Err(error) => {
            let lines = 1..=text.split('\n').count();
            assert!(!error.message.is_empty() && lines.contains(&error.line));
            return;
        }
    };
    for direction in Direction::ALL {
        assert!(scenario.changes(direction).all(|(_, conditions)| conditions.check().is_ok()));
        assert!(scenario.changes(direction).all(|(_, conditions)| !conditions.to_string().is_empty()));
        let mut runs = [0, 1].map(|_| carry(&scenario, direction));
        assert_eq!(runs[0], runs[1], "a seed is a run");
        runs[0].clear();
    }
}

/// When which packets come.
fn carry(scenario: &Scenario, direction: Direction) -> Vec<(Time, u64)> {
    let mut link = scenario.link(direction, Time::ZERO, 28);
    let mut came = Vec::new();
    let mut now = Time::ZERO;
    for number in 0..PACKETS {
        now = now + Duration::from_micros(number * 997 % 20_000);
        let packet = Packet { bytes: vec![7; (number * 31 % 1500) as usize], ecn: Ecn::Capable0, tag: number };
        link.send(packet, now);
        came.extend(std::iter::from_fn(|| link.deliver_timed(now)).map(|(at, packet)| (at, packet.tag)));
    }
    let end = Time::from_nanos(u64::MAX);
    came.extend(std::iter::from_fn(|| link.deliver_timed(end)).map(|(at, packet)| (at, packet.tag)));
    let s = link.statistics();
    let gone = s.delivered + s.lost + s.overflowed + s.codel_dropped + s.cut + s.too_large;
    assert_eq!(s.sent + s.duplicated, gone + link.in_flight() as u64);
    came
}

/// A trace, and a table of delays.
pub fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(trace) = RateTrace::parse(text) {
        assert!(!trace.period().is_zero());
        // Each millisecond may have several packets, and the longest trace is 49 days.
        assert!(trace.mean_bits_per_s() <= 8 * 1504 * 1000 * data.len() as u64);
    }
    let _ = DelayTable::parse(text);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "seed = 9\n[both]\ndelay = \"4ms\"\nnormal = \"500us\"\ncorrelation = 25\n[reverse]\nrate = \"10M\"\n\
         codel = \"10ms\"\nqueue = 30000\n[[step]]\nat = \"10ms\"\nboth.delay = \"8ms\"\nreverse.trace = \"x\"\n",
        "[forward]\nloss = 1\nburst = 3\nreorder = 5\nreorder-by = \"1ms\"\nduplicate = 2\ncorrupt = 1\nmtu = 1400\n",
        "both.good-to-bad = 1\nboth.bad-to-good = 20\nboth.delays = \"x\"\nboth.overtake = true\n",
        "both.pareto = \"1ms\"\nboth.pareto-shape = 1.5\n[[step]]\nat = \"1s\"\nforward = { cut = true }\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn lines() -> Vec<Vec<u8>> {
    ["1\n2\n2\n9\n", "# measured\n10.5\n\n20\n", "0\n0\n1\n"].map(|text| text.as_bytes().to_vec()).to_vec()
}
