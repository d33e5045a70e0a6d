//! A lab from a file in TOML: `weft lab up --topology FILE`.

use std::fmt;
use std::fs::File as Input;
use std::io::Read;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de::Error as _};
use toml::Spanned;
use weft_command::failure::Failure;
use weft_command::shape::{Percent, Time};
use weft_lab::{BitsPerSecond, Carrier, Cluster, HOSTS, Plan, Shape, WanLink, check_name};

use super::rates::Rates;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// What a file may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    hosts: Option<usize>,
    links: Option<usize>,
    rate: Option<Spanned<Text<Rates>>>,
    mtu: Option<u32>,
    offload: Option<bool>,
    congestion: Option<String>,
    switch: Option<bool>,
    carrier: Option<Text<Carrier>>,
    #[serde(default)]
    cluster: Vec<ClusterTable>,
    #[serde(default)]
    wan: Vec<Spanned<WanTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterTable {
    name: Name,
    hosts: Hosts,
}

/// A link between clusters: what it does to frames in both directions, or, with a table `back`, from the first to the
/// second.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WanTable {
    between: Spanned<[String; 2]>,
    back: Option<Spanned<ShapeTable>>,
    rate: Option<Text<BitsPerSecond>>,
    queue: Option<u64>,
    delay: Option<Text<Time>>,
    jitter: Option<Text<Time>>,
    loss: Option<Share>,
    burst: Option<u32>,
    reorder: Option<Share>,
    reorder_by: Option<Text<Time>>,
    duplicate: Option<Share>,
    corrupt: Option<Share>,
    corrupt_bits: Option<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeTable {
    rate: Option<Text<BitsPerSecond>>,
    queue: Option<u64>,
    delay: Option<Text<Time>>,
    jitter: Option<Text<Time>>,
    loss: Option<Share>,
    burst: Option<u32>,
    reorder: Option<Share>,
    reorder_by: Option<Text<Time>>,
    duplicate: Option<Share>,
    corrupt: Option<Share>,
    corrupt_bits: Option<u8>,
}

/// A value that is written as text.
#[derive(Debug)]
struct Text<T>(T);

/// A share in millionths, written in percent.
#[derive(Clone, Copy, Debug)]
struct Share(u32);

/// The name of a cluster or a host.
#[derive(Debug)]
struct Name(String);

/// This many hosts with the usual names, or those of these names.
#[derive(Debug)]
enum Hosts {
    Count(usize),
    Named(Vec<String>),
}

