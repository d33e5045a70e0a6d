//! All variables, in one table.

use core::time::Duration;

use weft_nic::offer::Transport;
use weft_nic::{JobKey, Settings};

use super::parameters::Parameters;
use super::values::{between, bytes, ports, progress, seconds, seconds_or_never, switch};

/// The audience of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Users: it is a variable of its own.
    Users,
    /// Tuning: it is a key of [`TUNE`].
    Tuning,
}

/// A variable.
#[derive(Debug)]
pub struct Variable {
    /// Its name without `FI_WEFT_`; a key of [`TUNE`] is that in lower case.
    pub name: &'static str,
    /// Its audience.
    pub audience: Audience,
    /// The value that an environment without it has.
    pub default: &'static str,
    /// Its possible values.
    pub possible: &'static str,
    /// Its effect.
    pub help: &'static str,
    /// Takes its value.
    pub(super) set: fn(&mut Parameters, &str) -> Option<()>,
}

impl Variable {
    /// How it is written: `FI_WEFT_PORT`, or `FI_WEFT_TUNE=short=...`.
    #[must_use]
    pub fn written(&self) -> String {
        match self.audience {
            Audience::Users => format!("FI_WEFT_{}", self.name),
            Audience::Tuning => format!("FI_WEFT_{TUNE}={}=...", self.key()),
        }
    }

