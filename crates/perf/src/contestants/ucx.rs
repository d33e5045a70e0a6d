//! UCX over TCP, or through shared memory of one host, by its own `ucx_perftest`: `tag_lat`, `tag_bw` for messages,
//! `ucp_put_*` for writes, `ucp_get` for reads.
//!
//! In the latency test each run is two runs of ucx_perftest with half of the iterations, because it tells one
//! percentile at a time. Bandwidth and rate come from its overall message rate. Its processor time is that of the whole
//! process, start-up included.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::contestants::outside::{Server, ask, on_loopback};
use crate::host::environments;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Operation, Role};
use crate::model::measure::{Measured, childrens_cpu, per_gb};

const PROGRAM: &str = "ucx_perftest";
/// Tells which version it is.
const INFO: &str = "ucx_info";
/// What the wheel is called as a package of Python.
const PACKAGE: &str = "libucx";
/// Names environments with the wheel, or folders of such.
const VARIABLE: &str = "WEFT_UCX";
/// Where they are when it names none, in the working directory or above.
const CACHE: &str = ".cache/ucx";

pub(crate) struct Ucx;

impl Contestant for Ucx {
    fn name(&self) -> &'static str {
        "ucx"
    }

    fn describe(&self) -> &'static str {
        "ucx_perftest with UCX_TLS=tcp, or on one host as ucx:posix, ucx:cma with posix,cma, ucx:shm with \
         posix,sysv,cma: tag_lat, tag_bw; ucp_put_lat, ucp_put_bw for writes, ucp_get for reads"
    }

    fn available(&self, variant: Option<&str>) -> Result<(), String> {
        transports(variant)?;
        Installation::find().map(drop)
    }

    fn version(&self, _: &Job) -> Option<String> {
        Installation::find().ok()?.version()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        if is_of_one_host(transports(job.variant.as_deref())?) && !on_loopback(job) {
            return Err("through shared memory UCX is measured on one host: without --lab and without --connect".into());
        }
        match job.kind {
            _ if job.operation == Some(Operation::Notify) => Err(format!("{PROGRAM} has no notified put")),
            _ if job.operation == Some(Operation::Atomic) => Err(format!("{PROGRAM} is not run with atomics here")),
            Kind::Latency | Kind::Bandwidth | Kind::Rate => Ok(()),
            _ => Err(format!("{PROGRAM} has no such test")),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let installation = Installation::find()?;
        let mut servers = Vec::new();
        if job.role() == Role::Passive {
            for percentile in percentiles(job.kind) {
                servers.push(Server::start(PROGRAM, |port| command(&installation, job, percentile, port))?);
            }
        }
        Ok(Box::new(UcxSide { installation, servers }))
    }
}

/// What UCX may use (`UCX_TLS`): TCP, or memory that both share, without or with copies by the kernel.
fn transports(variant: Option<&str>) -> Result<&'static str, String> {
    match variant {
        None | Some("tcp") => Ok("tcp"),
        Some("posix") => Ok("posix"),
        Some("cma") => Ok("posix,cma"),
        Some("shm") => Ok("posix,sysv,cma"),
        Some(other) => Err(format!("{other:?} is no variant of ucx; there are tcp, posix, cma and shm")),
    }
}

/// Whether these transports reach no other host.
fn is_of_one_host(transports: &str) -> bool {
    transports != "tcp"
}

/// Where the program is.
pub fn find() -> Option<PathBuf> {
    Installation::find().ok().map(|installation| installation.program)
}

/// UCX on this machine.
#[derive(Debug, PartialEq)]
struct Installation {
    program: PathBuf,
    /// Where its libraries are, if the loader does not find them by itself.
    libraries: Option<PathBuf>,
}

impl Installation {
    /// In an environment that [`VARIABLE`] names, or that is in [`CACHE`]; else where programs are.
    fn find() -> Result<Self, String> {
        let folders = environments::folders(VARIABLE, CACHE);
        let environments = folders.iter().flat_map(|folder| environments::with_members(folder));
        let named = environments.into_iter().find_map(|environment| Self::of_wheel(&environment));
        if named.is_none() && env::var_os(VARIABLE).is_some() {
            let names: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(format!(
                "{VARIABLE} names no environment with UCX: {}; pip install libucx-cu12 there",
                names.join(", ")
            ));
        }
        let in_path = || environments::in_path(PROGRAM).map(|program| Self { program, libraries: None });
        named.or_else(in_path).ok_or_else(|| {
            format!(
                "{PROGRAM} is not installed; pip install libucx-cu12 (UCX 1.22) in an environment that {VARIABLE} \
                 names, or on Debian: apt install ucx-utils"
            )
        })
    }

