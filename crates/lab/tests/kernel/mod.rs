//! Tests over a real link have a worker in each host: this program again. Here is what starts it, and what the kernel's
//! TCP does in one.
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use weft_lab::Host;

/// The variable that says to a worker what it does.
pub(crate) const ROLE: &str = "WEFT_LAB_ROLE";

/// The byte at a position of what is sent.
pub(crate) fn byte(at: usize) -> u8 {
    (at % 251 + at / 65_521) as u8
}

/// This program again, in a host, with a role.
pub(crate) struct Worker {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(host: &Host, role: &str) -> Self {
        Self::start_with(host, role, &[])
    }

    /// With more variables.
    pub(crate) fn start_with(host: &Host, role: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_by(host.command(env::current_exe().unwrap()), role, variables)
    }

    /// By a command that starts this program.
    pub(crate) fn start_by(mut command: Command, role: &str, variables: &[(&str, &str)]) -> Self {
        command.args(["--exact", "worker", "--nocapture", "--test-threads=1"]).env(ROLE, role);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What it says next that is meant for us.
    pub(crate) fn says(&mut self) -> String {
        for line in self.lines.by_ref() {
            // The harness of the tests writes in the same line.
            if let Some((_, word)) = line.unwrap().split_once("worker: ") {
                return word.to_owned();
            }
        }
        panic!("it ended without a word: {:?}", self.child.wait())
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it ends well.
    pub(crate) fn succeeds(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn say(word: &str) {
    println!("worker: {word}");
}

/// Sends back what comes, once.
pub(crate) fn kernel_echo(address: IpAddr) {
    kernel_echo_at(SocketAddr::new(address, 0));
}

pub(crate) fn kernel_echo_at(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    say(&listener.local_addr().unwrap().port().to_string());
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = vec![0; 30_000];
    loop {
        let length = stream.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        stream.write_all(&buffer[..length]).unwrap();
    }
    say("done");
}

/// Sends this many bytes, and expects them back.
pub(crate) fn kernel_calls(address: SocketAddr, total: usize) {
    let stream = TcpStream::connect(address).unwrap();
    let mut way_out = stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        let bytes: Vec<u8> = (0..total).map(byte).collect();
        way_out.write_all(&bytes).unwrap();
        way_out.shutdown(Shutdown::Write).unwrap();
    });
    let mut came = Vec::new();
    (&stream).read_to_end(&mut came).unwrap();
    writer.join().unwrap();
    assert!(came.len() == total && came.iter().enumerate().all(|(at, have)| *have == byte(at)), "{} bytes", came.len());
    say("done");
}
