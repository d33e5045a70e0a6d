//! MPI libraries: which one a program belongs to, and the variables that lead each of them to Weft.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::elf::Elf;

/// An MPI library that reaches networks through libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// MPICH.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// Intel MPI.
    Intel,
}

/// All of them: what a program may belong to that does not say more.
const ALL: [Library; 3] = [Library::Mpich, Library::OpenMpi, Library::Intel];

/// Beginnings of the names of programs that start ranks.
const STARTERS: [&str; 6] = ["mpiexec", "mpirun", "orterun", "prterun", "prun", "srun"];

impl Library {
    /// Its name, for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "MPICH",
            Self::OpenMpi => "Open MPI",
            Self::Intel => "Intel MPI",
        }
    }

    /// Variables that have it use the provider `weft` of libfabric.
    pub(crate) const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mpich => &[("MPIR_CVAR_CH4_NETMOD", "ofi")],
            Self::OpenMpi => &[("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi")],
            Self::Intel => &[("I_MPI_OFI_PROVIDER", "weft")],
        }
    }

    /// Variables that have ranks of one host use libfabric too, in place of shared memory of the library.
    const fn local_variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mpich => &[("MPIR_CVAR_NOLOCAL", "1")],
            // With the variables above all its messages go through libfabric.
            Self::OpenMpi => &[],
            Self::Intel => &[("I_MPI_FABRICS", "ofi")],
        }
    }

    /// The library that says this of its version.
    fn of_version(text: &str) -> Option<Self> {
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&["Open MPI", "OpenRTE", "PRRTE", "prte"]) {
            Some(Self::OpenMpi)
        } else if says(&["Intel(R) MPI"]) {
            Some(Self::Intel)
        } else if says(&["HYDRA", "MPICH"]) {
            Some(Self::Mpich)
        } else {
            None
        }
    }

    /// The libraries that a program is linked with, by the name of the file.
    fn of_file(name: &str) -> &'static [Self] {
        match name {
            "libmpi.so.12" | "libmpich.so.12" => &[Self::Mpich, Self::Intel],
            "libmpi_abi.so.0" | "libmpi_abi.so.1" => &ALL,
            _ if name.starts_with("libmpi.so.") => &[Self::OpenMpi],
            _ => &[],
        }
    }
}

/// The MPI libraries that a program may belong to: it starts ranks, or is linked with one. None: it has nothing to do
/// with MPI as far as its file says.
pub(crate) fn libraries_of(program: &Path) -> Vec<Library> {
    let is_starter = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        STARTERS.iter().any(|starter| name.starts_with(starter))
    };
    if is_starter(program) {
        return version(program).map_or(ALL.to_vec(), |library| vec![library]);
    }
    let elf = fs::read(program).ok().and_then(|bytes| Elf::parse(&bytes)).unwrap_or_default();
    let first = elf.needed.iter().map(|name| Library::of_file(name)).find(|libraries| !libraries.is_empty());
    first.unwrap_or_default().to_vec()
}

/// The library of a program that starts ranks. `None`: it does not say, as Slurm's `srun`.
pub(crate) fn version(starter: &Path) -> Option<Library> {
    let output = Command::new(starter).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Library::of_version(&String::from_utf8_lossy(&output.stdout))
}

/// What is set for a program of these libraries. `folder` has Weft's provider of libfabric. `is_local`: ranks of one
/// host use it between each other, too.
pub(crate) fn variables(libraries: &[Library], folder: &Path, is_local: bool) -> Vec<(&'static str, OsString)> {
    if libraries.is_empty() {
        return Vec::new();
    }
    let mut all = vec![("FI_PROVIDER_PATH", folder.as_os_str().to_owned()), ("FI_PROVIDER", "weft".into())];
    for library in libraries {
        let local = library.local_variables().iter().filter(|_| is_local);
        all.extend(library.variables().iter().chain(local).map(|(name, value)| (*name, OsString::from(value))));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn libraries_are_told_apart_by_what_they_say() {
        let of = Library::of_version;
        assert_eq!(of("mpiexec (OpenRTE) 4.1.4\n"), Some(Library::OpenMpi));
        assert_eq!(of("mpiexec (Open MPI) 5.0.8\n"), Some(Library::OpenMpi));
        assert_eq!(of("HYDRA build details:\n    Version: 4.0.2\n"), Some(Library::Mpich));
        // It begins as MPICH's, which it was made of.
        assert_eq!(of("Intel(R) MPI Library for Linux* OS, Version 2021.14"), Some(Library::Intel));
        assert_eq!(of("slurm 22.05.8\n"), None);
    }

    #[test]
    fn files_say_which_library_a_program_is_linked_with() {
        assert_eq!(Library::of_file("libmpi.so.40"), [Library::OpenMpi]);
        assert_eq!(Library::of_file("libmpich.so.12"), [Library::Mpich, Library::Intel]);
        assert_eq!(Library::of_file("libmpi_abi.so.0"), ALL);
        assert!(Library::of_file("libmpifort.so.12").is_empty() && Library::of_file("libc.so.6").is_empty());
    }

    #[test]
    fn a_starter_says_its_library_and_one_that_does_not_may_be_any() {
        let folder = env::temp_dir().join(format!("weft-run-mpi-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        assert_eq!(libraries_of(&script("mpirun", "mpirun (Open MPI) 5.0.1")), [Library::OpenMpi]);
        assert_eq!(libraries_of(&script("srun", "slurm 22.05")), ALL);
        assert!(libraries_of(&script("program", "Open MPI")).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn variables_lead_to_the_provider() {
        let names = |libraries: &[Library], is_local| {
            let all = variables(libraries, Path::new("/p"), is_local);
            all.into_iter().map(|(name, value)| format!("{name}={}", value.display())).collect::<Vec<_>>()
        };
        assert!(names(&[], true).is_empty());
        let mpich = ["FI_PROVIDER_PATH=/p", "FI_PROVIDER=weft", "MPIR_CVAR_CH4_NETMOD=ofi"];
        assert_eq!(names(&[Library::Mpich], false), mpich);
        assert_eq!(names(&[Library::Mpich], true).last().unwrap(), "MPIR_CVAR_NOLOCAL=1");
        assert_eq!(names(&[Library::OpenMpi], true), names(&[Library::OpenMpi], false));
        assert!(names(&[Library::Intel], true).contains(&"I_MPI_FABRICS=ofi".to_owned()));
    }
}