    /// As a key of [`TUNE`].
    #[must_use]
    pub fn key(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// Its effect, and its default.
    #[must_use]
    pub fn description(&self) -> String {
        format!("{} (default {})", self.help, self.default)
    }
}

/// The variable with all that is for tuning, without `FI_WEFT_`.
pub const TUNE: &str = "TUNE";
/// Its default.
pub const TUNE_DEFAULT: &str = "none";

/// What it is for, and its keys.
#[must_use]
pub fn tune_help() -> String {
    let keys = VARIABLES.iter().filter(|variable| variable.audience == Audience::Tuning);
    let keys: Vec<_> = keys.map(|one| format!("{}: {}", one.key(), one.description())).collect();
    format!(
        "What hardly any program needs: key=value, separated by commas (short=8K,spin=20); the last of one key counts. \
         {}",
        keys.join(". ")
    )
}

/// The maximum that fits into a packet.
const MOST_SHORT: u64 = 64 * 1024;

/// The name of the variable whose value is a secret.
pub(super) const KEY: &str = "KEY";
/// The name of the variable with the longest message that is sent without a request.
pub(super) const STREAM: &str = "STREAM";

/// All variables but [`TUNE`]: those of users first.
pub static VARIABLES: [Variable; 24] = [
    Variable {
        name: "TRANSPORT",
        audience: Audience::Users,
        default: "auto",
        possible: "auto, iwarp, edge, shm, shm+iwarp or shm+edge",
        help: "The transport of connections: iwarp: over TCP; edge: over UDP; shm: through memory that processes of \
               one host share; shm+iwarp: shm where possible, else iwarp; shm+edge: shm where possible, else edge, \
               and iwarp too if there is no answer within 250 ms; auto: shm+edge to hosts that share two or more \
               links with this one, else shm+iwarp. All processes of a job must have the same",
        set: |parameters, text| {
            parameters.endpoint.transport = Transport::of_name(text)?;
            Some(())
        },
    },
    Variable {
        name: "PROGRESS",
        audience: Audience::Users,
        default: "hybrid",
        possible: "hybrid, thread or caller",
        help: "Which threads run the NIC: hybrid: the calling thread while it is in a call, and a thread of the NIC \
               after a time without calls; thread: always that thread; caller: only calling threads",
        set: |parameters, text| {
            parameters.nic.progress = progress(text)?;
            Some(())
        },
    },
    Variable {
        name: "INTERFACE",
        audience: Audience::Users,
        default: "all",
        possible: "a list of interface names, addresses or networks (192.0.2.0/24), separated by commas; ! before one \
                   excludes it",
        help: "Which network interfaces are used, best first: names, beginnings of names with *, addresses or \
               networks (192.0.2.0/24), separated by commas; ! before one excludes it. Without it all that are up, \
               those of containers and the loopback last",
        set: |parameters, text| {
            parameters.interfaces = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "RAILS",
        audience: Audience::Users,
        default: "all",
        possible: "all, one, or a list of interface names separated by commas; *N behind all or a name asks for N \
                   flows; 16 rails at most",
        help: "The interfaces that a connection over Edge uses at the same time, and that auto counts as links: all: \
               those that are up and reach the peer, as far as FI_WEFT_INTERFACE allows; one: only that of the \
               connection; or their names, separated by commas. eth0*4 or all*4: four flows over it, or each, with \
               ports of their own",
        set: |parameters, text| {
            parameters.nic.rails = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "FLOWS",
        audience: Audience::Users,
        default: "coupled",
        possible: "coupled or capped",
        help: "How several flows over one interface (FI_WEFT_RAILS) share it: coupled: together they take as much as \
               one flow, for they share a bottleneck; capped: each takes its own share, for the network caps each \
               flow",
        set: |parameters, text| {
            parameters.nic.flow_share = text.parse().ok()?;
            Some(())
        },
    },
    Variable {
        name: "ENGINES",
        audience: Audience::Users,
        default: "1",
        possible: "a number from 1 to 64; more than 1 not with FI_WEFT_PROGRESS=caller",
        help: "Engines of a NIC, each with a thread of its own. With Edge over several rails each serves its share of \
               a connection's: it receives, checks and sends there on its own core. Not with FI_WEFT_PROGRESS=caller",
        set: |parameters, text| {
            let engines = between(text.parse().ok()?, 1..=Settings::MOST_ENGINES)?;
            (parameters.nic.engines, parameters.nic.rail_engines) = (engines, engines);
            Some(())
        },
    },
    Variable {
        name: "PORT",
        audience: Audience::Users,
        default: "any",
        possible: "a TCP port (1 to 65535) or a range of them (5000-5999)",
        help: "Port, or range of ports (5000-5999), that endpoints listen on, for firewalls: each endpoint needs one",
        set: |parameters, text| {
            parameters.ports = Some(ports(text)?);
            Some(())
        },
    },
    Variable {
        name: KEY,
        audience: Audience::Users,
        default: "none",
        possible: "a text of 16 to 1024 bytes that cannot be guessed, the same for all processes of the job (32 random \
                   bytes in hexadecimal digits, say)",
        help: "A secret of 16 to 1024 bytes that all processes of the job have: callers without it are refused. \
               Launchers pass it on with the environment. Without it every caller that reaches the port is accepted",
        set: |parameters, text| {
            let key = JobKey::new(text.as_bytes()).ok()?;
            parameters.nic.key = Some(key.clone());
            parameters.key = Some(key);
            Some(())
        },
    },
    Variable {
        name: "PEER_TIMEOUT",
        audience: Audience::Users,
        default: "60",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until a peer that does not answer any more is an error; 0: never",
        set: |parameters, text| {
            parameters.nic.peer_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "LEND",
        audience: Audience::Tuning,
        default: "32K",
        possible: "a number of bytes, or off",
        help: "Through shared memory, payloads of at least this many bytes are copied by the peer out of this \
               process's memory; off: all use the ring, which programs that send from mapped device memory need",
        set: |parameters, text| {
            let is_off = text.eq_ignore_ascii_case("off");
            parameters.nic.lend_threshold = if is_off { u32::MAX } else { u32::try_from(bytes(text)?).ok()? };
            Some(())
        },
    },
    Variable {
        name: "SHORT",
        audience: Audience::Tuning,
        default: "16K",
        possible: "a number of bytes from 0 to 64K",
        help: "Messages up to this many bytes are sent at once, with one copy at the receiver",
        set: |parameters, text| {
            set_short(parameters, between(bytes(text)?, 0..=MOST_SHORT)?);
            Some(())
        },
    },
    Variable {
        name: STREAM,
        audience: Audience::Tuning,
        default: "128K",
        possible: "a number of bytes, at most half of unexpected",
        help: "Longer messages up to this many bytes are sent at once too, in several packets; longer ones are \
               requested first",
        set: |parameters, text| {
            parameters.endpoint.messages.stream_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "ALONE",
        audience: Audience::Tuning,
        default: "64K",
        possible: "a number of bytes",
        help: "Of messages that are sent at once, those longer than this many bytes are read by the receiver instead \
               while more than two requests to its process are under way: slower for one, but with more throughput",
        set: |parameters, text| {
            parameters.endpoint.messages.alone_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "EAGER",
        audience: Audience::Tuning,
        default: "128K",
        possible: "a number of bytes",
        help: "Still longer messages than those of stream, up to this many bytes, are sent as soon as the receiver has \
               told where to write them; longer ones are read by the receiver when it has posted its receive",
        set: |parameters, text| {
            parameters.endpoint.messages.eager_bytes = bytes(text)?;
            Some(())
        },
    },
    Variable {
        name: "FRAGMENT",
        audience: Audience::Tuning,
        default: "1M",
        possible: "a number of bytes, at least 4K",
        help: "Longer messages are read in pieces of this many bytes",
        set: |parameters, text| {
            parameters.endpoint.messages.fragment_bytes = between(bytes(text)?, 4096..=1 << 31)?;
            Some(())
        },
    },
    Variable {
        name: "CREDITS",
        audience: Audience::Tuning,
        default: "16",
        possible: "a number from 2 to 1024",
        help: "Packets of short messages that a peer may have in flight to this process; each takes memory for one of \
               short bytes. Peers whose messages wait for them for a millisecond or longer are granted twice as many, \
               again and again, of 1024 more for all of them",
        set: |parameters, text| {
            parameters.endpoint.messages.data_credits = between(text.parse().ok()?, 2..=1024)?;
            Some(())
        },
    },
    Variable {
        name: "UNEXPECTED",
        audience: Audience::Tuning,
        default: "64M",
        possible: "a number of bytes, at least 64K",
        help: "Bytes of unexpected messages, kept for all peers together; from half of it on senders ask first, and \
               keep messages longer than 256 bytes",
        set: |parameters, text| {
            parameters.endpoint.messages.unexpected_bytes = between(bytes(text)?, 1 << 16..=1 << 50)?;
            Some(())
        },
    },
    Variable {
        name: "UNEXPECTED_MESSAGES",
        audience: Audience::Tuning,
        default: "250000",
        possible: "a number from 1000 to 100000000",
        help: "Unexpected messages of all peers together, including those left with their senders: each takes up to \
               1.5 KiB here; further senders are slowed down, and may wait until some of them are received",
        set: |parameters, text| {
            parameters.endpoint.messages.unexpected_messages = between(text.parse().ok()?, 1000..=100_000_000)?;
            Some(())
        },
    },
    Variable {
        name: "CONNECT_TIMEOUT",
        audience: Audience::Tuning,
        default: "10",
        possible: "a time in seconds, greater than 0",
        help: "Seconds until a peer that can't be reached is an error, all its addresses together",
        set: |parameters, text| {
            parameters.endpoint.connect_timeout = seconds(text)?;
            Some(())
        },
    },
    Variable {
        name: "REPLY_TIMEOUT",
        audience: Audience::Tuning,
        default: "600",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until a peer whose host has accepted the connection, but whose program does not answer, is an \
               error; 0: never",
        set: |parameters, text| {
            parameters.endpoint.reply_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "IDLE_TIMEOUT",
        audience: Audience::Tuning,
        default: "0",
        possible: "a time in seconds, greater than 0, or 0 for none",
        help: "Seconds until an idle connection is closed; it opens again when it is needed; 0: never",
        set: |parameters, text| {
            parameters.endpoint.messages.idle_timeout = seconds_or_never(text)?;
            Some(())
        },
    },
    Variable {
        name: "SPIN",
        audience: Audience::Tuning,
        default: "50",
        possible: "a time in microseconds, at most 1000000",
        help: "Microseconds that a waiting thread polls before it sleeps",
        set: |parameters, text| {
            parameters.nic.spin = Duration::from_micros(between(text.parse().ok()?, 0..=1_000_000)?);
            Some(())
        },
    },
    Variable {
        name: "ADAPTIVE",
        audience: Audience::Tuning,
        default: "on",
        possible: "on or off",
        help: "Whether threads learn when to poll, to yield and to take over; off: they never yield, poll for spin, \
               and the NIC's thread takes over after 200 us without a call",
        set: |parameters, text| {
            parameters.nic.adaptive = switch(text)?;
            Some(())
        },
    },
    Variable {
        name: "LINGER",
        audience: Audience::Tuning,
        default: "2",
        possible: "a time in seconds",
        help: "Closing an endpoint waits until sent messages are delivered, and gives up after this many seconds \
               without progress; messages lost then are reported on stderr",
        set: |parameters, text| {
            parameters.endpoint.linger = Some(seconds_or_never(text)?.unwrap_or(Duration::ZERO));
            Some(())
        },
    },
];

/// A packet must have room for a short message and its headers.
fn set_short(parameters: &mut Parameters, bytes: u64) {
    let messages = &mut parameters.endpoint.messages;
    let header = messages.packet_bytes - messages.short_bytes;
    messages.short_bytes = bytes as u32;
    messages.packet_bytes = messages.packet_bytes.max(bytes as u32 + header);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_are_for_users_and_they_come_first() {
        let users = VARIABLES.iter().take_while(|variable| variable.audience == Audience::Users).count();
        assert_eq!(users, 9);
        assert!(VARIABLES[users..].iter().all(|variable| variable.audience == Audience::Tuning));
    }

    /// The text of a default is that of the code. `all`, `any` and `none` are no values; the default of `LINGER` has a
    /// meaning of its own while connections are being set up.
    #[test]
    fn a_default_that_is_set_changes_nothing() {
        let mut compared = 0;
        for variable in
            VARIABLES.iter().filter(|variable| !["INTERFACE", "PORT", KEY, "LINGER"].contains(&variable.name))
        {
            let mut parameters = Parameters::default();
            (variable.set)(&mut parameters, variable.default).unwrap_or_else(|| panic!("{}", variable.name));
            assert_eq!(format!("{parameters:?}"), format!("{:?}", Parameters::default()), "{}", variable.name);
            compared += 1;
        }
        assert_eq!(compared, VARIABLES.len() - 4);
        assert_eq!(VARIABLES[23].default, weft_nic::EndpointSettings::LINGER.as_secs().to_string());
    }

    #[test]
    fn the_help_of_tuning_has_every_key_with_its_default() {
        let help = tune_help();
        for variable in VARIABLES.iter().filter(|variable| variable.audience == Audience::Tuning) {
            assert!(help.contains(&format!("{}: {}", variable.key(), variable.description())), "{}", variable.name);
        }
    }
}
