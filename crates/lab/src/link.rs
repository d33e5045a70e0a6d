//! Links of a lab by name, and the ways in which they fail.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A link of a lab, as people name it: `rail1` is all of rail 1, `2:rail1` is host 2's cable to it. `1` and `2:1` are
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// Whose cable, from 0; `None`: those of all hosts.
    pub host: Option<usize>,
    /// To which rail, from 0.
    pub rail: usize,
}

/// How a link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The host sees its interface without a carrier. Where two hosts are joined directly, the other sees its interface
    /// down: a cable without a switch has no third end.
    Carrier,
    /// Nothing passes in either direction, and no host notices.
    Silent,
    /// What the host sends is lost without a word; what is sent to it arrives.
    Send,
    /// What is sent to the host is lost without a word; what it sends arrives.
    Receive,
}

/// How a link between clusters fails, on each rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WanCut {
    /// Both gateways see their interfaces without a carrier.
    Carrier,
    /// Nothing passes in either direction, and no gateway notices.
    Silent,
    /// What this cluster, counted from 0, sends is lost without a word; what is sent to it arrives.
    From(usize),
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no link; write for instance rail0, or 1:rail0 for host 1's cable to it");
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<usize>().ok()).flatten().ok_or_else(wrong)
        };
        let (host, rail) = match text.split_once(':') {
            Some((host, rail)) => (Some(number(host)?), rail),
            None => (None, text),
        };
        Ok(Self { host, rail: number(rail.strip_prefix("rail").unwrap_or(rail))? })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => write!(f, "{host}:rail{}", self.rail),
            None => write!(f, "rail{}", self.rail),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Carrier => "carrier",
            Self::Silent => "silent",
            Self::Send => "send",
            Self::Receive => "receive",
        })
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Carrier, Self::Silent, Self::Send, Self::Receive];
        let found = all.into_iter().find(|way| way.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no way; they are carrier, silent, send and receive"))
    }
}
