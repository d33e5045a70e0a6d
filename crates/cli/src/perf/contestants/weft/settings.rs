//! What can be set: by options of the command for all, by a variant for one entry.

use clap::ValueEnum;
use weft::verbs::{self, ConnectOptions, Extensions, ListenOptions, MarkerSpacing};

use super::super::super::plan::{Fpdu, Job, Progress, Switch, Verify};

/// Reads under way at a time.
const READS: u16 = 64;

/// Settings of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    crc: Switch,
    markers: Switch,
    verify: Verify,
    fpdu: Fpdu,
    progress: Progress,
}

impl Settings {
    /// Those of the job, with what its variant says instead: `crc=off:markers=on`.
    pub(super) fn of(job: &Job) -> Result<Self, String> {
        let Job { crc, markers, verify, fpdu, progress, .. } = *job;
        let mut settings = Self { crc, markers, verify, fpdu, progress };
        for part in job.variant.iter().flat_map(|variant| variant.split(':')) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("{part:?} is no setting; write for instance crc=off"));
            };
            match name {
                "crc" => settings.crc = parse(part, value)?,
                "markers" => settings.markers = parse(part, value)?,
                "verify" => settings.verify = parse(part, value)?,
                "fpdu" => settings.fpdu = parse(part, value)?,
                "progress" => settings.progress = parse(part, value)?,
                _ => {
                    return Err(format!(
                        "there is no setting {name:?}; there are crc, markers, verify, fpdu, progress"
                    ));
                }
            }
        }
        Ok(settings)
    }

    /// Of the NIC.
    pub(super) fn of_context(&self) -> verbs::Settings {
        verbs::Settings {
            progress: match self.progress {
                Progress::Caller => verbs::Progress::Caller,
                Progress::Thread => verbs::Progress::Thread,
            },
            verify: match self.verify {
                Verify::BeforePlace => verbs::Verify::BeforePlace,
                Verify::LargeInPlace => verbs::Verify::LargeInPlace,
                Verify::InOnePass => verbs::Verify::InOnePass,
            },
            ..verbs::Settings::default()
        }
    }

    /// Of the active side.
    pub(super) fn of_connection(&self) -> ConnectOptions {
        ConnectOptions {
            crc: self.crc == Switch::On,
            markers: (self.markers == Switch::On).then_some(MarkerSpacing::Standard),
            extensions: self.extensions(),
            ird: READS,
            ord: READS,
            ..ConnectOptions::default()
        }
    }

    /// Of the passive side.
    pub(super) fn of_listener(&self) -> ListenOptions {
        ListenOptions {
            crc: self.crc == Switch::On,
            markers: (self.markers == Switch::On).then_some(MarkerSpacing::Standard),
            extensions: self.extensions(),
            ird: READS,
            ord: READS,
            ..ListenOptions::default()
        }
    }

    fn extensions(&self) -> Extensions {
        Extensions { large_fpdus: self.fpdu == Fpdu::Large, ..Extensions::all() }
    }
}

fn parse<T: ValueEnum>(part: &str, value: &str) -> Result<T, String> {
    T::from_str(value, false).map_err(|_| {
        let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        format!("{part:?} is not possible; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::super::plan::tests::job;
    use super::*;

    fn settings(variant: &str) -> Result<Settings, String> {
        Settings::of(&Job { variant: Some(variant.into()), ..job() })
    }

    #[test]
    fn a_variant_overrides_the_options() {
        let plain = Settings::of(&job()).unwrap();
        assert_eq!((plain.crc, plain.markers), (Switch::On, Switch::Off));
        assert_eq!(
            settings("markers=on:crc=off").unwrap(),
            Settings { crc: Switch::Off, markers: Switch::On, ..plain }
        );
        assert_eq!(settings("verify=in-one-pass").unwrap(), Settings { verify: Verify::InOnePass, ..plain });
        assert_eq!(settings("fpdu=path").unwrap(), Settings { fpdu: Fpdu::Path, ..plain });
        assert_eq!(settings("progress=thread").unwrap(), Settings { progress: Progress::Thread, ..plain });
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        assert!(settings("fast").unwrap_err().contains("\"fast\""));
        assert!(settings("speed=on").unwrap_err().contains("\"speed\""));
        assert!(settings("verify=never").unwrap_err().contains("in-one-pass"));
    }
}
