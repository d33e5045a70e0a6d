//! The probe for losses at the end of what was sent: TLP (RFC 8985 section 7).

use super::Ack;

/// The probe that is in flight.
#[derive(Debug)]
pub(crate) struct TailProbe {
    /// The end of what was sent when it left, and whether it was a retransmission.
    under_way: Option<(u64, bool)>,
}

impl TailProbe {
    pub(crate) const fn new() -> Self {
        Self { under_way: None }
    }

    pub(crate) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(crate) const fn begin(&mut self, end: u64, again: bool) {
        self.under_way = Some((end, again));
    }

    pub(crate) const fn forget(&mut self) {
        self.under_way = None;
    }

    /// Whether the probe repaired a loss (section 7.4.2).
    pub(crate) fn handle_ack(&mut self, ack: &Ack, duplicate: bool) -> bool {
        let Some((end, again)) = self.under_way.filter(|(end, _)| ack.position >= *end) else { return false };
        if !again || duplicate {
            self.under_way = None;
            return false;
        }
        if ack.position > end {
            self.under_way = None;
            return true;
        }
        // As the first acknowledgement of all that was sent it may be about the original; another one is about the
        // probe.
        if ack.is_pure && ack.sack.is_empty() && ack.position == end {
            self.under_way = None;
        }
        false
    }
}
