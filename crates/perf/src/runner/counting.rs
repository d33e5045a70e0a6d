//! What counts the misses of the last cache while a side runs: the processor's counters, by perf(1), or a model of a
//! cache, by valgrind's cachegrind.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use weft_command::scratch::Scratch;

use crate::host::environments::in_path;

/// What a miss moves, in bytes: a line of the cache.
const LINE: u64 = 64;

/// Where the kernel shows counters of a processor: of all its cores, or of one kind of them.
const COUNTERS: [&str; 2] = ["/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core"];

const EVENTS: [&str; 2] = ["LLC-load-misses", "LLC-store-misses"];

/// The modelled caches of each core, and the last one: size, ways, line. Always the same ones, so that figures of two
/// machines can be compared.
const MODEL: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64"];

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// The processor, in user code and in the kernel.
    Counters,
    /// A model of a cache, in user code.
    Cachegrind,
}

impl Tool {
    /// The one that this machine has; counters first.
    pub(crate) fn of_this_machine() -> Result<Self, String> {
        let has_counters = COUNTERS.iter().any(|path| Path::new(path).exists());
        match (has_counters && in_path("perf").is_some(), in_path("valgrind").is_some()) {
            (true, _) => Ok(Self::Counters),
            (_, true) => Ok(Self::Cachegrind),
            _ => Err(
                "nothing here counts cache misses: the processor shows no counters, or perf is missing (on Debian: \
                      apt install linux-perf), and so is valgrind (apt install valgrind)"
                    .into(),
            ),
        }
    }

    /// As cases name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Cachegrind => "cachegrind",
        }
    }

    /// The bytes that missed the last cache, from what the tool has written. `None`: it has counted nothing.
    fn bytes(self, text: &str) -> Option<u64> {
        let misses = match self {
            Self::Counters => misses_of_perf(text),
            Self::Cachegrind => misses_of_cachegrind(text),
        };
        misses.map(|misses| misses * LINE)
    }
}

/// Counts in one run.
pub(crate) struct Counting {
    tool: Tool,
    folder: Scratch,
}

impl Counting {
    pub(crate) fn by(tool: Tool) -> Result<Self, String> {
        let folder = Scratch::new().map_err(|error| format!("a folder for what {} counts: {error}", tool.name()))?;
        Ok(Self { tool, folder })
    }

    /// The words before the command of a side.
    pub(crate) fn words(&self, rank: usize) -> Vec<OsString> {
        let file = self.file(rank);
        match self.tool {
            Tool::Counters => {
                let words = ["perf", "stat", "-x,", "-e", &EVENTS.join(","), "-o"].map(OsString::from);
                words.into_iter().chain([file.into(), "--".into()]).collect()
            }
            Tool::Cachegrind => {
                let mut out = OsString::from("--cachegrind-out-file=");
                out.push(file);
                let words = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--fair-sched=try"];
                words.into_iter().chain(MODEL).map(OsString::from).chain([out]).collect()
            }
        }
    }

    /// What a side's memory moved, in bytes, once it has ended.
    pub(crate) fn bytes(&self, rank: usize) -> Result<u64, String> {
        let text = fs::read_to_string(self.file(rank)).unwrap_or_default();
        let hint = match self.tool {
            Tool::Counters => "see sysctl kernel.perf_event_paranoid",
            Tool::Cachegrind => "it writes that when the process ends",
        };
        self.tool.bytes(&text).ok_or_else(|| format!("{} has counted nothing: {hint}", self.tool.name()))
    }

    fn file(&self, rank: usize) -> PathBuf {
        self.folder.path().join(rank.to_string())
    }
}

/// `1234,,LLC-load-misses,...`; misses of stores are not counted everywhere.
fn misses_of_perf(text: &str) -> Option<u64> {
    let count = |event: &str| {
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let line = lines.find(|fields| fields.get(2).is_some_and(|name| name.starts_with(event)))?;
        line[0].parse::<u64>().ok()
    };
    let [loads, stores] = EVENTS.map(count);
    loads.map(|loads| loads + stores.unwrap_or(0))
}

/// The sums of a file of cachegrind: `events: Ir ... DLmr ... DLmw`, and `summary:` with a number for each.
fn misses_of_cachegrind(text: &str) -> Option<u64> {
    let words = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start))?;
        Some(line.split_whitespace().collect::<Vec<_>>())
    };
    let (events, sums) = (words("events:")?, words("summary:")?);
    let sum = |event: &str| sums.get(events.iter().position(|name| *name == event)?)?.parse::<u64>().ok();
    Some(sum("DLmr")? + sum("DLmw")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_are_read() {
        let perf = "# started on Sat\n\n1000,,LLC-load-misses,5,100.00,,\n24,,LLC-store-misses,5,100.00,,\n";
        assert_eq!(Tool::Counters.bytes(perf), Some(1024 * LINE));
        let loads = "1000,,LLC-load-misses:u,5,100.00,,\n<not supported>,,LLC-store-misses:u,0,100.00,,\n";
        assert_eq!(Tool::Counters.bytes(loads), Some(1000 * LINE));
        assert_eq!(Tool::Counters.bytes("<not supported>,,LLC-load-misses,0,100.00,,\n"), None);
        let cachegrind = "desc: LL\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfn=a\n1 1 1 1 1 1 1 1 1 1\n\
                          summary: 100 9 8 70 6 5 40 3 2\n";
        assert_eq!(Tool::Cachegrind.bytes(cachegrind), Some(7 * LINE));
        assert_eq!(Tool::Cachegrind.bytes("events: Ir\nsummary: 100\n"), None);
        assert_eq!(Tool::Cachegrind.bytes(""), None);
    }

    #[test]
    fn each_side_has_a_file_of_its_own() {
        for tool in [Tool::Counters, Tool::Cachegrind] {
            let counting = Counting::by(tool).unwrap();
            let [passive, active] = [0, 1].map(|rank| counting.words(rank));
            assert_ne!(passive, active);
            assert!(counting.bytes(0).unwrap_err().contains(tool.name()), "nothing is written yet");
        }
    }
}
