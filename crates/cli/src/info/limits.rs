//! The system, and the limits that it sets.

use std::thread::available_parallelism;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::utsname::uname;
use serde::Serialize;

use super::kernel_file::first_line;
use weft_command::failure::Failure;

/// What runs here.
#[derive(Debug, Serialize)]
pub(super) struct System {
    pub(super) host: String,
    pub(super) kernel: String,
    /// Cores that this process may use.
    pub(super) cores: usize,
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
}

impl System {
    /// This one.
    pub(super) fn here() -> Result<Self, Failure> {
        let name = uname().map_err(|error| Failure::Runtime(format!("cannot ask the system's name: {error}")))?;
        Ok(Self {
            host: name.nodename().to_string_lossy().into_owned(),
            kernel: name.release().to_string_lossy().into_owned(),
            cores: available_parallelism().map_or(0, usize::from),
            version: env!("CARGO_PKG_VERSION"),
            commit: weft_command::COMMIT,
        })
    }
}

/// A limit or a choice of the system's.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// Sysctls under `/proc/sys/net` that matter to sockets.
const SYSCTLS: [(&str, &str); 7] = [
    ("net.core.rmem_max", "/proc/sys/net/core/rmem_max"),
    ("net.core.wmem_max", "/proc/sys/net/core/wmem_max"),
    ("net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"),
    ("net.ipv4.tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem"),
    ("congestion control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("congestion controls to choose from", "/proc/sys/net/ipv4/tcp_available_congestion_control"),
    ("ephemeral ports", "/proc/sys/net/ipv4/ip_local_port_range"),
];

/// All limits.
pub(super) fn all() -> Result<Vec<Limit>, Failure> {
    let mut limits = vec![
        Limit { name: "open files (soft / hard)", value: resource(Resource::RLIMIT_NOFILE)? },
        Limit { name: "locked memory (soft / hard)", value: resource(Resource::RLIMIT_MEMLOCK)? },
    ];
    limits.extend(SYSCTLS.iter().map(|(name, path)| {
        let line = first_line(path).unwrap_or_else(|| "unknown".into());
        Limit { name, value: line.split_ascii_whitespace().collect::<Vec<_>>().join(" ") }
    }));
    Ok(limits)
}

fn resource(resource: Resource) -> Result<String, Failure> {
    let (soft, hard) =
        getrlimit(resource).map_err(|error| Failure::Runtime(format!("cannot ask a limit ({resource:?}): {error}")))?;
    let text = |limit| if limit == RLIM_INFINITY { "unlimited".into() } else { format!("{limit}") };
    Ok(format!("{} / {}", text(soft), text(hard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_values() {
        let limits = all().unwrap();
        assert!(limits.iter().all(|limit| !limit.value.is_empty()), "{limits:?}");
        let ports = limits.iter().find(|limit| limit.name == "ephemeral ports").unwrap();
        assert_eq!(ports.value.split(' ').count(), 2, "{ports:?}");
    }
}
