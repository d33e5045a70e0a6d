//! `FI_WEFT_*`: the user's settings in the environment, listed by `fi_info -e`.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;
use std::sync::OnceLock;

use weft::endpoint::{EndpointSettings, JobKey};
use weft::verbs::Transport;
use weft::verbs::{Progress, Settings};

use crate::interfaces::Choice;

/// The user's settings, and defaults for the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// Settings of a domain's NIC.
    pub(crate) nic: Settings,
    /// Settings of endpoints.
    pub(crate) endpoint: EndpointSettings,
    /// The job's key, which all its processes have.
    pub(crate) key: Option<JobKey>,
    /// Which interfaces are used.
    pub(crate) interfaces: Choice,
    /// The ports of endpoints whose port is left open. `None`: chosen by the system.
    pub(crate) ports: Option<RangeInclusive<u16>>,
}

/// The name of the variable whose value is a secret.
const KEY: &str = "KEY";

/// A variable with an invalid value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    name: &'static str,
    value: String,
    possible: &'static str,
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, possible } = self;
        if *name == KEY {
            // It is a secret, and this is written to log files.
            return write!(
                f,
                "FI_WEFT_{name} (of {} bytes, not shown) is not possible: it must be {possible}",
                value.len()
            );
        }
        write!(f, "FI_WEFT_{name}={value:?} is not possible: it must be {possible}")
    }
}

/// A variable: its name without `FI_WEFT_`, its possible values, its effect, and how it is set.
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) possible: &'static str,
    pub(crate) help: &'static str,
    set: fn(&mut Parameters, &str) -> Option<()>,
}

