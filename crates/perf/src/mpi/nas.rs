//! The NAS parallel benchmarks: found in a folder of the user's, built in a folder of their own, and what they print.
//!
//! Nothing of them is part of Weft: the user unpacks the suite (NPB 3.3 or 3.4, the version for MPI), and its own
//! makefiles build it, with a `config/make.def` that is written here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use weft_command::scratch::Scratch;

use crate::host::environments::{self, in_path};
use crate::model::installation::{Installation, Library};
use crate::model::nas::{Benchmark, Class, Nas};
use crate::mpi::program::{DECLARATIONS, compiler};

/// Names the folder, if the command line does not.
const VARIABLE: &str = "WEFT_NPB";
/// Where it is sought otherwise, in the working directory and above.
const CACHE: &str = ".cache/npb";
/// What the folder of the suite has.
const MARKS: [&str; 2] = ["IS/is.c", "sys/make.common"];
/// Fortran compilers for the one library that brings its modules.
const FORTRAN: [&str; 2] = ["mpif90.openmpi", "mpif90"];
/// Where to get it.
const SOURCE: &str = "unpack NPB 3.4 (https://www.nas.nasa.gov/software/npb.html) and name its folder with --npb, or \
                      in WEFT_NPB, or have it as .cache/npb here or above";
/// Lines of a failed build that are passed on.
const COMPLAINT_LINES: usize = 6;

/// A program that was built, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) library: Installation,
    pub(crate) ranks: usize,
    pub(crate) nas: Nas,
}

/// Programs in a folder that goes with this.
#[derive(Debug)]
pub(crate) struct Suite {
    _folder: Scratch,
    pub(crate) built: Vec<Built>,
}

/// What is to be built.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    /// Where the suite is; `None`: where it usually is.
    pub(crate) folder: Option<&'a Path>,
    /// Empty: all that can be built.
    pub(crate) benchmarks: &'a [Benchmark],
    pub(crate) class: Class,
    pub(crate) ranks: &'a [usize],
}

impl Suite {
    /// Builds what is wanted for each library. IS takes half a second, the others some seconds each.
    ///
    /// # Errors
    ///
    /// The suite is not there, or a compiler; a benchmark is named that no library here can have; a build failed.
    pub(crate) fn build(wish: &Wish<'_>, libraries: &[Installation]) -> Result<Self, String> {
        let suite = find(wish.folder)?;
        let scratch = Scratch::new().map_err(|error| format!("a folder to build in: {error}"))?;
        let mut built = Vec::new();
        for library in libraries {
            let benchmarks = benchmarks(wish.benchmarks, library.library);
            if benchmarks.is_empty() {
                continue;
            }
            let folder = scratch.path().join(library.library.name());
            prepare(&suite, &folder, library).map_err(|error| format!("{}: {error}", folder.display()))?;
            for benchmark in benchmarks {
                for ranks in wish.ranks {
                    let executable = make(&folder, benchmark, wish.class, *ranks)?;
                    let nas = Nas { benchmark, class: wish.class, executable };
                    built.push(Built { library: library.clone(), ranks: *ranks, nas });
                }
            }
        }
        if built.is_empty() {
            let words = "cg, lu and mg are in Fortran, and of the MPI libraries only Debian's Open MPI brings what \
                         they need: apt install gfortran libopenmpi-dev, and --library debian";
            return Err(words.into());
        }
        Ok(Self { _folder: scratch, built })
    }
}

/// The folder of the version for MPI.
fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    let folders = match named {
        Some(folder) => vec![folder.to_owned()],
        None => environments::folders(VARIABLE, CACHE),
    };
    let has_all = |folder: &PathBuf| MARKS.iter().all(|mark| folder.join(mark).is_file());
    // The suite has a folder for each kind of parallel machine.
    let found = folders.iter().flat_map(|folder| environments::with_members(folder)).find(has_all);
    found.ok_or_else(|| match named {
        Some(folder) => {
            format!("{} has no NAS parallel benchmarks for MPI ({}): {SOURCE}", folder.display(), MARKS.join(" and "))
        }
        None => format!("the NAS parallel benchmarks are not part of Weft: {SOURCE}"),
    })
}

