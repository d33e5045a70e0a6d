//! Runs that are compared: one job, and what tells it from others of its test.

use serde_json::Value;

use crate::model::job::Job;
use crate::model::size::Size;

/// Runs that are repeated, and compared between contestants.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The job without contestant and rank.
    pub(crate) job: Job,
    /// What tells this case from others of its kind and size.
    pub(crate) labels: Vec<(&'static str, Value)>,
}

impl Case {
    /// The value of a label, as text.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| text(value))
    }

    /// The size of its messages.
    pub(crate) fn size(&self) -> Size {
        Size(self.job.size)
    }
}

/// A label as a person reads it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Case {
    /// With a label that tells it from others.
    pub(crate) fn label_with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    /// With a changed job.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Job)) -> Self {
        change(&mut self.job);
        self
    }
}
