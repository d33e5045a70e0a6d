//! Processes that a test starts from its own program.

use std::process::{Command, Stdio};

/// Runs them all at once, and fails if one does. What they say is shown then, and kept from this program's stdout
/// otherwise: each has a harness of its own, whose report would be in the middle of this one's.
pub(crate) fn all_succeed(commands: impl IntoIterator<Item = Command>) {
    let start = |mut command: Command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children: Vec<_> = commands.into_iter().map(start).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    // All are waited for before one is judged.
    for output in outputs.collect::<Vec<_>>() {
        let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    }
}
