//! Why traffic can't be carried.

use std::error::Error;
use std::{fmt, io};

use weft_lab::LabError;
use weft_scenario::ScenarioError;

/// What went wrong.
#[derive(Debug)]
pub enum WanError {
    /// The scenario is none.
    Scenario(ScenarioError),
    /// The request can't be executed in this way; in words.
    Impossible(String),
    /// A right is missing; which, and what to do, in words.
    Right(String),
    /// The hosts could not be made.
    Lab(LabError),
    /// The process that carries packets failed; in words.
    Carrier(String),
    /// The operating system refused something.
    Io {
        /// What was tried.
        doing: String,
        /// What it said.
        error: io::Error,
    },
}

impl WanError {
    /// An error of the operating system while doing `what`.
    pub(crate) fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { doing: what.into(), error }
    }

    /// Whether this machine, as it is set up, can't carry traffic in this way, so that a test that wants it is to be
    /// left out.
    #[must_use]
    pub fn cannot_be_had(&self) -> bool {
        match self {
            Self::Lab(error) => error.cannot_be_had(),
            Self::Right(_) => true,
            _ => false,
        }
    }

    /// Whether the request makes no sense, so that a retry would not help.
    #[must_use]
    pub fn is_callers(&self) -> bool {
        match self {
            Self::Scenario(_) | Self::Impossible(_) => true,
            Self::Lab(error) => error.is_callers(),
            _ => false,
        }
    }
}

impl From<LabError> for WanError {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<ScenarioError> for WanError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(error)
    }
}

impl fmt::Display for WanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(error) => write!(f, "{error}"),
            Self::Impossible(words) | Self::Right(words) => f.write_str(words),
            Self::Lab(error) => write!(f, "{error}"),
            Self::Carrier(said) => write!(f, "the process that carries packets failed: {said}"),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl Error for WanError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Scenario(error) => Some(error),
            Self::Lab(error) => Some(error),
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
