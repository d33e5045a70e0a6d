//! Processes that must end in time.

use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a process takes to start and to end, beside what it does.
const BESIDE: Duration = Duration::from_secs(10);

/// How often a process is polled for its end.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// When processes that are to work for this many seconds must have ended.
pub(crate) fn deadline(limit_s: u64) -> Instant {
    Instant::now() + Duration::from_secs(limit_s) + BESIDE
}

/// What a process has written, from its beginning to its end.
pub(crate) struct Spoken {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

/// Waits for a process and what it says. One that has not ended at the deadline is ended: that is an error.
pub(crate) fn output_until(child: &mut Child, deadline: Instant) -> Result<Spoken, String> {
    let output = child.stdout.take().map(read);
    let errors = child.stderr.take().map(read);
    let status = wait(child, deadline)?;
    // What it has left behind may hold its pipes open: output that comes later is ignored.
    Ok(Spoken { status, output: heard(output, deadline)?, errors: heard(errors, deadline)? })
}

/// Waits for a process. One that has not ended at the deadline is ended.
pub(crate) fn wait(child: &mut Child, deadline: Instant) -> Result<ExitStatus, String> {
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            // One that has ended meanwhile can't be ended again.
            let _ = child.kill();
            let _ = child.wait();
            return Err(too_long());
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

fn too_long() -> String {
    "it took too long, see --timeout".into()
}

type Reader = JoinHandle<io::Result<Vec<u8>>>;

fn read(mut from: impl Read + Send + 'static) -> Reader {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map(|_| bytes)
    })
}

fn heard(reader: Option<Reader>, deadline: Instant) -> Result<Vec<u8>, String> {
    let Some(reader) = reader else { return Ok(Vec::new()) };
    while !reader.is_finished() {
        if Instant::now() >= deadline {
            return Err(too_long());
        }
        thread::sleep(CHECK_INTERVAL);
    }
    let bytes = reader.join().map_err(|_| "what it says can't be read".to_owned())?;
    bytes.map_err(|error| format!("what it says can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn what_a_process_says_is_heard_and_who_does_not_end_is_ended() {
        let far = || Instant::now() + Duration::from_secs(600);
        let spoken = output_until(&mut shell("echo figures; echo complaint >&2; exit 3"), far()).unwrap();
        assert_eq!(
            (spoken.status.code(), &*spoken.output, &*spoken.errors),
            (Some(3), &b"figures\n"[..], &b"complaint\n"[..])
        );
        let mut stuck = shell("exec sleep 3600");
        let reason = output_until(&mut stuck, Instant::now()).err().unwrap();
        assert!(reason.contains("--timeout"), "{reason}");
        assert!(stuck.try_wait().unwrap().is_some(), "it is gone");
    }

    #[test]
    fn what_a_process_leaves_behind_keeps_nobody_waiting() {
        // The pipe stays open as long as the second process is there.
        let mut child = shell("sleep 5 & echo figures");
        assert!(output_until(&mut child, Instant::now() + Duration::from_millis(300)).is_err());
        assert!(child.try_wait().unwrap().is_some());
    }
}
