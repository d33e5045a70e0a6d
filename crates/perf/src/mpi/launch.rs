//! How two ranks are started, and what carries their messages.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use weft_command::provider::Provider;
use weft_lab::Host;

use crate::model::installation::{Installation, Library};
use crate::model::job::{Job, Member};
use crate::mpi::program::Program;
use weft_command::transport::Transport;

/// Which transport Weft's provider takes.
const TRANSPORT: &str = "FI_WEFT_TRANSPORT";
/// Which interface libfabric's tcp takes.
const INTERFACE_OF_TCP: &str = "FI_TCP_IFACE";
/// The interface of a test network's first link.
const FIRST_LINK: &str = "rail0";

/// What is below the MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Weft's provider of libfabric, over this transport (`None`: as its settings say).
    Weft(Option<Transport>),
    /// Another one.
    Libfabric(String),
    /// UCX over TCP.
    Ucx,
    /// The library's own shared memory, between ranks of one host.
    SharedMemory,
}

impl Carrier {
    /// Which one a variant names: `weft`, `weft-edge`, `libfabric-tcp`, `ucx`, `shm`.
    pub(crate) fn parse(variant: Option<&str>) -> Result<Self, String> {
        let Some(name) = variant else { return Ok(Self::Weft(None)) };
        let found = match name.split_once('-') {
            None => match name {
                Provider::NAME => Some(Self::Weft(None)),
                "ucx" => Some(Self::Ucx),
                "shm" => Some(Self::SharedMemory),
                _ => None,
            },
            Some((Provider::NAME, transport)) => Transport::from_str(transport, false).ok().map(Some).map(Self::Weft),
            Some(("libfabric", Provider::NAME)) => Some(Self::Weft(None)),
            Some(("libfabric", provider)) if !provider.is_empty() => Some(Self::Libfabric(provider.into())),
            Some(_) => None,
        };
        found.ok_or_else(|| {
            format!(
                "{name:?} carries no MPI; there are weft, weft-TRANSPORT (weft-edge, weft-shm), libfabric-PROVIDER \
                 (libfabric-tcp), ucx, shm (the library's own)"
            )
        })
    }

    /// Whether it is Weft.
    pub(crate) fn is_weft(&self) -> bool {
        matches!(self, Self::Weft(_))
    }

    /// The provider of libfabric that is requested.
    fn provider(&self) -> Option<&str> {
        match self {
            Self::Weft(_) => Some(Provider::NAME),
            Self::Libfabric(provider) => Some(provider),
            Self::Ucx | Self::SharedMemory => None,
        }
    }

    /// What all ranks must find in their environment.
    fn environment(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Weft(Some(transport)) => Some((TRANSPORT, transport.to_possible_value()?.get_name().to_owned())),
            _ => None,
        }
    }

    /// Whether a library can use it.
    pub(crate) fn fits(&self, installation: &Installation) -> Result<(), String> {
        if *self == Self::Ucx && !installation.has_ucx() {
            return Err(format!("{} has no UCX for plain TCP", installation.library));
        }
        Ok(())
    }
}

/// How the ranks reach each other.
#[derive(Clone, Debug)]
pub(crate) enum Ways {
    /// They are on one host.
    Here,
    /// They are on hosts of a test network, one on each.
    Lab {
        /// The address of the first rank's host, where the library's starter runs too.
        near: String,
        /// The other hosts.
        far: Vec<Member>,
        /// The first rank's host, if this process is not in it.
        entry: Option<Host>,
    },
}

impl Ways {
    /// On how many hosts the ranks must be.
    pub(crate) fn hosts(&self) -> usize {
        match self {
            Self::Here => 1,
            Self::Lab { far, .. } => 1 + far.len(),
        }
    }

    /// The addresses of the hosts with this behind each, the first rank's first.
    fn addresses(near: &str, far: &[Member], behind: &str) -> String {
        let all = std::iter::once(near).chain(far.iter().map(|member| member.address.as_str()));
        all.map(|address| format!("{address}{behind}")).collect::<Vec<_>>().join(",")
    }
}

/// The command that starts the ranks.
pub(crate) fn command(
    installation: &Installation,
    carrier: &Carrier,
    provider: Option<&Provider>,
    ways: &Ways,
    program: &Program,
    job: &Job,
) -> Command {
    let mut command = command_of_ranks(installation, Some(carrier), provider, ways, program, job.mpi_ranks);
    command.args(Program::arguments(job));
    command
}

/// The command that starts this many ranks; without a carrier they share memory as the library likes.
pub(crate) fn command_of_ranks(
    installation: &Installation,
    carrier: Option<&Carrier>,
    provider: Option<&Provider>,
    ways: &Ways,
    program: &Program,
    ranks: usize,
) -> Command {
    let mut command = start(ways, program, &installation.mpiexec);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(provider) = provider {
        command.env("FI_PROVIDER_PATH", provider.folder());
    }
    command.envs(carrier.and_then(Carrier::environment));
    if carrier == Some(&Carrier::Ucx) {
        command.env("UCX_TLS", "tcp,self").env("UCX_WARN_UNUSED_ENV_VARS", "n");
    }
    let is_open = installation.library.is_open_mpi();
    if ways.hosts() > 2 && matches!(carrier, Some(Carrier::Libfabric(name)) if name.starts_with("tcp")) {
        // It may try the loopback device, where the other hosts are not.
        command.env(INTERFACE_OF_TCP, FIRST_LINK);
    }
    match carrier {
        Some(carrier) if is_open => open_mpi(&mut command, carrier, provider, ways, program),
        Some(carrier) => hydra(&mut command, installation.library, carrier, ways, program),
        None if is_open => {
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.args(["--bind-to", "none", "--oversubscribe"]);
        }
        None => {}
    }
    command.args(["-n", &ranks.to_string()]).arg(program.executable());
    command
}

