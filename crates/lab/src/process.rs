//! Processes, distinguished from others that get the same id later.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process: its id, and when it started. Ids are used again, the pair is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// When it started, in clock ticks since the system did (field 22 of proc(5)'s `stat`).
    pub started: u64,
}

impl Process {
    /// The process that has this id now; `None` when there is none, or only its exit status is left.
    pub fn find(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        started(&stat).map(|started| Self { id, started })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::find(self.id) == Some(*self)
    }
}

/// The start time in a line of `/proc/PID/stat`, unless the process has ended. The program's name is in parentheses and
/// may contain any character.
fn started(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // That was field 3; 18 further fields come before field 22.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_start_is_another_process() {
        let this = Process::find(std::process::id()).unwrap();
        assert!(this.is_alive());
        assert!(!Process { started: this.started + 1, ..this }.is_alive());
        assert_eq!(Process::find(u32::MAX), None);
    }

    #[test]
    fn the_line_of_the_kernel_is_read_whatever_the_name() {
        let line = |state: &str| format!("7 (a) b (c) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20");
        assert_eq!(started(&line("S")), Some(4711));
        assert_eq!(started(&line("Z")), None);
        assert_eq!(started("7 (a) S 1 2"), None);
        assert_eq!(started(""), None);
    }
}
