//! A process that takes rules away again when this one ends, however it does.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::WanError;

/// Adds rules and, when its standard input ends, takes them away. Ctrl-C is not for it. Its arguments are the programs
/// that change rules; its standard input has one rule in each line, without `-A` or `-D`, the number of the program in
/// front, and at the end an empty line. It says `up` when all are there; if one can't be, it takes those before away.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
rules=
away() {
    printf '%s' "$rules" | while read -r program rule; do
        $program -w 5 -t mangle -D $rule
    done
}
while read -r program rule && [ -n "$program" ]; do
    if ! $program -w 5 -t mangle -A $rule; then
        away
        exit 1
    fi
    rules="$program $rule
$rules"
done
echo up
read -r _
away
"#;

/// Rules that are there as long as this is.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Puts rules in: program and rule, `-A` left out.
    pub(crate) fn start(sh: &Path, rules: &[(String, String)]) -> Result<Self, WanError> {
        let cannot = || WanError::while_doing("cannot change the rules of the packet filter");
        let mut command = Command::new(sh);
        command.args(["-c", SCRIPT, "weft-wan"]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot())?;
        let mut lines: String = rules.iter().map(|(program, rule)| format!("{program} {rule}\n")).collect();
        lines.push('\n');
        if let Some(stdin) = &mut child.stdin {
            // One that has ended says why.
            let _ = stdin.write_all(lines.as_bytes());
        }
        let mut guard = Self(child);
        if guard.is_up() { Ok(guard) } else { Err(guard.explain()) }
    }

    fn is_up(&mut self) -> bool {
        let mut line = String::new();
        let stdout = self.0.stdout.take();
        stdout.is_some_and(|stdout| BufReader::new(stdout).read_line(&mut line).is_ok() && line == "up\n")
    }

    fn explain(&mut self) -> WanError {
        drop(self.0.stdin.take());
        let mut said = String::new();
        if let Some(stderr) = self.0.stderr.take() {
            // Without its words the failure itself must do.
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let said = said.trim().replace('\n', "; ");
        if said.contains("Permission denied") || said.contains("must be root") {
            return WanError::Right(format!(
                "rules of the packet filter need the capability CAP_NET_ADMIN over the network: be root, or use weft \
                 wan run, which has a network of its own ({said})"
            ));
        }
        WanError::Carrier(format!("the rules of the packet filter can't be set: {said}"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
