//! The programs that do the work, and why they might not.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::LabError;

/// Where programs are that change the system: the search path of a user often lacks these folders.
const SYSTEM: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The programs, found once.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) unshare: PathBuf,
    pub(crate) nsenter: PathBuf,
    pub(crate) sh: PathBuf,
    pub(crate) ip: PathBuf,
    pub(crate) tc: PathBuf,
    /// Only looked for when segmentation offload is to be switched off.
    pub(crate) ethtool: Option<PathBuf>,
}

impl Tools {
    /// Finds those that a lab with or without segmentation offload needs.
    pub(crate) fn find(offloads: bool) -> Result<Self, LabError> {
        Ok(Self {
            unshare: find("unshare", "util-linux")?,
            nsenter: find("nsenter", "util-linux")?,
            sh: find("sh", "dash")?,
            ip: find("ip", "iproute2")?,
            tc: find("tc", "iproute2")?,
            ethtool: if offloads { None } else { Some(find("ethtool", "ethtool")?) },
        })
    }
}

/// The absolute path of a program that a Debian package has.
///
/// # Errors
/// [`LabError::Missing`] names both.
pub fn find(program: &'static str, package: &'static str) -> Result<PathBuf, LabError> {
    find_in(program, &env::var_os("PATH").unwrap_or_default()).ok_or(LabError::Missing { program, package })
}

/// The absolute path of a program in the folders of `path` or of the system.
fn find_in(program: &str, path: &OsStr) -> Option<PathBuf> {
    let folders = env::split_paths(path).chain(SYSTEM.map(PathBuf::from));
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Runs a command to its end, with this on its standard input.
pub(crate) fn run(mut command: Command, input: &str) -> Result<(), LabError> {
    let shown = describe(&command);
    let cannot = || LabError::while_doing(format!("cannot run `{shown}`"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(cannot())?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has failed at the first lines does not read the others; what it says is better than a broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(cannot())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let said = if said.is_empty() { output.status.to_string() } else { said };
    Err(LabError::Tool { command: shown, said })
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Settings that bar namespaces: file, the value that bars, and what helps.
const BARS: [(&str, &str, &str); 4] = [
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "sysctl user.max_user_namespaces is 0; as root: sysctl -w user.max_user_namespaces=15000",
    ),
    (
        "/proc/sys/user/max_net_namespaces",
        "0",
        "sysctl user.max_net_namespaces is 0; as root: sysctl -w user.max_net_namespaces=15000",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl kernel.unprivileged_userns_clone is 0; as root: sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns is 1; as root: \
         sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give weft an AppArmor profile with `userns`",
    ),
];

/// Why `unshare` has failed, as far as it can be seen.
pub(crate) fn barred(said: String) -> LabError {
    LabError::Barred { said, advice: advice(|path| fs::read_to_string(path).ok()) }
}

fn advice(read: impl Fn(&str) -> Option<String>) -> String {
    let bars = |(path, value, _): &&(&str, &str, &str)| read(path).is_some_and(|text| text.trim() == *value);
    if let Some((.., advice)) = BARS.iter().find(bars) {
        return (*advice).to_owned();
    }
    let filtered = read("/proc/self/status").is_some_and(|text| text.lines().any(is_filter));
    if filtered {
        return "a seccomp filter is on this process, as in a container; start the container with \
                --security-opt seccomp=unconfined, or with --privileged"
            .to_owned();
    }
    "no setting that is known to bar it does (sysctl user.max_user_namespaces, user.max_net_namespaces, \
     kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); ask who runs this machine"
        .to_owned()
}

fn is_filter(line: &str) -> bool {
    line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_beyond_the_search_path() {
        assert!(find_in("sh", OsStr::new("")).is_some_and(|path| path.is_absolute()));
        assert!(find_in("sh", OsStr::new("relative:/nonesuch")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find_in("nonesuch", OsStr::new("/usr/bin")), None);
        // A folder is no program.
        assert_eq!(find_in("proc", OsStr::new("/")), None);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = find("nonesuch", "its-package").unwrap_err();
        assert!(error.cannot_be_had());
        assert_eq!(error.to_string(), "nonesuch is not installed; on Debian, as root: apt install its-package");
    }

    #[test]
    fn the_setting_that_bars_is_named() {
        for (path, value, _) in BARS {
            let sysctl = path.strip_prefix("/proc/sys/").unwrap().replace('/', ".");
            let said = advice(|asked| (asked == path).then(|| format!("{value}\n")));
            assert!(said.starts_with(&format!("sysctl {sysctl} is {value}")), "{said}");
        }
        let said = advice(|asked| (asked == "/proc/self/status").then(|| "Name:\tx\nSeccomp:\t2\n".to_owned()));
        assert!(said.contains("seccomp=unconfined"), "{said}");
        assert!(advice(|_| None).contains("no setting"));
    }

    #[test]
    fn a_failed_program_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat >&2; exit 3"]);
        let error = run(command, "why\nand how\n").unwrap_err();
        assert_eq!(error.to_string(), "`sh -c cat >&2; exit 3` has failed: why; and how");
        assert!(!error.cannot_be_had());
    }
}
