//! What this machine can do, found out by trying.

use nix::sys::socket::{setsockopt, sockopt};
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use weft_command::rights::{packet_socket, user_namespaces};
use weft_libfabric::Library;

use weft_perf::find_ucx;

/// Something that Weft, or a comparison with it, can make use of.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Ability {
    name: &'static str,
    available: bool,
    /// What it is good for and what there is, or why it is not there and what would help.
    detail: String,
}

impl Ability {
    fn tried(name: &'static str, outcome: Result<String, String>) -> Self {
        match outcome {
            Ok(detail) => Self { name, available: true, detail },
            Err(detail) => Self { name, available: false, detail },
        }
    }

    /// For the table.
    pub(super) fn cells(&self) -> [String; 3] {
        [self.name.into(), if self.available { "yes" } else { "no" }.into(), self.detail.clone()]
    }
}

/// All of them. Takes some milliseconds: libfabric inspects the machine when it lists its providers.
pub(super) fn all() -> Vec<Ability> {
    vec![
        Ability::tried("raw packet sockets", packet_socket()),
        Ability::tried("user namespaces", user_namespaces()),
        Ability::tried("UDP segmentation (GSO)", udp(|socket| setsockopt(socket, sockopt::UdpGsoSegment, &1400))),
        Ability::tried("UDP coalescing (GRO)", udp(|socket| setsockopt(socket, sockopt::UdpGroSegment, &true))),
        Ability::tried("MPTCP", mptcp()),
        Ability::tried("libfabric", libfabric()),
        Ability::tried("ucx_perftest", ucx_perftest()),
    ]
}

fn udp(option: impl FnOnce(&Socket) -> nix::Result<()>) -> Result<String, String> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(|error| error.to_string())?;
    option(&socket).map(|()| "many packets in one call".into()).map_err(|error| format!("the kernel refuses: {error}"))
}

fn mptcp() -> Result<String, String> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok("a peer of weft perf".into()),
        Err(error) => Err(format!("{error}; try sysctl net.mptcp.enabled=1")),
    }
}

fn libfabric() -> Result<String, String> {
    let library = Library::load().map_err(|error| error.to_string())?;
    let providers = library.providers().map_err(|error| error.to_string())?;
    let names: Vec<_> = providers.into_iter().map(|provider| provider.name).collect();
    let (major, minor) = library.version();
    Ok(format!("version {major}.{minor}, providers {}", names.join(" ")))
}

fn ucx_perftest() -> Result<String, String> {
    match find_ucx() {
        Some(path) => Ok(path.display().to_string()),
        None => {
            Err("not installed; on Debian: apt install ucx-utils, or pip install libucx-cu12 where WEFT_UCX says"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_says_something() {
        for ability in all() {
            assert!(!ability.detail.is_empty(), "{ability:?}");
        }
    }
}
