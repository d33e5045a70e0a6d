//! How fast a link was, millisecond by millisecond.

use core::time::Duration;

use weft_base::Time;

use crate::spread::{FileError, lines, wrong_line};

/// Lines that a trace may have.
pub const TRACE_LINES: usize = 4_000_000;
/// Bytes that a link sends at each time that a trace names: a packet of 1500, and what [`TRACE_PACKET_BYTES`] says.
const OPPORTUNITY_BYTES: u64 = 1504;
/// Bytes that a packet takes in a trace beside its own: the header of the interface by which traces are recorded.
pub(crate) const TRACE_PACKET_BYTES: u64 = 4;

const MILLISECOND: u64 = 1_000_000;

/// When a link could send, as the tools of mahimahi record it: each line is a time in milliseconds at which 1504 bytes
/// could leave. At the end it begins again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    /// In order, in milliseconds.
    times: Vec<u32>,
    /// The last of them, which is where it begins again.
    period_ms: u64,
}

impl RateTrace {
    /// Reads a trace.
    ///
    /// # Errors
    /// A line is no time; the times run backwards, or all are 0; there is none, or there are more than [`TRACE_LINES`].
    pub fn parse(text: &str) -> Result<Self, FileError> {
        const WANTED: &str = "a trace has whole milliseconds, one in each line, for instance 17";
        let mut times: Vec<u32> = Vec::new();
        for (number, line) in lines(text) {
            let is_number = line.bytes().all(|byte| byte.is_ascii_digit());
            let time = is_number.then(|| line.parse().ok()).flatten();
            let time = time.ok_or_else(|| wrong_line(number, line, WANTED))?;
            if times.last().is_some_and(|last| *last > time) {
                return Err(FileError::Backwards(number));
            }
            times.push(time);
            if times.len() > TRACE_LINES {
                return Err(FileError::TooLong(TRACE_LINES));
            }
        }
        match times.last() {
            None => Err(FileError::Empty),
            Some(0) => Err(FileError::NoTime),
            Some(last) => Ok(Self { period_ms: u64::from(*last), times }),
        }
    }

    /// What it carries on average, in bits a second.
    #[must_use]
    pub fn mean_bits_per_s(&self) -> u64 {
        self.times.len() as u64 * OPPORTUNITY_BYTES * 8 * 1000 / self.period_ms
    }

    /// How long it is.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms)
    }

    /// When that opportunity is, counted on from the first over all repetitions.
    fn time(&self, number: u64) -> Time {
        let (round, index) = (number / self.times.len() as u64, number % self.times.len() as u64);
        let within = u64::from(self.times[index as usize]);
        let milliseconds = round.saturating_mul(self.period_ms).saturating_add(within);
        Time::from_nanos(milliseconds.saturating_mul(MILLISECOND))
    }

    /// The first opportunity that is not before this time.
    fn first_from(&self, at: Time) -> u64 {
        let milliseconds = at.as_nanos().div_ceil(MILLISECOND);
        // The end of one repetition is the beginning of the next.
        let round = (milliseconds / self.period_ms).max(1) - 1;
        let within = milliseconds - round * self.period_ms;
        let of_round = |within: u64| self.times.partition_point(|time| u64::from(*time) < within) as u64;
        let count = self.times.len() as u64;
        match of_round(within) {
            index if index < count => round * count + index,
            _ => (round + 1) * count + of_round(within - self.period_ms),
        }
    }
}

/// Where a link is in its trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// When the trace began.
    from: Time,
    /// The opportunity that is not used up.
    number: u64,
    /// Bytes that may still leave in it.
    left: u64,
}

impl Cursor {
    /// The trace begins then.
    pub(crate) const fn starting(from: Time) -> Self {
        Self { from, number: 0, left: OPPORTUNITY_BYTES }
    }

    /// Where a packet begins to leave that may from this time on.
    fn moved(self, trace: &RateTrace, at: Time) -> Self {
        let since = Time::ZERO + at.since(self.from);
        if trace.time(self.number) >= since {
            return self;
        }
        Self { number: trace.first_from(since), left: OPPORTUNITY_BYTES, ..self }
    }

    fn time(self, trace: &RateTrace) -> Time {
        self.from + trace.time(self.number).since(Time::ZERO)
    }

    /// When a packet begins to leave that may from this time on.
    pub(crate) fn start(self, trace: &RateTrace, at: Time) -> Time {
        self.moved(trace, at).time(trace).max(at)
    }

    /// Has bytes leave, one at least, from this time on. Returns when the last of them has.
    pub(crate) fn send(&mut self, trace: &RateTrace, at: Time, bytes: u64) -> Time {
        let mut end = self.moved(trace, at);
        let more = bytes.saturating_sub(end.left).div_ceil(OPPORTUNITY_BYTES);
        end.number += more;
        end.left = end.left + more * OPPORTUNITY_BYTES - bytes.max(1);
        let last = end.time(trace).max(at);
        if end.left == 0 {
            (end.number, end.left) = (end.number + 1, OPPORTUNITY_BYTES);
        }
        *self = end;
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn packets_leave_when_the_trace_says() {
        let trace = RateTrace::parse("# two and a pause\n1\n1\n5\n10\n").unwrap();
        assert_eq!((trace.period(), trace.mean_bits_per_s()), (Duration::from_millis(10), 4 * 1504 * 8 * 100));
        let mut cursor = Cursor::starting(Time::ZERO);
        let whole: Vec<_> = (0..9).map(|_| cursor.send(&trace, Time::ZERO, 1504)).collect();
        assert_eq!(whole, [1, 1, 5, 10, 11, 11, 15, 20, 21].map(at));
        // Small ones share, large ones take several.
        let mut cursor = Cursor::starting(at(100));
        assert_eq!(cursor.start(&trace, at(100)), at(101));
        let ends = [752, 752, 752, 3 * 1504, 1].map(|bytes| cursor.send(&trace, at(100), bytes));
        assert_eq!(ends, [101, 101, 101, 111, 111].map(at));
        // What was not used in time is lost.
        assert_eq!(cursor.send(&trace, at(116), 1504), at(120));
        assert_eq!(cursor.send(&trace, at(1000), 1), at(1000));
    }

    #[test]
    fn every_time_has_its_opportunity() {
        let trace = RateTrace::parse("0\n3\n3\n7\n").unwrap();
        let all: Vec<_> = (0..12).map(|number| trace.time(number)).collect();
        assert_eq!(all, [0, 3, 3, 7, 7, 10, 10, 14, 14, 17, 17, 21].map(at));
        for millisecond in 0..14 {
            let first = all.iter().position(|time| *time >= at(millisecond)).unwrap();
            assert_eq!(trace.first_from(at(millisecond)), first as u64, "{millisecond}");
        }
        let later = at(2) + Duration::from_nanos(1);
        assert_eq!(trace.time(trace.first_from(later)), at(3));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, words) in [
            ("", "no line with a number"),
            ("1\n2\n1\n", "line 3 is earlier"),
            ("0\n0\n", "all its times are 0"),
            ("1\n1.5\n", "line 2 says \"1.5\""),
            ("-1", "line 1"),
            ("99999999999", "line 1"),
        ] {
            let message = RateTrace::parse(text).unwrap_err().to_string();
            assert!(message.contains(words), "{text:?}: {message}");
        }
        assert_eq!(RateTrace::parse(&"1\n".repeat(TRACE_LINES + 1)), Err(FileError::TooLong(TRACE_LINES)));
    }
}