    /// What the wheel `libucx-cu12`, or another one of its kind, has in an environment.
    fn of_wheel(environment: &Path) -> Option<Self> {
        let package = environments::package(environment, PACKAGE)?;
        let program = package.join("bin").join(PROGRAM);
        program.is_file().then(|| Self { program, libraries: Some(package.join("lib")) })
    }

    fn version(&self) -> Option<String> {
        let mut command = Command::new(self.program.with_file_name(INFO));
        self.set_libraries(&mut command);
        let output = command.arg("-v").stdin(Stdio::null()).output().ok()?;
        version_in(&String::from_utf8_lossy(&output.stdout))
    }

    fn set_libraries(&self, command: &mut Command) {
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", before(libraries, env::var_os("LD_LIBRARY_PATH")));
        }
    }
}

/// A folder and then those of a list, with colons.
fn before(folder: &Path, others: Option<OsString>) -> OsString {
    let mut list = folder.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The version that `ucx_info -v` tells: `# Library version: 1.22.0`, `# Version 1.13.1`, or before 1.12
/// `# UCT version=1.10.0 revision`.
fn version_in(text: &str) -> Option<String> {
    let at = text.to_lowercase().find("version")?;
    text[at + "version".len()..].trim_start_matches([':', '=', ' ']).split_whitespace().next().map(str::to_owned)
}

/// The percentiles that are requested, each in a run of its own.
fn percentiles(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Latency => &["50", "99"],
        _ => &["50"],
    }
}

fn test_name(job: &Job) -> &'static str {
    match (job.operation.unwrap_or(Operation::Send), job.kind) {
        (Operation::Send, Kind::Latency) => "tag_lat",
        (Operation::Send, _) => "tag_bw",
        (Operation::Write, Kind::Latency) => "ucp_put_lat",
        (Operation::Write | Operation::Notify, _) => "ucp_put_bw",
        (Operation::Read | Operation::Atomic, _) => "ucp_get",
    }
}

/// The command that both sides run; the active one adds where the server is.
fn command(installation: &Installation, job: &Job, percentile: &str, port: u16) -> Command {
    let runs = percentiles(job.kind).len() as u64;
    let program = &installation.program;
    let mut command = if sys_is_foreign() { with_own_sys(program) } else { Command::new(program) };
    installation.set_libraries(&mut command);
    command
        .env("UCX_TLS", transports(job.variant.as_deref()).unwrap_or("tcp"))
        .env("UCX_WARN_UNUSED_ENV_VARS", "n")
        .args(["-t", test_name(job), "-v", "-f", "-R", percentile])
        .args(["-s", &job.size.to_string()])
        .args(["-n", &(job.iterations / runs).max(1).to_string()])
        .args(["-w", &job.warmup.to_string()])
        .args(["-p", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if job.kind != Kind::Latency {
        command.args(["-O", &job.window.to_string()]);
    }
    if on_loopback(job) && matches!(job.variant.as_deref(), None | Some("tcp")) {
        command.env("UCX_NET_DEVICES", "lo");
    }
    command
}

/// Whether `/sys`, where UCX looks for interfaces, lacks those of this process: it is in a test network then.
fn sys_is_foreign() -> bool {
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = interfaces.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.into_iter().any(|(name, _)| !Path::new("/sys/class/net").join(name.trim()).exists())
}

/// The program with a `/sys` of its own.
fn with_own_sys(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\""]).arg(program);
    command
}

struct UcxSide {
    installation: Installation,
    servers: Vec<Server>,
}

impl Side for UcxSide {
    fn address(&self) -> String {
        let ports: Vec<_> = self.servers.iter().map(|server| server.port.to_string()).collect();
        ports.join(",")
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let cpu = childrens_cpu();
        let mut measured = match job.role() {
            Role::Passive => self.serve(),
            Role::Active => measure(&self.installation, job, other(job, addresses)),
        }?;
        if job.kind != Kind::Latency {
            let bytes = (job.iterations + job.warmup) * job.size as u64;
            measured.cpu_s_per_gb = Some(per_gb(childrens_cpu().saturating_sub(cpu), bytes));
        }
        Ok(measured)
    }
}

impl UcxSide {
    fn serve(&mut self) -> Result<Measured, String> {
        self.servers.iter_mut().try_for_each(Server::finish)?;
        Ok(Measured::default())
    }
}

