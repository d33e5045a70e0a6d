//! What a carrier has done, and how late it was.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_emulate::Statistics;
use weft_lab::Lateness;

use crate::carrier::Losses;

/// What is marked as late: a part of the delay.
const LATE_PART: u32 = 10;

/// What a carrier has done until now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// By what packets come and go: `queue` or `rings`.
    pub carrier: String,
    /// For how long it has carried them, in nanoseconds.
    pub lasted_ns: u64,
    /// From the first host to the second, and back.
    pub forward: DirectionReport,
    /// The other direction.
    pub reverse: DirectionReport,
    /// Packets that were longer than the MTU, and dropped.
    pub too_long: u64,
    /// Packets that an interface or the kernel did not take.
    pub refused: u64,
    /// Times at which the kernel had no room to hand over packets.
    pub overruns: u64,
    /// Whether the p99 of lateness of a direction was above a tenth of the shortest delay that was set for it.
    pub is_late: bool,
}

/// What became of the packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionReport {
    /// The shortest delay that was set, in nanoseconds; 0: none was.
    pub delay_ns: u64,
    /// Packets that came. Of super-packets each is one.
    pub packets: u64,
    /// Bytes of IP that they had.
    pub bytes: u64,
    /// Packets that were forwarded, copies included.
    pub delivered: u64,
    /// Bytes of IP that they had.
    pub delivered_bytes: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped, for the queue was full.
    pub overflowed: u64,
    /// Dropped by CoDel.
    pub codel_dropped: u64,
    /// Lost while nothing passed.
    pub cut: u64,
    /// Larger than the scenario's MTU.
    pub too_large: u64,
    /// Marked, in place of being dropped.
    pub marked: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Held back, so that others may overtake them.
    pub held_back: u64,
    /// Copies that were made.
    pub duplicated: u64,
    /// Packets that were in flight at the end.
    pub on_the_way: u64,
    /// How much later than they should have they were forwarded.
    pub lateness: Lateness,
}

impl DirectionReport {
    pub(crate) fn new(statistics: Statistics, lateness: Lateness) -> Self {
        Self {
            packets: statistics.sent,
            delivered: statistics.delivered,
            lost: statistics.lost,
            overflowed: statistics.overflowed,
            codel_dropped: statistics.codel_dropped,
            cut: statistics.cut,
            too_large: statistics.too_large,
            marked: statistics.marked,
            corrupted: statistics.corrupted,
            held_back: statistics.held_back,
            duplicated: statistics.duplicated,
            lateness,
            ..Self::default()
        }
    }

    const fn is_late(&self) -> bool {
        self.delay_ns > 0 && self.lateness.p99_ns > self.delay_ns / LATE_PART as u64
    }
}

impl Report {
    pub(crate) fn new(carrier: &str, lasted: Duration, directions: [DirectionReport; 2], losses: Losses) -> Self {
        let [forward, reverse] = directions;
        Self {
            carrier: carrier.to_owned(),
            lasted_ns: u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
            is_late: forward.is_late() || reverse.is_late(),
            forward,
            reverse,
            too_long: losses.too_long,
            refused: losses.refused,
            overruns: losses.overruns,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.lasted_ns as f64 / 1e9;
        writeln!(f, "carried by {} for {seconds:.1} s", self.carrier)?;
        for (name, direction) in [("forward", &self.forward), ("reverse", &self.reverse)] {
            let DirectionReport { packets, bytes, delivered, lateness, .. } = direction;
            writeln!(f, "{name}: {packets} packets of {bytes} bytes, of which {delivered} went on")?;
            let counts = [
                ("lost", direction.lost),
                ("dropped, the queue was full", direction.overflowed),
                ("dropped by CoDel", direction.codel_dropped),
                ("lost while cut", direction.cut),
                ("larger than the MTU of the scenario", direction.too_large),
                ("marked", direction.marked),
                ("corrupted", direction.corrupted),
                ("held back", direction.held_back),
                ("copies", direction.duplicated),
                ("on the way", direction.on_the_way),
            ];
            for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                writeln!(f, "  {count} {what}")?;
            }
            if *delivered > 0 {
                writeln!(f, "  lateness: {lateness}")?;
            }
        }
        if self.too_long > 0 {
            writeln!(
                f,
                "{} frames were longer than the MTU and were dropped: switch segmentation offload off \
                 (ethtool -K INTERFACE tso off gso off gro off tx-udp-segmentation off)",
                self.too_long
            )?;
        }
        if self.refused > 0 {
            writeln!(f, "{} packets were not taken: the interface was down, or its queue full", self.refused)?;
        }
        if self.overruns > 0 {
            writeln!(
                f,
                "packets were lost {} times because they came faster than they were taken; more room for them: \
                 sysctl -w net.core.rmem_max=16777216",
                self.overruns
            )?;
        }
        if self.is_late {
            writeln!(f, "LATE: the p99 of lateness is above a tenth of the delay; figures taken through it say less")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_delay_is_late() {
        let report = |p99_ns, delay_ns| {
            let lateness = Lateness { p99_ns, ..Lateness::default() };
            let forward = DirectionReport { delay_ns, lateness, delivered: 1, ..DirectionReport::default() };
            Report::new("queue", Duration::from_secs(1), [forward, DirectionReport::default()], Losses::default())
        };
        assert!(!report(400_000, 4_000_000).is_late && report(400_001, 4_000_000).is_late);
        assert!(!report(400_001, 0).is_late, "without a delay nothing is late");
        assert!(report(400_001, 4_000_000).to_string().contains("LATE"));
        let text = serde_json::to_string(&report(1, 2)).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report(1, 2));
    }
}