/// Reads what a file says.
pub(super) fn read(path: &Path) -> Result<Plan, Failure> {
    let cannot = || Failure::while_doing(path.display());
    let mut text = String::new();
    Input::open(path).map_err(cannot())?.take(LONGEST + 1).read_to_string(&mut text).map_err(cannot())?;
    if text.len() as u64 > LONGEST {
        return Err(Failure::Usage(format!("{}: longer than the {LONGEST} bytes that are read", path.display())));
    }
    plan(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// What a text says. An error names the line, what is wrong there and what is possible.
fn plan(text: &str) -> Result<Plan, String> {
    let File { hosts, links, rate, mtu, offload, congestion, switch, carrier, cluster, wan } =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let usual = Plan::default();
    let links = links.unwrap_or(usual.links);
    if !cluster.is_empty() && (hosts.is_some() || switch.is_some()) {
        return Err("hosts and switch are for labs without clusters; a [[cluster]] says how many hosts it has".into());
    }
    let (mut all, mut each) = (usual.rate, Vec::new());
    if let Some(rate) = rate {
        let line = line(text, &rate.span());
        let Text(rates) = rate.into_inner();
        rates.check(links).map_err(|error| format!("line {line}: {error}"))?;
        (all, each) = (rates.all, rates.each);
    }
    let clusters: Vec<_> = cluster.into_iter().map(ClusterTable::cluster).collect();
    let meant = |link: Spanned<WanTable>| wan_link(text, link, &clusters);
    let wan = if wan.is_empty() {
        WanLink::mesh(clusters.len(), &Shape::default())
    } else {
        wan.into_iter().map(meant).collect::<Result<_, _>>()?
    };
    let clustered = clusters.iter().map(|cluster| cluster.hosts.len()).sum();
    let plan = Plan {
        hosts: if clusters.is_empty() { hosts.unwrap_or(usual.hosts) } else { clustered },
        links,
        rate: all,
        rates: each,
        mtu: mtu.unwrap_or(usual.mtu),
        offloads: offload.unwrap_or(usual.offloads),
        congestion_control: congestion,
        switch: switch.unwrap_or(usual.switch),
        clusters,
        wan,
        carrier: carrier.map(|Text(carrier)| carrier),
    };
    plan.check().map_err(|error| error.to_string())?;
    Ok(plan)
}

fn line(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

fn wan_link(text: &str, link: Spanned<WanTable>, clusters: &[Cluster]) -> Result<WanLink, String> {
    let at = line(text, &link.span());
    let WanTable {
        between,
        back,
        rate,
        queue,
        delay,
        jitter,
        loss,
        burst,
        reorder,
        reorder_by,
        duplicate,
        corrupt,
        corrupt_bits,
    } = link.into_inner();
    let there =
        ShapeTable { rate, queue, delay, jitter, loss, burst, reorder, reorder_by, duplicate, corrupt, corrupt_bits };
    let find = |name: &String| {
        clusters.iter().position(|cluster| cluster.name == *name).ok_or_else(|| {
            let names: Vec<_> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let line = line(text, &between.span());
            let known = if names.is_empty() { "there are none; add [[cluster]]".into() } else { names.join(", ") };
            format!("line {line}: between: there is no cluster {name:?}; the clusters are {known}")
        })
    };
    let [one, other] = between.get_ref();
    let between = [find(one)?, find(other)?];
    let there = there.shape();
    there.check().map_err(|error| format!("line {at}: {error}"))?;
    let back = match back {
        None => there.clone(),
        Some(back) => {
            let at = line(text, &back.span());
            let back = back.into_inner().shape();
            back.check().map_err(|error| format!("line {at}: back: {error}"))?;
            back
        }
    };
    Ok(WanLink { between, there, back })
}

impl ClusterTable {
    fn cluster(self) -> Cluster {
        let Self { name: Name(name), hosts } = self;
        let hosts = match hosts {
            Hosts::Count(count) => (0..count).map(|host| format!("{name}{host}")).collect(),
            Hosts::Named(hosts) => hosts,
        };
        Cluster { name, hosts }
    }
}

impl ShapeTable {
    fn shape(self) -> Shape {
        let time = |time: Option<Text<Time>>| time.map(|Text(Time(time))| time);
        let share = |share: Option<Share>| share.map_or(0, |Share(millionths)| millionths);
        let usual = if self.reorder.is_some() { Duration::from_millis(1) } else { Duration::ZERO };
        Shape {
            rate: self.rate.map(|Text(rate)| rate),
            queue_bytes: self.queue,
            delay: time(self.delay).unwrap_or_default(),
            jitter: time(self.jitter).unwrap_or_default(),
            loss_millionths: share(self.loss),
            burst: self.burst,
            reorder_millionths: share(self.reorder),
            reorder_by: time(self.reorder_by).unwrap_or(usual),
            duplicate_millionths: share(self.duplicate),
            corrupt_millionths: share(self.corrupt),
            corrupt_bits: self.corrupt_bits,
        }
    }
}

impl<'a, T: FromStr<Err = String>> Deserialize<'a> for Text<T> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<T: FromStr<Err = String>> Visitor<'_> for Reader<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text with a unit, in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }
        from.deserialize_str(Reader(PhantomData))
    }
}

impl<'a> Deserialize<'a> for Share {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(from)?;
        // As the command line reads it: no sign, no exponent, at most 100.
        let share = format!("{percent}").parse::<Percent>().map_err(D::Error::custom)?;
        Ok(Self(share.0))
    }
}

impl<'a> Deserialize<'a> for Name {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        check_name(&name).map_err(D::Error::custom)?;
        Ok(Self(name))
    }
}

impl<'a> Deserialize<'a> for Hosts {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'a> Visitor<'a> for Reader {
            type Value = Hosts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of hosts from 1 to {}, or a list of their names", HOSTS.end())
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Hosts, E> {
                let fits = usize::try_from(count).ok().filter(|count| (1..=*HOSTS.end()).contains(count));
                fits.map(Hosts::Count).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(count), &self))
            }

            fn visit_seq<A: SeqAccess<'a>>(self, mut names: A) -> Result<Hosts, A::Error> {
                let mut hosts = Vec::new();
                while let Some(Name(name)) = names.next_element()? {
                    hosts.push(name);
                }
                Ok(Hosts::Named(hosts))
            }
        }
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
links = 2
rate = "1G,500M"
offload = false

