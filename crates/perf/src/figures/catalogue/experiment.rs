//! An experiment of the catalogue.

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Whether all works: a few minutes.
    Quick,
    /// What may be quoted: an hour at most.
    Usual,
    /// What happens rarely, and many ranks: hours.
    Long,
}

/// An experiment.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// As it is typed; its files are called so.
    pub(crate) name: &'static str,
    /// What it asks, in at most 37 letters.
    pub(crate) question: &'static str,
    /// What is varied.
    pub(crate) axes: &'static str,
    /// What is measured.
    pub(crate) metrics: &'static str,
    /// Where the literature asks that.
    pub(crate) source: &'static str,
    /// What the literature found, if it says it of something comparable.
    pub(crate) found: Option<&'static str>,
    /// What follows `weft perf`, at each scale but for launches.
    quick: &'static str,
    usual: &'static str,
    /// Of [`Scale::Long`], where it is not what is usual with more launches.
    long: Option<&'static str>,
    /// About how long it takes at each scale.
    minutes: [f64; 3],
    /// Whether `--launches` is an option of its test.
    has_launches: bool,
    /// What a machine may not have, so that the experiment is left out there.
    pub(crate) needs: Option<&'static str>,
    /// Whether it is made only when it is named, or at [`Scale::Long`].
    is_long_only: bool,
}

impl Experiment {
    pub(super) const fn new(
        name: &'static str,
        source: &'static str,
        [quick, usual]: [&'static str; 2],
        minutes: [f64; 3],
    ) -> Self {
        let (found, long, has_launches, needs, is_long_only) = (None, None, true, None, false);
        let (question, axes, metrics) = ("", "", "");
        Self {
            name,
            question,
            axes,
            metrics,
            source,
            found,
            quick,
            usual,
            long,
            minutes,
            has_launches,
            needs,
            is_long_only,
        }
    }

    /// What it asks, what is varied, and what is measured.
    pub(super) const fn asks(self, question: &'static str, axes: &'static str, metrics: &'static str) -> Self {
        Self { question, axes, metrics, ..self }
    }

    pub(super) const fn needs(self, what: &'static str) -> Self {
        Self { needs: Some(what), ..self }
    }

    pub(super) const fn found(self, text: &'static str) -> Self {
        Self { found: Some(text), ..self }
    }

    pub(super) const fn long(self, command: &'static str) -> Self {
        Self { long: Some(command), ..self }
    }

    /// Of what tells little beside the others, for the time that it takes.
    pub(super) const fn long_only(self) -> Self {
        Self { is_long_only: true, ..self }
    }

    /// Of tests in virtual time, and of those that count otherwise.
    pub(super) const fn without_launches(self) -> Self {
        Self { has_launches: false, ..self }
    }

    /// What follows `weft perf`.
    pub(crate) fn command(&self, scale: Scale) -> Vec<String> {
        let (text, launches) = match scale {
            Scale::Quick => (self.quick, "2"),
            Scale::Usual => (self.usual, "6"),
            Scale::Long => (self.long.unwrap_or(self.usual), "10"),
        };
        let launches = ["--launches", launches].into_iter().filter(|_| self.has_launches);
        let words = text.split_whitespace().filter(|word| scale != Scale::Long || *word != BRIEF);
        words.chain(launches).map(str::to_owned).collect()
    }

    /// Whether it is made at this scale when no experiment is named.
    pub(crate) fn is_usual(&self, scale: Scale) -> bool {
        scale == Scale::Long || !self.is_long_only
    }

    /// About how long it takes.
    pub(crate) fn minutes(&self, scale: Scale) -> f64 {
        self.minutes[scale as usize]
    }
}

/// A quarter of the messages of each launch, so that an hour is enough for launches of all.
pub(super) const BRIEF: &str = "--brief";
