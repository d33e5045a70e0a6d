//! The contestant: a carrier, and of TCP its congestion control.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use crate::experiments::links::side::Carrier;

/// Which of two streams over the same links begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Begins {
    /// Both at the same time
    Together,
    /// The measured one
    Own,
    /// The one beside it
    Beside,
}

impl fmt::Display for Begins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

/// A carrier, with the congestion control of its streams if it is not the lab's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contestant {
    pub(crate) carrier: Carrier,
    /// As the operating system names it; of TCP's streams alone.
    pub(crate) congestion: Option<String>,
}

/// Whose stream is to go over the same links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// A second one of each contestant.
    Same,
    Named(Contestant),
}

/// The name of [`Other::Same`].
const SAME: &str = "same";

/// A stream over the same links as the measured one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) contestant: &'a Contestant,
    /// Whether it is of the same kind as the measured one, whichever that is.
    is_same: bool,
    /// How long its frames take, in each direction; `None`: as long as those of the measured one.
    pub(crate) delay: Option<Duration>,
}

impl Other {
    /// The stream beside one of that contestant.
    pub(crate) fn beside<'a>(&'a self, own: &'a Contestant, delay: Option<Duration>) -> Beside<'a> {
        match self {
            Self::Same => Beside { contestant: own, is_same: true, delay },
            Self::Named(contestant) => Beside { contestant, is_same: false, delay },
        }
    }
}

impl FromStr for Other {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == SAME { Ok(Self::Same) } else { text.parse().map(Self::Named) }
    }
}

impl fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_same { f.write_str(SAME) } else { self.contestant.fmt(f) }
    }
}

impl Contestant {
    pub(crate) fn of(carrier: Carrier) -> Self {
        Self { carrier, congestion: None }
    }

    /// Whether a system may have none of it, so that the others are measured without it.
    pub(crate) fn may_be_missing(&self) -> bool {
        self.carrier == Carrier::Mptcp || self.congestion.is_some()
    }
}

impl FromStr for Contestant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, congestion) = text.split_once(':').map_or((text, None), |(name, other)| (name, Some(other)));
        let names: Vec<_> = Carrier::value_variants().iter().map(ToString::to_string).collect();
        let carrier = Carrier::from_str(name, true)
            .map_err(|_| format!("links has no {text:?} to measure; it has {}, tcp:bbr", names.join(", ")))?;
        if congestion.is_some() && carrier.has_engines() {
            return Err(format!("{text:?}: TCP alone has a congestion control that can be named"));
        }
        Ok(Self { carrier, congestion: congestion.map(str::to_owned) })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.carrier.fmt(f)?;
        self.congestion.iter().try_for_each(|congestion| write!(f, ":{congestion}"))
    }
}

impl Serialize for Contestant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in ["edge", "iwarp", "tcp", "tcp:bbr", "mptcp:reno"] {
            assert_eq!(name.parse::<Contestant>().unwrap().to_string(), name);
        }
        assert!("edge:bbr".parse::<Contestant>().unwrap_err().contains("TCP alone"));
        assert!("udp".parse::<Contestant>().unwrap_err().contains("edge, iwarp, tcp"));
    }

    #[test]
    fn a_stream_beside_is_named_or_of_the_same_kind() {
        let own = Contestant::of(Carrier::Edge);
        for (name, contestant) in [("same", "edge"), ("edge", "edge"), ("tcp:bbr", "tcp:bbr")] {
            let other: Other = name.parse().unwrap();
            let beside = other.beside(&own, None);
            assert_eq!((beside.to_string(), beside.contestant.to_string()), (name.to_owned(), contestant.to_owned()));
        }
        assert!("other".parse::<Other>().is_err());
    }
}
