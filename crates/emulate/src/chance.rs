//! What happens by chance, and how often.

use weft_base::Random;

/// How often something happens, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u32);

const MILLION: u32 = 1_000_000;

impl Chance {
    /// Not at all.
    pub const NEVER: Self = Self(0);
    /// Each time.
    pub const ALWAYS: Self = Self(MILLION);

    /// This often of a million times; more is always.
    #[must_use]
    pub const fn per_million(times: u32) -> Self {
        Self(if times < MILLION { times } else { MILLION })
    }

    /// Once in `n` times; 0 is never.
    #[must_use]
    pub const fn one_in(n: u32) -> Self {
        match MILLION.checked_div(n) {
            Some(times) => Self(times),
            None => Self::NEVER,
        }
    }

    /// This often of a hundred times.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self::per_million(percent.saturating_mul(MILLION / 100))
    }

    /// Times of a million.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Whether it happens this time.
    pub fn happens(self, random: &mut Random) -> bool {
        self.0 > 0 && random.below(u64::from(MILLION)) < u64::from(self.0)
    }
}

/// Which packets are lost in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same chance, whatever happened to others.
    Independent(Chance),
    /// In bursts: the way is good or bad, and changes between packets (Gilbert 1960, Elliott 1963).
    Bursts {
        /// A good way becomes bad.
        worsens: Chance,
        /// A bad way becomes good.
        mends: Chance,
        /// A packet is lost while it is good.
        in_good: Chance,
        /// A packet is lost while it is bad.
        in_bad: Chance,
    },
}

impl Loss {
    /// Bursts of `length` packets each on average, in which all are lost, so that `share` of all packets is.
    #[must_use]
    pub fn bursts(share: Chance, length: u32) -> Self {
        let mends = u64::from(MILLION / length.max(1));
        let (lost, kept) = (u64::from(share.0), u64::from(MILLION - share.0).max(1));
        // In the long run the way is bad for worsens / (worsens + mends) of the packets.
        let worsens = u32::try_from(mends * lost / kept).unwrap_or(MILLION);
        Self::Bursts {
            worsens: Chance::per_million(worsens),
            mends: Chance::per_million(mends as u32),
            in_good: Chance::NEVER,
            in_bad: Chance::ALWAYS,
        }
    }

    /// Whether the next packet is lost. `is_bad` is what is remembered between packets.
    pub(crate) fn takes(self, is_bad: &mut bool, random: &mut Random) -> bool {
        match self {
            Self::None => false,
            Self::Independent(chance) => chance.happens(random),
            Self::Bursts { worsens, mends, in_good, in_bad } => {
                *is_bad ^= if *is_bad { mends } else { worsens }.happens(random);
                if *is_bad { in_bad } else { in_good }.happens(random)
            }
        }
    }
}