/// Those of the wanted benchmarks that can be built for this library.
fn benchmarks(wanted: &[Benchmark], library: Library) -> Vec<Benchmark> {
    let all = [Benchmark::Is, Benchmark::Cg, Benchmark::Lu, Benchmark::Mg];
    let wanted = if wanted.is_empty() { &all[..] } else { wanted };
    let has_fortran = library == Library::Debian && fortran().is_some() && in_path("gfortran").is_some();
    wanted.iter().copied().filter(|benchmark| !benchmark.is_fortran() || has_fortran).collect()
}

fn fortran() -> Option<PathBuf> {
    FORTRAN.iter().find_map(|name| in_path(name))
}

/// A copy of the suite that is set for a library.
fn prepare(suite: &Path, folder: &Path, library: &Installation) -> io::Result<()> {
    copy(suite, folder)?;
    fs::create_dir_all(folder.join("bin"))?;
    let headers = folder.join("weft-mpi");
    fs::create_dir_all(&headers)?;
    fs::write(headers.join("mpi.h"), DECLARATIONS)?;
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no C compiler");
    let compiler = compiler().ok_or_else(missing)?;
    fs::write(folder.join("config/make.def"), definitions(&compiler, &headers, library))
}

/// What was built before stays behind: it may be for another library.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let is_built = path.extension().is_some_and(|end| end == "o" || end == "mod") || name == OsStr::new("bin");
        if path.is_dir() && !is_built {
            copy(&path, &to.join(name))?;
        } else if path.is_file() && !is_built {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// `config/make.def`, for both versions of the suite. IS has the declarations of [`DECLARATIONS`], for run-time
/// packages bring none.
fn definitions(compiler: &Path, headers: &Path, library: &Installation) -> String {
    let kind = if library.library.is_open_mpi() { " -DWEFT_OPEN_MPI" } else { "" };
    let link = library.link_arguments().join(" ");
    let fortran = fortran().map_or_else(|| FORTRAN[0].to_owned(), |path| path.display().to_string());
    let compiler = compiler.display();
    format!(
        "MPICC = {compiler}\nCLINK = {compiler}\nCMPI_INC = -I{}{kind}\n\
         CMPI_LIB = {link} -Wl,--unresolved-symbols=ignore-in-shared-libs\nCFLAGS = -O3\nCLINKFLAGS = -O3\n\
         MPIFC = {fortran}\nMPIF77 = {fortran}\nFLINK = {fortran}\nFMPI_LIB =\nFMPI_INC =\n\
         FFLAGS = -O3 -std=legacy\nFLINKFLAGS = -O3\nCC = {compiler}\nBINDIR = ../bin\n\
         CONVERTFLAG = -DFORTRAN_REC_SIZE=1\nRAND = randdp\n",
        headers.display()
    )
}

/// Builds one; version 3.3 for this number of ranks, 3.4 for any.
fn make(folder: &Path, benchmark: Benchmark, class: Class, ranks: usize) -> Result<PathBuf, String> {
    let (name, class) = (benchmark.name(), class.name());
    let programs = [format!("{name}.{class}.x"), format!("{name}.{class}.{ranks}")];
    let find = || programs.iter().map(|program| folder.join("bin").join(program)).find(|path| path.is_file());
    if let Some(program) = find() {
        return Ok(program);
    }
    let mut command = Command::new("make");
    command.arg(name).arg(format!("CLASS={class}")).arg(format!("NPROCS={ranks}"));
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("make: {error}; on Debian: apt install make"))?;
    find().filter(|_| output.status.success()).ok_or_else(|| {
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n");
        format!("make {name} CLASS={class} NPROCS={ranks} built no program: {last}")
    })
}

