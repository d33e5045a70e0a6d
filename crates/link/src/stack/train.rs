//! Segments that leave as one frame.

use core::ops::Range;

use weft_driver::SegmentationLimits;
use weft_tcp::{FRAME_OVERHEAD, MAX_HEADER, Outgoing, Segment};

/// A packet of IP has no more bytes, and the frame is behind a header of Ethernet.
const LONGEST_FRAME: usize = u16::MAX as usize;

/// How long a train may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrainLimits {
    /// Bytes of payload.
    payload: u64,
    /// Segments; with 1 there are no trains.
    segments: u64,
}

impl TrainLimits {
    /// Nothing leaves in a train.
    pub(super) const NONE: Self = Self { payload: 0, segments: 1 };

    /// What an interface takes. Linux cuts in software what is as long as the limit, not only what is longer
    /// (`gso_features_check`).
    pub(super) const fn of(limits: SegmentationLimits) -> Self {
        let frame = limits.frame_bytes.saturating_sub(1);
        let frame = if frame < LONGEST_FRAME { frame } else { LONGEST_FRAME };
        Self { payload: frame.saturating_sub(FRAME_OVERHEAD + MAX_HEADER) as u64, segments: limits.segments as u64 }
    }

    /// Whether a train may have that many bytes of payload, in segments of `each`.
    const fn permit(&self, payload: u64, each: u64) -> bool {
        payload <= self.payload && payload.div_ceil(each) <= self.segments
    }
}

/// Segments of a stream that follow each other, alike but for their payload. They leave as one frame, which the
/// interface cuts, or, where it cannot, the kernel: so one system call sends many.
pub(super) struct Train {
    /// The header of all of them, with the numbers of the first.
    pub(super) segment: Segment,
    pub(super) payload: Range<u64>,
    /// Bytes of payload of each; the last may have fewer.
    each: u64,
}

impl Train {
    /// Of one segment.
    pub(super) fn new(first: Outgoing) -> Self {
        let each = first.payload.end - first.payload.start;
        Self { segment: first.segment, payload: first.payload, each }
    }

    /// Bytes of payload.
    pub(super) const fn length(&self) -> usize {
        (self.payload.end - self.payload.start) as usize
    }

    /// Bytes of payload of each frame that it is to be cut into; none where it is one segment.
    pub(super) const fn cut(&self) -> Option<u16> {
        // No segment is longer than a packet of IP.
        if self.length() as u64 > self.each { Some(self.each as u16) } else { None }
    }

    /// Whether it may get longer: it ends with a whole segment, behind which nothing was pushed or ended.
    pub(super) fn is_open(&self) -> bool {
        let flags = &self.segment.flags;
        let is_plain = flags.ack && !(flags.syn || flags.fin || flags.rst || flags.psh);
        is_plain && self.each > 0 && (self.length() as u64).is_multiple_of(self.each)
    }

    /// One more segment at its end; or gives it back, when it does not belong there, or the train would get too long.
    pub(super) fn add(&mut self, next: Outgoing, limits: TrainLimits) -> Option<Outgoing> {
        let (segment, length) = (&next.segment, next.payload.end - next.payload.start);
        let is_next = next.payload.start == self.payload.end && (1..=self.each).contains(&length);
        let is_alike = segment.acknowledgement == self.segment.acknowledgement
            && segment.window == self.segment.window
            && segment.options == self.segment.options
            && !(segment.flags.syn || segment.flags.fin || segment.flags.rst);
        let has_room = || limits.permit(self.length() as u64 + length, self.each);
        if !(self.is_open() && is_next && is_alike && has_room()) {
            return Some(next);
        }
        self.payload.end = next.payload.end;
        // The interface or the kernel, which cuts it, pushes only the last.
        self.segment.flags.psh = segment.flags.psh;
        None
    }
}

#[cfg(test)]
mod tests {
    use weft_tcp::Flags;

    use super::*;

    fn outgoing(payload: Range<u64>) -> Outgoing {
        let flags = Flags { ack: true, ..Flags::default() };
        Outgoing {
            segment: Segment { sequence: payload.start as u32, window: 7, flags, ..Segment::default() },
            payload,
        }
    }

    const USUAL: TrainLimits = TrainLimits::of(SegmentationLimits::USUAL);

    fn add(train: &mut Train, payload: Range<u64>) -> bool {
        train.add(outgoing(payload), USUAL).is_none()
    }

    /// How many segments of 1000 bytes leave together by an interface with these limits.
    fn together(frame_bytes: usize, segments: usize) -> u64 {
        let limits = TrainLimits::of(SegmentationLimits { frame_bytes, segments });
        let mut train = Train::new(outgoing(0..1000));
        (1..).take_while(|at| train.add(outgoing(at * 1000..at * 1000 + 1000), limits).is_none()).count() as u64 + 1
    }

    #[test]
    fn segments_that_follow_each_other_leave_together() {
        let mut train = Train::new(outgoing(100..200));
        assert_eq!((train.length(), train.cut()), (100, None));
        assert!(add(&mut train, 200..300) && add(&mut train, 300..350));
        assert_eq!((train.length(), train.cut(), train.segment.sequence), (250, Some(100), 100));
        assert!(!add(&mut train, 350..400), "the last but one would be short");
    }

    #[test]
    fn what_is_different_leaves_by_itself() {
        let given = |change: fn(&mut Outgoing)| {
            let mut next = outgoing(200..300);
            change(&mut next);
            let kept = next.clone();
            let given = Train::new(outgoing(100..200)).add(next, USUAL);
            assert!(given.is_none() || given == Some(kept));
            given.is_some()
        };
        assert!(!given(|_| ()) && !given(|next| next.segment.flags.psh = true));
        assert!(given(|next| next.payload = 201..300), "a gap");
        assert!(given(|next| next.payload = 200..301), "longer");
        assert!(given(|next| next.payload = 200..200), "nothing");
        assert!(given(|next| next.segment.acknowledgement = 1));
        assert!(given(|next| next.segment.window = 8));
        assert!(given(|next| next.segment.options.sack_permitted = true));
        assert!(given(|next| next.segment.flags.fin = true));
        assert!(given(|next| next.segment.flags.rst = true));
        assert!(given(|next| next.segment.flags.syn = true));
    }

    #[test]
    fn behind_what_is_pushed_or_empty_nothing_is_added() {
        for change in
            [|first: &mut Outgoing| first.segment.flags.psh = true, |first: &mut Outgoing| first.payload = 100..100]
        {
            let mut first = outgoing(100..200);
            change(&mut first);
            let next = first.payload.end..first.payload.end + 50;
            assert!(!add(&mut Train::new(first), next));
        }
    }
    /// `gso_max_size` and `gso_max_segs` of ip-link(8).
    #[test]
    fn no_train_is_longer_than_the_interface_takes() {
        let head = FRAME_OVERHEAD + MAX_HEADER;
        let most = (LONGEST_FRAME - head) as u64 / 1000;
        assert_eq!(together(65_536, 65_535), most);
        assert_eq!(together(600_000, 65_535), most, "no packet of IP is longer");
        assert_eq!([1, 2, 7].map(|segments| together(65_536, segments)), [1, 2, 7]);
        assert_eq!([1600, head + 2000, head + 2001, 0].map(|bytes| together(bytes, 9)), [1, 1, 2, 1]);
        let mut train = Train::new(outgoing(0..1000));
        assert!(train.add(outgoing(1000..2000), TrainLimits::NONE).is_some());
    }
}