/// The library's starter, in the first rank's host.
fn start(ways: &Ways, program: &Program, mpiexec: &Path) -> Command {
    match ways {
        Ways::Here => Command::new(mpiexec),
        Ways::Lab { near, far, entry } => {
            let agent = program.agent();
            let mut command = entry.as_ref().map_or_else(|| Command::new(&agent), |host| host.command(&agent));
            let far: Vec<_> = far.iter().map(|Member { address, process }| format!("{address}={process}")).collect();
            command.env("WEFT_MPI_NEAR", near).env("WEFT_MPI_FAR", far.join(" "));
            command.arg("--words").arg(near).arg(mpiexec);
            command
        }
    }
}

/// MPICH's and Intel MPI's starter.
fn hydra(command: &mut Command, library: Library, carrier: &Carrier, ways: &Ways, program: &Program) {
    match (library, carrier.provider()) {
        (Library::Intel, Some(provider)) => {
            command.env("I_MPI_FABRICS", "ofi").env("I_MPI_OFI_PROVIDER", provider);
        }
        (_, Some(provider)) => {
            command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", provider);
        }
        (_, None) if *carrier == Carrier::Ucx => {
            command.env("MPIR_CVAR_CH4_NETMOD", "ucx");
        }
        // It takes its shared memory by itself.
        (_, None) => {}
    }
    match ways {
        Ways::Here if *carrier == Carrier::SharedMemory => {}
        // Not through its own shared memory.
        Ways::Here => {
            command.env("MPIR_CVAR_NOLOCAL", "1");
        }
        Ways::Lab { near, far, .. } => {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(program.agent());
            command.args(["-hosts", &Ways::addresses(near, far, ""), "-ppn", "1"]);
        }
    }
}

/// Open MPI's starter. `cm` leaves matching to what is below; `ob1` would send by sockets of its own.
fn open_mpi(command: &mut Command, carrier: &Carrier, provider: Option<&Provider>, ways: &Ways, program: &Program) {
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["--bind-to", "none"]);
    match carrier {
        Carrier::Weft(_) | Carrier::Libfabric(_) => {
            let name = carrier.provider().unwrap_or_default();
            command.args(["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", name]);
            if provider.is_some() {
                command.args(["-x", "FI_PROVIDER_PATH"]);
            }
            if carrier.environment().is_some() {
                command.args(["-x", TRANSPORT]);
            }
            if ways.hosts() > 2 {
                // It does not see that several hosts share the processors.
                command.args(["--mca", "mpi_yield_when_idle", "1"]);
                if name.starts_with("tcp") {
                    command.args(["-x", INTERFACE_OF_TCP]);
                }
            }
        }
        Carrier::Ucx => {
            // It takes itself to be of no use on plain TCP.
            command.args(["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]);
            command.args(["-x", "UCX_TLS"]);
        }
        Carrier::SharedMemory => {}
    }
    match ways {
        Ways::Here => command.arg("--oversubscribe"),
        Ways::Lab { near, far, .. } => {
            command.args(["--host", &Ways::addresses(near, far, ":1"), "--map-by", "ppr:1:node"]);
            command.args(["--mca", "plm_rsh_agent"]).arg(program.agent())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_a_network_has_a_rank() {
        let far = [("10.0.0.2", 7), ("10.0.1.1", 8)];
        let far: Vec<_> = far.map(|(address, process)| Member { address: address.into(), process }).into();
        assert_eq!(Ways::addresses("10.0.0.1", &far, ""), "10.0.0.1,10.0.0.2,10.0.1.1");
        assert_eq!(Ways::addresses("10.0.0.1", &far, ":1"), "10.0.0.1:1,10.0.0.2:1,10.0.1.1:1");
        let ways = Ways::Lab { near: "10.0.0.1".into(), far, entry: None };
        assert_eq!((ways.hosts(), Ways::Here.hosts()), (3, 1));
    }

    #[test]
    fn carriers_have_names() {
        let weft = Carrier::parse(None).unwrap();
        assert!(weft.is_weft() && Carrier::parse(Some("weft")).unwrap() == weft);
        assert_eq!(Carrier::parse(Some("libfabric-weft")).unwrap(), weft);
        let edge = Carrier::parse(Some("weft-edge")).unwrap();
        assert!(edge.is_weft());
        assert_eq!(edge.environment(), Some((TRANSPORT, "edge".into())));
        assert_eq!(weft.environment(), None, "the provider's settings say it");
        assert_eq!(Carrier::parse(Some("libfabric-tcp")), Ok(Carrier::Libfabric("tcp".into())));
        assert_eq!(Carrier::parse(Some("ucx")), Ok(Carrier::Ucx));
        assert_eq!(Carrier::parse(Some("shm")), Ok(Carrier::SharedMemory));
        for wrong in ["tcp", "libfabric-", "UCX", "weft-", "weft-tcp", "shm-weft"] {
            assert!(Carrier::parse(Some(wrong)).unwrap_err().contains("libfabric-tcp"), "{wrong}");
        }
    }
}
