//! What one direction does to packets at a time.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use weft_emulate::{Chance, CoDel, DelayTable, Delayed, Loss, Mtu, Profile, Queue, RateTrace, Settings, Spread};

use crate::units::BitsPerSecond;

/// How long a packet may be held: by delay, jitter, deviation, scale, or what a reordered one takes more.
pub const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10);

/// What a direction may carry. Below it one packet takes longer than any test lasts; no processor carries more.
pub const RATE: RangeInclusive<BitsPerSecond> = BitsPerSecond(1000)..=BitsPerSecond(100_000_000_000);

/// How many bytes its queue may hold: a small packet at least.
pub const QUEUE: RangeInclusive<u64> = 1500..=1_000_000_000;

/// How long bursts of loss may be on average, in packets.
pub const BURST: RangeInclusive<u32> = 1..=10_000;

/// How many bits of a corrupted packet may be flipped.
pub const FLIPS: RangeInclusive<u8> = 1..=4;

/// The largest packet that passes, in bytes.
pub const MTU: RangeInclusive<u32> = 68..=65_535;

/// Packets that a direction may have in flight: 1 Gb/s of 1500 bytes for 1.5 s. More are dropped as if its queue were
/// full.
const IN_FLIGHT: usize = 1 << 17;

/// What one direction does to packets. [`Default`]: nothing. Shares are in millionths, of each packet by chance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How long each packet takes: one of [`DELAY`].
    pub delay: Duration,
    /// Up to how much longer, each time as likely: one of [`DELAY`].
    pub jitter: Duration,
    /// How delays are spread around that.
    pub spread: Spread,
    /// Delays as they were measured, in place of the spread.
    pub delays: Option<Arc<DelayTable>>,
    /// How much of what the spread says of a packet it says of the next.
    pub correlation_millionths: u32,
    /// Whether packets overtake each other where jitter or spread have it so.
    pub overtakes: bool,
    /// What it carries: one of [`RATE`], in bits of IP packets. `None`: no limit.
    pub rate: Option<BitsPerSecond>,
    /// What it carries when, in place of the rate.
    pub trace: Option<Arc<RateTrace>>,
    /// What may wait for that, in bytes: one of [`QUEUE`]. `None`: 500 000.
    pub queue_bytes: Option<u64>,
    /// How many bytes must wait for a packet to be marked that can be (RFC 3168). `None`: none is.
    pub mark_at: Option<u64>,
    /// Whether CoDel has a hand in what waits.
    pub codel: Option<CoDel>,
    /// Packets that are lost.
    pub loss_millionths: u32,
    /// How many of them in a row, on average: one of [`BURST`]. `None`: as chance has it.
    pub burst: Option<u32>,
    /// Loss by the model of Gilbert and Elliott, in place of that.
    pub gilbert: Option<Gilbert>,
    /// Packets that others overtake.
    pub reorder_millionths: u32,
    /// Up to how much later they come: one of [`DELAY`]. `None`: 1 ms.
    pub reorder_by: Option<Duration>,
    /// Packets that come twice, the copy at once.
    pub duplicate_millionths: u32,
    /// Packets in which bits are flipped.
    pub corrupt_millionths: u32,
    /// How many in a packet, at most: one of [`FLIPS`]. `None`: four.
    pub corrupt_bits: Option<u8>,
    /// The largest packet that passes, in bytes: one of [`MTU`]. What is larger is dropped without a word.
    pub mtu: Option<u32>,
    /// Whether nothing passes.
    pub is_cut: bool,
}

/// A way that is good or bad, and changes between packets (Gilbert 1960, Elliott 1963), in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gilbert {
    /// A good way becomes bad.
    pub good_to_bad: u32,
    /// A bad way becomes good.
    pub bad_to_good: u32,
    /// A packet is lost while it is good.
    pub loss_in_good: u32,
    /// A packet is lost while it is bad.
    pub loss_in_bad: u32,
}

/// What does not go, and the key that says it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) key: &'static str,
    pub(crate) words: String,
}

impl Conditions {
    /// Whether every value is within its limits, and goes with the others.
    ///
    /// # Errors
    /// What does not, in words.
    pub fn check(&self) -> Result<(), String> {
        self.find_fault().map_err(|Fault { words, .. }| words)
    }

