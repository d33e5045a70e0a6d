//! The machine that measures, and what it had to do besides.

use std::fs;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

/// Others that take more than this of the processors disturb what is measured.
const MUCH: f64 = 0.05;

/// What is known of the machine and of the time of a measurement. What the system does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Machine {
    cpu: Option<String>,
    governor: Option<String>,
    /// Processes that wanted to run, on the average of the last 1, 5 and 15 minutes.
    load_before: Option<[f64; 3]>,
    load_after: Option<[f64; 3]>,
    /// Of the time of all processors, what others than this measurement used.
    others_share: Option<f64>,
    /// Of the time of all processors, what a virtual machine was not given though it wanted to run.
    steal_share: Option<f64>,
    /// When it began: seconds since 1970.
    began_unix_s: u64,
    seconds: f64,
    /// What was asked for.
    command: Vec<String>,
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

    pub(crate) fn stop(self) -> Machine {
        let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        let passed = self.times.zip(Times::now()).map(|(before, now)| now.since(before));
        let shares = passed.and_then(|passed| passed.shares((own_seconds() - self.own_s) * ticks_per_s));
        Machine {
            cpu: cpu(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_before: self.load,
            load_after: load(),
            others_share: shares.map(|[others, _]| others),
            steal_share: shares.map(|[_, steal]| steal),
            began_unix_s: self.began_unix_s,
            seconds: self.began.elapsed().as_secs_f64(),
            command: std::env::args().collect(),
        }
    }
}

impl Machine {
    /// Lines for people: how busy the machine was, and a warning if that counts.
    pub(crate) fn describe(&self) -> String {
        let share = |share: Option<f64>| share.map_or_else(|| "?".into(), |share| format!("{:.0} %", 100.0 * share));
        let load = |load: Option<[f64; 3]>| load.map_or_else(|| "?".into(), |load| format!("{:.2}", load[0]));
        let mut text = format!(
            "load {} before, {} after; of the processors' time other processes used {}, the host of a virtual machine kept {}\n",
            load(self.load_before),
            load(self.load_after),
            share(self.others_share),
            share(self.steal_share)
        );
        if [self.others_share, self.steal_share].into_iter().flatten().any(|share| share > MUCH) {
            text.push_str("THE MACHINE WAS BUSY WITH OTHER THINGS: figures and ratios may be far off\n");
        }
        text
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

    /// Of all, what others used and what was kept, when `own` ticks were used by whoever asks.
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

    #[test]
    fn who_measured_on_a_busy_machine_is_told() {
        let quiet = Machine { others_share: Some(0.01), steal_share: Some(0.02), ..Machine::default() };
        assert!(!quiet.describe().contains("BUSY"), "{}", quiet.describe());
        for busy in [
            Machine { others_share: Some(0.4), ..quiet.clone() },
            Machine { steal_share: Some(0.2), others_share: None, ..quiet },
        ] {
            assert!(busy.describe().contains("BUSY"), "{}", busy.describe());
        }
    }
}
