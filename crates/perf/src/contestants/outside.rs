//! Programs of others that measure: a server, which listens at a port of TCP, and a client.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use crate::model::job::Job;

/// A server that listens. Killed when dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    program: &'static str,
    child: Child,
}

impl Server {
    /// Starts what `command` gives for a port that is free, and waits until it listens there.
    pub(crate) fn start(program: &'static str, command: impl FnOnce(u16) -> Command) -> Result<Self, String> {
        // The port is free now; nothing keeps another program from taking it before this one does, which then says so.
        let port = TcpListener::bind(("0.0.0.0", 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let child = command(port).spawn().map_err(|error| format!("{program}: {error}"))?;
        let mut server = Self { port, program, child };
        server.await_listening()?;
        Ok(server)
    }

    /// A client that comes too early gives up, and a connection to try out would be taken for the client. The
    /// session ends this side when it takes too long.
    fn await_listening(&mut self) -> Result<(), String> {
        let program = self.program;
        while !is_listening(self.port) {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(format!("{program} ended at once: {}", self.remaining_output()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until it has ended, and well. Its output fits a pipe many times over, so it never waits for a reader.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let program = self.program;
        let status = self.child.wait().map_err(|error| format!("{program}: {error}"))?;
        if !status.success() {
            return Err(format!("{program} ended with {status}: {}", self.remaining_output()));
        }
        Ok(())
    }

    fn remaining_output(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended when all went well; otherwise it must not outlive us.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client to its end, and returns its standard output.
pub(crate) fn ask(program: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} ended with {}: {}", output.status, complaint.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether both sides are on this host, and speak by the loopback.
pub(crate) fn on_loopback(job: &Job) -> bool {
    job.host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Whether some socket of this machine listens on the port.
fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|file| fs::read_to_string(file).is_ok_and(|table| table.lines().skip(1).any(|line| listens(line, port))))
}

/// A line of `/proc/net/tcp`: number, local address, remote address, state (0A: listening), in hexadecimal.
fn listens(line: &str, port: u16) -> bool {
    let fields: Vec<_> = line.split_ascii_whitespace().take(4).collect();
    let [_, local, _, state] = fields[..] else { return false };
    state == "0A" && local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_listening_port_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(is_listening(listener.local_addr().unwrap().port()));
        let line = "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000";
        assert!(!listens(line, 8080), "connected, not listening");
        assert!(listens(&line.replace(" 01 ", " 0A "), 8080));
        assert!(!listens(&line.replace(" 01 ", " 0A "), 8081));
    }

    #[test]
    fn a_server_that_ends_at_once_says_why() {
        let command = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo no luck >&2"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            command
        };
        let complaint = Server::start("a server", command).err().unwrap();
        assert_eq!(complaint, "a server ended at once: no luck");
        assert!(ask("a client", Command::new("sh").args(["-c", "exit 3"])).unwrap_err().contains("exit status: 3"));
        assert_eq!(ask("a client", Command::new("echo").arg("figures")).unwrap(), "figures\n");
    }
}
