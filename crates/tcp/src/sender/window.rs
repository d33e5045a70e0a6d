//! How much may be on the way: the congestion window of RFC 5681 and RFC 6928.

/// Segments that may be on the way before anything is known, and the bytes that they may have (RFC 6928 section 2).
const INITIAL: (u64, u64) = (10, 14_600);

/// Reno.
#[derive(Debug)]
pub(crate) struct CongestionWindow {
    mss: u64,
    bytes: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next step.
    credit: u64,
}

impl CongestionWindow {
    pub(crate) fn new(mss: u64) -> Self {
        let bytes = (INITIAL.0 * mss).min(INITIAL.1.max(2 * mss));
        Self { mss, bytes, threshold: u64::MAX, credit: 0 }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The segments of the path have another size.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.bytes = self.bytes.max(2 * mss);
    }

    /// So many bytes arrived, and the window was what had limited them.
    pub(crate) fn handle_arrival(&mut self, bytes: u64) {
        if self.bytes < self.threshold {
            self.bytes += bytes.min(2 * self.mss);
            return;
        }
        self.credit += bytes;
        if self.credit >= self.bytes {
            self.credit -= self.bytes;
            self.bytes += self.mss;
        }
    }

    /// Something was lost with so many bytes on the way: once in a recovery.
    pub(crate) fn handle_loss(&mut self, flying: u64) {
        self.threshold = (flying / 2).max(2 * self.mss);
        (self.bytes, self.credit) = (self.threshold, 0);
    }

    /// Nothing came for a retransmission time-out.
    pub(crate) fn handle_timeout(&mut self, flying: u64) {
        self.handle_loss(flying);
        self.bytes = self.mss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_then_a_segment_in_a_round_trip() {
        let mut window = CongestionWindow::new(1000);
        assert_eq!(window.bytes(), 10_000);
        (0..10).for_each(|_| window.handle_arrival(1000));
        assert_eq!(window.bytes(), 20_000);
        window.handle_loss(20_000);
        (0..10).for_each(|_| window.handle_arrival(1000));
        assert_eq!(window.bytes(), 11_000);
        window.handle_timeout(11_000);
        assert_eq!((window.bytes(), window.threshold), (1000, 5500));
    }

    #[test]
    fn large_segments_begin_with_fewer() {
        assert_eq!(CongestionWindow::new(8948).bytes(), 17_896);
        assert_eq!(CongestionWindow::new(1460).bytes(), 14_600);
    }
}
