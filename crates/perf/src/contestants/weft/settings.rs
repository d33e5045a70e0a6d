//! The settings of one entry, as the verbs take them.

use std::env;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use weft::endpoint::JobKey;
use weft::verbs::{
    self, ConnectOptions, Context, Extensions, LinkSettings, ListenOptions, MarkerSpacing, MpaOffer, Offer,
};

use crate::model::job::Job;
use crate::model::stack::{Fpdu, Markers, Stack, Verify};
use crate::model::target::RAILS_VARIABLE;
use weft_command::environment;
use weft_command::switch::Switch;
use weft_command::transport::Transport;

/// A job's key: what is measured is what it costs to prove it.
const KEY: &[u8] = b"the key of a measurement";

/// As the address of the other machine said.
fn rails() -> Option<verbs::Rails> {
    env::var(RAILS_VARIABLE).ok()?.parse().ok()
}

/// Settings of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings(Stack);

impl Settings {
    /// Those of the job, with what its variant says instead.
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        let mut stack = job.stack;
        match job.contestant.as_str() {
            "edge" => stack.transport = Transport::Edge,
            "shm" => stack.transport = Transport::Shm,
            _ => {}
        }
        let settings = Self(stack.with(job.variant.as_deref())?);
        settings.of_context().check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.0
    }

    /// Whether connections go by the raw link.
    pub(crate) fn is_raw(&self) -> bool {
        self.0.raw == Switch::On
    }

    /// The NIC, and the address to listen at, if that is not the job's.
    pub(crate) fn open(&self, job: &Job) -> Result<(Context, Option<IpAddr>), Box<dyn Error>> {
        if !self.is_raw() {
            return Ok((Context::with_settings(self.of_context())?, None));
        }
        let missing = "raw=on takes a raw link: measure with --lab none, or between two machines with --link on both";
        let link: LinkSettings = job.link.as_ref().ok_or(missing)?.parse()?;
        let address = link.first();
        Ok((Context::with_link(self.of_context(), link)?, address))
    }

    /// The key of the job, if it has one: that of the variant, or else of the environment.
    pub(crate) fn key(&self) -> Option<JobKey> {
        let own = (self.0.key == Switch::On).then(|| JobKey::new(KEY).expect("the key is long enough"));
        own.or_else(|| environment::parameters().key)
    }

    /// Whether there is a key that nothing which carries queue pairs asks for.
    pub(crate) fn has_unused_key(&self) -> bool {
        self.0.key == Switch::On
            && !matches!(self.0.transport, Transport::Edge | Transport::ShmOrEdge | Transport::Auto)
    }

    /// Whether the NIC works while no thread calls in.
    pub(crate) fn is_automatic(&self) -> bool {
        self.of_context().progress.is_automatic()
    }

    /// Of the NIC: what neither the job nor its variant says is as the environment sets it.
    pub(crate) fn of_context(&self) -> verbs::Settings {
        let usual = environment::parameters().nic_settings();
        verbs::Settings {
            progress: self.0.progress().map_or(usual.progress, Into::into),
            laboratory: self.0.split.laboratory(self.0.progress),
            engines: self.0.engines,
            rail_engines: self.0.engines,
            away: self.0.away.map_or(usual.away, Duration::from_micros),
            verify: match self.0.verify {
                Verify::BeforePlace => verbs::Verify::BeforePlace,
                Verify::LargeInPlace => verbs::Verify::LargeInPlace,
            },
            rails: rails().unwrap_or(usual.rails),
            key: self.key(),
            ..usual
        }
    }

    /// Of the active side.
    pub(crate) fn of_connection(&self) -> ConnectOptions {
        let usual = ConnectOptions::default();
        ConnectOptions { offer: self.offer(usual.offer), ..usual }
    }

    /// Of the passive side.
    pub(crate) fn of_listener(&self) -> ListenOptions {
        let usual = ListenOptions::default();
        ListenOptions { offer: self.offer(usual.offer), ..usual }
    }

    fn offer(&self, usual: Offer) -> Offer {
        let crc = self.0.crc == Switch::On;
        // What is measured is what was requested: over a raw link iWARP is placed out of order only with markers.
        let early = self.0.markers != Markers::Off;
        let mpa = MpaOffer { crc, markers: self.markers(), early, extensions: self.extensions(), ..usual.mpa };
        Offer { transport: self.0.transport.into(), mpa, ..usual }
    }

    fn markers(&self) -> Option<MarkerSpacing> {
        match self.0.markers {
            Markers::Off => None,
            Markers::On => Some(MarkerSpacing::Standard),
            Markers::Every1K => Some(MarkerSpacing::Kilobyte),
            Markers::Every2K => Some(MarkerSpacing::TwoKilobytes),
        }
    }

    fn extensions(&self) -> Extensions {
        Extensions { large_fpdus: self.0.fpdu == Fpdu::Large, ..Extensions::usual() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    fn settings(variant: &str) -> Result<Settings, String> {
        Settings::of(&Job { variant: Some(variant.into()), ..job() })
    }

    #[test]
    fn the_library_decides_what_is_not_set() {
        assert_eq!(Settings::of(&job()).unwrap().of_context().progress, verbs::Settings::default().progress);
        let summon = settings("progress=summon").unwrap().of_context();
        assert!(summon.progress == verbs::Progress::Caller && summon.laboratory.selective_interrupt);
        assert_eq!(settings("split=coupled").unwrap().of_context().progress, verbs::Progress::Thread);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        assert!(settings("split=assist:progress=caller").unwrap_err().contains("split assist needs progress thread"));
        assert!(settings("engines=0").unwrap_err().contains("0 engines"));
        assert!(settings("away=1").is_err());
        assert!(settings("fast").is_err());
    }

    #[test]
    fn a_key_is_of_the_nic_where_something_asks_for_it() {
        let with = |variant| settings(variant).unwrap();
        assert!(with("transport=edge:key=on").of_context().key.is_some());
        assert!(with("transport=edge").of_context().key.is_none());
        let unused = ["key=on", "transport=edge:key=on", "transport=auto:key=on", "transport=edge"];
        assert_eq!(unused.map(|variant| with(variant).has_unused_key()), [true, false, false, false]);
    }

    #[test]
    fn markers_have_the_distance_that_is_set() {
        assert_eq!(settings("markers=1K").unwrap().of_connection().offer.mpa.markers, Some(MarkerSpacing::Kilobyte));
        assert_eq!(settings("markers=on").unwrap().of_listener().offer.mpa.markers, Some(MarkerSpacing::Standard));
        assert_eq!(settings("crc=off").unwrap().of_listener().offer.mpa.markers, None);
    }
}
