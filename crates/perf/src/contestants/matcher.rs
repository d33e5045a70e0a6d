//! The matcher of Weft's messages, by itself: one process, no network.
//!
//! A round is matches with nothing else in the queue, and then as many among the others; rounds follow each other, so
//! that what disturbs the machine disturbs both. What is measured is processor time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_base::PeerId;
use weft_message::{Match, Matcher};

use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side};
use crate::model::job::{Crowd, Job, Kind, Queue, Wanted, Which};
use crate::model::measure::{Figure, Measured, Watch, median};

pub(crate) struct Matching;

impl Matching {
    pub(crate) const NAME: &str = "matcher";
}

/// Rounds of a run; their median counts.
const ROUNDS: usize = 11;

/// How long one part of a round may take: a matcher that searches all others makes fewer matches in it.
const PART_LIMIT: Duration = Duration::from_millis(50);

/// Matches between two reads of the clock.
const BATCH: u64 = 64;

/// Bits of the tag that a receive ignores which wants some of them.
const IGNORED: u64 = 0xff;

const PEER: PeerId = PeerId(7);

impl Contestant for Matching {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "the matcher of Weft's messages, in one process"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        match (job.kind, &job.crowd, &job.variant) {
            (Kind::Matching, Some(_), None) => Ok(()),
            (Kind::Matching, _, Some(variant)) => Err(format!("{variant:?} is no variant of the matcher; it has none")),
            _ => Err("it is measured by: weft perf match".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let crowd = job.crowd.ok_or("nothing is to be matched")?;
        Ok(Box::new(Bench { alone: Queues::new(Crowd { others: 0, ..crowd }), among: Queues::new(crowd) }))
    }
}

struct Bench {
    alone: Queues,
    among: Queues,
}

impl Side for Bench {
    fn address(&self) -> String {
        String::new()
    }

    fn run(&mut self, job: &Job, _: &[String]) -> Result<Measured, String> {
        self.alone.matches(job.warmup);
        self.among.matches(job.warmup);
        let rounds: Vec<_> =
            (0..ROUNDS).map(|_| (self.alone.matches(job.iterations), self.among.matches(job.iterations))).collect();
        let alone = median(rounds.iter().map(|round| round.0)).unwrap_or_default();
        let among = median(rounds.iter().map(|round| round.1)).unwrap_or_default();
        let figures = [(Figure::AloneNs, alone), (Figure::AmongNs, among)].into();
        Ok(Measured { value: Some(among - alone), figures, ..Measured::default() })
    }
}

/// A matcher with the crowd in it, and one more, of which each match takes one at random and brings it back.
struct Queues {
    matcher: Matcher<u64, u64>,
    crowd: Crowd,
    random: u64,
}

impl Queues {
    fn new(crowd: Crowd) -> Self {
        let mut this = Self { matcher: Matcher::new(1), crowd, random: 1 };
        (0..=crowd.others).for_each(|member| this.bring(tag(member.into())));
        this
    }

    /// Makes `count` matches, or as many as there is time for. Nanoseconds of processor time of one.
    fn matches(&mut self, count: u64) -> f64 {
        let (watch, end) = (Watch::start(), Instant::now() + PART_LIMIT);
        let mut done = 0;
        while done < count && Instant::now() < end {
            for _ in 0..BATCH.min(count - done) {
                self.one();
                done += 1;
            }
        }
        watch.cpu().as_secs_f64() * 1e9 / done.max(1) as f64
    }

    fn one(&mut self) {
        let tag = tag(self.choose());
        let found = match self.crowd.queue {
            Queue::Posted => self.matcher.find_posted(PEER, Some(tag)).and_then(|id| self.matcher.unpost(id)),
            Queue::Unexpected => {
                let (source, matching) = wanted(self.crowd.wanted, tag);
                self.matcher.find_unexpected(source, Some(matching)).and_then(|id| self.matcher.take(id))
            }
        };
        assert_eq!(black_box(found), Some(tag), "the matcher found something else");
        self.bring(tag);
    }

    /// The member that is searched for. What is brought back is the youngest: a linear search passes all others before
    /// the same one.
    fn choose(&mut self) -> u64 {
        let others = u64::from(self.crowd.others);
        if self.crowd.which == Which::One {
            return others;
        }
        // Xorshift: the processor must not foresee it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % (others + 1)
    }

    fn bring(&mut self, tag: u64) {
        match self.crowd.queue {
            Queue::Posted => {
                let (source, matching) = wanted(self.crowd.wanted, tag);
                self.matcher.post(source, Some(matching), tag);
            }
            Queue::Unexpected => {
                self.matcher.keep(PEER, Some(tag), tag);
            }
        }
    }
}

/// The tag of a member of the crowd. Those that differ do so in bits that no receive ignores.
const fn tag(member: u64) -> u64 {
    member << 8
}

const fn wanted(wanted: Wanted, tag: u64) -> (Option<PeerId>, Match) {
    match wanted {
        Wanted::Exact => (Some(PEER), Match { tag, ignore: 0 }),
        Wanted::AnySource => (None, Match { tag, ignore: 0 }),
        Wanted::SomeBits => (Some(PEER), Match { tag, ignore: IGNORED }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crowd_gives_what_was_looked_for() {
        for queue in [Queue::Posted, Queue::Unexpected] {
            for (wanted, which) in
                [(Wanted::Exact, Which::Any), (Wanted::AnySource, Which::One), (Wanted::SomeBits, Which::Any)]
            {
                let mut queues = Queues::new(Crowd { queue, wanted, which, others: 20 });
                assert!(queues.matches(200) > 0.0);
                let count = queues.matcher.posted_count() + queues.matcher.unexpected_count();
                assert_eq!(count, 21, "as many as before");
            }
        }
    }
}
