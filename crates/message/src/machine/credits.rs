//! Credits of one class of packets: those that a peer has granted us, and those that we have granted it.

/// Packets that we may still send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    granted: u16,
    left: u16,
}

impl Allowance {
    pub(super) const fn new(granted: u16) -> Self {
        Self { granted, left: granted }
    }

    pub(super) const fn left(&self) -> u16 {
        self.left
    }

    pub(super) fn take(&mut self) {
        self.left -= 1;
    }

    /// Returns an unused credit. Credits of a connection that has been closed meanwhile are void.
    pub(super) fn put_back(&mut self) {
        self.left = self.granted.min(self.left + 1);
    }

    /// The peer returns some. Returns whether that is valid: not more than were used.
    pub(super) const fn refill(&mut self, count: u16) -> bool {
        let fits = count <= self.granted - self.left;
        if fits {
            self.left += count;
        }
        fits
    }
}

/// Packets that the peer may still send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditsOwed {
    granted: u16,
    /// Packets whose credit was not returned.
    used: u16,
    /// Credits that can be returned.
    owed: u16,
}

impl CreditsOwed {
    pub(super) const fn new(granted: u16) -> Self {
        Self { granted, used: 0, owed: 0 }
    }

    /// A packet was received. Returns whether the peer had a credit.
    pub(super) const fn charge(&mut self) -> bool {
        let had = self.used < self.granted;
        if had {
            self.used += 1;
        }
        had
    }

    /// The credit of a packet can be returned.
    pub(super) fn release(&mut self) {
        debug_assert!(self.owed < self.used, "a credit is returned twice");
        self.owed += 1;
    }

    /// Packets whose credit is withheld.
    pub(super) const fn held(&self) -> u16 {
        self.used - self.owed
    }

    /// Whether to return credits in a packet of their own: half of them are owed, or the peer has none. At most two
    /// such packets are in flight at a time, for together they return no more than there are.
    pub(super) const fn is_due(&self) -> bool {
        self.owed > 0 && (self.owed >= self.granted.div_ceil(2) || self.used == self.granted)
    }

    /// Returns all owed credits.
    pub(super) const fn give_back(&mut self) -> u16 {
        let owed = self.owed;
        self.used -= owed;
        self.owed = 0;
        owed
    }
}
