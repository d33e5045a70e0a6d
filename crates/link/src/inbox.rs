//! What a connection has shown, until its port takes it.

use weft_base::StreamPosition;

/// Memory that is kept when it is empty, in bytes: what comes in one turn of the engine.
const KEPT: usize = 256 << 10;

/// Segments in the order in which they came, with their positions. A connection shows each byte once, and none beyond
/// the window that is left: so there is never more than a window here.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    parts: Vec<(StreamPosition, usize)>,
}

impl Inbox {
    pub(crate) fn push(&mut self, position: StreamPosition, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.parts.push((position, bytes.len()));
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes.
    pub(crate) const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Gives all away; what `take` doesn't want goes to `refused`.
    pub(crate) fn hand(
        &mut self,
        take: &mut dyn FnMut(StreamPosition, &[u8]) -> bool,
        refused: &mut Vec<(StreamPosition, Vec<u8>)>,
    ) {
        let mut rest = &self.bytes[..];
        for (position, length) in self.parts.drain(..) {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            if !take(position, part) {
                refused.push((position, part.to_vec()));
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_handed_up_once_and_what_is_refused_is_kept() {
        let mut arrived = Inbox::default();
        arrived.push(StreamPosition(7), b"late");
        arrived.push(StreamPosition(0), b"first");
        assert_eq!((arrived.length(), arrived.is_empty()), (9, false));
        let (mut shown, mut refused) = (Vec::new(), Vec::new());
        let mut take = |position: StreamPosition, bytes: &[u8]| {
            shown.push((position.0, bytes.to_vec()));
            position.0 == 0
        };
        arrived.hand(&mut take, &mut refused);
        arrived.hand(&mut take, &mut refused);
        assert_eq!(shown, [(7, b"late".to_vec()), (0, b"first".to_vec())]);
        assert_eq!(refused, [(StreamPosition(7), b"late".to_vec())]);
        assert_eq!((arrived.length(), arrived.is_empty()), (0, true));
    }

    #[test]
    fn what_a_whole_window_took_is_given_back() {
        let mut arrived = Inbox::default();
        (0..1000).for_each(|at| arrived.push(StreamPosition(at * 1000), &[7; 1000]));
        arrived.hand(&mut |_, _| true, &mut Vec::new());
        assert!(arrived.bytes.capacity() <= KEPT);
    }
}
