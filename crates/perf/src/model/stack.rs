//! How the measured iWARP stack is set: by options of the command for all contestants, by a variant for one of them.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use weft_command::progress::{Progress, Split};
use weft_command::switch::Switch;
use weft_command::transport::Transport;

/// When a frame's payload goes to its place, relative to the check of its CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verify {
    /// After it, always
    BeforePlace,
    /// Large frames are read into place and checked there
    LargeInPlace,
}

/// How long frames may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fpdu {
    /// As long as the length field allows
    Large,
    /// No longer than a packet of the path
    Path,
}

/// Markers in the stream, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Markers {
    /// None
    Off,
    /// Every 512 bytes, as the standard has it
    #[value(alias = "512")]
    On,
    /// Every 1024 bytes
    #[value(name = "1K", alias = "1k")]
    #[serde(rename = "1K")]
    Every1K,
    /// Every 2048 bytes
    #[value(name = "2K", alias = "2k")]
    #[serde(rename = "2K")]
    Every2K,
}

/// How the bytes of short messages come into the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Short {
    /// In the work request itself
    Inline,
    /// Fetched from memory that the work request names
    Descriptor,
}

/// All of it.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stack {
    /// What carries Weft's connections
    #[arg(skip = Transport::Iwarp)]
    pub(crate) transport: Transport,
    /// The checksum over each frame, where a contestant has one
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) crc: Switch,
    /// Markers in the stream, where a contestant has them
    #[arg(long, value_enum, default_value_t = Markers::Off)]
    pub(crate) markers: Markers,
    /// When iwarp places received segments
    #[arg(long, value_enum, default_value_t = Verify::LargeInPlace)]
    pub(crate) verify: Verify,
    /// How long frames of iwarp may be
    #[arg(long, value_enum, default_value_t = Fpdu::Large)]
    pub(crate) fpdu: Fpdu,
    /// The thread that runs iwarp's event loop [default: the library's; thread when the split needs it]
    #[arg(long, value_enum)]
    pub(crate) progress: Option<Progress>,
    /// Which stages of iwarp run on the calling thread, which on the NIC's
    #[arg(long, value_enum, default_value_t = Split::Host)]
    pub(crate) split: Split,
    /// Engines that share the connections, and the rails of each that goes over Edge.
    #[arg(skip = 1_usize)]
    pub(crate) engines: usize,
    /// How long iwarp's caller may be away before the NIC's thread acts, at most, in microseconds [default: the
    /// library's]
    #[arg(long, value_name = "US")]
    pub(crate) away: Option<u64>,
    /// How the bytes of iwarp's short messages come into the stack
    #[arg(long, value_enum, default_value_t = Short::Inline)]
    pub(crate) short: Short,
    /// Whether connections go by the raw link, where there is one (--lab, --link): edge in frames of its own, iwarp
    /// over Weft's own TCP
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub(crate) raw: Switch,
    /// Whether memory must end as if all writes had come in order, where a contestant's writes can do without
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) order: Switch,
    /// Whether the job has a key, which each end proves to the other.
    #[arg(skip = Switch::Off)]
    pub(crate) key: Switch,
}

impl Stack {
    /// The names of all settings, as a variant has them.
    const NAMES: &str = "transport, crc, markers, verify, fpdu, progress, split, engines, away, short, raw, order, key";

    /// With what a variant says instead: `crc=off:markers=on`.
    pub(crate) fn with(mut self, variant: Option<&str>) -> Result<Self, String> {
        for part in variant.iter().flat_map(|variant| variant.split(':')) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("{part:?} is no setting; write for instance crc=off"));
            };
            match name {
                "transport" => self.transport = choice(part, value)?,
                "crc" => self.crc = choice(part, value)?,
                "markers" => self.markers = choice(part, value)?,
                "verify" => self.verify = choice(part, value)?,
                "fpdu" => self.fpdu = choice(part, value)?,
                "progress" => self.progress = Some(choice(part, value)?),
                "split" => self.split = choice(part, value)?,
                "engines" => self.engines = number(part, value)?,
                "away" => self.away = Some(number(part, value)?),
                "short" => self.short = choice(part, value)?,
                "raw" => self.raw = choice(part, value)?,
                "order" => self.order = choice(part, value)?,
                "key" => self.key = choice(part, value)?,
                _ => return Err(format!("there is no setting {name:?}; there are {}", Self::NAMES)),
            }
        }
        Ok(self)
    }

    /// The thread that runs the event loop; `None`: the library decides.
    pub(crate) fn progress(&self) -> Option<Progress> {
        self.split.progress(self.progress)
    }
}

fn choice<T: ValueEnum>(part: &str, value: &str) -> Result<T, String> {
    T::from_str(value, false).map_err(|_| {
        let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        format!("{part:?} is not possible; there are {}", names.join(", "))
    })
}

fn number<T: std::str::FromStr>(part: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{part:?} is not possible; it takes a number"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What the command sets without options.
    pub(crate) fn stack() -> Stack {
        Stack {
            transport: Transport::Iwarp,
            crc: Switch::On,
            markers: Markers::Off,
            verify: Verify::LargeInPlace,
            fpdu: Fpdu::Large,
            progress: None,
            split: Split::Host,
            engines: 1,
            away: None,
            short: Short::Inline,
            raw: Switch::Off,
            order: Switch::On,
            key: Switch::Off,
        }
    }

    fn with(variant: &str) -> Result<Stack, String> {
        stack().with(Some(variant))
    }

    #[test]
    fn a_variant_overrides_the_options() {
        let plain = stack();
        assert_eq!(plain.with(None), Ok(plain));
        assert_eq!(with("markers=on:crc=off"), Ok(Stack { crc: Switch::Off, markers: Markers::On, ..plain }));
        assert_eq!(with("markers=512").unwrap().markers, Markers::On);
        assert_eq!(with("markers=2K").unwrap().markers, Markers::Every2K);
        assert_eq!(with("verify=before-place"), Ok(Stack { verify: Verify::BeforePlace, ..plain }));
        assert_eq!(with("fpdu=path"), Ok(Stack { fpdu: Fpdu::Path, ..plain }));
        assert_eq!(with("engines=2:away=50"), Ok(Stack { engines: 2, away: Some(50), ..plain }));
        assert_eq!(with("transport=edge"), Ok(Stack { transport: Transport::Edge, ..plain }));
        assert_eq!(with("raw=on"), Ok(Stack { raw: Switch::On, ..plain }));
        assert_eq!(with("key=on"), Ok(Stack { key: Switch::On, ..plain }));
        assert_eq!(with("order=off"), Ok(Stack { order: Switch::Off, ..plain }));
        assert_eq!(with("short=descriptor"), Ok(Stack { short: Short::Descriptor, ..plain }));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        assert!(with("fast").unwrap_err().contains("\"fast\""));
        assert!(with("speed=on").unwrap_err().contains("\"speed\""));
        assert!(with("verify=never").unwrap_err().contains("large-in-place"));
        assert!(with("engines=many").unwrap_err().contains("number"));
    }

    #[test]
    fn a_split_brings_its_thread() {
        assert_eq!(stack().progress(), None);
        assert_eq!(with("split=assist").unwrap().progress(), Some(Progress::Thread));
        assert_eq!(
            with("split=assist:progress=hybrid").unwrap().progress(),
            Some(Progress::Hybrid),
            "for the library to refuse"
        );
    }
}
