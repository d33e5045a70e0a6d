//! What is wrong with a scenario.

use core::fmt;

/// What is wrong with a text that is to be a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line, from 1; 0 where it is about all of it.
    pub line: usize,
    /// What is wrong with what, and what is possible.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl core::error::Error for ScenarioError {}
