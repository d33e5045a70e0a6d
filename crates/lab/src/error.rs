//! Why a lab could not be made, or not be ended.

use std::error::Error;
use std::{fmt, io};

use crate::limits::{BitsPerSecond, HOSTS, LINKS, MTU, RATE};
use crate::link::{Link, Way};

/// What went wrong, sorted by whose fault it is.
#[derive(Debug)]
pub enum LabError {
    // The caller's: a plan that cannot be.
    /// The number of hosts is not one of [`HOSTS`].
    Hosts(usize),
    /// The number of links is not one of [`LINKS`].
    Links(usize),
    /// The MTU is not one of [`MTU`].
    Mtu(u32),
    /// The rate is not one of [`RATE`].
    Rate(BitsPerSecond),
    /// The lab has no such link.
    Link {
        /// The link.
        link: Link,
        /// How many hosts it has.
        hosts: usize,
        /// How many rails.
        links: usize,
    },
    /// Clusters that can't be; in words.
    Clusters(String),
    /// A shape that can't be; in words.
    Shape(String),
    /// One direction of a link without the host that sends in it.
    WhoseDirection {
        /// The link.
        link: Link,
        /// The direction.
        way: Way,
    },

    // The machine's: what it lacks or forbids.
    /// A lab's hosts can't have this congestion control.
    CongestionControl {
        /// Its name.
        name: String,
        /// Those that they can have, as the kernel lists them.
        allowed: String,
    },
    /// A gateway between clusters can't route: what the kernel asks for that cannot be written.
    NoRouting,
    /// A program that makes labs is not installed.
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The system does not let this user make namespaces.
    Barred {
        /// What `unshare` said.
        said: String,
        /// Which setting bars it and how to change that, as far as it can be seen.
        advice: String,
    },

    // The cause is unknown.
    /// A program that should have changed the network has failed.
    Tool {
        /// The program, with its arguments.
        command: String,
        /// What it said.
        said: String,
    },
    /// The process that shapes links failed; in words.
    Bridge(String),
    /// This process, which kept a namespace, has been killed from outside.
    Lost(u32),
    /// Something runs on in the namespace that this process kept, although it was killed.
    Left(u32),
    /// The operating system refused something.
    Io {
        /// What was tried.
        doing: String,
        /// What it said.
        error: io::Error,
    },
}

impl LabError {
    /// Whether this machine, as it is set up, can have no lab like this, so that a test or a comparison that wants one
    /// is to be left out.
    pub fn cannot_be_had(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Barred { .. } | Self::NoRouting)
    }

    /// Whether the request makes no sense, so that a retry would not help.
    pub fn is_callers(&self) -> bool {
        matches!(
            self,
            Self::Hosts(_)
                | Self::Links(_)
                | Self::Mtu(_)
                | Self::Rate(_)
                | Self::Link { .. }
                | Self::Clusters(_)
                | Self::Shape(_)
                | Self::WhoseDirection { .. }
        )
    }

    /// An error of the operating system while doing `what`.
    pub(crate) fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { doing: what.into(), error }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(1) => write!(f, "1 host is no network; a lab has {} to {} hosts", HOSTS.start(), HOSTS.end()),
            Self::Hosts(hosts) => {
                write!(f, "{hosts} hosts are out of range; a lab has {} to {}", HOSTS.start(), HOSTS.end())
            }
            Self::Links(links) => {
                write!(f, "{links} links are out of range; a host has {} to {}", LINKS.start(), LINKS.end())
            }
            Self::Mtu(mtu) => {
                write!(f, "an MTU of {mtu} is out of range; it is {} to {} bytes", MTU.start(), MTU.end())
            }
            Self::Rate(rate) => {
                write!(
                    f,
                    "a rate of {rate} is out of range; it is {} to {}, or no rate at all",
                    RATE.start(),
                    RATE.end()
                )
            }
            Self::Link { link, hosts, links } => {
                write!(
                    f,
                    "there is no link {link}; the lab's hosts are 0 to {}, its rails rail0 to rail{}",
                    hosts - 1,
                    links - 1
                )
            }
            Self::Clusters(words) | Self::Shape(words) => f.write_str(words),
            Self::Bridge(said) => write!(f, "the process that shapes links failed: {said}"),
            Self::WhoseDirection { link, way } => {
                write!(f, "{way} is a direction of one host's cable; say whose, for instance 0:{link}")
            }
            Self::CongestionControl { name, allowed } => {
                write!(
                    f,
                    "no host of a lab may have the congestion control {name:?}; this kernel allows: {allowed} (sysctl \
                     net.ipv4.tcp_allowed_congestion_control)"
                )
            }
            Self::NoRouting => f.write_str(
                "this system does not let you make a router: /proc/sys/net/ipv4/ip_forward cannot be written even in a \
                 namespace of your own, because /proc/sys is read-only; in a container, start it with --privileged",
            ),
            Self::Missing { program, package } => {
                write!(f, "{program} is not installed; on Debian, as root: apt install {package}")
            }
            Self::Barred { said, advice } => {
                write!(f, "this system does not let you make namespaces ({said}): {advice}")
            }
            Self::Tool { command, said } => write!(f, "`{command}` has failed: {said}"),
            Self::Lost(process) => {
                write!(
                    f,
                    "process {process}, which kept a host's network, was killed; programs in that host may still run, \
                     and the lab must be made again"
                )
            }
            Self::Left(process) => {
                write!(
                    f,
                    "a program in the network that process {process} kept does not end although it was killed; look \
                     for it with ps in state D"
                )
            }
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl Error for LabError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
