//! The program that two ranks run, compiled for one library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use crate::host::environments::in_path;
use crate::model::installation::Installation;
use crate::model::job::{Job, Kind};
use weft_command::scratch::Scratch;

const SOURCE: &str = include_str!("measure.c");
const FENCE: &str = include_str!("fence.c");
const ACROSS: &str = include_str!("across.c");
const HEAT: &str = include_str!("../../../../tests/mpi/programs/heat.c");
const BUCKETSORT: &str = include_str!("../../../../examples/bucketsort.c");
pub(super) const DECLARATIONS: &str = include_str!("mpi.h");
const AGENT: &str = include_str!("agent.sh");

/// Compilers, the first that is there is used.
const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// The program in a folder of its own, which goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    folder: Scratch,
    /// What each rank runs.
    executable: PathBuf,
}

impl Program {
    /// Whether it can be made on this machine.
    pub(crate) fn can_be_made() -> Result<(), String> {
        match compiler() {
            Some(_) => Ok(()),
            None => {
                Err("a C compiler is needed, for a program that measures MPI; on Debian: apt install gcc libc6-dev"
                    .into())
            }
        }
    }

    /// Compiles it for a library. Takes about a tenth of a second.
    pub(crate) fn make(installation: &Installation) -> Result<Self, String> {
        Self::compile(installation, "measure.c")
    }

    /// The one that measures fences.
    pub(crate) fn make_fence(installation: &Installation) -> Result<Self, String> {
        Self::compile(installation, "fence.c")
    }

    /// The one that computes heat on a plate.
    pub(crate) fn make_heat(installation: &Installation) -> Result<Self, String> {
        Self::compile(installation, "heat.c")
    }

    /// The one with ranks in two clusters.
    pub(crate) fn make_across(installation: &Installation) -> Result<Self, String> {
        Self::compile(installation, "across.c")
    }

    /// One that was built before.
    pub(crate) fn built(executable: &Path) -> Result<Self, String> {
        let this = Self::unpack().map_err(|error| format!("{}: {error}", env::temp_dir().display()))?;
        Ok(Self { executable: executable.to_owned(), ..this })
    }

    fn compile(installation: &Installation, source: &str) -> Result<Self, String> {
        let this = Self::unpack().map_err(|error| format!("{}: {error}", env::temp_dir().display()))?;
        let compiler = compiler().ok_or("there is no C compiler")?;
        let mut command = Command::new(&compiler);
        // An example names the header as one of the system's.
        command.arg("-I").arg(this.folder.path());
        command.args(["-O2", "-o"]).arg(this.executable()).arg(this.folder.path().join(source));
        if installation.library.is_open_mpi() {
            command.arg("-DWEFT_OPEN_MPI");
        }
        // What the library itself needs it finds when it is loaded.
        command.args(installation.link_arguments()).arg("-Wl,--unresolved-symbols=ignore-in-shared-libs");
        let output =
            command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", compiler.display()))?;
        if !output.status.success() {
            return Err(format!("{}: {}", compiler.display(), String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(this)
    }

    /// What each rank runs.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// What starts programs in another host of a test network, as `ssh` would.
    pub(crate) fn agent(&self) -> PathBuf {
        self.folder.path().join("agent.sh")
    }

    /// The arguments of the program for a job.
    pub(crate) fn arguments(job: &Job) -> Vec<String> {
        if job.kind == Kind::Nas {
            return Vec::new();
        }
        if job.kind == Kind::Patterns {
            let numbers = [job.size as u64, job.iterations, job.warmup, job.limit_s];
            return numbers.map(|number| number.to_string()).into();
        }
        let test = match job.kind {
            Kind::Latency => "latency",
            Kind::Bandwidth | Kind::Rate => "stream",
            Kind::Collective => "allreduce",
            Kind::Start => "alltoall",
            _ if job.both_ways => "exchange",
            _ => "overlap",
        };
        let numbers = [job.size as u64, job.iterations, job.warmup, job.window as u64, job.limit_s];
        [test.to_owned()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
    }

    fn unpack() -> io::Result<Self> {
        let folder = Scratch::new()?;
        let this = Self { executable: folder.path().join("measure"), folder };
        let folder = this.folder.path();
        fs::write(folder.join("measure.c"), SOURCE)?;
        fs::write(folder.join("fence.c"), FENCE)?;
        fs::write(folder.join("across.c"), ACROSS)?;
        fs::write(folder.join("bucketsort.c"), BUCKETSORT)?;
        fs::write(folder.join("heat.c"), HEAT)?;
        fs::write(folder.join("mpi.h"), DECLARATIONS)?;
        fs::write(this.agent(), AGENT)?;
        make_executable(&this.agent())?;
        Ok(this)
    }
}

pub(super) fn compiler() -> Option<PathBuf> {
    COMPILERS.iter().find_map(|name| in_path(name))
}

fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
