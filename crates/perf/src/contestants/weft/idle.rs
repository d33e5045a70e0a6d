//! Connections on which nothing happens.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use weft::verbs::{CompletionQueue, Context, Listener, ProtectionDomain, QueuePair, QueuePairOptions};

use crate::contestants::weft::demands::{CONNECT_LIMIT, resolve};
use crate::contestants::weft::settings::Settings;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Role};
use crate::model::measure::{Figure, Measured, Watch};

/// How long the caller polls before it leaves.
const STAY: Duration = Duration::from_millis(50);

struct Idle {
    domain: ProtectionDomain,
    completions: CompletionQueue,
    settings: Settings,
    listener: Option<Listener>,
    /// Kept until both sides are done.
    queue_pairs: Vec<QueuePair>,
}

pub(crate) fn open(job: &Job, settings: Settings) -> Result<Box<dyn Side>, Box<dyn std::error::Error>> {
    let context = Context::with_settings(settings.of_context())?;
    let domain = context.allocate_protection_domain()?;
    let completions = context.create_completion_queue(job.connections * 2 * job.window)?;
    let listener = match job.role() {
        Role::Active => None,
        Role::Passive => {
            let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
            Some(context.listen(local, &settings.of_listener())?)
        }
    };
    let queue_pairs = Vec::with_capacity(job.connections);
    Ok(Box::new(Idle { domain, completions, settings, listener, queue_pairs }))
}

impl Side for Idle {
    fn address(&self) -> String {
        self.listener.as_ref().map_or_else(String::new, |listener| listener.local_address().port().to_string())
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        self.measure(job, other(job, addresses)).map_err(|error| error.to_string())
    }
}

impl Idle {
    fn measure(&mut self, job: &Job, peer: &str) -> Result<Measured, Box<dyn std::error::Error>> {
        // The first connection brings what all of them share.
        self.connect(job, peer)?;
        let before = resident_bytes()?;
        for _ in 1..job.connections {
            self.connect(job, peer)?;
        }
        let memory = (resident_bytes()? - before).max(0.0) / (job.connections - 1).max(1) as f64;
        let start = Instant::now();
        while start.elapsed() < STAY {
            self.completions.poll();
        }
        thread::sleep(Duration::from_millis(job.settle_ms));
        let (watch, switches) = (Watch::start(), voluntary_switches());
        thread::sleep(Duration::from_millis(job.quiet_ms));
        let (cpu, seconds) = (watch.cpu_share(), watch.seconds());
        let wake_ups = (voluntary_switches() - switches) / seconds;
        if self.queue_pairs.iter().any(|queue_pair| queue_pair.state().has_ended()) {
            return Err("a connection has ended by itself".into());
        }
        let figures = [(Figure::ConnectionBytes, memory), (Figure::WakeUps, wake_ups), (Figure::QuietCpu, cpu)];
        Ok(Measured { value: Some(cpu), figures: figures.into(), ..Measured::default() })
    }

    fn connect(&mut self, job: &Job, peer: &str) -> Result<(), Box<dyn std::error::Error>> {
        let options = QueuePairOptions { send_depth: job.window as u32, receive_depth: job.window as u32 };
        let queue_pair = self.domain.create_queue_pair(&self.completions, &options)?;
        match &self.listener {
            Some(listener) => {
                listener.accept(Some(CONNECT_LIMIT))?.accept(&queue_pair, &[])?;
                queue_pair.wait_connected(Some(CONNECT_LIMIT))?;
            }
            None => {
                queue_pair.connect(resolve(&job.host, peer.parse()?)?, &self.settings.of_connection())?;
            }
        }
        self.queue_pairs.push(queue_pair);
        Ok(())
    }
}

/// Bytes of memory that this process has written to and that lie in RAM; files that it maps do not count.
fn resident_bytes() -> Result<f64, String> {
    let file = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    anonymous(&text).ok_or_else(|| format!("{file} does not tell the anonymous memory"))
}

fn anonymous(text: &str) -> Option<f64> {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    Some(kilobytes.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

/// How often threads of this process have gone to sleep by themselves: each time, something woke them.
fn voluntary_switches() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let switches = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse::<f64>().ok()
    });
    switches.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(anonymous("Rss:  10 kB\nAnonymous:       212 kB\nSwap: 0 kB\n"), Some(212.0 * 1024.0));
        assert_eq!(anonymous("Rss: 10 kB\n"), None);
        assert!(resident_bytes().unwrap() > 0.0);
    }

    #[test]
    fn sleeps_are_counted() {
        let before = voluntary_switches();
        thread::sleep(Duration::from_millis(1));
        assert!(voluntary_switches() > before);
    }
}
