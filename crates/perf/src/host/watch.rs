//! The machine that measures, and what it had to do besides.

use std::ffi::OsStr;
use std::fs;
use std::thread::available_parallelism;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::utsname::uname;
use nix::unistd::{SysconfVar, sysconf};

use crate::result::Machine;

/// What a watch has seen.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// What the machine is, and what else it had to do; what the system does not tell is `None`.
    pub(crate) machine: Machine,
    /// When it began: seconds since 1970.
    pub(crate) began_unix_s: u64,
    pub(crate) seconds: f64,
}

/// The beginning of a measurement.
#[derive(Debug)]
pub(crate) struct Watch {
    began: Instant,
    began_unix_s: u64,
    load: Option<[f64; 3]>,
    times: Option<Times>,
    own_s: f64,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
            began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            load: load(),
            times: Times::now(),
            own_s: own_seconds(),
        }
    }

    pub(crate) fn stop(self) -> Watched {
        let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        let passed = self.times.zip(Times::now()).map(|(before, now)| now.since(before));
        let shares = passed.and_then(|passed| passed.shares((own_seconds() - self.own_s) * ticks_per_s));
        let system = uname().ok();
        let text = |value: Option<&OsStr>| value.unwrap_or_default().to_string_lossy().into_owned();
        let machine = Machine {
            host: text(system.as_ref().map(|system| system.nodename())),
            kernel: text(system.as_ref().map(|system| system.release())),
            cores: available_parallelism().map_or(0, usize::from),
            cpu: cpu(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default(),
            load_before: self.load,
            load_after: load(),
            others_share: shares.map(|[others, _]| others),
            steal_share: shares.map(|[_, steal]| steal),
            cores_apart_ns: None,
        };
        Watched { machine, began_unix_s: self.began_unix_s, seconds: self.began.elapsed().as_secs_f64() }
    }
}

/// What the processors did since the system started, in ticks, all of them together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    busy: f64,
    idle: f64,
    steal: f64,
}

impl Times {
    fn now() -> Option<Self> {
        Self::read(&line("/proc/stat")?)
    }

    /// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    fn read(line: &str) -> Option<Self> {
        let numbers: Option<Vec<f64>> =
            line.strip_prefix("cpu ")?.split_whitespace().map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, wait, irq, softirq, steal, ..] = numbers?[..] else { return None };
        Some(Self { busy: user + nice + system + irq + softirq, idle: idle + wait, steal })
    }

    fn since(self, before: Self) -> Self {
        Self { busy: self.busy - before.busy, idle: self.idle - before.idle, steal: self.steal - before.steal }
    }

    /// Of all, what others used and what was kept, when `own` ticks were used by the caller.
    fn shares(self, own: f64) -> Option<[f64; 2]> {
        let all = self.busy + self.idle + self.steal;
        (all > 0.0).then(|| [(self.busy - own).max(0.0) / all, self.steal.max(0.0) / all])
    }
}

/// Processor time of this process and of those that it has started and seen off, in seconds.
fn own_seconds() -> f64 {
    let of = |who| {
        let usage = getrusage(who).ok();
        usage.map_or(0, |usage| usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
    };
    (of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)) as f64 / 1e6
}

fn load() -> Option<[f64; 3]> {
    let line = line("/proc/loadavg")?;
    let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    // Not all architectures name theirs.
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Processor"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first line of a file of the kernel's.
fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_told_apart() {
        let before = Times::read("cpu  100 0 50 1000 10 5 5 20 0 0").unwrap();
        let after = Times::read("cpu  200 10 90 1040 10 5 5 30 0 0").unwrap();
        let passed = after.since(before);
        assert_eq!(passed, Times { busy: 150.0, idle: 40.0, steal: 10.0 });
        assert_eq!(passed.shares(50.0), Some([0.5, 0.05]));
        assert_eq!(passed.shares(151.0), Some([0.0, 0.05]), "ticks are coarse");
        assert_eq!(before.since(before).shares(0.0), None);
        assert_eq!(Times::read("cpu0 1 2 3"), None);
    }
}