/// The variables.
pub(crate) static VARIABLES: [Variable; 24] = [
    Variable {
        name: "TRANSPORT",
        possible: "auto, iwarp, edge, shm or shm+iwarp",
        help: "The transport of connections: iwarp: over TCP; edge: over UDP; shm: through memory that processes of \
               one host share; shm+iwarp (default): shm where possible, else iwarp; auto: shm where possible, else \
               edge, and iwarp too if there is no answer within 250 ms. All processes of a job must have the same",
        set: |parameters, text| {
            parameters.endpoint.transport = Transport::of_name(text)?;
            Some(())
        },
    },
    Variable {
        name: "PROGRESS",
        possible: "hybrid, thread or caller",
        help: "Which threads run the NIC: hybrid (default): the calling thread while it is in a call, and a thread of \
               the NIC after a time without calls; thread: always that thread; caller: only calling threads",
        set: |parameters, text| {
            parameters.nic.progress = progress(text)?;
            Some(())
        },
    },
    Variable {
        name: "INTERFACE",
        possible: "a list of interface names, addresses or networks (192.0.2.0/24), separated by commas; ! before one \
                   excludes it",
        help: "Which network interfaces are used, best first: names, beginnings of names with *, addresses or \
               networks (192.0.2.0/24), separated by commas; ! before one excludes it. Default: all that are up, \
               those of containers and the loopback last",
        set: |parameters, text| {
            parameters.interfaces = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "RAILS",
        possible: "all, one, or a list of interface names separated by commas; *N behind all or a name asks for N \
                   flows; 16 rails at most",
        help: "With Edge, the interfaces that a connection uses at the same time: all (default): those that are up \
               and reach the peer, as far as FI_WEFT_INTERFACE allows; one: only that of the connection; or their \
               names, separated by commas. eth0*4 or all*4: four flows over it, or each, with ports of their own",
        set: |parameters, text| {
            parameters.nic.rails = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "FLOWS",
        possible: "coupled or capped",
        help: "How several flows over one interface (FI_WEFT_RAILS) share it: coupled (default): together they take \
               as much as one flow, for they share a bottleneck; capped: each takes its own share, for the network \
               caps each flow",
        set: |parameters, text| {
            parameters.nic.flow_share = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "ENGINES",
        possible: "a number from 1 to 64",
        help: "Engines of a NIC, each with a thread of its own (default 1). With Edge over several rails each serves \
               its share of a connection's: it receives, checks and sends there on its own core. Not with \
               FI_WEFT_PROGRESS=caller",
        set: |parameters, text| {
            let engines = text.trim().parse().ok().filter(|engines| (1..=Settings::MOST_ENGINES).contains(engines))?;
            (parameters.nic.engines, parameters.nic.rail_engines) = (engines, engines);
            Some(())
        },
    },
    Variable {
        name: "PORT",
        possible: "a TCP port (1 to 65535) or a range of them (5000-5999)",
        help: "Port, or range of ports (5000-5999), that endpoints listen on, for firewalls: each endpoint needs one. \
               Default: any",
        set: |parameters, text| {
            parameters.ports = Some(ports(text)?);
            Some(())
        },
    },
    Variable {
        name: "KEY",
        possible: "a text of 16 to 1024 bytes that cannot be guessed, the same for all processes of the job (32 random \
                   bytes in hexadecimal digits, say)",
        help: "A secret of 16 to 1024 bytes that all processes of the job have: callers without it are refused. \
               Launchers pass it on with the environment. Default: none, and every caller that reaches the port is \
               accepted",
        set: |parameters, text| {
            let key = JobKey::new(text.as_bytes()).ok()?;
            parameters.nic.key = Some(key.clone());
            parameters.key = Some(key);
            Some(())
        },
    },
    Variable {
        name: "LEND",
        possible: "a number of bytes, or off",
        help: "Through shared memory, payloads of at least this many bytes are copied by the peer out of this \
               process's memory; off: all use the ring, as those from memory of devices always do (default 32K)",
        set: |parameters, text| {
            let is_off = text.eq_ignore_ascii_case("off");
            parameters.nic.lend_threshold = if is_off { u32::MAX } else { u32::try_from(bytes(text)?).ok()? };
            Some(())
        },
    },
    Variable {
        name: "SHORT",
        possible: "a number of bytes from 0 to 64K",
        help: "Messages up to this many bytes are sent at once, with one copy at the receiver (default 16K)",
        set: |parameters, text| {
            set_short(parameters, between(bytes(text)?, 0..=MOST_SHORT)?);
            Some(())
        },
    },
    Variable {
        name: "STREAM",
        possible: "a number of bytes, at most half of FI_WEFT_UNEXPECTED",
        help: "Longer messages up to this many bytes are sent at once too, in several packets; longer ones are \
               requested first (default 128K)",
        set: |parameters, text| {
            parameters.endpoint.messages.stream_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "ALONE",
        possible: "a number of bytes",
        help: "Of messages that are sent at once, those longer than this many bytes are read by the receiver instead \
               while more than two requests to its process are under way: slower for one, but with more throughput \
               (default 64K)",
        set: |parameters, text| {
            parameters.endpoint.messages.alone_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "EAGER",
        possible: "a number of bytes",
        help: "Still longer messages up to this many bytes are sent as soon as the receiver has told where to write \
               them; longer ones are read by the receiver when it has posted its receive (default 128K, which is \
               none)",
        set: |parameters, text| {
            parameters.endpoint.messages.eager_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "FRAGMENT",
        possible: "a number of bytes, at least 4K",
        help: "Longer messages are read in pieces of this many bytes (default 1M)",
        set: |parameters, text| {
            parameters.endpoint.messages.fragment_bytes = between(bytes(text)?, 4096..=1 << 31)?;
            Some(())
        },
    },
    Variable {
        name: "CREDITS",
        possible: "a number from 2 to 1024",
        help: "Packets of short messages that a peer may have in flight to this process; each takes memory for one of \
               FI_WEFT_SHORT bytes (default 16). Peers whose messages wait for them for a millisecond or longer are \
               granted twice as many, again and again, of 1024 more for all of them",
        set: |parameters, text| {
            parameters.endpoint.messages.data_credits = between(text.parse().ok()?, 2..=1024)?;
            Some(())
        },
    },
    Variable {
        name: "UNEXPECTED",
        possible: "a number of bytes, at least 64K",
        help: "Bytes of unexpected messages, kept for all peers together; from half of it on senders ask first, and \
               keep messages longer than 256 bytes (default 64M)",
        set: |parameters, text| {
            parameters.endpoint.messages.unexpected_bytes = between(bytes(text)?, 1 << 16..=1 << 50)?;
            Some(())
        },
    },
    Variable {
        name: "UNEXPECTED_MESSAGES",
        possible: "a number from 1000 to 100000000",
        help: "Unexpected messages of all peers together, including those left with their senders: each takes up to \
               1.5 KiB here; further senders are slowed down, and may wait until some of them are received (default \
               250000)",
        set: |parameters, text| {
            parameters.endpoint.messages.unexpected_messages = between(text.parse().ok()?, 1000..=100_000_000)?;
            Some(())
        },
    },
    Variable {
        name: "CONNECT_TIMEOUT",
        possible: "a time in seconds, greater than 0",
        help: "Seconds until a peer that can't be reached is an error, all its addresses together (default 10)",
        set: |parameters, text| {
            parameters.endpoint.connect_timeout = seconds(text)?;
            Some(())
        },
    },
    Variable {
        name: "REPLY_TIMEOUT",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until a peer whose host has accepted the connection, but whose program does not answer, is an \
               error; 0: never (default 600)",
        set: |parameters, text| {
            parameters.endpoint.reply_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "PEER_TIMEOUT",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until a peer that does not answer any more is an error; 0: never (default 60)",
        set: |parameters, text| {
            parameters.nic.peer_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "IDLE_TIMEOUT",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until an idle connection is closed; it opens again when it is needed; 0: never (default 0)",
        set: |parameters, text| {
            parameters.endpoint.messages.idle_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "SPIN",
        possible: "a time in microseconds, at most 1000000",
        help: "Microseconds that a waiting thread polls before it sleeps (default 50)",
        set: |parameters, text| {
            parameters.nic.spin = Duration::from_micros(between(text.parse().ok()?, 0..=1_000_000)?);
            Some(())
        },
    },
    Variable {
        name: "ADAPTIVE",
        possible: "on or off",
        help: "Whether threads learn when to poll, to yield and to take over; off: they never yield, poll for \
               FI_WEFT_SPIN, and the NIC's thread takes over after 200 us without a call (default on)",
        set: |parameters, text| {
            parameters.nic.adaptive = match text.to_ascii_lowercase().as_str() {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        },
    },
    Variable {
        name: "LINGER",
        possible: "a time in seconds",
        help: "Closing an endpoint waits until sent messages are delivered, and gives up after this many seconds \
               without progress; messages lost then are reported on stderr (default 2)",
        set: |parameters, text| {
            parameters.endpoint.linger = Some(seconds_or_never(text)?.unwrap_or(Duration::ZERO));
            Some(())
        },
    },
];

/// The maximum that fits into a packet.
const MOST_SHORT: u64 = 64 * 1024;

/// The settings in the environment. Read once.
///
/// # Errors
/// The first variable with an invalid value.
pub(crate) fn get() -> Result<&'static Parameters, &'static Wrong> {
    static PARAMETERS: OnceLock<Result<Parameters, Wrong>> = OnceLock::new();
    PARAMETERS.get_or_init(|| read(|name| std::env::var(format!("FI_WEFT_{name}")).ok())).as_ref()
}

/// Reads the settings from a source of values.
fn read(value: impl Fn(&str) -> Option<String>) -> Result<Parameters, Wrong> {
    let mut parameters = Parameters::default();
    parameters.endpoint.transport = Transport::SharedMemoryOrIwarp;
    for variable in &VARIABLES {
        let Some(text) = value(variable.name).filter(|text| !text.trim().is_empty()) else { continue };
        let wrong = || Wrong { name: variable.name, value: text.clone(), possible: variable.possible };
        (variable.set)(&mut parameters, text.trim()).ok_or_else(wrong)?;
        // Some values require others.
        parameters.nic.check().map_err(|_| wrong())?;
    }
    let messages = &mut parameters.endpoint.messages;
    // Messages that are sent without a request must fit into what is kept: otherwise they could only wait for their
    // receive, and so would everything that the peer sends after them.
    let most = messages.unexpected_bytes / 2;
    if messages.stream_bytes > most {
        if let Some(variable) = VARIABLES.iter().find(|variable| variable.name == "STREAM")
            && let Some(text) = value(variable.name).filter(|text| !text.trim().is_empty())
        {
            return Err(Wrong { name: variable.name, value: text, possible: variable.possible });
        }
        messages.stream_bytes = most;
    }
    messages.stream_bytes = messages.stream_bytes.max(messages.short_bytes.into());
    messages.eager_bytes = messages.eager_bytes.max(messages.stream_bytes);
    Ok(parameters)
}

fn progress(text: &str) -> Option<Progress> {
    match text.to_ascii_lowercase().as_str() {
        "hybrid" => Some(Progress::Hybrid),
        "thread" => Some(Progress::Thread),
        "caller" => Some(Progress::Caller),
        _ => None,
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (u16::from_str(first.trim()).ok()?, u16::from_str(last.trim()).ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}

/// A packet must have room for a short message and its headers.
fn set_short(parameters: &mut Parameters, bytes: u64) {
    let messages = &mut parameters.endpoint.messages;
    let header = messages.packet_bytes - messages.short_bytes;
    messages.short_bytes = bytes as u32;
    messages.packet_bytes = messages.packet_bytes.max(bytes as u32 + header);
}

/// A number of bytes: `K`, `M` and `G` are powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim_end_matches('s').trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (!time.is_zero()).then_some(time)
}

/// 0 means never.
fn seconds_or_never(text: &str) -> Option<Option<Duration>> {
    if text.trim_end_matches('s').trim().parse() == Ok(0.0) { Some(None) } else { seconds(text).map(Some) }
}

fn between<T: PartialOrd + Copy>(value: T, range: RangeInclusive<T>) -> Option<T> {
    range.contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Parameters, Wrong> {
        read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_set_is_the_defaults() {
        let parameters = with(&[("PROGRESS", " ")]).unwrap();
        let transport = Transport::SharedMemoryOrIwarp;
        assert_eq!(parameters.endpoint, EndpointSettings { transport, ..EndpointSettings::default() });
        assert_eq!((parameters.nic.progress, parameters.ports), (Progress::Hybrid, None));
    }

    const MANUAL: &str = include_str!("../../../packaging/fi_weft.7");
    const MPI_PAGE: &str = include_str!("../../../docs/mpi/README.md");

    /// The text of each variable in the manual.
    fn manual() -> Vec<(&'static str, &'static str)> {
        let section = MANUAL.split("\n.SH ").find(|section| section.starts_with("ENVIRONMENT")).unwrap();
        let entries = section.split(".TP\n.B FI_WEFT_").skip(1);
        entries.map(|entry| entry.split_once('\n').unwrap()).collect()
    }

    /// The default of each variable, in the table of the page for MPI.
    fn table() -> Vec<(&'static str, &'static str)> {
        let section = MPI_PAGE.split("\n## ").find(|section| section.starts_with("Parameters")).unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        rows.filter(|(name, _)| *name != "FI_WEFT_...").collect()
    }

    #[test]
    fn the_pages_describe_all_variables_and_no_others() {
        let mut own: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        own.sort_unstable();
        for (page, described) in [("fi_weft.7", manual()), ("docs/mpi/README.md", table())] {
            let mut names: Vec<_> = described.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            assert_eq!(names, own, "{page}");
        }
    }

    /// Where `fi_info -e` has a number, the pages have the same.
    #[test]
    fn the_pages_name_the_same_defaults() {
        let mut compared = 0;
        for Variable { name, help, .. } in &VARIABLES {
            let is_number = |default: &&str| default.starts_with(|first: char| first.is_ascii_digit());
            let default =
                help.rsplit_once("(default ").map(|(_, rest)| rest.split([')', ',', ';', ' ']).next().unwrap());
            let Some(default) = default.filter(is_number) else { continue };
            let of = |page: Vec<(&str, &'static str)>| page.into_iter().find(|(of, _)| of == name).unwrap().1;
            let words: Vec<_> = of(manual()).split_whitespace().collect();
            let said = words
                .windows(2)
                .find(|pair| pair[0] == "Default:")
                .map(|pair| pair[1].trim_end_matches(['.', ',', ';']));
            assert_eq!(said, Some(default), "{name} in fi_weft.7");
            let cell = of(table()).split([' ', '|', ',']).next().unwrap();
            assert_eq!(cell, default, "{name} in docs/mpi/README.md");
            compared += 1;
        }
        assert!(compared > 8, "{compared}");
    }

    #[test]
    fn values_with_units() {
        let parameters = with(&[
            ("PROGRESS", "Thread"),
            ("PORT", "5000-5009"),
            ("STREAM", "100k"),
            ("ALONE", "50k"),
            ("LEND", "Off"),
            ("EAGER", "1MiB"),
            ("UNEXPECTED", "1g"),
            ("UNEXPECTED_MESSAGES", "2000"),
            ("CREDITS", "32"),
            ("CONNECT_TIMEOUT", "2.5"),
            ("PEER_TIMEOUT", "0"),
            ("ADAPTIVE", "Off"),
        ])
        .unwrap();
        assert_eq!(parameters.nic.progress, Progress::Thread);
        assert_eq!(parameters.ports, Some(5000..=5009));
        assert_eq!(parameters.endpoint.messages.stream_bytes, 100 * 1024);
        assert_eq!(parameters.endpoint.messages.alone_bytes, 50 * 1024);
        assert_eq!(parameters.nic.lend_threshold, u32::MAX);
        assert_eq!(parameters.endpoint.messages.eager_bytes, 1 << 20);
        assert_eq!(parameters.endpoint.messages.unexpected_bytes, 1 << 30);
        assert_eq!(parameters.endpoint.messages.unexpected_messages, 2000);
        assert_eq!(parameters.endpoint.messages.data_credits, 32);
        assert_eq!(parameters.endpoint.connect_timeout, Duration::from_millis(2500));
        assert_eq!(parameters.nic.peer_timeout, None);
        assert!(!parameters.nic.adaptive && with(&[("ADAPTIVE", "on")]).unwrap().nic.adaptive);
    }

    #[test]
    fn a_packet_has_room_for_a_short_message_and_streamed_and_eager_ones_are_no_shorter() {
        let messages = with(&[("SHORT", "64k"), ("STREAM", "0"), ("EAGER", "1k")]).unwrap().endpoint.messages;
        assert!(messages.packet_bytes > 64 * 1024);
        assert_eq!(messages.short_bytes, 64 * 1024);
        assert_eq!((messages.stream_bytes, messages.eager_bytes), (64 * 1024, 64 * 1024));
    }

    #[test]
    fn what_is_sent_at_once_fits_into_what_is_kept() {
        for (stream, unexpected) in [("1m", "64k"), ("33k", "64k"), ("65m", "128m"), ("128m", "")] {
            let error = with(&[("STREAM", stream), ("UNEXPECTED", unexpected)]).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("STREAM", stream));
        }
        assert!(with(&[("STREAM", "32k"), ("UNEXPECTED", "64k")]).is_ok());
        let messages = with(&[("UNEXPECTED", "100k")]).unwrap().endpoint.messages;
        assert_eq!((messages.stream_bytes, messages.eager_bytes), (50 * 1024, 128 * 1024));
    }

    #[test]
    fn a_key_is_taken_as_it_stands_and_never_shown() {
        assert!(with(&[("KEY", "0123456789abcdef")]).unwrap().key.is_some());
        assert!(with(&[]).unwrap().key.is_none());
        let error = with(&[("KEY", "s3cret")]).unwrap_err();
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(
                text.starts_with("FI_WEFT_KEY (of 6 bytes, not shown) is not possible: it must be a text of 16"),
                "{text}"
            );
        }
        assert!(!format!("{:?}", with(&[("KEY", "0123456789abcdef")]).unwrap()).contains("0123456789"));
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_possible() {
        let error = with(&[("PROGRESS", "fast")]).unwrap_err();
        assert_eq!(error.to_string(), "FI_WEFT_PROGRESS=\"fast\" is not possible: it must be hybrid, thread or caller");
        for (name, value) in [
            ("PORT", "0"),
            ("PORT", "70000"),
            ("PORT", "9-8"),
            ("SHORT", "65K"),
            ("EAGER", "-1"),
            ("EAGER", "17179869184G"),
            ("CREDITS", "1"),
            ("CONNECT_TIMEOUT", "0"),
            ("CONNECT_TIMEOUT", "nan"),
            ("PEER_TIMEOUT", "-3"),
            ("INTERFACE", "300.0.0.0/8"),
        ] {
            assert_eq!(with(&[(name, value)]).unwrap_err().name, name, "{value}");
        }
    }
}
