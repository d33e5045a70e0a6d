//! What was found, and how it is shown.

use serde::Serialize;

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    /// As it should be.
    Ok,
    /// Programs use Weft in spite of it.
    Note,
    /// Programs do not use Weft, or fail.
    Problem,
}

/// One line of what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    topic: Topic,
    pub(super) grade: Grade,
    pub(super) text: String,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

/// What a finding is about, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Topic {
    /// The program that was named.
    Program,
    /// Programs that use libibverbs.
    Verbs,
    /// Programs that use libfabric, as MPI libraries do.
    Libfabric,
    /// MPI libraries.
    Mpi,
    /// The machine, and what it permits.
    Machine,
}

impl Topic {
    const ALL: [Self; 5] = [Self::Program, Self::Verbs, Self::Libfabric, Self::Mpi, Self::Machine];

    const fn heading(self) -> &'static str {
        match self {
            Self::Program => "the program",
            Self::Verbs => "programs that use libibverbs",
            Self::Libfabric => "programs that use libfabric",
            Self::Mpi => "MPI libraries",
            Self::Machine => "this machine",
        }
    }

    pub(super) fn ok(self, text: impl Into<String>) -> Finding {
        Finding { topic: self, grade: Grade::Ok, text: text.into(), todo: None }
    }

    pub(super) fn note(self, text: impl Into<String>, todo: impl Into<String>) -> Finding {
        self.graded(Grade::Note, text, todo)
    }

    pub(super) fn problem(self, text: impl Into<String>, todo: impl Into<String>) -> Finding {
        self.graded(Grade::Problem, text, todo)
    }

    /// Of what only some programs need: a problem where it is needed, and else a note.
    pub(super) fn lack(self, is_needed: bool, text: impl Into<String>, todo: impl Into<String>) -> Finding {
        self.graded(if is_needed { Grade::Problem } else { Grade::Note }, text, todo)
    }

    fn graded(self, grade: Grade, text: impl Into<String>, todo: impl Into<String>) -> Finding {
        let todo = Some(todo.into()).filter(|todo| !todo.is_empty());
        Finding { topic: self, grade, text: text.into(), todo }
    }
}

/// All findings for people: a heading for each topic, a line for each finding, and below it what to do.
pub(super) fn page(findings: &[Finding]) -> String {
    let mut text = String::new();
    for topic in Topic::ALL {
        let of_topic: Vec<_> = findings.iter().filter(|finding| finding.topic == topic).collect();
        if of_topic.is_empty() {
            continue;
        }
        text.push_str(&format!("{}\n", topic.heading()));
        for finding in of_topic {
            let grade = match finding.grade {
                Grade::Ok => "ok",
                Grade::Note => "note",
                Grade::Problem => "problem",
            };
            text.push_str(&format!("  {grade:<8} {}\n", finding.text));
            if let Some(todo) = &finding.todo {
                text.push_str(&format!("           do: {todo}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_keep_their_order_and_say_what_to_do() {
        let findings = [
            Topic::Machine.ok("a core"),
            Topic::Verbs.lack(true, "no library", "make verbs"),
            Topic::Machine.note("few descriptors", ""),
            Topic::Libfabric.lack(false, "no provider", "make install"),
        ];
        let expected = "programs that use libibverbs\n  problem  no library\n           do: make verbs\n\
                        programs that use libfabric\n  note     no provider\n           do: make install\n\
                        this machine\n  ok       a core\n  note     few descriptors\n";
        assert_eq!(page(&findings), expected);
        let json = serde_json::to_value(&findings[1]).unwrap();
        let expected = serde_json::json!({
            "topic": "verbs", "grade": "problem", "text": "no library", "do": "make verbs",
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::to_value(&findings[2]).unwrap().get("do"), None);
    }
}
