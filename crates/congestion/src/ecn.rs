//! Whether the path carries ECN marks (RFC 9000 sections 13.4.2 and A.4).

use core::ops::Range;
use core::time::Duration;

use weft_base::Time;

#[cfg(test)]
mod tests;

/// So many packets are marked while nothing is known (RFC 9000 section A.4).
pub const TEST_PACKETS: u32 = 10;
/// The test lasts for this number of probe time-outs at most (RFC 9000 section A.4): where marked packets are dropped,
/// few packets are sent.
pub const TEST_TIMEOUTS: u32 = 3;

/// Packets that the peer has counted since the start, by their mark. They may wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u32,
    /// ECT(1), which nobody here sends.
    pub ect1: u32,
    /// Congestion experienced.
    pub ce: u32,
}

/// How far the validation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are marked.
    Testing,
    /// They have left; none was acknowledged yet, and no more are marked.
    Unknown,
    /// Marks arrive.
    Capable,
    /// Nothing is answered any more. It may be for the marks: none is marked until there is an answer.
    Silent,
    /// They do not, or not as they were sent: none is marked any more, as long as the path is the same.
    Failed(EcnFault),
}

/// What is wrong with a path's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnFault {
    /// Fewer marks were counted than marked packets were acknowledged: they are cleared on the way, or not counted.
    Bleached,
    /// Marks were counted that nobody has sent: ECT(1), or more than there were.
    Invented,
    /// All of the first marked packets were lost, or only packets without a mark were answered.
    Lost,
}

/// The validation of one rail, for one direction.
#[derive(Clone, Debug)]
pub struct EcnValidation {
    state: EcnState,
    counts: EcnCounts,
    /// Packets that were marked and that were counted, on all paths that the rail has had.
    sent: u64,
    counted: u64,
    /// The present test: its first packet, how many were marked and are lost, until when more are marked, and whether
    /// one has arrived.
    from: u64,
    tested: u32,
    lost: u32,
    until: Option<Time>,
    is_proved: bool,
    /// The largest number of the acknowledgements that were looked at: others came late, and say what was.
    largest: Option<u64>,
}

impl Default for EcnValidation {
    fn default() -> Self {
        Self {
            state: EcnState::Testing,
            counts: EcnCounts::default(),
            sent: 0,
            counted: 0,
            from: 0,
            tested: 0,
            lost: 0,
            until: None,
            is_proved: false,
            largest: None,
        }
    }
}

impl EcnValidation {
    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> EcnState {
        self.state
    }

    /// Whether a packet that leaves now is to be sent with ECT(0).
    pub fn marks(&mut self, now: Time) -> bool {
        if self.state == EcnState::Testing && self.until.is_some_and(|until| until <= now) {
            self.end_test();
        }
        matches!(self.state, EcnState::Testing | EcnState::Capable)
    }

    /// A packet with ECT(0) has left. `probe_timeout`: after how long its sender is going to ask for an
    /// acknowledgement.
    pub fn on_sent(&mut self, probe_timeout: Duration, now: Time) {
        self.on_sent_run(1, probe_timeout, now);
    }

    /// As [`EcnValidation::on_sent`], for `count` packets.
    pub fn on_sent_run(&mut self, count: u32, probe_timeout: Duration, now: Time) {
        self.sent = self.sent.saturating_add(u64::from(count));
        self.tested = self.tested.saturating_add(count);
        self.until.get_or_insert_with(|| now + TEST_TIMEOUTS * probe_timeout);
        if self.state == EcnState::Testing && self.tested >= TEST_PACKETS {
            self.end_test();
        }
    }

    /// Packet `number`, which had ECT(0), is given up. When all of the first are, the path may drop what is marked.
    pub fn on_lost(&mut self, number: u64) {
        self.lost = self.lost.saturating_add(u32::from(number >= self.from));
        if self.state == EcnState::Unknown {
            self.end_test();
        }
    }

    /// No more is marked until something marked is acknowledged. When all is lost already none ever will be.
    const fn end_test(&mut self) {
        let all_lost = self.tested > 0 && self.lost >= self.tested;
        self.state = if all_lost { EcnState::Failed(EcnFault::Lost) } else { EcnState::Unknown };
    }

    /// Nothing was acknowledged in time, and again not. Paths may drop what is marked, from the start or after a change
    /// that nobody sees: what leaves from now on is not marked.
    pub const fn on_silence(&mut self) {
        if !matches!(self.state, EcnState::Failed(_)) {
            self.state = EcnState::Silent;
        }
    }

    /// Something was acknowledged, as [`EcnValidation::on_ack`] has heard; `next` is the number of the next packet. If
    /// it ends a silence and nothing of it was marked, marks are tested anew where they did arrive before; where none
    /// ever has they are what the path drops.
    pub const fn on_answered(&mut self, next: u64) {
        if !matches!(self.state, EcnState::Silent) {
            return;
        }
        if self.is_proved || self.tested == 0 {
            self.restart(next);
        } else {
            self.state = EcnState::Failed(EcnFault::Lost);
        }
    }

    /// From packet `next` on the path is another one: it is validated anew (RFC 9000 section 13.4.2). What was sent on
    /// the old one is still counted.
    pub const fn restart(&mut self, next: u64) {
        self.state = EcnState::Testing;
        if self.counted > self.sent {
            self.counted = self.sent;
        }
        (self.from, self.tested, self.lost) = (next, 0, 0);
        (self.until, self.is_proved) = (None, false);
    }

    /// An acknowledgement up to packet `largest` says `counts`, and is the first to acknowledge the packets `marked`,
    /// which were sent with ECT(0). Packets that have newly met congestion come back; none on a path that has failed,
    /// and none from an acknowledgement that came late.
    pub fn on_ack(&mut self, largest: u64, counts: EcnCounts, marked: impl Iterator<Item = Range<u64>>) -> u32 {
        if self.largest.is_some_and(|before| largest <= before) {
            return 0;
        }
        self.largest = Some(largest);
        let before = core::mem::replace(&mut self.counts, counts);
        if matches!(self.state, EcnState::Failed(_)) {
            return 0;
        }
        let ce = counts.ce.wrapping_sub(before.ce);
        let ect0 = counts.ect0.wrapping_sub(before.ect0);
        let new = u64::from(ce) + u64::from(ect0);
        self.counted = self.counted.saturating_add(new);
        // What was sent before the path was another one says nothing of it.
        let marked: u64 = marked.map(|numbers| numbers.end.saturating_sub(numbers.start.max(self.from))).sum();
        // RFC 9000 section 13.4.2.1. Counts that go back wrap, and are more than was ever sent.
        if new < marked {
            self.state = EcnState::Failed(EcnFault::Bleached);
        } else if counts.ect1 != before.ect1 || self.counted > self.sent {
            self.state = EcnState::Failed(EcnFault::Invented);
        } else if marked > 0 {
            (self.state, self.is_proved) = (EcnState::Capable, true);
        }
        if matches!(self.state, EcnState::Failed(_)) { 0 } else { ce }
    }
}
