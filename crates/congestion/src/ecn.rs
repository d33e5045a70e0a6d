//! Whether the path carries ECN marks (RFC 9000 sections 13.4.2 and A.4).

#[cfg(test)]
mod tests;

/// So many packets are marked while nothing is known (RFC 9000 section A.4).
pub const TEST_PACKETS: u32 = 10;

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
    /// They do not, or not as they were sent: none is marked any more. For good.
    Failed(EcnFault),
}

/// What is wrong with a path's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnFault {
    /// Fewer marks were counted than marked packets were acknowledged: they are cleared on the way, or not counted.
    Bleached,
    /// Marks were counted that nobody has sent: ECT(1), or more than there were.
    Invented,
    /// All of the first marked packets were lost.
    Lost,
}

/// The validation of one rail, for one direction.
#[derive(Clone, Debug)]
pub struct EcnValidation {
    state: EcnState,
    counts: EcnCounts,
    sent: u64,
    lost: u64,
    counted: u64,
    /// The largest number of the acknowledgements that were looked at: others came late, and say what was.
    largest: Option<u64>,
}

impl Default for EcnValidation {
    fn default() -> Self {
        Self { state: EcnState::Testing, counts: EcnCounts::default(), sent: 0, lost: 0, counted: 0, largest: None }
    }
}

impl EcnValidation {
    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> EcnState {
        self.state
    }

    /// Whether the next packet is to be sent with ECT(0).
    #[must_use]
    pub const fn marks(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::Capable)
    }

    /// A packet with ECT(0) has left.
    pub fn on_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
        if self.state == EcnState::Testing && self.sent >= u64::from(TEST_PACKETS) {
            self.state = EcnState::Unknown;
        }
    }

    /// A packet with ECT(0) is given up. When all of the first are, the path may drop what is marked.
    pub fn on_lost(&mut self) {
        self.lost = self.lost.saturating_add(1);
        if self.state == EcnState::Unknown && self.lost >= self.sent {
            self.state = EcnState::Failed(EcnFault::Lost);
        }
    }

    /// An acknowledgement up to packet `largest` says `counts`, and is the first to acknowledge `marked` packets that
    /// were sent with ECT(0). Packets that have newly met congestion come back; none on a path that has failed, and
    /// none from an acknowledgement that came late.
    pub fn on_ack(&mut self, largest: u64, counts: EcnCounts, marked: u32) -> u32 {
        if matches!(self.state, EcnState::Failed(_)) || self.largest.is_some_and(|before| largest <= before) {
            return 0;
        }
        self.largest = Some(largest);
        let ce = counts.ce.wrapping_sub(self.counts.ce);
        let ect0 = counts.ect0.wrapping_sub(self.counts.ect0);
        let is_invented = counts.ect1 != self.counts.ect1;
        self.counts = counts;
        let new = u64::from(ce) + u64::from(ect0);
        self.counted += new;
        // RFC 9000 section 13.4.2.1. Counts that go back wrap, and are more than was ever sent.
        if new < u64::from(marked) {
            self.state = EcnState::Failed(EcnFault::Bleached);
        } else if is_invented || self.counted > self.sent {
            self.state = EcnState::Failed(EcnFault::Invented);
        } else if marked > 0 {
            self.state = EcnState::Capable;
        }
        if matches!(self.state, EcnState::Failed(_)) { 0 } else { ce }
    }
}
