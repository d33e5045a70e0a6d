//! Segments that were given out, until the stream below is done with them.

use std::collections::VecDeque;

use weft_base::Slice;

use crate::FIRST_PLACES;

/// Whose segment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The request of this running number.
    Request(u64),
    /// Read and Atomic Responses, and the ready-to-receive message.
    Stream,
    /// The Terminate.
    Terminate,
}

/// Segments in a row with the same owner.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) owner: Owner,
    pub(crate) segments: u32,
    /// The memory of a Read Response, which is unpinned when the last segment of the run was sent.
    pub(crate) release: Option<Slice>,
}

/// The segments given out, oldest first.
#[derive(Debug)]
pub(crate) struct InFlight {
    runs: VecDeque<Run>,
    limit: usize,
    /// Segments that were ever given out.
    given: u64,
}

impl InFlight {
    /// Room for `limit` runs, and one more for a Terminate.
    pub(crate) fn new(limit: usize) -> Self {
        Self { runs: VecDeque::with_capacity(FIRST_PLACES.min(limit + 1)), limit, given: 0 }
    }

    /// Whether nothing more can be given out before something was sent.
    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() >= self.limit
    }

    /// Whether it may soon be full: from then on each segment is marked as awaited.
    pub(crate) fn is_half_full(&self) -> bool {
        self.runs.len() >= self.limit / 2
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Segments that were ever given out.
    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    /// A segment was given out.
    pub(crate) fn push(&mut self, owner: Owner, release: Option<Slice>) {
        self.given += 1;
        match self.runs.back_mut() {
            Some(run) if run.owner == owner && run.release.is_none() => {
                run.segments += 1;
                run.release = release;
            }
            _ => self.runs.push_back(Run { owner, segments: 1, release }),
        }
    }

    /// Takes up to `segments` of the oldest run.
    pub(crate) fn take(&mut self, segments: u32) -> Option<Run> {
        let run = self.runs.front_mut()?;
        if run.segments > segments {
            run.segments -= segments;
            return Some(Run { owner: run.owner, segments, release: None });
        }
        self.runs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::RegionId;

    #[test]
    fn runs_are_taken_in_parts_and_release_at_their_end() {
        let slice = Slice { region: RegionId { index: 1, generation: 0 }, offset: 0, length: 9 };
        let mut in_flight = InFlight::new(3);
        in_flight.push(Owner::Stream, None);
        in_flight.push(Owner::Stream, Some(slice));
        in_flight.push(Owner::Stream, None);
        in_flight.push(Owner::Request(4), None);
        assert!(in_flight.is_full());
        let taken: Vec<_> =
            core::iter::from_fn(|| in_flight.take(1)).map(|run| (run.owner, run.release.is_some())).collect();
        assert_eq!(
            taken,
            [(Owner::Stream, false), (Owner::Stream, true), (Owner::Stream, false), (Owner::Request(4), false)]
        );
        assert!(in_flight.is_empty());
        assert_eq!(in_flight.given(), 4, "also when they have left");
    }
}
