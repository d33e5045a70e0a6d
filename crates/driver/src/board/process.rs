//! Information about processes from /proc.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The fields of /proc/PID/stat after the process name, which is in brackets and may contain anything
/// (proc_pid_stat(5)).
const STATE: usize = 0;
const START: usize = 19;
/// Clock ticks of /proc: USER_HZ, which is 100 wherever Linux runs today.
const TICKS_PER_SECOND: i64 = 100;

/// The id of this process in the pid namespace that /proc shows, which may differ from the process's own.
pub(super) fn own_pid() -> io::Result<u32> {
    let link = fs::read_link("/proc/self").map_err(|error| no_proc(&error))?;
    link.to_str()
        .and_then(|pid| pid.parse().ok())
        .ok_or_else(|| io::Error::other(format!("/proc/self leads to {}", link.display())))
}

/// Changes the kind of a not-found error, which callers take for a missing process.
fn no_proc(error: &io::Error) -> io::Error {
    io::Error::other(format!("/proc does not show this process ({error}): is it mounted?"))
}

/// When the process started, in clock ticks since boot. `None`: there is no such process, or it has ended.
///
/// It is the same in all time namespaces, within one tick ([`is_same_start`]): /proc shows it by the reader's clock
/// (time_namespaces(7)), whose namespace offset is subtracted here.
pub(super) fn start(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match parse_start(&stat) {
        None => Err(io::Error::other(format!("/proc/{pid}/stat is not as expected"))),
        Some(None) => Ok(None),
        Some(Some(start)) => Ok(Some(start.wrapping_add_signed(-boot_offset()?))),
    }
}

/// Whether two start times of processes with the same id belong to one process. An offset that is no whole number of
/// ticks makes a difference of one; an id is not reused so soon.
pub(super) const fn is_same_start(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= 1
}

/// How far the boot clock of this process's time namespace is ahead of that of the machine, in clock ticks.
fn boot_offset() -> io::Result<i64> {
    let Ok(namespace) = fs::read_link("/proc/self/ns/time") else {
        // Older than Linux 5.6, or built without time namespaces.
        return Ok(0);
    };
    if namespace != fs::read_link("/proc/self/ns/time_for_children")? {
        // The file below is about the namespace of the children.
        return Err(io::Error::other("/proc does not report the clock of this process's time namespace"));
    }
    let offsets = fs::read_to_string("/proc/self/timens_offsets")?;
    parse_offset(&offsets).ok_or_else(|| io::Error::other("/proc/self/timens_offsets is not as expected"))
}

/// The boot clock's line has seconds and nanoseconds.
fn parse_offset(offsets: &str) -> Option<i64> {
    let mut fields = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?.split_ascii_whitespace();
    let (seconds, nanos): (i64, i64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    seconds.checked_mul(TICKS_PER_SECOND)?.checked_add(nanos / (1_000_000_000 / TICKS_PER_SECOND))
}

/// `None`: invalid. `Some(None)`: it has ended, and its parent has not waited for it.
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
    fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino()).map_err(|error| no_proc(&error))
}

/// The name of the process (15 characters at most), or `?`.
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
    fn the_offset_of_the_boot_clock_is_told_in_ticks() {
        let file = |boot: &str| format!("monotonic           7         0\nboottime   {boot}\n");
        assert_eq!(parse_offset(&file("         0         0")), Some(0));
        assert_eq!(parse_offset(&file("    100000  20000001")), Some(10_000_002));
        assert_eq!(parse_offset(&file("        -3         0")), Some(-300));
        assert_eq!(parse_offset("monotonic 7 0"), None);
    }

    #[test]
    fn this_process_runs_and_has_a_name() {
        let pid = own_pid().unwrap();
        assert!(start(pid).unwrap().is_some_and(|start| start > 0));
        assert_ne!(name(pid), "?");
        assert_eq!(start(u32::MAX).unwrap(), None);
    }
}
