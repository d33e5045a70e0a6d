//! Clusters as they are typed: `--cluster 2x4 --wan 8ms,1G,loss=0.01`.

use std::str::FromStr;
use std::time::Duration;

use weft_command::shape::{Time, shape_of_word};
use weft_lab::{BitsPerSecond, CLUSTERS, Cluster, HOSTS, Shape};

/// Clusters, and hosts in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clusters {
    pub(super) count: usize,
    pub(super) hosts: usize,
}

/// What links between clusters do to frames, in each direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wan(pub(super) Shape);

impl FromStr for Clusters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<usize>().ok()).flatten()
        };
        let parts = text.split_once('x').and_then(|(count, hosts)| Some((number(count)?, number(hosts)?)));
        let (count, hosts) =
            parts.ok_or_else(|| format!("{text:?} are no clusters; write for instance 2x4: two of four hosts each"))?;
        let all = count.saturating_mul(hosts);
        if !CLUSTERS.contains(&count) || hosts == 0 || all > *HOSTS.end() {
            let (least, most) = (CLUSTERS.start(), CLUSTERS.end());
            return Err(format!(
                "{count} clusters of {hosts} hosts cannot be; there are {least} to {most} clusters with a host at \
                 least, and {} hosts at most in all",
                HOSTS.end()
            ));
        }
        Ok(Self { count, hosts })
    }
}

impl Clusters {
    /// The clusters, with their usual names.
    pub(super) fn usual(self) -> Vec<Cluster> {
        Cluster::usual(self.count, self.hosts)
    }
}

impl FromStr for Wan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut delay, mut rate, mut named) = (None, None, Vec::new());
        for part in text.split(',') {
            if let Some(value) = part.strip_prefix("rate=") {
                rate = Some(value.parse::<BitsPerSecond>()?);
            } else if part.contains('=') {
                named.push(part);
            } else if let Ok(Time(time)) = part.parse() {
                delay = Some(time);
            } else {
                let wrong = |_| {
                    let example = "8ms,1G,loss=0.01,queue=4000000";
                    format!("{part:?} is no delay, no rate and no NAME=VALUE; write for instance {example}")
                };
                rate = Some(part.parse().map_err(wrong)?);
            }
        }
        let mut shape = if named.is_empty() { Shape::default() } else { shape_of_word(&named.join(","))? };
        shape.delay = delay.unwrap_or(shape.delay);
        shape.rate = rate.or(shape.rate);
        shape.check().map_err(|error| error.to_string())?;
        Ok(Self(shape))
    }
}

/// What frames on a link between clusters suffer, for people: each direction has its own delay.
pub(super) fn describe(there: &Shape, back: &Shape) -> String {
    let round_trip: Duration = there.delay + back.delay;
    let words = if there == back { there.to_string() } else { format!("{there} there, {back} back") };
    match words.as_str() {
        "-" => "as fast as the processor".to_owned(),
        _ if round_trip.is_zero() => words,
        _ if there == back => format!("{words} in each direction, so a round trip takes {round_trip:?}"),
        _ => format!("{words}, so a round trip takes {round_trip:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_typed_as_a_product() {
        assert_eq!("2x4".parse(), Ok(Clusters { count: 2, hosts: 4 }));
        assert_eq!("8x8".parse::<Clusters>().unwrap().usual()[7].hosts[7], "h7");
        for (text, said) in [
            ("", "write for instance 2x4"),
            ("2", "2x4"),
            ("x", "2x4"),
            ("2x4x1", "2x4"),
            ("+2x4", "2x4"),
            ("1x4", "2 to 8"),
            ("9x1", "2 to 8"),
            ("2x0", "a host at least"),
            ("8x9", "64 hosts at most"),
            ("18446744073709551615x2", "64 hosts at most"),
        ] {
            let message = text.parse::<Clusters>().unwrap_err();
            assert!(message.contains(said), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_link_is_typed_as_a_delay_a_rate_and_what_has_a_name() {
        let wan = |text: &str| text.parse::<Wan>().map(|wan| wan.0);
        let shape = wan("8ms,1G,loss=0.01").unwrap();
        let rate = Some(BitsPerSecond(1_000_000_000));
        let wanted = Shape { delay: Duration::from_millis(8), rate, loss_millionths: 100, ..Shape::default() };
        assert_eq!(shape, wanted);
        assert_eq!(wan("rate=1G,loss=0.01%,delay=8ms"), Ok(wanted));
        assert_eq!(wan("500us").unwrap().delay, Duration::from_micros(500));
        for (text, said) in [
            ("", "is no delay"),
            ("8", "100 kb/s to 100 Gb/s"),
            ("8ms,fast", "\"fast\" is no delay"),
            ("8ms,lose=1", "there are delay, jitter"),
            ("11s", "0 to 10s"),
            ("1ms,burst=3", "need a loss"),
        ] {
            let message = wan(text).unwrap_err();
            assert!(message.contains(said), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_link_is_described_with_its_round_trip() {
        let shape = "8ms,loss=0.01".parse::<Wan>().unwrap().0;
        let back = "2ms".parse::<Wan>().unwrap().0;
        let words = describe(&shape, &shape);
        assert_eq!(words, "delay 8ms, loss 0.01 % in each direction, so a round trip takes 16ms");
        assert_eq!(describe(&shape, &back), "delay 8ms, loss 0.01 % there, delay 2ms back, so a round trip takes 10ms");
        assert_eq!(describe(&Shape::default(), &Shape::default()), "as fast as the processor");
    }
}