[[cluster]]
name = "a"
hosts = 2

[[cluster]]
name = "far"
hosts = ["x", "y-1"]

[[wan]]
between = ["a", "far"]
delay = "8ms"
rate = "1G"
loss = 0.01
back = { delay = "20ms", loss = 1, burst = 3 }
"#;

    #[test]
    fn a_file_is_a_plan() {
        let plan = plan(TWO).unwrap();
        assert_eq!((plan.hosts, plan.links, plan.offloads), (4, 2, false));
        let names: Vec<_> = (0..4).map(|host| plan.host_name(host)).collect();
        assert_eq!(names, ["a0", "a1", "x", "y-1"]);
        let WanLink { between, there, back } = &plan.wan[0];
        assert_eq!(*between, [0, 1]);
        assert_eq!(there.to_string(), "rate 1 Gb/s, delay 8ms, loss 0.01 %");
        assert_eq!(back.to_string(), "delay 20ms, loss 1 % in bursts of 3");
    }

    #[test]
    fn what_a_file_does_not_say_is_as_usual() {
        assert_eq!(plan(""), Ok(Plan::default()));
        let mesh = plan("[[cluster]]\nname = \"a\"\nhosts = 1\n[[cluster]]\nname = \"b\"\nhosts = 1").unwrap();
        assert_eq!(mesh.wan, WanLink::mesh(2, &Shape::default()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_is_possible() {
        let with = |from: &str, to: &str| {
            assert!(TWO.contains(from), "{from}");
            plan(&TWO.replacen(from, to, 1)).unwrap_err()
        };
        for (from, to, said) in [
            ("links = 2", "lynks = 2", &["line 2", "lynks", "expected one of `hosts`, `links`"][..]),
            ("links = 2", "links = \"2\"", &["line 2", "links"]),
            ("links = 2", "links = 3", &["line 3", "2 rates, for 3 links"]),
            ("links = 2", "links = 2\nmtu = 100", &["100", "1280 to 65535"]),
            ("links = 2", "links = 2\nhosts = 4", &["[[cluster]]"]),
            ("\"1G,500M\"", "\"fast\"", &["line 3", "rate", "500M, 1G or 2.5G"]),
            ("\"1G,500M\"", "1", &["line 3", "text with a unit"]),
            ("name = \"a\"", "name = \"A\"", &["line 7", "small letters"]),
            ("hosts = 2", "hosts = 65", &["line 8", "hosts", "1 to 64, or a list"]),
            ("hosts = 2", "hosts = []", &["cluster a has no hosts"]),
            ("\"y-1\"", "\"a0\"", &["two hosts are called a0"]),
            ("\"y-1\"", "7", &["line 12", "hosts"]),
            ("[\"a\", \"far\"]", "[\"a\", \"b\"]", &["line 15", "no cluster \"b\"", "a, far"]),
            ("[\"a\", \"far\"]", "[\"a\"]", &["line 15", "between"]),
            ("\"8ms\"", "\"8\"", &["line 16", "delay", "500us, 10ms or 1.5s"]),
            ("\"8ms\"", "\"11s\"", &["line 14", "a delay of 11s", "0 to 10s"]),
            ("loss = 0.01", "loss = 101", &["line 18", "loss", "0 to 100"]),
            ("loss = 0.01", "loss = -1", &["line 18", "0 to 100"]),
            ("burst = 3", "burst = 0", &["line 19", "back", "1 to 10000"]),
            ("burst = 3", "between = 3", &["line 19", "between"]),
            ("[[wan]]", "[wan]", &["line 14"]),
        ] {
            let message = with(from, to);
            assert!(said.iter().all(|words| message.contains(words)), "{from} -> {to}: {message}");
        }
    }

    #[test]
    fn no_text_is_more_than_wrong() {
        let mut random = 1_u64;
        for _ in 0..2000 {
            let mut bytes = TWO.as_bytes().to_vec();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % bytes.len();
                bytes[at] = b"\"[]=.\n#0a{}"[(random >> 20) as usize % 11];
            }
            // Whatever it says, an answer comes.
            let _ = plan(&String::from_utf8(bytes).unwrap());
        }
    }
}
