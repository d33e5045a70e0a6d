//! Why a command failed, and the exit code that says so.

use std::process::ExitCode;
use std::{fmt, io};

use weft_lab::LabError;

/// A command's failure.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for something that makes no sense. Exit code 2, like everything that the parser itself
    /// refuses.
    Usage(String),
    /// It made sense and did not work. Exit code 1.
    Runtime(String),
    /// Ctrl-C, or SIGTERM. Exit code 130.
    Interrupted,
    /// The reader of standard output reads no more. Exit code 141, as a shell says of a program that SIGPIPE has ended;
    /// there is no message.
    Unread,
    /// A program that was run has ended with this code, which is this one's; it has reported itself what was wrong.
    Exited(u8),
}

impl Failure {
    /// What the process exits with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Runtime(_) => ExitCode::from(1),
            Self::Interrupted => ExitCode::from(130),
            Self::Unread => ExitCode::from(141),
            Self::Exited(code) => ExitCode::from(*code),
        }
    }

    /// An error of the operating system while doing `what`.
    pub fn while_doing(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Runtime(format!("{what}: {error}"))
    }
}

impl From<LabError> for Failure {
    /// A plan that cannot be is the command line's; what the machine lacks is not.
    fn from(error: LabError) -> Self {
        if error.is_callers() { Self::Usage(error.to_string()) } else { Self::Runtime(error.to_string()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Runtime(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Unread => f.write_str("standard output is closed at its reader's end"),
            Self::Exited(code) => write!(f, "a program has ended with exit code {code}"),
        }
    }
}
