//! A segment whose payload is lent: it stays in the memory of the process that sends it, and the other process of the
//! same host reads it there. Only on streams through memory that both share, where both have offered it
//! (`docs/wire.md`, Lent segments). It is in an FPDU in the place of the DDP segment, numbers big-endian:
//!
//! ```text
//! 0        1        2                 4
//! +--------+--------+-----------------+----------------- ... -+---------------- ... -+
//! | 0      | runs   | 0               | address 8, length 4   | DDP and RDMAP header |
//! +--------+--------+-----------------+---- for each run ---- +----------------------+
//! ```
//!
//! A DDP segment can't begin with a byte of 0, for its lowest bits are DDP's version (RFC 5041 section 4.1).

use weft_base::{Lent, MAX_GATHER};

/// Bytes before the first run.
const BEGINNING: usize = 4;
/// Bytes of a run.
const RUN: usize = 12;

/// The most bytes before the header.
pub const MOST_BEFORE: usize = BEGINNING + MAX_GATHER * RUN;

/// Whether a ULPDU says where its payload lies, as the first byte tells.
#[inline]
#[must_use]
pub const fn is_lent(ulpdu: &[u8]) -> bool {
    matches!(ulpdu, [0, ..])
}

/// Bytes before the header of a segment in this many runs.
#[must_use]
pub const fn before(runs: usize) -> usize {
    BEGINNING + runs * RUN
}

/// Writes all that comes before the header, [`before`] bytes.
///
/// # Panics
/// There are more runs than [`MAX_GATHER`], or `out` is shorter.
pub fn emit(runs: &[Lent], out: &mut [u8]) {
    assert!(runs.len() <= MAX_GATHER, "{} runs of {MAX_GATHER} at most", runs.len());
    out[..BEGINNING].copy_from_slice(&[0, runs.len() as u8, 0, 0]);
    for (run, out) in runs.iter().zip(out[BEGINNING..before(runs.len())].chunks_exact_mut(RUN)) {
        out[..8].copy_from_slice(&run.address.to_be_bytes());
        out[8..].copy_from_slice(&run.length.to_be_bytes());
    }
}

/// A lent segment as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentSegment<'a> {
    runs: [Lent; MAX_GATHER],
    count: usize,
    /// Bytes of its payload.
    pub payload: u32,
    /// Its DDP and RDMAP header.
    pub header: &'a [u8],
}

impl<'a> LentSegment<'a> {
    /// `None`: it is none, cut short, has no run or an empty one, too many, or more bytes than a segment has.
    #[must_use]
    pub fn parse(ulpdu: &'a [u8]) -> Option<Self> {
        let (&[0, count, 0, 0], rest) = ulpdu.split_first_chunk::<BEGINNING>()? else { return None };
        let count = usize::from(count);
        if count == 0 || count > MAX_GATHER || rest.len() < count * RUN {
            return None;
        }
        let (places, header) = rest.split_at(count * RUN);
        let (mut runs, mut payload) = ([Lent::default(); MAX_GATHER], 0u32);
        for (run, bytes) in runs.iter_mut().zip(places.chunks_exact(RUN)) {
            let (address, length) = bytes.split_first_chunk()?;
            *run = Lent { address: u64::from_be_bytes(*address), length: u32::from_be_bytes(length.try_into().ok()?) };
            payload = payload.checked_add(run.length).filter(|_| run.length > 0)?;
        }
        // The length of the whole segment is counted in 32 bits as well.
        payload.checked_add(u32::try_from(header.len()).ok()?)?;
        Some(Self { runs, count, payload, header })
    }

    /// Where its payload lies.
    #[must_use]
    pub fn runs(&self) -> &[Lent] {
        &self.runs[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs() -> impl Strategy<Value = Vec<Lent>> {
        let run = (any::<u64>(), 1..1u32 << 29).prop_map(|(address, length)| Lent { address, length });
        prop::collection::vec(run, 1..=MAX_GATHER)
    }

    proptest! {
        #[test]
        fn there_and_back(runs in runs(), header in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = vec![7; before(runs.len())];
            emit(&runs, &mut bytes);
            bytes.extend_from_slice(&header);
            prop_assert!(is_lent(&bytes));
            let segment = LentSegment::parse(&bytes).unwrap();
            prop_assert_eq!(segment.runs(), &runs[..]);
            prop_assert_eq!(segment.header, &header[..]);
            prop_assert_eq!(segment.payload, runs.iter().map(|run| run.length).sum::<u32>());
            for cut in 0..before(runs.len()) {
                prop_assert_eq!(LentSegment::parse(&bytes[..cut]), None);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(segment) = LentSegment::parse(&bytes) {
                let mut again = vec![0; before(segment.runs().len())];
                emit(segment.runs(), &mut again);
                again.extend_from_slice(segment.header);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn as_it_lies() {
        let mut bytes = [0xff; 16];
        emit(&[Lent { address: 0x0102_0304_0506_0708, length: 0x0009_0a0b }], &mut bytes);
        assert_eq!(bytes, [0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 10, 11]);
    }

    #[test]
    fn what_can_be_no_segment_is_none() {
        let of = |runs: &[(u64, u32)]| {
            let runs: Vec<_> = runs.iter().map(|&(address, length)| Lent { address, length }).collect();
            let mut bytes = vec![0; before(runs.len())];
            emit(&runs, &mut bytes);
            bytes
        };
        assert!(LentSegment::parse(&of(&[(1, 1)])).is_some());
        assert_eq!(LentSegment::parse(&of(&[])), None, "no run");
        assert_eq!(LentSegment::parse(&of(&[(1, 1), (1, 0)])), None, "an empty run");
        assert_eq!(LentSegment::parse(&of(&[(1, u32::MAX), (1, 1)])), None, "more than 32 bits can count");
        let full = of(&[(1, u32::MAX)]);
        assert!(LentSegment::parse(&full).is_some());
        assert_eq!(LentSegment::parse(&[&full[..], &[1]].concat()), None, "with its header it is too long");
        let mut many = vec![0, MAX_GATHER as u8 + 1, 0, 0];
        many.resize(before(MAX_GATHER + 1), 1);
        assert_eq!(LentSegment::parse(&many), None, "too many runs");
        for at in [0, 2, 3] {
            let mut bad = of(&[(1, 1)]);
            bad[at] = 1;
            assert_eq!(LentSegment::parse(&bad), None, "byte {at}");
        }
    }
}
