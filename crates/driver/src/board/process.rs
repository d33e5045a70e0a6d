//! What /proc says about processes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The fields of /proc/PID/stat after the process name, which is in brackets and may hold anything (proc_pid_stat(5)).
const STATE: usize = 0;
const START: usize = 19;

/// The id of this process in the pid namespace that /proc shows, which need not be the one that the process itself is in.
pub(super) fn own_pid() -> io::Result<u32> {
    let link = fs::read_link("/proc/self")?;
    link.to_str()
        .and_then(|pid| pid.parse().ok())
        .ok_or_else(|| io::Error::other(format!("/proc/self leads to {}", link.display())))
}

/// When the process started, in clock ticks since boot. `None`: there is none of that id, or it has ended.
pub(super) fn start(pid: u32) -> io::Result<Option<u64>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse_start(&stat).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not as expected"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None`: not understood. `Some(None)`: it has ended, but its parent has not asked how.
fn parse_start(stat: &[u8]) -> Option<Option<u64>> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.nth(STATE)?;
    let start = fields.nth(START - STATE - 1)?.parse().ok()?;
    Some(if matches!(state, "Z" | "X" | "x") { None } else { Some(start) })
}

/// The pid namespace of this process.
pub(super) fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino())
}

/// What the process is called (15 characters at most), or `?`.
pub(super) fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    match String::from_utf8_lossy(name.trim_ascii_end()) {
        name if name.is_empty() => "?".into(),
        name => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_the_22nd_field_whatever_the_name_is() {
        let stat = |name: &str, state: char| {
            let rest: Vec<_> = (4..53).map(|field| field.to_string()).collect();
            format!("17 ({name}) {state} {}\n", rest.join(" ")).into_bytes()
        };
        assert_eq!(parse_start(&stat("cat", 'S')), Some(Some(22)));
        assert_eq!(parse_start(&stat("a) Z (b", 'R')), Some(Some(22)));
        assert_eq!(parse_start(&stat("cat", 'Z')), Some(None));
        assert_eq!(parse_start(b"17 (cat) S 1 2"), None);
        assert_eq!(parse_start(b""), None);
    }

    #[test]
    fn this_process_runs_and_has_a_name() {
        let pid = own_pid().unwrap();
        assert!(start(pid).unwrap().is_some_and(|start| start > 0));
        assert_ne!(name(pid), "?");
        assert_eq!(start(u32::MAX).unwrap(), None);
    }
}