/// What a benchmark printed of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Printed {
    /// In seconds, with two digits.
    pub(crate) seconds: f64,
    /// Operations of all ranks in a second, in millions.
    pub(crate) mop_per_s: f64,
}

impl Printed {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// The benchmark did not find its results right, or did not come to its end.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.trim_start().strip_prefix(name)?.split_once('=').map(|(_, value)| value.trim()))
        };
        let number = |name: &str| {
            let found = value(name).ok_or_else(|| format!("it told no {name:?}"))?;
            found.parse::<f64>().map_err(|_| format!("its {name:?} is {found:?}"))
        };
        match value("Verification") {
            Some("SUCCESSFUL") => {}
            Some(other) => return Err(format!("its results are wrong: verification {other}")),
            None => return Err("it did not come to its verification".into()),
        }
        Ok(Self { seconds: number("Time in seconds")?, mop_per_s: number("Mop/s total")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\n IS Benchmark Completed\n Class           =                        S\n \
                        Time in seconds =             0.01\n Total processes =    4\n \
                        Mop/s total     =        81.27\n Verification    =               SUCCESSFUL\n";

    #[test]
    fn results_count_when_they_are_right() {
        assert_eq!(Printed::read(TEXT), Ok(Printed { seconds: 0.01, mop_per_s: 81.27 }));
        let wrong = TEXT.replace("SUCCESSFUL", "UNSUCCESSFUL");
        assert!(Printed::read(&wrong).unwrap_err().contains("wrong"));
        assert!(Printed::read("a line").unwrap_err().contains("verification"));
        assert!(Printed::read(&TEXT.replace("81.27", "Infinity fast")).is_err());
    }

    /// A suite of one benchmark, in a folder that goes with this.
    fn suite() -> Scratch {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path().join("NPB3.4-MPI");
        for file in ["IS/is.c", "IS/is.o", "sys/make.common", "bin/is.S.x", "config/make.def"] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        scratch
    }

    #[test]
    fn the_version_for_mpi_is_found_in_the_folder_of_the_suite() {
        let scratch = suite();
        let found = find(Some(scratch.path())).unwrap();
        assert_eq!(found, fs::canonicalize(scratch.path().join("NPB3.4-MPI")).unwrap());
        assert_eq!(find(Some(&found)), Ok(found.clone()), "or it is named itself");
        let missing = find(Some(Path::new("/nowhere"))).unwrap_err();
        assert!(missing.contains("/nowhere") && missing.contains("--npb"), "{missing}");
    }

    #[test]
    fn a_copy_has_its_own_settings_and_nothing_that_was_built() {
        let scratch = suite();
        let (from, to) = (find(Some(scratch.path())).unwrap(), scratch.path().join("copy"));
        let library = Installation::by_itself(Library::Debian);
        prepare(&from, &to, &library).unwrap();
        assert!(to.join("IS/is.c").is_file() && to.join("weft-mpi/mpi.h").is_file() && to.join("bin").is_dir());
        assert!(!to.join("IS/is.o").exists() && !to.join("bin/is.S.x").exists());
        let settings = fs::read_to_string(to.join("config/make.def")).unwrap();
        for part in ["-DWEFT_OPEN_MPI", "-l:libmpi.so.40", "/weft-mpi", "RAND = randdp", "BINDIR = ../bin"] {
            assert!(settings.contains(part), "{part}: {settings}");
        }
        assert_eq!(fs::read_to_string(from.join("config/make.def")).unwrap(), "config/make.def", "that stays");
    }

    #[test]
    fn fortran_is_for_the_library_that_brings_it() {
        assert_eq!(benchmarks(&[], Library::Mpich), [Benchmark::Is]);
        assert!(benchmarks(&[Benchmark::Cg], Library::Intel).is_empty());
        assert!(benchmarks(&[], Library::Debian).contains(&Benchmark::Is));
    }
}
