//! Where the processes of a run are.

use std::process::Command;
use std::str::FromStr;
use std::{env, fmt, io};

use weft_lab::{BitsPerSecond, Lab, LabError, Plan};

use super::remote::Target;
use super::session::Process;

/// Where the processes of a run are.
#[derive(Debug)]
pub(crate) enum Place {
    /// All on this machine, on loopback.
    Here,
    /// The passive one on a machine that listens.
    There(Target),
    /// By turns on the two hosts of a network of their own.
    Lab(Lab),
}

/// What was said about a network of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabWish {
    /// None, whatever the test wants.
    Off,
    /// With links of this rate.
    Rate(BitsPerSecond),
}

impl FromStr for LabWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::Rate) }
    }
}

impl Place {
    /// The two hosts of a fresh network, with one link.
    pub(crate) fn lab(rate: Option<BitsPerSecond>) -> Result<Self, LabError> {
        let usual = Plan::default();
        Lab::up(&Plan { rate: rate.or(usual.rate), ..usual }).map(Self::Lab)
    }

    /// Whether it is a network of their own.
    pub(crate) fn is_lab(&self) -> bool {
        matches!(self, Self::Lab(_))
    }

    /// The host that the active side connects to.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Here => "127.0.0.1".into(),
            Self::There(target) => target.host.clone(),
            Self::Lab(lab) => lab.host(0).address(0).to_string(),
        }
    }

    /// The address that a process on this machine takes; `None` when the way decides.
    pub(crate) fn local(&self, rank: usize) -> Option<String> {
        match self {
            Self::Here => Some("127.0.0.1".into()),
            Self::There(_) => None,
            Self::Lab(lab) => Some(lab.host(rank % 2).address(0).to_string()),
        }
    }

    /// The machine of a process that does not run on this one.
    pub(super) fn machine(&self, rank: usize) -> Option<&Target> {
        match self {
            Self::There(target) if rank == 0 => Some(target),
            _ => None,
        }
    }

    /// The command that starts a process on this machine.
    pub(super) fn command(&self, rank: usize) -> io::Result<Command> {
        match self {
            Self::Lab(lab) => Ok(lab.host(rank % 2).command(env::current_exe()?)),
            _ => Process::command(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("loopback"),
            Self::There(target) => write!(f, "to {}", target.host),
            Self::Lab(lab) => match lab.plan().rate {
                Some(rate) => write!(f, "two hosts of a test network, one link of {rate}"),
                None => f.write_str("two hosts of a test network, one link"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_a_rate_or_off() {
        assert_eq!("off".parse(), Ok(LabWish::Off));
        assert_eq!("2.5G".parse(), Ok(LabWish::Rate(BitsPerSecond(2_500_000_000))));
        assert!("on".parse::<LabWish>().is_err());
    }
}