    /// The same, with the key that it is about.
    pub(crate) fn find_fault(&self) -> Result<(), Fault> {
        let (spread, deviation) = match self.spread {
            Spread::None => ("normal", Duration::ZERO),
            Spread::Normal { deviation } => ("normal", deviation),
            Spread::Pareto { scale, .. } => ("pareto", scale),
        };
        let reorder_by = self.reorder_by.unwrap_or_default();
        let times = [
            ("delay", "delay", self.delay),
            ("jitter", "jitter", self.jitter),
            (spread, "spread", deviation),
            ("reorder-by", "reorder-by", reorder_by),
        ];
        if let Some((key, name, value)) = times.into_iter().find(|(.., value)| !DELAY.contains(value)) {
            let words = format!("a {name} of {value:?} is out of range; it is 0 to {:?}", DELAY.end());
            return Err(Fault { key, words });
        }
        let needs_rate = |key, words: &str| Err(Fault { key, words: words.to_owned() });
        match self {
            Self { rate: Some(rate), .. } => within("rate", rate, &RATE)?,
            Self { trace: None, queue_bytes: Some(_), .. } => {
                return needs_rate("queue", "a queue needs a rate or a trace");
            }
            Self { trace: None, codel: Some(_), .. } => return needs_rate("codel", "codel needs a rate or a trace"),
            Self { trace: None, mark_at: Some(_), .. } => {
                return needs_rate("mark-at", "mark-at needs a rate or a trace");
            }
            _ => (),
        }
        self.queue_bytes.map_or(Ok(()), |bytes| within("queue", &bytes, &QUEUE))?;
        self.burst.map_or(Ok(()), |burst| within("burst", &burst, &BURST))?;
        self.corrupt_bits.map_or(Ok(()), |bits| within("corrupt-bits", &bits, &FLIPS))?;
        self.mtu.map_or(Ok(()), |mtu| within("mtu", &mtu, &MTU))?;
        let is_spread = self.spread != Spread::None || self.delays.is_some();
        let (key, words) = match self {
            Self { loss_millionths: 0, burst: Some(_), .. } => ("burst", "burst needs a loss"),
            Self { corrupt_millionths: 0, corrupt_bits: Some(_), .. } => {
                ("corrupt-bits", "corrupt-bits needs a share that is corrupted")
            }
            Self { reorder_millionths: 0, reorder_by: Some(_), .. } => {
                ("reorder-by", "reorder-by needs a share that is reordered")
            }
            Self { reorder_by: Some(Duration::ZERO), .. } => {
                ("reorder-by", "reorder-by 0 reorders nothing; say a time")
            }
            Self { correlation_millionths: 1.., .. } if !is_spread => {
                ("correlation", "correlation needs normal, pareto or delays")
            }
            Self { correlation_millionths: 1_000_000.., .. } => {
                ("correlation", "a correlation of 100 % never changes; say less")
            }
            Self { overtakes: true, jitter: Duration::ZERO, .. } if !is_spread => {
                ("overtake", "overtake needs jitter, normal, pareto or delays")
            }
            Self { gilbert: Some(Gilbert { good_to_bad: 0, .. }), .. } => {
                ("good-to-bad", "good-to-bad 0 never becomes bad; say more")
            }
            Self { gilbert: Some(Gilbert { bad_to_good: 0, .. }), .. } => {
                ("good-to-bad", "a bad way needs bad-to-good, or it stays so for ever")
            }
            _ => return Ok(()),
        };
        Err(Fault { key, words: words.to_owned() })
    }