fn measure(installation: &Installation, job: &Job, peer: &str) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for (percentile, port) in percentiles(job.kind).iter().zip(peer.split(',')) {
        let port = port.parse().map_err(|_| "no port from the peer")?;
        let text = ask(PROGRAM, command(installation, job, percentile, port).arg(&job.host))?;
        let figures = Figures::read(&text).ok_or_else(|| format!("{PROGRAM} printed no figures: {text:?}"))?;
        match job.kind {
            Kind::Latency if *percentile == "50" => measured.value = Some(figures.percentile_us),
            Kind::Latency => measured.p99 = Some(figures.percentile_us),
            Kind::Bandwidth => measured.value = Some(figures.messages_per_s * job.size as f64 / 1e9),
            _ => measured.value = Some(figures.messages_per_s),
        }
    }
    Ok(measured)
}

/// What is read of the table that ucx_perftest prints with `-v -f`: a line of names, a line of figures, with commas.
#[derive(Debug, PartialEq)]
struct Figures {
    percentile_us: f64,
    messages_per_s: f64,
}

impl Figures {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("iterations,"));
        let names: Vec<_> = lines.next()?.split(',').collect();
        let figures: Vec<_> = lines.last()?.split(',').collect();
        let column = |is: &dyn Fn(&str) -> bool| {
            let at = names.iter().position(|name| is(name))?;
            figures.get(at)?.trim().parse().ok()
        };
        Some(Self {
            percentile_us: column(&|name| name.contains("percentile_lat"))?,
            messages_per_s: column(&|name| name == "overall_mr")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn figures_are_found_by_name() {
        let text = "iterations,99.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                    20000,5.682,33.436,33.436,1869.23,1869.23,29908,29909\n";
        assert_eq!(Figures::read(text), Some(Figures { percentile_us: 5.682, messages_per_s: 29909.0 }));
        assert_eq!(Figures::read("Waiting for connection...\n"), None);
        assert_eq!(Figures::read("iterations,overall_mr\n1,2\n"), None, "a column is missing");
    }

    #[test]
    fn a_wheel_is_found_in_its_environment() {
        let root = env::temp_dir().join(format!("weft-ucx-{}", std::process::id()));
        let package = root.join("lib/python3.11/site-packages/libucx");
        assert_eq!(Installation::of_wheel(&root), None);
        fs::create_dir_all(package.join("bin")).unwrap();
        assert_eq!(Installation::of_wheel(&root), None, "a wheel without the program");
        fs::write(package.join("bin").join(PROGRAM), "").unwrap();
        let found = Installation::of_wheel(&root).unwrap();
        assert_eq!(
            found,
            Installation { program: package.join("bin/ucx_perftest"), libraries: Some(package.join("lib")) }
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn its_libraries_come_before_others() {
        let list = |others: Option<&str>| before(Path::new("/ucx/lib"), others.map(OsString::from));
        assert_eq!(list(None), "/ucx/lib");
        assert_eq!(list(Some("")), "/ucx/lib");
        assert_eq!(list(Some("/a:/b")), "/ucx/lib:/a:/b");
    }

    #[test]
    fn a_version_is_read_in_both_forms() {
        let new = "# Library version: 1.22.0\n# Library path: /lib/libucs.so.0\n# API headers version: 1.22.0\n";
        assert_eq!(version_in(new).as_deref(), Some("1.22.0"));
        assert_eq!(version_in("# Version 1.13.1\n# Git branch").as_deref(), Some("1.13.1"));
        assert_eq!(version_in("# UCT version=1.10.0 revision 7477e81\n").as_deref(), Some("1.10.0"));
        assert_eq!(version_in("nothing"), None);
    }

    #[test]
    fn shared_memory_is_of_one_host() {
        let supports = |variant: &str, host: &str| {
            Ucx.supports(&Job { variant: Some(variant.into()), host: host.into(), ..job() })
        };
        for variant in ["posix", "cma", "shm"] {
            assert_eq!(supports(variant, "127.0.0.1"), Ok(()), "{variant}");
            assert!(supports(variant, "10.0.0.1").unwrap_err().contains("--lab"), "{variant}");
        }
        assert_eq!(supports("tcp", "10.0.0.1"), Ok(()));
        assert!(supports("rc", "127.0.0.1").unwrap_err().contains("\"rc\""));
    }

    #[test]
    fn each_operation_has_its_test() {
        let name = |operation, kind| test_name(&Job { operation: Some(operation), kind, ..job() });
        assert_eq!(name(Operation::Send, Kind::Rate), "tag_bw");
        assert_eq!(name(Operation::Write, Kind::Latency), "ucp_put_lat");
        assert_eq!(name(Operation::Read, Kind::Bandwidth), "ucp_get");
    }
}