    /// Whether it does nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// As the emulator takes it. Packets have this many bytes beside those that are handed in, up to the header of IP.
    #[must_use]
    pub fn profile(&self, header_bytes: u32) -> Profile {
        let queue = Queue { bytes: self.queue_bytes.unwrap_or(Queue::default().bytes), mark_at: self.mark_at };
        let delayed = |share: u32, by: Duration| Delayed { chance: Chance::per_million(share), by };
        let settings = Settings {
            delay: self.delay,
            jitter: self.jitter,
            spread: self.spread,
            correlation: Chance::per_million(self.correlation_millionths),
            overtakes: self.overtakes,
            rate_bits_per_s: self.rate.map(|rate| rate.0),
            queue,
            codel: self.codel,
            loss: self.loss(),
            reordering: delayed(self.reorder_millionths, self.reorder_by.unwrap_or(Duration::from_millis(1))),
            duplication: delayed(self.duplicate_millionths, Duration::ZERO),
            corruption: Chance::per_million(self.corrupt_millionths),
            most_flips: self.corrupt_bits.unwrap_or(*FLIPS.end()),
            mtu: self.mtu.map(|bytes| Mtu { bytes, tells: false }),
            header_bytes,
            frame_bytes: 0,
            in_flight: IN_FLIGHT,
            ..Settings::default()
        };
        Profile { settings, delays: self.delays.clone(), trace: self.trace.clone() }
    }

    fn loss(&self) -> Loss {
        let chance = Chance::per_million;
        match (self.gilbert, self.burst) {
            (Some(Gilbert { good_to_bad, bad_to_good, loss_in_good, loss_in_bad }), _) => Loss::Bursts {
                worsens: chance(good_to_bad),
                mends: chance(bad_to_good),
                in_good: chance(loss_in_good),
                in_bad: chance(loss_in_bad),
            },
            (None, Some(length)) => Loss::bursts(chance(self.loss_millionths), length),
            (None, None) if self.loss_millionths > 0 => Loss::Independent(chance(self.loss_millionths)),
            (None, None) => Loss::None,
        }
    }
}

fn within<T: PartialOrd + fmt::Display>(key: &'static str, value: &T, range: &RangeInclusive<T>) -> Result<(), Fault> {
    if range.contains(value) {
        return Ok(());
    }
    let words = format!("a {key} of {value} is out of range; it is {} to {}", range.start(), range.end());
    Err(Fault { key, words })
}

fn percent(millionths: u32) -> f64 {
    f64::from(millionths) / 10_000.0
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.is_cut.then(|| "cut".to_owned()));
        words.extend(self.rate.map(|rate| format!("rate {rate}")));
        words.extend(self.trace.as_ref().map(|trace| {
            format!("trace of {:?}, {} on average", trace.period(), BitsPerSecond(trace.mean_bits_per_s()))
        }));
        words.extend(self.queue_bytes.map(|bytes| format!("queue {bytes} bytes")));
        words.extend(self.codel.map(|codel| format!("codel {:?} in {:?}", codel.target, codel.interval)));
        for (name, value) in [("delay", self.delay), ("jitter", self.jitter)] {
            words.extend((!value.is_zero()).then(|| format!("{name} {value:?}")));
        }
        words.extend(self.delays.is_some().then(|| "delays of a file".to_owned()));
        words.extend(match self.spread {
            Spread::None => None,
            Spread::Normal { deviation } => Some(format!("normal {deviation:?}")),
            Spread::Pareto { scale, shape_thousandths } => {
                Some(format!("pareto {scale:?}, shape {}", f64::from(shape_thousandths) / 1000.0))
            }
        });
        if let Some(Gilbert { good_to_bad, bad_to_good, loss_in_good, loss_in_bad }) = self.gilbert {
            let [to_bad, to_good, good, bad] = [good_to_bad, bad_to_good, loss_in_good, loss_in_bad].map(percent);
            words.push(format!("good to bad {to_bad} %, bad to good {to_good} %, loss {good} % and {bad} %"));
        }
        let shares = [
            ("correlation", self.correlation_millionths),
            ("loss", self.loss_millionths),
            ("reorder", self.reorder_millionths),
            ("duplicate", self.duplicate_millionths),
            ("corrupt", self.corrupt_millionths),
        ];
        words.extend(shares.into_iter().filter(|(_, share)| *share > 0).map(|(name, share)| {
            match (name, self.burst) {
                ("loss", Some(burst)) => format!("loss {} % in bursts of {burst}", percent(share)),
                _ => format!("{name} {} %", percent(share)),
            }
        }));
        words.extend(self.mtu.map(|mtu| format!("mtu {mtu}")));
        f.write_str(&if words.is_empty() { "nothing".to_owned() } else { words.join(", ") })
    }
}
